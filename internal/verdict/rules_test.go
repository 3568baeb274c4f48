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

// TestIntegrityNeedsSomethingToCompare: without chunks and without frames
// there is nothing that could agree.
func TestIntegrityNeedsSomethingToCompare(t *testing.T) {
	for _, tc := range []struct {
		rule   string
		seen   int
		output *aip.Output
		result bool
		want   Status
	}{
		{"chunks and frames", 3, &aip.Output{HasEvents: true}, true, Pass},
		{"frames only", 0, &aip.Output{HasEvents: true}, true, Pass},
		{"chunks only", 3, &aip.Output{}, true, Pass},
		{"chunks and no output", 3, nil, true, Pass},
		{"chunks and no result", 3, nil, false, Pass},
		{"an output without frames", 0, &aip.Output{}, true, NotApplicable},
		{"no output", 0, nil, true, NotApplicable},
		{"no result", 0, nil, false, NotApplicable},
	} {
		ev := Evidence{Operation: "chat_stream", Integrity: Integrity{Seen: tc.seen}}
		if tc.result {
			ev.Result = &aip.ActionResult{Status: aip.StatusCompleted, Output: tc.output}
		}
		if got := Judge(ev).Checks.Integrity; got != tc.want {
			t.Errorf("%s: %s, want %s", tc.rule, got, tc.want)
		}
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

// Whoever cancels an action does not ask why it has no finish.
func TestWhatDidNotRunToItsEndMissesNothing(t *testing.T) {
	for status, want := range map[string]struct {
		verdict Reading
		reason  string
	}{
		aip.StatusCancelled:       {fault.Cancelled, "the action was cancelled"},
		aip.StatusPendingApproval: {fault.Pending, "the action waits for a human"},
	} {
		ev := chat()
		ev.Result = &aip.ActionResult{Status: status}
		j := expect(t, ev, want.verdict)
		if !slices.Equal(j.Reasons, []string{want.reason}) {
			t.Errorf("%s: reasons %q, want %q alone", status, j.Reasons, want.reason)
		}
		if j.Checks.FinishReason != Missing {
			t.Errorf("%s: the check finish_reason is %s", status, j.Checks.FinishReason)
		}
	}
}

func TestTheReasonOfAFailureNamesItsCode(t *testing.T) {
	for code, want := range map[string]string{"example.never_seen": "the action failed with example.never_seen", "": "the action failed"} {
		ev := failed(chat(goodChat...), &aip.ProtocolError{Code: code, Message: "canary"})
		if j := expect(t, ev, fault.Failed); !slices.Equal(j.Reasons, []string{want}) {
			t.Errorf("code %q: reasons %q", code, j.Reasons)
		}
	}
	if j := expect(t, failed(chat(goodChat...), nil), fault.Failed); !slices.Equal(j.Reasons, []string{"the action failed"}) {
		t.Errorf("without an error: reasons %q", j.Reasons)
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
