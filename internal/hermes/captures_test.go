package hermes

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/aiptest"
	"github.com/aipctl/aipctl/internal/transcript"
	"github.com/google/go-cmp/cmp"
)

// recorded is what a person reads in the bytes of one recording.
type recorded struct {
	finish   []string // of choice 0; nil for a stream without choices
	tools    string   // name/call id, in the order of their starts; all completed but those marked
	usage    string
	named    string // last frame name
	done     bool   // [DONE]
	response string // id and last status of the response object
	err      string // type of the error
	hermes   string // completed, partial, failed, code
	items    string // kinds of the items that opened
}

var recordings = map[string]recorded{
	"chat_empty":              {finish: []string{"stop"}, usage: `{"prompt_tokens": 2400, "completion_tokens": 0, "total_tokens": 2400}`, done: true},
	"chat_error_exception":    {finish: []string{"error"}, usage: `{"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}`, done: true, err: "RuntimeError", hermes: "true false true agent_error"},
	"chat_error_provider_401": {finish: []string{"error"}, usage: `{"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}`, done: true, err: "agent_error", hermes: "false false true agent_error"},
	"chat_keepalive":          {finish: []string{"stop"}, usage: `{"prompt_tokens": 610, "completion_tokens": 6, "total_tokens": 616}`, done: true},
	"chat_length":             {finish: []string{"length"}, usage: `{"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}`, done: true, err: "agent_error explains", hermes: "false true false output_truncated"},
	"chat_ok":                 {finish: []string{"stop"}, usage: `{"prompt_tokens": 812, "completion_tokens": 9, "total_tokens": 821}`, done: true},
	"chat_server_cancelled":   {finish: []string{}},
	"chat_server_shutdown":    {finish: []string{"stop"}, usage: `{"prompt_tokens": 610, "completion_tokens": 90, "total_tokens": 700}`, done: true},
	"chat_tools": {
		finish: []string{"stop"}, usage: `{"prompt_tokens": 2595, "completion_tokens": 92, "total_tokens": 2687}`, done: true,
		named: "hermes.tool.progress", tools: "read_file/call_nOtes01 terminal/call_cl0ck02",
	},
	"chat_tools_sequence": {
		finish: []string{"stop"}, usage: `{"prompt_tokens": 5500, "completion_tokens": 118, "total_tokens": 5618}`, done: true,
		named: "hermes.tool.progress", tools: "todo/call_seq_1 read_file/call_seq_2 read_file/call_seq_3 terminal/call_seq_4",
	},
	"chat_unicode": {finish: []string{"stop"}, usage: `{"prompt_tokens": 640, "completion_tokens": 120, "total_tokens": 760}`, done: true},
	"responses_failed_after_text": {
		usage: `{"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}`, named: "response.failed", err: "server_error",
		response: "resp_165e3d63693a48c484de7e5b91a5 failed", tools: "read_file/call_crash01",
		items: "message function_call function_call_output",
	},
	"responses_large_tool_output": {
		usage: `{"input_tokens": 10420, "output_tokens": 17, "total_tokens": 10437}`, named: "response.completed",
		response: "resp_9ee3a902adba4f29bea0746f126b completed", tools: "terminal/call_lots01",
		items: "function_call function_call_output message",
	},
	"responses_ok": {
		usage: `{"input_tokens": 812, "output_tokens": 9, "total_tokens": 821}`, named: "response.completed",
		response: "resp_f55e86812a064b58bd90b395624e completed", items: "message",
	},
	"responses_server_shutdown": {
		named: "response.output_item.done", response: "resp_f3c31cf6dffb45c5a3a3a8bc5fa9 in_progress", tools: "read_file/call_sl0w01",
		items: "message function_call function_call_output",
	},
	"responses_two_calls": {
		usage: `{"input_tokens": 2595, "output_tokens": 92, "total_tokens": 2687}`, named: "response.completed",
		response: "resp_2d2d010a813f4559934a600a8d8a completed", tools: "read_file/call_nOtes01 terminal/call_cl0ck02",
		items: "message function_call function_call_output function_call function_call_output",
	},
}

// say puts facts in the words of the table.
func say(f transcript.Facts) recorded {
	r := recorded{finish: f.Finishes[0], usage: string(f.Usage), named: f.Named, done: f.Done}
	if strings.HasPrefix(f.Named, "response.") {
		r.finish = nil // no choices there
	}
	words := func(into *string, w string) { *into = strings.TrimSpace(*into + " " + w) }
	for _, t := range f.Tools {
		words(&r.tools, t.Name+"/"+t.CallID)
		if t.Status != transcript.ToolCompleted {
			words(&r.tools, t.Status)
		}
	}
	for _, e := range f.Errors {
		words(&r.err, e.Type)
		if e.Explains {
			words(&r.err, "explains")
		}
	}
	for _, it := range f.Items {
		words(&r.items, it.Kind)
	}
	if f.Response != nil {
		r.response = f.Response.ID + " " + f.Response.Status
	}
	if h := f.Hermes; h != nil {
		for _, b := range []*bool{h.Completed, h.Partial, h.Failed} {
			words(&r.hermes, map[bool]string{true: "true", false: "false"}[*b])
		}
		words(&r.hermes, h.ErrorCode)
	}
	return r
}

// TestRecordedStreams reads every recording of the embedded daemon.
func TestRecordedStreams(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(aiptest.ModuleRoot(t), "internal", "devserver", "scenarios", "*.sse"))
	if err != nil || len(files) != len(recordings) {
		t.Fatalf("%d recordings (%v), and the table knows %d", len(files), err, len(recordings))
	}
	for name, want := range recordings {
		t.Run(name, func(t *testing.T) {
			got := facts(capture(t, name))
			if diff := cmp.Diff(want, say(got), cmp.AllowUnexported(recorded{})); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			text, err := os.ReadFile(filepath.Join("testdata", "captures", name+".txt"))
			if err != nil {
				t.Fatal(err)
			}
			if answer := got.Answer(); answer != string(text) {
				t.Errorf("text %q, want %q", answer, text)
			}
			if got.Unknown != 0 || got.Closed != "" || got.FromEnd || got.OtherChoices() {
				t.Errorf("unknown frames %d, closed %q, from end %v", got.Unknown, got.Closed, got.FromEnd)
			}
			for _, x := range got.Texts {
				if x.Differs {
					t.Errorf("the done text of %+v differs from its deltas", x.Item)
				}
			}
			if strings.HasPrefix(name, "responses_") && len(got.Texts) != 1 {
				t.Errorf("%d texts of one message item", len(got.Texts))
			}
		})
	}
}

// TestChunksMeanTheSameInAnyOrder applies every recording and case in random
// orders: chunks come late, from pages and from the final aggregate.
func TestChunksMeanTheSameInAnyOrder(t *testing.T) {
	streams := map[string][]*aip.Chunk{}
	for name := range recordings {
		streams[name] = capture(t, name)
	}
	for _, c := range aiptest.Cases(t) {
		files, err := filepath.Glob(filepath.Join(aiptest.CaseDir(t, c), "chunks*.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			streams[c+"/"+filepath.Base(f)] = caseChunks(t, c, filepath.Base(f))
		}
	}
	for name, chunks := range streams {
		t.Run(name, func(t *testing.T) {
			read := make(map[uint64][]transcript.Op, len(chunks))
			for _, c := range chunks {
				read[c.Sequence] = Chunk(c)
			}
			add := func(order []*aip.Chunk) transcript.Facts {
				tr := transcript.New()
				for _, c := range order {
					tr.Apply(c.Sequence, read[c.Sequence])
				}
				return tr.Facts()
			}
			want := add(chunks)
			random := rand.New(rand.NewPCG(1, uint64(len(chunks))))
			for range 10 {
				mixed := slices.Clone(chunks)
				random.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
				if got := add(mixed); !reflect.DeepEqual(want, got) {
					t.Fatalf("in another order the facts are others, -in order +mixed\n%s", cmp.Diff(want, got))
				}
			}
		})
	}
}
