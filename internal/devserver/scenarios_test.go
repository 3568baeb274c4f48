package devserver

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestConnectorErrorsSayWhatIsCertain(t *testing.T) {
	for _, tc := range []struct{ name, category, remote, uncertain string }{
		{"chat-rate-limited", "temporary", "429", "true"},
		{"chat-endpoint-unauthorized", "auth", "401", "false"},
		{"chat-transport-break", "transport", "<nil>", "true"},
		{"chat-publication", "connector", "<nil>", "true"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
				r := d.submit(tc.name, "act_x", nil)
				r.want(t, r.status,
					"/body/error/error/category", tc.category,
					"/body/error/error/retryable", "false",
					"/body/error/error/details/remote_status", tc.remote,
					"/body/error/error/details/uncertain_outcome", tc.uncertain,
					"/body/error/error/source/component", "hermes-agent")
			})
		})
	}
}

func TestStreamFailedCarriesTheLastFrame(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		r := d.submit("responses-failed", "act_f", fields{"input": fields{"body": fields{"input": "x"}}})
		r.want(t, 200, "/body/action_result/error/details/type", "response.failed",
			"/body/action_result/error/details/response/status", "failed",
			"/body/action_result/error/source/connector", "hermes-agent")
	})
}

// TestDerivedRecordings says what the altered recordings are for.
func TestDerivedRecordings(t *testing.T) {
	body := func(name string) string {
		for _, sc := range Scenarios() {
			if sc.Name == name {
				var b strings.Builder
				for _, blk := range sc.play.frames {
					b.Write(blk.data)
				}
				return b.String()
			}
		}
		t.Fatalf("no scenario %s", name)
		return ""
	}
	for _, tc := range []struct {
		rule, name   string
		has, hasNone []string
	}{
		{"bare finish", "chat-error-bare", []string{`"finish_reason": "error"`}, []string{`"usage"`, `"hermes":`, `"error":`}},
		{"unknown finish", "chat-finish-unknown", []string{`"finish_reason": "tool_limit"`}, []string{`"stop"`}},
		{"stop with error", "chat-stop-with-error", []string{`"finish_reason": "stop"`, `"error": {"message"`}, nil},
		{"no finish", "chat-no-finish", []string{"[DONE]"}, []string{`"stop"`}},
		{"tool unfinished", "chat-tool-unfinished", []string{`"toolCallId": "call_cl0ck02", "status": "running"`, `"finish_reason": "stop"`},
			[]string{`"toolCallId": "call_cl0ck02", "status": "completed"`}},
		{"two halves", "chat-surrogates", []string{`{"content": "\ud83d"}`, `{"content": "\ude80"}`}, nil},
		{"named incomplete", "responses-incomplete", []string{"event: response.incomplete\n", `{"type": "response.incomplete"`, `"status": "incomplete", "created_at"`},
			[]string{"response.completed"}},
		{"incomplete inside completed", "responses-envelope-incomplete", []string{"event: response.completed\n", `"status": "incomplete", "created_at"`},
			[]string{`"status": "completed", "created_at"`}},
		{"nothing created", "responses-no-created", []string{`"model": "hermes-agent", "usage"`, `"sequence_number": 0}`, `"sequence_number": 7}`},
			[]string{"response.created", `"output": [`, `"sequence_number": 8}`}},
		{"done differs", "responses-done-differs", []string{`"text": "Hello! How can I help you tomorrow?"`, `"text": "Hello! How can I help you today?"}]}, "seq`}, nil},
		{"keepalive in a call", "responses-keepalive-tool", []string{": keepalive\n\nevent: response.output_item.done\n"}, nil},
		{"no words of the model", "responses-empty", []string{`"output_tokens": 0, "total_tokens": 2400`}, nil},
		{"cut, and completed", "responses-length", []string{`"status": "completed", "created_at"`, `"total_tokens": 0`}, nil},
		{"cut, and not streamed", "chat-sync-length", []string{`"finish_reason": "length"`, `"error_code": "output_truncated"`}, nil},
		{"failed, and not streamed", "chat-sync-error", []string{`"finish_reason": "error"`, `"failed": true`}, nil},
		{"final text only", "run-final-only", []string{`"event": "run.completed"`, `"output": "The`}, []string{`"delta"`}},
		{"approval in a run", "run-complete", []string{`"event": "approval.request"`, `"event": "approval.responded"`, `"event": "reasoning.available"`}, nil},
		{"an end behind the end", "session-complete", []string{"event: run.completed\n", "event: done\n", `"tool_name": "_thinking"`}, nil},
		{"an error, named", "session-error", []string{"event: error\n", "event: done\n"}, nil},
		{"error of the agent", "chat-error-exception", []string{`"completed": true`, `"failed": true`, `"type": "RuntimeError"`}, nil},
		{"error of the model's provider", "chat-error", []string{`"error_code": "agent_error"`, `"failed": true`}, nil},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			got := body(tc.name)
			for _, want := range tc.has {
				if strings.Count(got, want) != 1 {
					t.Errorf("%q is not in it exactly once", want)
				}
			}
			for _, not := range tc.hasNone {
				if strings.Contains(got, not) {
					t.Errorf("%q is in it", not)
				}
			}
			for block := range strings.SplitSeq(got, "\n\n") {
				_, data, ok := strings.Cut(block, "data: ")
				if ok && data != "[DONE]" && !json.Valid([]byte(data)) {
					t.Errorf("a block is not JSON: %s", data)
				}
			}
		})
	}
}

// TestResponsesStreamsAreWellFormed: whatever a scenario changes, each event says
// its own name, and the events are counted from 0 without a gap.
func TestResponsesStreamsAreWellFormed(t *testing.T) {
	seen := 0
	for _, sc := range Scenarios() {
		if sc.Operation != "responses_stream" {
			continue
		}
		var body []byte
		for _, b := range sc.play.frames {
			body = append(body, b.data...)
		}
		frames, err := framesOf(string(body), len(body))
		if err != nil {
			t.Fatalf("%s: %v", sc.Name, err)
		}
		for i, f := range frames {
			h := newHermesFrame(f)
			if kind, _ := stringValue(h.fields["type"]); h.Event == nil || *h.Event != kind {
				t.Errorf("%s: frame %d calls itself %q", sc.Name, i, kind)
			}
			if n := string(h.fields["sequence_number"]); n != strconv.Itoa(i) {
				t.Errorf("%s: frame %d has number %s", sc.Name, i, n)
			}
			seen++
		}
	}
	if seen < 200 {
		t.Errorf("only %d frames", seen)
	}
}

// responsesEvent is what the tests read of a Responses event.
type responsesEvent struct {
	Type   string `json:"type"`
	ItemID string `json:"item_id"`
	Index  *int   `json:"output_index"`
	Delta  string `json:"delta"`
	Text   string `json:"text"`
	Part   struct {
		Text string `json:"text"`
	} `json:"part"`
	Item     responsesItem `json:"item"`
	Response struct {
		Output []responsesItem `json:"output"`
	} `json:"response"`
}

type responsesItem struct {
	ID      string          `json:"id"`
	Type    string          `json:"type"`
	CallID  string          `json:"call_id"`
	Content []responsesText `json:"content"`
}

type responsesText struct {
	Text string `json:"text"`
}

func responsesEvents(t *testing.T, scenario string) []responsesEvent {
	t.Helper()
	for _, sc := range Scenarios() {
		if sc.Name != scenario {
			continue
		}
		events := make([]responsesEvent, len(sc.play.frames))
		for i, b := range sc.play.frames {
			_, data, _ := strings.Cut(string(b.data), "data: ")
			if err := json.Unmarshal([]byte(data), &events[i]); err != nil {
				t.Fatalf("event %d: %v", i, err)
			}
		}
		return events
	}
	t.Fatalf("no scenario %s", scenario)
	return nil
}

// TestTwoMessages: the deltas take turns, the call lies between them, and each
// text is said four times over, always in the same words.
func TestTwoMessages(t *testing.T) {
	texts, repeats := map[string]string{}, map[string][]string{}
	var order []string // item of each delta, and the call items between them
	var final []string
	for _, e := range responsesEvents(t, "responses-two-messages") {
		switch e.Type {
		case "response.output_text.delta":
			texts[e.ItemID] += e.Delta
			order = append(order, e.ItemID[:5])
		case "response.output_text.done":
			repeats[e.ItemID] = append(repeats[e.ItemID], e.Text)
		case "response.content_part.done":
			repeats[e.ItemID] = append(repeats[e.ItemID], e.Part.Text)
		case "response.output_item.done":
			if e.Item.Type == "message" {
				repeats[e.Item.ID] = append(repeats[e.Item.ID], e.Item.Content[0].Text)
			} else {
				order = append(order, e.Item.Type)
			}
		case "response.completed":
			for _, item := range e.Response.Output {
				if item.Type == "message" {
					final = append(final, item.Content[0].Text)
				}
			}
		}
	}
	if got, want := strings.Join(order, " "), "msg_0 msg_b msg_0 function_call function_call_output msg_b msg_0 msg_b"; got != want {
		t.Errorf("the order is %s, want %s", got, want)
	}
	if len(texts) != 2 || len(final) != 2 {
		t.Fatalf("texts %v, final %q", texts, final)
	}
	for id, text := range texts {
		if got := repeats[id]; !slices.Equal(got, []string{text, text, text}) || !slices.Contains(final, text) {
			t.Errorf("%s says %q, and its repeats %q and %q", id, text, got, final)
		}
	}
}

// TestParallelCalls: both calls open before either ends, the second ends first,
// and the final object lists calls by their start and outputs by their end.
func TestParallelCalls(t *testing.T) {
	var order, final []string
	index := map[string]int{}
	for _, e := range responsesEvents(t, "responses-parallel-calls") {
		if e.Item.Type == "function_call" || e.Item.Type == "function_call_output" {
			order = append(order, strings.TrimPrefix(e.Type, "response.output_item.")+" "+e.Item.Type+" "+e.Item.CallID)
			if at, known := index[e.Item.ID]; known && at != *e.Index {
				t.Errorf("%s moves from %d to %d", e.Item.ID, at, *e.Index)
			}
			index[e.Item.ID] = *e.Index
		}
		for _, item := range e.Response.Output {
			final = append(final, strings.TrimSpace(item.Type+" "+item.CallID))
		}
	}
	const reading, clock = "call_nOtes01", "call_cl0ck02"
	want := []string{
		"added function_call " + reading, "added function_call " + clock,
		"done function_call " + clock, "added function_call_output " + clock, "done function_call_output " + clock,
		"done function_call " + reading, "added function_call_output " + reading, "done function_call_output " + reading,
	}
	if !slices.Equal(order, want) {
		t.Errorf("the order is %q", order)
	}
	if got := slices.Sorted(maps.Values(index)); !slices.Equal(got, []int{1, 2, 3, 4}) {
		t.Errorf("the indexes are %v", got)
	}
	want = []string{"function_call " + reading, "function_call " + clock, "function_call_output " + clock, "function_call_output " + reading, "message"}
	if !slices.Equal(final, want) {
		t.Errorf("the final object has %q", final)
	}
}

// TestSurrogateHalvesStayText: each half is a frame whose data is the text of
// the provider's JSON, because the connector's reader refuses it.
func TestSurrogateHalvesStayText(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		d.submit("chat-surrogates", "act_s", nil).want(t, 200)
		chunks := d.chunksOf("act_s")
		for i, half := range map[int]string{2: `\ud83d`, 3: `\ude80`} {
			var c struct {
				SSE struct {
					Data string `json:"data"`
					Raw  string `json:"raw_data"`
				} `json:"hermes_sse"`
			}
			if err := json.Unmarshal(chunks[i].Data, &c); err != nil {
				t.Fatalf("data of chunk %d is not a string: %v", i, err)
			}
			if c.SSE.Data != c.SSE.Raw || !strings.Contains(c.SSE.Data, `"content": "`+half+`"`) {
				t.Errorf("chunk %d holds %q", i, c.SSE.Data)
			}
		}
	})
}

// TestRecordingsAreWhole: every byte of a recording is in its blocks, and no
// block is due before the one ahead of it.
func TestRecordingsAreWhole(t *testing.T) {
	seen := 0
	err := fs.WalkDir(recordings, "scenarios", func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, ok := strings.CutSuffix(path, ".sse")
		if !ok {
			return nil
		}
		seen++
		raw, err := recordings.ReadFile(path)
		if err != nil {
			return err
		}
		var joined []byte
		var last time.Duration
		for _, b := range load(strings.TrimPrefix(name, "scenarios/")) {
			if b.at < last {
				t.Errorf("%s goes back in time", name)
			}
			joined, last = append(joined, b.data...), b.at
		}
		if !bytes.Equal(joined, raw) {
			t.Errorf("%s is not whole", name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 30 {
		t.Errorf("only %d recordings", seen)
	}
}

func TestRecordedPausesAreKeptAndScaled(t *testing.T) {
	for _, tc := range []struct {
		rule  string
		speed float64
		want  time.Duration
	}{
		{"1 is real time", 1, 66651 * time.Millisecond},
		{"10 is ten times faster", 10, 6665100 * time.Microsecond},
		{"0 is no pause", 0, 0},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			withDaemon(t, Options{Speed: tc.speed}, func(t *testing.T, d *daemon) {
				start := time.Now()
				d.submit("chat-keepalive", "act_k", nil).want(t, 200)
				if got := time.Since(start).Round(time.Microsecond); got != tc.want {
					t.Errorf("the action took %v, want %v", got, tc.want)
				}
			})
		})
	}
}

func TestScenariosHaveWhatPeopleNeed(t *testing.T) {
	for _, sc := range Scenarios() {
		if sc.Summary == "" || sc.CapabilityID() != "cap:hermes_agent:"+sc.Name+":"+sc.Operation {
			t.Errorf("%s: %+v", sc.Name, sc.CapabilityID())
		}
		if want := map[bool]string{true: "streaming", false: "sync"}[strings.HasSuffix(sc.Operation, "_stream") ||
			sc.Operation == "run_events" || sc.Operation == "operator"]; sc.Mode != want {
			t.Errorf("%s is meant for mode %s, want %s", sc.Name, sc.Mode, want)
		}
		// The demo input must fit the schema of the operation by itself, and the
		// connector.
		bare, demo := &Scenario{Operation: sc.Operation}, json.RawMessage(sc.Demo)
		if bad := inputViolations(bare, demo); bad != nil {
			t.Errorf("%s: demo input: %v", sc.Name, bad)
		}
		if limit, err := connectorInput(bare, demo); err != nil || limit != defaultMaxEvents {
			t.Errorf("%s: demo input: limit %d, %v", sc.Name, limit, err)
		}
		// A chat without a session id cannot be continued, which clients warn of.
		if in := members(demo); in["max_events"] != nil ||
			strings.HasPrefix(sc.Operation, "chat") && string(in["session_id"]) != `"demo-session"` {
			t.Errorf("%s: demo input %s", sc.Name, demo)
		}
	}
}

// TestTwoDaemonsShareNothing: there is no state outside a Server.
func TestTwoDaemonsShareNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := New(Options{}), New(Options{})
		defer a.Close()
		defer b.Close()
		a.store.submitted(action{ID: "act_1"}, edgePrincipal)
		if len(b.Submits()) != 0 || len(a.Submits()) != 1 {
			t.Errorf("submits: %v and %v", a.Submits(), b.Submits())
		}
	})
}
