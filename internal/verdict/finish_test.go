package verdict

import (
	"slices"
	"strings"
	"testing"

	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/transcript"
	"github.com/go-json-experiment/json/jsontext"
)

// choice is a chunk of one choice with a finish, spelled as JSON.
func choice(index, finish string) string {
	return `{"choices":[{"index":` + index + `,"delta":{},"finish_reason":` + finish + `}]}`
}

func TestFinishLengthIsNeverAccepted(t *testing.T) {
	for _, reason := range []string{`"length"`, `"content_filter"`} {
		for rule, frames := range map[string][]string{
			"alone":                 {choice("0", reason)},
			"before a stop":         {choice("0", reason), choice("0", `"stop"`)},
			"after a stop":          {choice("0", `"stop"`), choice("0", reason)},
			"before a null":         {choice("0", reason), choice("0", `null`)},
			"of another choice":     {choice("0", `"stop"`), choice("7", reason)},
			"beside an open choice": {choice("1", `null`), choice("0", reason)},
			"beside an odd choice":  {choice("1", `"tool_calls"`), choice("0", reason)},
		} {
			t.Run(rule, func(t *testing.T) {
				j := expect(t, chat(append(frames, `"[DONE]"`)...), fault.Partial)
				if j.Checks.FinishReason != Fail || j.FinishReason != strings.Trim(reason, `"`) {
					t.Errorf("finish_reason %s is %s", j.FinishReason, j.Checks.FinishReason)
				}
			})
		}
	}
}

func TestFinishErrorFails(t *testing.T) {
	for _, frames := range [][]string{
		{choice("0", `"error"`)},
		{choice("0", `"stop"`), choice("0", `"error"`)},
		{choice("0", `"stop"`), choice("1", `"error"`)},
		{choice("0", `"length"`), choice("1", `"error"`)},
	} {
		expect(t, chat(frames...), fault.Failed)
	}
}

func TestStopIsOneExactWord(t *testing.T) {
	for _, reason := range []string{`"STOP"`, `"Stop"`, `" stop"`, `"stop "`, `"stop\u0000"`, `"stop\u001b[0m"`, `"stopped"`, `"completed"`, `"tool_calls"`, `"null"`} {
		if j := expect(t, chat(choice("0", reason)), fault.Incomplete); j.Checks.FinishReason != Fail {
			t.Errorf("finish_reason %s is %s, want fail", reason, j.Checks.FinishReason)
		}
	}
}

func TestNullAndTheEmptyStringAreNoFinish(t *testing.T) {
	for _, reason := range []string{`null`, `""`, `0`, `true`, `["stop"]`} {
		if j := expect(t, chat(choice("0", reason)), fault.Incomplete); j.Checks.FinishReason != Missing {
			t.Errorf("finish_reason %s is %s, want missing", reason, j.Checks.FinishReason)
		}
	}
	if j := expect(t, chat(), fault.Incomplete); j.Checks.FinishReason != Missing {
		t.Errorf("without a frame the check is %s", j.Checks.FinishReason)
	}
}

func TestLaterNullUndoesNothing(t *testing.T) {
	for _, later := range []string{`null`, `""`} {
		expect(t, chat(choice("0", `"stop"`), choice("0", later)), fault.Accepted)
		expect(t, chat(choice("0", `"length"`), choice("0", later)), fault.Partial)
		expect(t, chat(choice("0", `"error"`), choice("0", later)), fault.Failed)
	}
}

func TestEveryChoiceSeenNeedsItsOwnStop(t *testing.T) {
	expect(t, chat(choice("0", `"stop"`), choice("1", `"stop"`)), fault.Accepted)
	expect(t, chat(choice("0", `"stop"`), choice("1", `null`)), fault.Incomplete)
	expect(t, chat(choice("1", `"stop"`), choice("0", `null`)), fault.Incomplete)
	// A choice is seen by its text as well.
	expect(t, chat(`{"choices":[{"index":2,"delta":{"content":"x"}}]}`, choice("0", `"stop"`)), fault.Incomplete)
}

func TestErrorOnLengthFinishOnlyExplains(t *testing.T) {
	const failure = `,"error":{"message":"canary","type":"agent_error"}`
	explained := expect(t, chat(finishFrame(`"length"`, failure)), fault.Partial)
	if explained.Checks.ProviderError != Pass {
		t.Errorf("provider_error is %s, want pass", explained.Checks.ProviderError)
	}
	expect(t, chat(finishFrame(`"length"`, `,"error":"canary"`)), fault.Partial)
	expect(t, chat(finishFrame(`"length"`, failure+`,"hermes":{"failed":false}`)), fault.Partial)
	// Everywhere else an error is an error.
	expect(t, chat(finishFrame(`"length"`, failure+`,"hermes":{"failed":true}`)), fault.Failed)
	expect(t, chat(finishFrame(`"stop"`, failure)), fault.Failed)
	expect(t, chat(finishFrame(`"content_filter"`, failure)), fault.Failed)
	expect(t, chat(finishFrame(`null`, failure), finishFrame(`"length"`, "")), fault.Failed)
	expect(t, chat(finishFrame(`"length"`, failure), `{"choices":[],"error":"canary"}`), fault.Failed)
}

func TestHermesCompletedProvesNothing(t *testing.T) {
	expect(t, chat(finishFrame(`"length"`, `,"hermes":{"completed":true}`)), fault.Partial)
	expect(t, chat(finishFrame(`null`, `,"hermes":{"completed":true}`)), fault.Incomplete)
	expect(t, chat(finishFrame(`"stop"`, `,"hermes":{"completed":true,"failed":true}`)), fault.Failed)
	expect(t, chat(finishFrame(`"stop"`, `,"hermes":{"completed":false}`)), fault.Accepted)
}

func TestHermesFailedTrueFailsFromAnyFrame(t *testing.T) {
	const failing = `{"choices":[],"hermes":{"failed":true}}`
	expect(t, chat(failing, finishFrame(`"stop"`, "")), fault.Failed)
	expect(t, chat(finishFrame(`"stop"`, ""), failing), fault.Failed)
	// A later state object without it takes nothing back.
	expect(t, chat(failing, finishFrame(`"stop"`, `,"hermes":{"failed":false}`)), fault.Failed)
	for _, no := range []string{`false`, `null`, `"true"`, `1`} {
		expect(t, chat(finishFrame(`"stop"`, `,"hermes":{"failed":`+no+`}`)), fault.Accepted)
	}
}

func TestAProviderErrorIsAnObjectOrANonEmptyString(t *testing.T) {
	for _, tc := range []struct {
		err  string
		want Reading
	}{
		{`{"message":"canary"}`, fault.Failed}, {`{}`, fault.Failed}, {`"canary"`, fault.Failed}, {`" "`, fault.Failed},
		{`""`, fault.Accepted}, {`null`, fault.Accepted},
	} {
		expect(t, chat(`{"choices":[],"error":`+tc.err+`}`, finishFrame(`"stop"`, "")), tc.want)
		expect(t, chat(`{"choices":[],"response":{"error":`+tc.err+`}}`, finishFrame(`"stop"`, "")), tc.want)
	}
}

// TestProviderErrorsOfOtherOperations: where no stream could hold one, the
// check applies only once there is one.
func TestProviderErrorsOfOtherOperations(t *testing.T) {
	ev := good("response_get")
	if j := expect(t, ev, fault.Accepted); j.Checks.ProviderError != NotApplicable {
		t.Errorf("without an error the check is %s", j.Checks.ProviderError)
	}
	ev.Facts.Errors = []transcript.ProviderError{{Type: "server_error"}}
	if j := expect(t, ev, fault.Failed); j.Checks.ProviderError != Fail {
		t.Errorf("with an error the check is %s", j.Checks.ProviderError)
	}
	ev.Facts = transcript.Facts{Failed: true}
	if j := expect(t, ev, fault.Failed); j.Checks.ProviderError != Fail {
		t.Errorf("with hermes.failed the check is %s", j.Checks.ProviderError)
	}
	if j := Judge(good("chat")); j.Checks.ProviderError != Pass {
		t.Errorf("of a chat without an error the check is %s", j.Checks.ProviderError)
	}
}

func TestAProviderErrorIsLookedForAtTheTopOnly(t *testing.T) {
	for _, frame := range []string{
		`{"choices":[{"index":0,"delta":{"error":{"message":"canary"}}}]}`,
		`{"choices":[{"index":0,"error":{"message":"canary"}}]}`,
		`{"choices":[],"response":{"output":[{"error":"canary"}]}}`,
		`{"choices":[],"data":{"error":"canary"}}`,
		`{"choices":[],"hermes":{"error":"canary"}}`,
	} {
		expect(t, chat(frame, finishFrame(`"stop"`, "")), fault.Accepted)
	}
}

func TestNoTextNoDoneNoEndOfStreamIsSuccess(t *testing.T) {
	expect(t, chat(goodChat[:finishAt]...), fault.Incomplete)
	expect(t, chat(append(slices.Clone(goodChat[:finishAt]), `"[DONE]"`)...), fault.Incomplete)
	expect(t, chat(`"[DONE]"`), fault.Incomplete)
	// And the other way round: a stop without any text or [DONE] is enough.
	expect(t, chat(goodChat[finishAt]), fault.Accepted)
}

func TestResponsesNeedTheEventAndTheStatus(t *testing.T) {
	seen := func(events ...string) map[string]bool {
		m := map[string]bool{}
		for _, e := range events {
			m[e] = true
		}
		return m
	}
	for _, tc := range []struct {
		rule      string
		operation string
		response  *transcript.Response
		events    map[string]bool
		want      Reading
		check     Status
	}{
		{"event and status completed", "responses_stream", &transcript.Response{Status: "completed"}, seen("response.completed"), fault.Accepted, Pass},
		{"no event says completed", "responses_stream", &transcript.Response{Status: "completed"}, seen("response.created"), fault.Incomplete, Missing},
		{"completed around an incomplete object", "responses_stream", &transcript.Response{Status: "incomplete"}, seen("response.completed"), fault.Partial, Fail},
		{"an incomplete object is partial", "responses_stream", &transcript.Response{Status: "incomplete"}, seen("response.incomplete"), fault.Partial, Fail},
		{"a failed object fails", "responses_stream", &transcript.Response{Status: "failed"}, seen("response.completed"), fault.Failed, Fail},
		{"an object in progress is incomplete", "responses_stream", &transcript.Response{Status: "in_progress"}, seen("response.created", "response.completed"), fault.Incomplete, Fail},
		{"a cancelled object is incomplete", "responses_stream", &transcript.Response{Status: "cancelled"}, seen("response.completed"), fault.Incomplete, Fail},
		{"a status nobody knows is incomplete", "responses_stream", &transcript.Response{Status: "Completed"}, seen("response.completed"), fault.Incomplete, Fail},
		{"an object without a status", "responses_stream", &transcript.Response{ID: "resp_1"}, seen("response.completed"), fault.Incomplete, Missing},
		{"no object at all", "responses_stream", nil, nil, fault.Incomplete, Missing},
		{"without events the status is enough", "responses", &transcript.Response{Status: "completed"}, nil, fault.Accepted, Pass},
		{"without events, incomplete", "responses", &transcript.Response{Status: "incomplete"}, nil, fault.Partial, Fail},
		{"without events, failed", "responses", &transcript.Response{Status: "failed"}, nil, fault.Failed, Fail},
		{"without events, nothing", "responses", nil, nil, fault.Incomplete, Missing},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			ev := good(tc.operation)
			ev.Facts.Response, ev.Facts.Events = tc.response, tc.events
			if j := expect(t, ev, tc.want); j.Checks.FinishReason != tc.check {
				t.Errorf("finish_reason is %s, want %s", j.Checks.FinishReason, tc.check)
			}
		})
	}
}

func TestRunsEndInRunCompleted(t *testing.T) {
	for _, op := range []string{"run_events", "session_chat_stream"} {
		for name, want := range map[string]Reading{
			"run.completed": fault.Accepted, "run.failed": fault.Incomplete, "message.delta": fault.Incomplete,
			"assistant.completed": fault.Incomplete, "done": fault.Incomplete, "": fault.Incomplete,
		} {
			ev := good(op)
			ev.Facts.Named = name
			expect(t, ev, want)
		}
	}
}

func TestAnOperatorEndsInItsOwnStatus(t *testing.T) {
	for value, want := range map[string]Reading{
		`"completed"`: fault.Accepted, `"failed"`: fault.Incomplete, `"waiting_for_approval"`: fault.Incomplete, `true`: fault.Incomplete, ``: fault.Incomplete,
	} {
		ev := good("operator")
		delete(ev.Result.Output.Rest, "status")
		if value != "" {
			ev.Result.Output.Rest["status"] = jsontext.Value(value)
		}
		expect(t, ev, want)
	}
	ev := good("operator")
	ev.Result.Output = nil
	expect(t, ev, fault.Incomplete)
}

func TestFinishReasonIsTheWorstWordOfTheProvider(t *testing.T) {
	for _, tc := range []struct {
		frames []string
		want   string
	}{
		{[]string{choice("0", `"stop"`), choice("1", `"length"`)}, "length"},
		{[]string{choice("0", `"length"`), choice("1", `"error"`)}, "error"},
		{[]string{choice("0", `"error"`), choice("1", `"stop"`)}, "error"},
		{[]string{choice("0", `"stop"`), choice("1", `"odd"`)}, "odd"},
		{[]string{choice("0", `"stop"`), choice("1", `"stop"`)}, "stop"},
		{[]string{choice("0", `null`)}, ""},
		{[]string{choice("0", `"stop"`)}, "stop"},
		{[]string{choice("0", `"error"`), choice("1", `"length"`)}, "error"},
		{[]string{choice("0", `"length"`), choice("1", `"odd"`)}, "length"},
	} {
		if got := Judge(chat(tc.frames...)).FinishReason; got != tc.want {
			t.Errorf("%s: finish reason %q, want %q", tc.frames, got, tc.want)
		}
	}
}
