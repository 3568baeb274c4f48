package verdict

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/transcript"
	"github.com/go-json-experiment/json/jsontext"
)

func TestEveryFamilyCanBeAccepted(t *testing.T) {
	for _, op := range operations {
		j := expect(t, good(op), fault.Accepted)
		for _, c := range j.Checks.List() {
			if c.Status != Pass && c.Status != NotApplicable {
				t.Errorf("%q is accepted although %s is %s", op, c.Name, c.Status)
			}
		}
	}
}

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

func TestStreamsNeedATerminalAggregate(t *testing.T) {
	yes, no := true, false
	for _, tc := range []struct {
		rule                string
		terminal, truncated *bool
		want                Reading
		checks              [2]Status
	}{
		{"terminal and not truncated", &yes, &no, fault.Accepted, [2]Status{Pass, Pass}},
		{"only true truncates", &yes, nil, fault.Accepted, [2]Status{Pass, Pass}},
		{"truncated is partial", &yes, &yes, fault.Partial, [2]Status{Pass, Fail}},
		{"truncated wins over not terminal", &no, &yes, fault.Partial, [2]Status{Fail, Fail}},
		{"not terminal", &no, &no, fault.Incomplete, [2]Status{Fail, Pass}},
		{"terminal is not said", nil, &no, fault.Incomplete, [2]Status{Missing, Pass}},
	} {
		for _, op := range []string{"chat_stream", "responses_stream", "run_events", "session_chat_stream", "never_seen_stream"} {
			t.Run(tc.rule+"/"+op, func(t *testing.T) {
				ev := good(op)
				ev.Result.Output.Terminal, ev.Result.Output.Truncated = tc.terminal, tc.truncated
				j := expect(t, ev, tc.want)
				if got := [2]Status{j.Checks.Terminal, j.Checks.Truncated}; got != tc.checks {
					t.Errorf("terminal and truncated are %v, want %v", got, tc.checks)
				}
			})
		}
	}
	for _, out := range []*aip.Output{nil, {}, {Scalar: jsontext.Value(`"x"`)}} {
		ev := good("chat_stream")
		ev.Result.Output = out
		if j := expect(t, ev, fault.Incomplete); j.Checks.Terminal != Missing || j.Checks.Truncated != Missing {
			t.Errorf("without an aggregate the checks are %+v", j.Checks)
		}
	}
	for _, op := range []string{"chat", "responses", "operator", "response_get"} {
		if j := Judge(good(op)); j.Checks.Terminal != NotApplicable || j.Checks.Truncated != NotApplicable {
			t.Errorf("%s has no aggregate, and the checks are %+v", op, j.Checks)
		}
	}
}

func TestIntegrity(t *testing.T) {
	for _, tc := range []struct {
		rule  string
		in    Integrity
		want  Reading
		check Status
	}{
		{"nothing to object to", Integrity{FromStart: true, Seen: 5}, fault.Accepted, Pass},
		{"two contents for one sequence", Integrity{FromStart: true, Conflicts: 1}, fault.Conflict, Fail},
		{"a chunk of another action", Integrity{Strays: 1}, fault.Conflict, Fail},
		{"one above a terminal chunk", Integrity{AboveTerminal: 1}, fault.Conflict, Fail},
		{"differs from its frame, read from the start", Integrity{FromStart: true, FrameDiffers: 1}, fault.Conflict, Fail},
		{"differs from its frame, not read from the start", Integrity{FrameDiffers: 1}, fault.Incomplete, Missing},
		{"matched by order, with another count", Integrity{FromStart: true, CountsDiffer: true}, fault.Incomplete, Missing},
		{"a hole that nothing fills", Integrity{FromStart: true, Holes: 1}, fault.Incomplete, Missing},
		{"a conflict stands before a hole", Integrity{Conflicts: 1, Holes: 1, CountsDiffer: true}, fault.Conflict, Fail},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			ev := chat(goodChat...)
			ev.Integrity = tc.in
			if j := expect(t, ev, tc.want); j.Checks.Integrity != tc.check {
				t.Errorf("integrity is %s, want %s", j.Checks.Integrity, tc.check)
			}
		})
	}
}

func TestAnItemsDeltasEqualItsDoneText(t *testing.T) {
	ev := good("responses_stream")
	ev.Facts.Texts = []transcript.TextFact{{Text: "as told"}}
	expect(t, ev, fault.Accepted)
	ev.Facts.Texts = append(ev.Facts.Texts, transcript.TextFact{Text: "a", Differs: true})
	if j := expect(t, ev, fault.Incomplete); j.Checks.Integrity != Fail {
		t.Errorf("integrity is %s", j.Checks.Integrity)
	}
}

func TestTheFinalObjectSaysTheSameWords(t *testing.T) {
	ev := good("responses_stream")
	ev.Facts.Differs = true
	if j := expect(t, ev, fault.Incomplete); j.Checks.Integrity != Fail {
		t.Errorf("integrity is %s", j.Checks.Integrity)
	}
}

func TestARequiredToolMustHaveCompleted(t *testing.T) {
	tools := func(status ...string) []transcript.ToolFact {
		var out []transcript.ToolFact
		for _, s := range status {
			out = append(out, transcript.ToolFact{Name: "read_file", Status: s})
		}
		return out
	}
	for _, tc := range []struct {
		rule string
		want []string
		seen []transcript.ToolFact
		v    Reading
		c    Status
	}{
		{"none is required", nil, tools("running"), fault.Accepted, NotApplicable},
		{"it completed", []string{"read_file"}, tools("completed"), fault.Accepted, Pass},
		{"one of its calls completed", []string{"read_file"}, tools("failed", "completed", "running"), fault.Accepted, Pass},
		{"it only ran", []string{"read_file"}, tools("running"), fault.Failed, Fail},
		{"it failed", []string{"read_file"}, tools("failed"), fault.Failed, Fail},
		{"its state is a word nobody knows", []string{"read_file"}, tools("COMPLETED"), fault.Failed, Fail},
		{"it was never seen", []string{"read_file"}, nil, fault.Failed, Fail},
		{"one of two was not seen", []string{"read_file", "terminal"}, tools("completed"), fault.Failed, Fail},
		{"a part of its name is not it", []string{"read"}, tools("completed"), fault.Failed, Fail},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			ev := chat(goodChat...)
			ev.RequiredTools, ev.Facts.Tools = tc.want, tc.seen
			if j := expect(t, ev, tc.v); j.Checks.RequiredTools != tc.c {
				t.Errorf("required_tools is %s, want %s", j.Checks.RequiredTools, tc.c)
			}
		})
	}
}

func TestEveryEffectCheckMustExitZero(t *testing.T) {
	ok, bad, not := EffectCheck{Ran: true}, EffectCheck{Ran: true, ExitCode: 1}, EffectCheck{}
	for _, tc := range []struct {
		rule   string
		checks []EffectCheck
		v      Reading
		c      Status
	}{
		{"there is none", nil, fault.Accepted, NotApplicable},
		{"all exited 0", []EffectCheck{ok, ok}, fault.Accepted, Pass},
		{"one was not run", []EffectCheck{ok, not}, fault.Incomplete, Missing},
		{"one exited 1", []EffectCheck{ok, bad}, fault.Failed, Fail},
		{"a failure outweighs one not run", []EffectCheck{not, bad}, fault.Failed, Fail},
		{"and in the other order", []EffectCheck{bad, not}, fault.Failed, Fail},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			ev := chat(goodChat...)
			ev.EffectChecks = tc.checks
			if j := expect(t, ev, tc.v); j.Checks.EffectCheck != tc.c {
				t.Errorf("effect_check is %s, want %s", j.Checks.EffectCheck, tc.c)
			}
		})
	}
}

func TestToolsAndEffectsAreJudgedOnlyWhenTheActionCompleted(t *testing.T) {
	for _, s := range []string{aip.StatusFailed, aip.StatusCancelled, aip.StatusPendingApproval, aip.StatusRequiresHuman} {
		ev := chat(goodChat...)
		ev.Result.Status = s
		ev.Result.Error = &aip.ProtocolError{Code: "connector.hermes_agent.stream_incomplete"}
		ev.RequiredTools, ev.EffectChecks = []string{"read_file"}, []EffectCheck{{Ran: true, ExitCode: 1}}
		j := Judge(ev)
		if j.Checks.RequiredTools != NotApplicable || j.Checks.EffectCheck != NotApplicable {
			t.Errorf("%s: %+v", s, j.Checks)
		}
		if j.Verdict == fault.Failed {
			t.Errorf("%s is read as failed because of what was not judged", s)
		}
	}
}

func TestAStateWithoutAResultSettles(t *testing.T) {
	for state, want := range map[string]Reading{
		aip.StateCancelled: fault.Cancelled, aip.StateExpired: fault.Failed, aip.StateDeadLettered: fault.Failed, aip.StateFailed: fault.Failed,
		// Completed on paper, and the evidence cannot be read.
		aip.StateCompleted: fault.Incomplete,
		// No settled states: nothing is known.
		aip.StateRunning: fault.Unknown, aip.StateUnknown: fault.Unknown, "": fault.Unknown, "never_seen": fault.Unknown,
	} {
		for _, op := range operations {
			expect(t, Evidence{Operation: op, State: state, Facts: read(goodChat...)}, want)
		}
	}
}

func TestADeadLetteredResultIsJudgedAsAnyOther(t *testing.T) {
	ev := failed(chat(goodChat...), &aip.ProtocolError{Code: connector + "stream_truncated"})
	ev.State = aip.StateDeadLettered
	expect(t, ev, fault.Partial)
}

func TestAStatusNobodyKnowsIsNotAFailure(t *testing.T) {
	for _, s := range []string{"", "running", "COMPLETED", "succeeded", "settled"} {
		for _, op := range operations {
			ev := good(op)
			ev.Result.Status = s
			// Whoever reads failed may run it again; it may still be running.
			if j := expect(t, ev, fault.Unknown); j.Checks.AIPStatus != Fail {
				t.Errorf("aip_status of %q is %s", s, j.Checks.AIPStatus)
			}
		}
	}
}

func TestTheReplySettlesWhatWasNeverStored(t *testing.T) {
	for _, r := range []Reading{fault.Unknown, fault.Failed, fault.Auth, fault.Rejected, fault.NotFound} {
		ev := Evidence{Operation: "response_get", Reply: &SubmitReading{Settled: true, Reading: r, Closed: true}, ReplyError: &aip.ProtocolError{Code: connector + "transport"}}
		j := expect(t, ev, r)
		if j.Checks.AIPStatus != Fail || !strings.Contains(strings.Join(j.Reasons, ";"), connector+"transport") {
			t.Errorf("aip_status %s, reasons %q", j.Checks.AIPStatus, j.Reasons)
		}
		ev.ReplyError = nil
		expect(t, ev, r)
	}
}

func TestReasonsNameTheDecidingOneFirst(t *testing.T) {
	ev := chat(choice("0", `"length"`), `{"choices":[],"error":"canary"}`)
	*ev.Result.Output.Terminal = false
	ev.Integrity.Conflicts = 1
	j := expect(t, ev, fault.Conflict)
	want := []string{
		"one sequence came with two contents", "a provider error was retained",
		"finish_reason is not stop for every choice", "the aggregate is not terminal",
	}
	if !slices.Equal(j.Reasons, want) {
		t.Errorf("reasons %q, want %q", j.Reasons, want)
	}
	for _, r := range j.Reasons {
		if strings.Contains(r, "canary") {
			t.Errorf("a reason holds provider text: %q", r)
		}
	}
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
	} {
		if got := Judge(chat(tc.frames...)).FinishReason; got != tc.want {
			t.Errorf("%s: finish reason %q, want %q", tc.frames, got, tc.want)
		}
	}
}

func TestJudgingChangesNothing(t *testing.T) {
	ev := chat(choice("1", `"length"`), choice("0", `"stop"`), `{"choices":[],"error":"canary"}`)
	ev.RequiredTools = []string{"b", "a"}
	again := chat(choice("1", `"length"`), choice("0", `"stop"`), `{"choices":[],"error":"canary"}`)
	again.RequiredTools = []string{"b", "a"}
	first := Judge(ev)
	if second := Judge(ev); !reflect.DeepEqual(first, second) {
		t.Errorf("judged twice: %+v, then %+v", first, second)
	}
	if !reflect.DeepEqual(ev, again) {
		t.Errorf("judging changed the evidence: %+v", ev)
	}
}
