package hermes

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/transcript"
	"github.com/google/go-cmp/cmp"
)

// inWords is what a person expects of a case; tools and errors are spelled in
// words so that a row stays readable.
type inWords struct {
	Text     string
	Finish   []string // of choice 0
	Tools    []string // name call-id status
	Errors   []string // type code message
	Response string   // id status
	Named    string
	Usage    string
	Done     bool
	Closed   string
	Unknown  int
}

func inWordsOf(f transcript.Facts) inWords {
	w := inWords{Text: f.Answer(), Finish: f.Finishes[0], Named: f.Named, Usage: string(f.Usage), Done: f.Done, Closed: f.Closed, Unknown: f.Unknown}
	for _, t := range f.Tools {
		w.Tools = append(w.Tools, strings.Join([]string{t.Name, t.CallID, t.Status}, " "))
	}
	for _, e := range f.Errors {
		words := []string{e.Type, e.Code, e.Message}
		if e.Explains {
			words = append(words, "explains")
		}
		w.Errors = append(w.Errors, strings.Join(words, "|"))
	}
	if f.Response != nil {
		w.Response = f.Response.ID + " " + f.Response.Status
	}
	return w
}

func TestCases(t *testing.T) {
	const (
		plain    = `{"prompt_tokens":31,"completion_tokens":9,"total_tokens":40}`
		zeros    = `{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}`
		drain    = "Drain the line, then"
		upstream = "upstream_stream_closed_without_terminal_event"
	)
	for _, tc := range []struct {
		rule, dir, file string
		want            inWords
	}{
		{"usage of the last frame that has one, wherever the finish stood", "11-usage-after-finish", "chunks.jsonl", inWords{
			Text: "Three tanks are full.", Finish: []string{"stop"}, Usage: `{"prompt_tokens":41,"completion_tokens":6,"total_tokens":47}`, Done: true,
		}},
		{"null is no text, no delta and no finish", "12-null-delta", "chunks.jsonl", inWords{
			Text: "Gate 4 shut.", Finish: []string{"stop"}, Done: true,
		}},
		{"an error on a frame without choices", "13-error-inside-200", "chunks-a.jsonl", inWords{
			Text: "The first tank", Finish: []string{}, Errors: []string{"provider_unavailable|502|upstream capacity reached, try later"}, Done: true,
		}},
		{"a frame named error", "13-error-inside-200", "chunks-b.jsonl", inWords{
			Text: "The first", Finish: []string{}, Errors: []string{"overloaded_error||overloaded"}, Named: "error",
		}},
		{"an error that is a string", "13-error-inside-200", "chunks-c.jsonl", inWords{
			Text: "The first", Finish: []string{"stop"}, Errors: []string{"||boom"}, Done: true,
		}},
		{"length, explained by its error", "16-finish-length-and-error", "chunks-a.jsonl", inWords{
			Text: "Step 1: close the inlet. Step 2: ", Finish: []string{"length"}, Errors: []string{"agent_error||cut at the limit|explains"}, Usage: plain, Done: true,
		}},
		{"error that calls itself completed", "16-finish-length-and-error", "chunks-b.jsonl", inWords{
			Text: "Step 1: close", Finish: []string{"error"}, Errors: []string{"RuntimeError||tool host unreachable"}, Usage: zeros, Done: true,
		}},
		{"a bare finish error", "16-finish-length-and-error", "chunks-c.jsonl", inWords{
			Finish: []string{"error"}, Done: true,
		}},
		{"repeated words stay", "16-finish-length-and-error", "chunks-d.jsonl", inWords{
			Text: "Half a planHalf a planHalf a plan", Finish: []string{"length"}, Usage: zeros, Done: true,
		}},
		{"tools beside the answer", "17-tool-progress-frames", "chunks.jsonl", inWords{
			Text: "Checking: level 3.2 m.", Finish: []string{"stop"}, Usage: plain, Done: true, Named: "hermes.future.event", Unknown: 2,
			Tools: []string{"read_file call_qa_1 completed", "terminal call_qa_2 running", "web  running"},
		}},
		{"items that interleave, repeated in full five times", "20-responses-items", "chunks.jsonl", inWords{
			Text: "Level is 3.2 m.\nSecond note: filter due.", Finish: []string{}, Response: "resp_qa20 completed", Named: "response.completed",
			Tools: []string{"read_file call_1 completed"},
		}},
		{"completed around an incomplete object", "22-responses-terminals", "chunks-a.jsonl", inWords{
			Text: drain, Finish: []string{}, Response: "resp_qa22 incomplete", Named: "response.completed",
		}},
		{"incomplete", "22-responses-terminals", "chunks-b.jsonl", inWords{
			Text: drain, Finish: []string{}, Response: "resp_qa22 incomplete", Named: "response.incomplete",
		}},
		{"no terminal event", "22-responses-terminals", "chunks-c.jsonl", inWords{
			Text: drain, Finish: []string{}, Response: "resp_qa22 in_progress", Named: "response.output_text.done", Closed: upstream,
		}},
		{"no created event and no output", "22-responses-terminals", "chunks-d.jsonl", inWords{
			Text: drain, Finish: []string{}, Response: "resp_qa22 completed", Named: "response.completed",
		}},
		{"failed", "22-responses-terminals", "chunks-e.jsonl", inWords{
			Text: drain, Finish: []string{}, Response: "resp_qa22 failed", Named: "response.failed", Errors: []string{"server_error||model host gone"},
		}},
		{"a good end", "22-responses-terminals", "chunks-f.jsonl", inWords{
			Text: drain, Finish: []string{}, Response: "resp_qa22 completed", Named: "response.completed",
		}},
		{"every digit kept, five distinct chunks", "24-big-numbers-and-html", "stream.sse", inWords{
			Text: "flow <12 & rising> ok", Finish: []string{"stop"}, Done: true,
			Usage: `{"prompt_tokens":1000000,"completion_tokens":12345678,"total_tokens":13345678}`,
		}},
	} {
		t.Run(tc.dir+"/"+tc.rule, func(t *testing.T) {
			got := facts(caseChunks(t, tc.dir, tc.file))
			if diff := cmp.Diff(tc.want, inWordsOf(got)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			for _, x := range got.Texts {
				if x.Differs {
					t.Errorf("the done text of %+v differs from its deltas", x.Item)
				}
			}
		})
	}
}

func TestBigSequencesStayApart(t *testing.T) {
	var got []uint64
	for _, c := range caseChunks(t, "24-big-numbers-and-html", "stream.sse") {
		got = append(got, c.Sequence)
	}
	want := []uint64{9007199254740990, 9007199254740991, 9007199254740992, 9007199254740993, 9007199254740994}
	if !slices.Equal(got, want) {
		t.Errorf("sequences %d, want %d", got, want)
	}
}

func TestItemsOfResponsesArePaired(t *testing.T) {
	f := facts(caseChunks(t, "20-responses-items", "chunks.jsonl"))
	var got []string
	for _, it := range f.Items {
		got = append(got, strings.Join([]string{it.ItemID, it.Kind, it.CallID, it.Name, it.Status, map[bool]string{true: "closed", false: "open"}[it.Closed]}, " "))
	}
	want := []string{
		"msg_a message   completed closed",
		"fc_1 function_call call_1 read_file completed closed",
		"fco_1 function_call_output call_1  completed open",
		"msg_b message   completed closed",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	var call struct{ Arguments string }
	if err := json.Unmarshal(f.Items[1].Payload, &call); err != nil || call.Arguments != `{"path":"levels.csv"}` {
		t.Errorf("the call's payload is %s (%v)", f.Items[1].Payload, err)
	}
	if f.Items[0].Payload != nil {
		t.Error("a message item carries its text a second time")
	}
	var texts []string
	for _, x := range f.Texts {
		texts = append(texts, x.Item.ItemID+": "+x.Text)
	}
	if diff := cmp.Diff([]string{"msg_a: Level is 3.2 m.", "msg_b: Second note: filter due."}, texts); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// TestTheResponseIDIsKnownFromItsFirstEvent: it is the key to reconciling, so
// it must not wait for the end.
func TestTheResponseIDIsKnownFromItsFirstEvent(t *testing.T) {
	for file, id := range map[string]string{"chunks-a.jsonl": "resp_qa22", "chunks-d.jsonl": "resp_qa22"} {
		first := caseChunks(t, "22-responses-terminals", file)[0]
		tr := transcript.New()
		tr.Apply(first.Sequence, Chunk(first))
		if got := tr.ResponseID(); got != id {
			t.Errorf("%s: after the first chunk the id is %q", file, got)
		}
	}
	// Any event may carry it.
	f := framesFacts(&aip.Frame{Event: "response.output_text.delta", Data: []byte(`{"delta":"a","item_id":"m","response_id":"resp_9"}`)})
	if f.Response == nil || f.Response.ID != "resp_9" || f.Response.Status != "" {
		t.Errorf("the response is %+v", f.Response)
	}
}
