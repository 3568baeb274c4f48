package aip

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

func fixture(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func pointer[T any](v T) *T { return &v }

func TestAReplyThatHoldsAResult(t *testing.T) {
	want := &Reply{Enveloped: true, Result: &ActionResult{
		ActionID: "act_tanks",
		Status:   StatusCompleted,
		Output: &Output{
			EndpointID: "lab", Operation: "chat_stream", HTTPStatus: 200, HasEvents: true, Events: 5, Text: "Full.",
			Terminal: pointer(true), Truncated: pointer(false),
			Rest: map[string]jsontext.Value{"idempotent_replay": raw(`true`), "seed": raw(`9007199254740993`)},
		},
		Usage:   raw(`{"tokens": 12, "cost": 0.50}`),
		Receipt: raw(`{"id": "rcpt_1", "hash": "00ff"}`),
		Texts:   []string{"Full.", "And dry."},
	}}
	// An entry that is no object keeps its place, so that positions hold.
	frames := []Frame{
		{Data: raw(`{"choices": [{"index": 0, "delta": {"content": "Full."}, "finish_reason": null}]}`)},
		{},
		{Event: "hermes.tool.progress", ID: "7", Data: raw(`{"tool": "read_file"}`)},
		{},
		{Data: raw(`"[DONE]"`), Terminal: true},
	}
	body := fixture(t, "reply_result.json")
	enveloped, _ := strings.CutPrefix(body[strings.Index(body, `"body":`):], `"body":`)
	bare := strings.TrimSuffix(strings.TrimSpace(enveloped), "}")
	for rule, source := range map[string]struct {
		r         io.Reader
		enveloped bool
	}{
		"an envelope":             {strings.NewReader(body), true},
		"byte by byte":            {iotest.OneByteReader(strings.NewReader(body)), true},
		"with the end and a byte": {iotest.DataErrReader(strings.NewReader(body)), true},
		"a bare body":             {strings.NewReader(bare), false},
	} {
		t.Run(rule, func(t *testing.T) {
			var got []Frame
			reply, err := DecodeReply(source.r, ResultDecoding{OnFrame: func(i int, f Frame) error {
				if i != len(got) {
					t.Errorf("frame %d came as number %d", i, len(got))
				}
				got = append(got, f)
				return nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			w := *want
			w.Enveloped = source.enveloped
			if diff := cmp.Diff(&w, reply); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if diff := cmp.Diff(frames, got); diff != "" {
				t.Errorf("frames: -want +got\n%s", diff)
			}
		})
	}
}

func TestOtherReplies(t *testing.T) {
	for name, want := range map[string]*Reply{
		"reply_failed.json": {Enveloped: true, Result: &ActionResult{ActionID: "act_tanks", Status: StatusFailed, Error: &ProtocolError{
			Code: "action.input_schema_invalid", Message: "the input does not fit", Category: "permanent", Retryable: pointer(false),
			Details: raw(`{"capability_id": "cap:hermes_agent:lab:chat_stream", "violations": ["one"]}`),
		}}},
		"reply_ack.json": {Enveloped: true, Ack: &Ack{ActionID: "act_tanks", Status: "queued", RetryAfter: pointer(uint64(500))}},
		"reply_error.json": {Enveloped: true, Error: &ProtocolError{
			Code: "connector.hermes_agent.remote_temporary", Message: "canary-message", Category: "temporary", Retryable: pointer(false), RetryAfterMS: pointer(uint64(1000)),
			Details: raw(`{"operation": "canary-details", "remote_status": 503, "uncertain_outcome": true, "details": null}`),
		}},
		"reply_event_stream.json": {Enveloped: true, EventStream: true, Events: []Event{{ID: "evt_1", Kind: "aip.approval.granted", OccurredAt: "2030-01-15T09:32:00.1Z", ActionID: "act_tanks"}}},
		"status.json":             {Other: "action_status"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := DecodeReply(strings.NewReader(fixture(t, name)), ResultDecoding{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// TestOutputsOfEveryKind: an operation that does not stream may answer with
// any JSON.
func TestOutputsOfEveryKind(t *testing.T) {
	for _, tc := range []struct {
		rule, output string
		want         *Output
		object       string
		aggregate    bool
	}{
		{"absent", ``, nil, ``, false},
		{"null", `"output":null`, nil, ``, false},
		{"a string", `"output":"done"`, &Output{Scalar: raw(`"done"`)}, `"done"`, false},
		{"a number", `"output":9007199254740993`, &Output{Scalar: raw(`9007199254740993`)}, `9007199254740993`, false},
		{"a truth value", `"output":false`, &Output{Scalar: raw(`false`)}, `false`, false},
		{"an array", `"output":[{"events":[]}]`, &Output{Scalar: raw(`[{"events":[]}]`)}, `[{"events":[]}]`, false},
		{"an empty object", `"output":{}`, &Output{Rest: map[string]jsontext.Value{}}, `{}`, false},
		{"a provider's object", `"output":{"z":[1.0],"a":{"b":null}}`, &Output{Rest: map[string]jsontext.Value{"a": raw(`{"b":null}`), "z": raw(`[1.0]`)}}, `{"a":{"b":null},"z":[1.0]}`, false},
		{"a body that was no JSON", `"output":{"text":"<html>"}`, &Output{Text: "<html>", Rest: map[string]jsontext.Value{}}, `{}`, false},
		{"an aggregate without frames", `"output":{"events":[],"terminal":true}`, &Output{HasEvents: true, Terminal: pointer(true), Rest: map[string]jsontext.Value{}}, `{}`, true},
		{"an aggregate that says one thing", `"output":{"truncated":true}`, &Output{Truncated: pointer(true), Rest: map[string]jsontext.Value{}}, `{}`, true},
		{"members of the wrong type", `"output":{"events":{"0":1},"terminal":"true","truncated":1,"http_status":"200","endpoint_id":5,"text":null}`, &Output{Rest: map[string]jsontext.Value{}}, `{}`, false},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			body := `{"action_result":{"status":"completed"}}`
			if tc.output != "" {
				body = `{"action_result":{` + tc.output + `,"status":"completed"}}`
			}
			reply, err := DecodeReply(strings.NewReader(body), ResultDecoding{})
			if err != nil {
				t.Fatal(err)
			}
			out := reply.Result.Output
			if diff := cmp.Diff(tc.want, out); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if got := string(out.Object()); got != tc.object {
				t.Errorf("the object is %s, want %s", got, tc.object)
			}
			if out.Aggregate() != tc.aggregate {
				t.Errorf("an aggregate: %v", out.Aggregate())
			}
		})
	}
}

func TestMembersOfAnOutput(t *testing.T) {
	out := &Output{Rest: map[string]jsontext.Value{"yes": raw(`true`), "no": raw(`false`), "none": raw(`null`), "word": raw(`"w"`), "n": raw(`5`)}}
	for name, want := range map[string]string{"yes": `true`, "no": ``, "none": ``, "word": `"w"`, "n": `5`, "absent": ``} {
		if got := string(out.Member(name)); got != want {
			t.Errorf("member %s is %q, want %q", name, got, want)
		}
	}
	if got := out.String("word") + out.String("n") + out.String("absent"); got != "w" {
		t.Errorf("the strings are %q", got)
	}
	var none *Output
	if none.Member("x") != nil || none.String("x") != "" || none.Object() != nil || none.Aggregate() {
		t.Error("an output that is not there says something")
	}
}

func TestRepliesThatAreNone(t *testing.T) {
	for rule, body := range map[string]string{
		"nothing":                 ``,
		"text":                    `canary`,
		"a page":                  `<html>canary</html>`,
		"an array":                `["canary"]`,
		"cut in a name":           `{"body":{"action_res`,
		"cut in a frame":          `{"action_result":{"output":{"events":[{"data":{"canary":`,
		"cut behind the result":   `{"body":{"action_result":{"status":"completed"}}`,
		"a colon that is missing": `{"action_result" {"canary":1}}`,
	} {
		t.Run(rule, func(t *testing.T) {
			reply, err := DecodeReply(strings.NewReader(body), ResultDecoding{})
			if err == nil || reply != nil {
				t.Errorf("read as %+v", reply)
			}
		})
	}
	// Members of the wrong type are none.
	for _, body := range []string{`{"action_result":"x","ack":[],"error":5}`, `{"body":null}`, `{"body":[{"ack":{}}]}`} {
		reply, err := DecodeReply(strings.NewReader(body), ResultDecoding{})
		if err != nil || reply.Result != nil || reply.Ack != nil || reply.Error != nil {
			t.Errorf("%s is read as %+v (%v)", body, reply, err)
		}
	}
}

func TestAnErrorOfOnFrameStopsTheReading(t *testing.T) {
	stop := errors.New("enough")
	calls := 0
	_, err := DecodeReply(strings.NewReader(fixture(t, "reply_result.json")), ResultDecoding{OnFrame: func(int, Frame) error {
		calls++
		return stop
	}})
	if !errors.Is(err, stop) || calls != 1 {
		t.Errorf("after %d frames the error is %v", calls, err)
	}
}

func TestAReadErrorIsKept(t *testing.T) {
	broken := errors.New("the cable")
	body := fixture(t, "reply_result.json")
	_, err := DecodeReply(io.MultiReader(strings.NewReader(body[:900]), iotest.ErrReader(broken)), ResultDecoding{})
	if !errors.Is(err, broken) {
		t.Errorf("the error is %v", err)
	}
}

func TestStatus(t *testing.T) {
	got, err := DecodeStatus(strings.NewReader(fixture(t, "status.json")))
	if err != nil {
		t.Fatal(err)
	}
	want := &ActionStatus{
		ActionID: "act_tanks", CapabilityID: "cap:hermes_agent:lab:chat_stream", State: StateDeadLettered, QueuedState: "failed", ResultStatus: "failed",
		ApprovalID: "appr_1", StartedAt: "2030-01-15T09:30:07.917Z", UpdatedAt: "2030-01-15T09:30:07.9170001Z", CompletedAt: "2030-01-15T09:30:07.917Z",
		Retry: raw(`{"attempts": 1, "policy": null, "next_attempt_at": null, "last_error": null, "dead_letter_reason": "gave up"}`),
		Lease: raw(`{"worker_id": "w", "expires_at": [2030, 15, 9, 30]}`),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	for rule, body := range map[string]string{
		"nothing": ``, "another body": `{"action_list":{}}`, "null": `{"action_status":null}`, "no state": `{"action_status":{"action_id":"act_1"}}`,
		"a state that is no string": `{"action_status":{"state":5}}`, "cut": `{"action_status":{"state":"completed"`, "a page": `<html>`,
	} {
		if st, err := DecodeStatus(strings.NewReader(body)); err == nil {
			t.Errorf("%s is read as %+v", rule, st)
		}
	}
}

func TestPage(t *testing.T) {
	got, err := DecodePage(strings.NewReader(fixture(t, "page.json")), Decoding{})
	if err != nil {
		t.Fatal(err)
	}
	want := &EventsPage{
		ActionID: "act_tanks", Cursor: "aev_cursor_42_0", Terminal: true,
		Events: []Event{
			{ID: "evt_1", Kind: "aip.stream.chunk", OccurredAt: "2030-01-15T09:30:02.41Z", ActionID: "act_tanks", Data: raw(`{"sequence": 0, "kind": "data"}`)},
			{ID: "evt_2", Kind: "aip.action.result", OccurredAt: "2030-01-15T09:30:07.91Z", ActionID: "act_tanks", Data: raw(`{"api_key": {"redacted": true}}`)},
		},
		Chunks: []Chunk{
			{ActionID: "act_tanks", Sequence: 0, Kind: KindData, Frame: &Frame{Data: raw(`{"choices": []}`)}},
			{ActionID: "act_tanks", Sequence: 9007199254740993, Kind: KindError, Data: raw(`{"operation":"chat_stream","reason":"closed"}`)},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	empty, err := DecodePage(strings.NewReader(`{"action_events":{"action_id":"act_1","events":[],"chunks":null,"terminal":false}}`), Decoding{})
	if diff := cmp.Diff(&EventsPage{ActionID: "act_1"}, empty); diff != "" || err != nil {
		t.Errorf("an empty page: %v, -want +got\n%s", err, diff)
	}
	for rule, body := range map[string]string{
		"nothing": ``, "another body": `{"action_status":{}}`, "null": `{"action_events":null}`, "cut": `{"action_events":{"events":[`,
		"events that are no array": `{"action_events":{"events":{}}}`, "a chunk that is a string": `{"action_events":{"chunks":["x"]}}`,
		"a chunk without a sequence": `{"action_events":{"chunks":[{"kind":"data"}]}}`,
	} {
		if page, err := DecodePage(strings.NewReader(body), Decoding{}); err == nil {
			t.Errorf("%s is read as %+v", rule, page)
		}
	}
}

func TestTerminalStates(t *testing.T) {
	for state, want := range map[string]bool{
		StateUnknown: false, StateAccepted: false, StateQueued: false, StateRunning: false, StateStreaming: false,
		StatePendingApproval: false, StateCancelling: false, StateCancelled: true, StateCompleted: true,
		StateFailed: true, StateExpired: true, StateDeadLettered: true, "": false, "Completed": false,
	} {
		if TerminalState(state) != want {
			t.Errorf("%q is terminal: %v", state, !want)
		}
	}
}
