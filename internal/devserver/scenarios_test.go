package devserver

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// expectation is what a scenario must come to in streaming mode.
type expectation struct {
	name   string
	http   int
	code   string // of the error, in the result or in the envelope
	status string // of the result; empty when the answer is an error
	state  string // read back afterwards
	chunks int    // stored
	last   string // kind of the last chunk
	text   string // of the aggregate; "~" stands for any
}

const (
	hello   = "Hello! How can I help you today?"
	notes   = "I'll look at the notes and the clock.\n\nThe incident started at 09:12 UTC, was rolled back at 09:20 UTC and the error rate recovered by 09:41 UTC."
	halves  = "connector.hermes_agent."
	someway = "Hello! How can I"
)

var expectations = []expectation{
	{"demo", 200, "", "completed", "completed", 29, "done", notes},
	{"chat-stop", 200, "", "completed", "completed", 10, "done", hello},
	{"chat-tools-sequence", 200, "", "completed", "completed", 30, "done", "~"},
	{"chat-unicode", 200, "", "completed", "completed", 25, "done", "~"},
	{"chat-empty", 200, "", "completed", "completed", 3, "done", ""},
	{"chat-keepalive", 200, "", "completed", "completed", 6, "done", "~"},
	{"chat-slow", 200, "", "completed", "completed", 44, "done", "~"},
	{"chat-length", 200, "", "completed", "completed", 33, "done", "~"},
	{"chat-error", 200, "", "completed", "completed", 3, "done", ""},
	{"chat-error-exception", 200, "", "completed", "completed", 3, "done", ""},
	{"chat-error-bare", 200, "", "completed", "completed", 3, "done", ""},
	{"chat-finish-unknown", 200, "", "completed", "completed", 10, "done", hello},
	{"chat-stop-with-error", 200, "", "completed", "completed", 10, "done", hello},
	{"chat-no-finish", 200, "", "completed", "completed", 9, "done", hello},
	{"chat-tool-unfinished", 200, "", "completed", "completed", 28, "done", notes},
	{"chat-surrogates", 200, "", "completed", "completed", 12, "done", hello},
	{"chat-truncated-on-done", 200, halves + "stream_truncated", "failed", "failed", 10, "done", hello},
	{"chat-truncated-midway", 200, halves + "stream_truncated", "failed", "failed", 5, "data", someway},
	{"chat-upstream-close", 200, halves + "stream_incomplete", "failed", "failed", 6, "error", someway},
	{"chat-transport-break", 503, halves + "transport", "", "unknown", 8, "data", ""},
	{"chat-rate-limited", 503, halves + "remote_temporary", "", "unknown", 0, "", ""},
	{"chat-endpoint-unauthorized", 401, halves + "authentication", "", "unknown", 0, "", ""},
	{"chat-early-rejection", 200, "action.input_schema_invalid", "failed", "unknown", 0, "", ""},
	{"chat-handler-failed", 503, "runtime.handler_failed", "", "unknown", 5, "data", ""},
	{"chat-publication", 502, halves + "stream_publication", "", "unknown", 3, "error", ""},
	{"chat-output-schema", 200, "action.output_schema_invalid", "failed", "failed", 10, "done", ""},
	{"chat-timeout", 200, "sla.timeout_exceeded", "failed", "failed", 5, "data", ""},
	{"chat-cancelled", 200, "", "cancelled", "cancelled", 5, "data", ""},
	{"chat-approval", 200, "policy.human_approval_required", "pending_approval", "pending_approval", 0, "", ""},
	{"chat-conflict", 200, "", "completed", "completed", 10, "done", hello},
	{"responses-stop", 200, "", "completed", "completed", 9, "done", hello},
	{"responses-tools", 200, "", "completed", "completed", 24, "done", notes},
	{"responses-large", 200, "", "completed", "completed", 10, "done", "~"},
	{"responses-failed", 200, halves + "stream_failed", "failed", "failed", 13, "error", "~"},
	{"responses-upstream-close", 503, halves + "transport", "", "unknown", 49, "data", ""},
}

func TestEveryScenarioComesToItsEnd(t *testing.T) {
	list := Scenarios()
	if len(list) != len(expectations) {
		t.Fatalf("%d scenarios, %d expectations", len(list), len(expectations))
	}
	for i, exp := range expectations {
		t.Run(exp.name, func(t *testing.T) {
			if list[i].Name != exp.name {
				t.Fatalf("scenario %d is %s", i, list[i].Name)
			}
			withDaemon(t, Options{}, func(t *testing.T, d *daemon) { playScenario(t, d, list[i], exp) })
		})
	}
}

func playScenario(t *testing.T, d *daemon, sc Scenario, exp expectation) {
	id := "act_" + exp.name
	frames := d.follow(t.Context(), "/aip/v1/actions/"+id+"/events?follow=true&include_chunks=true&limit=1000")
	r := d.submit(sc.Name, id, fields{"input": json.RawMessage(sc.Demo), "mode": sc.Mode})
	if exp.status == "" {
		r.want(t, exp.http, code, exp.code)
	} else {
		r.want(t, exp.http, "/body/action_result/status", exp.status, "/body/action_result/action_id", id)
		if got, _ := r.at(t, "/body/action_result/error/code").(string); got != exp.code {
			t.Errorf("error code %q, want %q", got, exp.code)
		}
	}
	d.get("/aip/v1/actions/"+id).want(t, 200, "/action_status/state", exp.state)

	chunks := d.chunksOf(id)
	if len(chunks) != exp.chunks {
		t.Fatalf("%d chunks, want %d", len(chunks), exp.chunks)
	}
	for i, c := range chunks {
		if c.Sequence != uint64(i) || c.ActionID != id {
			t.Errorf("chunk %d has sequence %d of %s", i, c.Sequence, c.ActionID)
		}
	}
	if n := len(chunks); n > 0 && chunks[n-1].Kind != exp.last {
		t.Errorf("the last chunk is %s, want %s", chunks[n-1].Kind, exp.last)
	}
	checkStoredResult(t, d, id, exp, r)
	checkAggregate(t, exp, r, chunks)
	checkFollowed(t, frames, exp, chunks)
	if got, want := d.server.Executions(id), boolInt(exp.name != "chat-early-rejection" && exp.name != "chat-approval"); got != want {
		t.Errorf("%d executions, want %d", got, want)
	}
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// checkStoredResult: what the submitter got is what the result route has, when
// it has anything.
func checkStoredResult(t *testing.T, d *daemon, id string, exp expectation, r reply) {
	stored := d.get("/aip/v1/actions/" + id + "/result")
	switch exp.state {
	case "unknown":
		stored.want(t, 400, code, "action.not_found")
	case "pending_approval":
		stored.want(t, 503, code, "action.result_not_ready")
	default:
		stored.want(t, 200)
		if !reflect.DeepEqual(stored.at(t, "/action_result"), r.at(t, "/body/action_result")) {
			t.Errorf("the stored result differs from the answer to the submit")
		}
	}
}

// checkAggregate: the output repeats the chunks, and the message the output.
func checkAggregate(t *testing.T, exp expectation, r reply, chunks []chunk) {
	if exp.status == "" || r.at(t, "/body/action_result/output/events") == nil {
		if exp.text != "" {
			t.Errorf("there is no aggregate")
		}
		return
	}
	events := r.at(t, "/body/action_result/output/events").([]any)
	if got := r.at(t, "/body/action_result/output/text"); exp.text != "~" && got != exp.text {
		t.Errorf("the text is %q, want %q", got, exp.text)
	}
	synthetic := exp.last == "error" && strings.HasSuffix(exp.code, "stream_incomplete")
	if len(events) != len(chunks)-boolInt(synthetic) {
		t.Errorf("%d events for %d chunks", len(events), len(chunks))
	}
	differ := 0
	for i := range events {
		carried := decoded(t, chunks[i].Data).(map[string]any)["hermes_sse"]
		if !reflect.DeepEqual(carried, events[i]) {
			differ++
		}
	}
	if want := boolInt(exp.name == "chat-conflict"); differ != want {
		t.Errorf("%d events differ from their chunks, want %d", differ, want)
	}
	if synthetic {
		last := decoded(t, chunks[len(chunks)-1].Data)
		want := map[string]any{
			"operation": r.at(t, "/body/action_result/output/operation"),
			"reason":    "upstream_stream_closed_without_terminal_event",
		}
		if !reflect.DeepEqual(last, want) {
			t.Errorf("the close chunk is %v", last)
		}
	}
	parts := r.at(t, "/body/action_result/message").([]any)
	if text := r.at(t, "/body/action_result/output/text").(string); text != "" {
		if p := parts[0].(map[string]any); p["type"] != "text" || p["text"] != text || p["format"] != "plain" {
			t.Errorf("the first part is %v", p)
		}
		parts = parts[1:]
	}
	if p := parts[0].(map[string]any); len(parts) != 1 || p["type"] != "json" ||
		!reflect.DeepEqual(p["data"], r.at(t, "/body/action_result/output")) {
		t.Errorf("the json part does not repeat the output")
	}
}

// checkFollowed: a follower sees every chunk twice under one name, and the
// terminal mark if and only if the action has a terminal state.
func checkFollowed(t *testing.T, frames <-chan sseEvent, exp expectation, chunks []chunk) {
	var got []sseEvent
	if terminalState(exp.state) {
		got = rest(frames)
	} else {
		time.Sleep(time.Minute)
		got = arrived(frames)
	}
	var records, contents, results, terminal int
	for _, f := range got {
		switch {
		case f.name == "aip.stream.chunk" && strings.HasPrefix(f.data, `{"event":`):
			records++
		case f.name == "aip.stream.chunk":
			if want := string(encode(map[string]any{"chunk": chunks[contents]})); f.data != want {
				t.Errorf("followed chunk %d differs from the paged one", contents)
			}
			contents++
		case f.name == "aip.action.result":
			results++
		case f.name == "aip.stream.terminal":
			terminal++
		case f.name == "malformed":
			t.Errorf("malformed frame %q", f.data)
		}
	}
	ended := boolInt(terminalState(exp.state))
	if records != len(chunks) || contents != len(chunks) || results != ended || terminal != ended {
		t.Errorf("followed %d records, %d chunks of %d, %d results, %d terminal marks", records, contents, len(chunks), results, terminal)
	}
}

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
	files, err := recordings.ReadDir("scenarios")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, f := range files {
		name, ok := strings.CutSuffix(f.Name(), ".sse")
		if !ok {
			continue
		}
		seen++
		raw, err := recordings.ReadFile("scenarios/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		var joined []byte
		var last time.Duration
		for _, b := range load(name) {
			if b.at < last {
				t.Errorf("%s goes back in time", name)
			}
			joined, last = append(joined, b.data...), b.at
		}
		if !bytes.Equal(joined, raw) {
			t.Errorf("%s is not whole", name)
		}
	}
	if seen < 10 {
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
		if sc.Summary == "" || sc.Mode != "streaming" || sc.CapabilityID() != "cap:hermes_agent:"+sc.Name+":"+sc.Operation {
			t.Errorf("%s: %+v", sc.Name, sc.CapabilityID())
		}
		// The demo input must fit the schema of the operation by itself.
		if bad := inputViolations(&Scenario{Operation: sc.Operation}, json.RawMessage(sc.Demo)); bad != nil {
			t.Errorf("%s: demo input: %v", sc.Name, bad)
		}
	}
}

// TestTwoDaemonsShareNothing: there is no state outside a Server.
func TestTwoDaemonsShareNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := New(Options{}), New(Options{})
		defer a.Close()
		defer b.Close()
		a.store.submitted(action{ID: "act_1"})
		if len(b.Submits()) != 0 || len(a.Submits()) != 1 {
			t.Errorf("submits: %v and %v", a.Submits(), b.Submits())
		}
	})
}
