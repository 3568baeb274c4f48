package verdict

import (
	"slices"
	"testing"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/fault"
)

// order is the contract's order of precedence, strongest first.
var order = []Reading{
	fault.Conflict, fault.Pending, fault.Auth, fault.NotFound, fault.Rejected, fault.Cancelled,
	fault.Unknown, fault.Failed, fault.Partial, fault.Incomplete, fault.Accepted,
}

// speaking makes evidence speak for a reading, each by a check of its own
// where one is left. false when nothing beside the result can speak so.
func speaking(ev *Evidence, r Reading, useResult bool) bool {
	code := map[Reading]string{
		fault.Auth: "auth.not_authorized", fault.NotFound: "resource.not_found", fault.Rejected: "schema.envelope.invalid",
		fault.Unknown: "sla.timeout_exceeded", fault.Failed: "example.never_seen",
		fault.Partial: connector + "stream_truncated", fault.Incomplete: connector + "stream_incomplete",
	}
	switch {
	case r == fault.Conflict:
		ev.Integrity.Conflicts = 1
	case r == fault.Accepted:
	case useResult && r == fault.Pending:
		ev.Result.Status = aip.StatusPendingApproval
	case useResult && r == fault.Cancelled:
		ev.Result.Status = aip.StatusCancelled
	case useResult:
		ev.Result.Status, ev.Result.Error = aip.StatusFailed, &aip.ProtocolError{Code: code[r]}
	case r == fault.Failed:
		ev.Facts.Failed = true
	case r == fault.Partial:
		*ev.Result.Output.Truncated = true
	case r == fault.Incomplete:
		*ev.Result.Output.Terminal = false
	default:
		return false
	}
	return true
}

// TestPrecedenceOfEveryPair puts every two readings beside each other: the
// one that stands first in the contract is the verdict, in whatever order
// they were read.
func TestPrecedenceOfEveryPair(t *testing.T) {
	judged := 0
	for i, a := range order {
		for k, b := range order {
			want := order[min(i, k)]
			if got := strongest([]Reading{a, b}); got != want {
				t.Errorf("%s and %s give %s, want %s", a, b, got, want)
			}
			// The same with evidence: a by the result, b by another check.
			ev := chat(goodChat...)
			if !speaking(&ev, a, true) || !speaking(&ev, b, false) {
				continue
			}
			judged++
			if j := Judge(ev); j.Verdict != want {
				t.Errorf("evidence of %s and %s gives %s because of %q, want %s", a, b, j.Verdict, j.Reasons, want)
			}
		}
	}
	if judged != len(order)*5 {
		t.Errorf("%d pairs were judged with evidence", judged)
	}
	if !slices.Equal(order, precedence) {
		t.Errorf("the order is %v", precedence)
	}
}

func TestAcceptedIsNeverADefault(t *testing.T) {
	t.Run("without any evidence", func(t *testing.T) {
		for _, op := range operations {
			for _, tools := range [][]string{nil, {"read_file"}} {
				for _, effects := range [][]EffectCheck{nil, {{}}, {{Ran: true}}} {
					ev := Evidence{Operation: op, RequiredTools: tools, EffectChecks: effects}
					if j := expect(t, ev, fault.Unknown); j.Checks.AIPStatus != Missing {
						t.Errorf("%s: aip_status is %s", op, j.Checks.AIPStatus)
					}
				}
			}
		}
	})
	t.Run("with a stream and nothing else", func(t *testing.T) {
		for _, op := range operations {
			ev := good(op)
			ev.Result = nil
			if j := Judge(ev); j.Verdict == fault.Accepted {
				t.Errorf("%s is accepted without a result", op)
			}
		}
	})
	t.Run("with an empty result", func(t *testing.T) {
		for _, op := range operations {
			ev := good(op)
			ev.Result = &aip.ActionResult{}
			if j := Judge(ev); j.Verdict == fault.Accepted {
				t.Errorf("%s is accepted on an empty result", op)
			}
		}
	})
	t.Run("with a completed result and no facts", func(t *testing.T) {
		for _, op := range operations {
			if familyOf(op) == other && !Streams(op) {
				continue // nothing but the result is promised for these
			}
			ev := Evidence{Operation: op, Result: &aip.ActionResult{Status: aip.StatusCompleted}}
			if j := Judge(ev); j.Verdict == fault.Accepted {
				t.Errorf("%s is accepted without facts", op)
			}
		}
	})
	// A class of the exit table that says nothing about an action must not
	// fall out of the order of precedence and leave accepted behind.
	t.Run("whatever class was handed in", func(t *testing.T) {
		for _, e := range fault.Exits() {
			if e.Class == fault.Accepted {
				continue
			}
			for _, op := range operations {
				if j := Judge(Evidence{Operation: op, Unsettled: e.Class}); j.Verdict == fault.Accepted {
					t.Errorf("%s: unsettled %s (%d) is accepted", op, e.Name, e.Class)
				}
				reply := &SubmitReading{Settled: true, Reading: e.Class}
				if j := Judge(Evidence{Operation: op, Reply: reply}); j.Verdict == fault.Accepted {
					t.Errorf("%s: a reply read as %s (%d) is accepted", op, e.Name, e.Class)
				}
			}
		}
		if j := Judge(Evidence{Reply: &SubmitReading{}}); j.Verdict == fault.Accepted {
			t.Error("a reply that was never read is accepted")
		}
	})
}

// TestEveryCheckIsNecessary takes one piece of the evidence away at a time.
func TestEveryCheckIsNecessary(t *testing.T) {
	for rule, spoil := range map[string]func(*Evidence){
		"aip_status":     func(ev *Evidence) { ev.Result.Status = aip.StatusFailed },
		"terminal":       func(ev *Evidence) { ev.Result.Output.Terminal = nil },
		"truncated":      func(ev *Evidence) { *ev.Result.Output.Truncated = true },
		"finish_reason":  func(ev *Evidence) { ev.Facts = read(goodChat[:finishAt]...) },
		"provider_error": func(ev *Evidence) { ev.Facts.Failed = true },
		"integrity":      func(ev *Evidence) { ev.Integrity.Holes = 1 },
		"required_tools": func(ev *Evidence) { ev.RequiredTools = []string{"read_file"} },
		"effect_check":   func(ev *Evidence) { ev.EffectChecks = []EffectCheck{{}} },
	} {
		t.Run(rule, func(t *testing.T) {
			ev := chat(goodChat...)
			spoil(&ev)
			j := Judge(ev)
			if j.Verdict == fault.Accepted {
				t.Errorf("accepted without %s", rule)
			}
			for _, c := range j.Checks.List() {
				if spoiled := c.Name == rule; spoiled != (c.Status == Fail || c.Status == Missing) {
					t.Errorf("%s is %s", c.Name, c.Status)
				}
			}
		})
	}
}

func TestChecksAreListedAndCounted(t *testing.T) {
	all := Checks{"1", "2", "3", "4", "5", "6", "7", "8"}
	names := []string{"aip_status", "terminal", "truncated", "finish_reason", "provider_error", "integrity", "required_tools", "effect_check"}
	for i, c := range all.List() {
		if c.Name != names[i] || c.Status != Status(rune('1'+i)) || all.Map()[c.Name] != string(c.Status) {
			t.Errorf("check %d is %+v", i, c)
		}
	}
	if len(all.List()) != len(names) || len(all.Map()) != len(names) {
		t.Errorf("%d checks are listed, %d mapped", len(all.List()), len(all.Map()))
	}
	if n := (Checks{Terminal: Missing, Integrity: Missing, EffectCheck: Fail, AIPStatus: Pass}).MissingCount(); n != 2 {
		t.Errorf("%d checks are counted as missing, want 2", n)
	}
}

// TestTheCodeTableIsTheOneThatIsPrinted: what help and docs show has a row
// for every reading that a code can have, the default last.
func TestTheCodeTableIsTheOneThatIsPrinted(t *testing.T) {
	rows := CodeTable()
	var got []Reading
	for _, r := range rows {
		if r.Codes == "" {
			t.Errorf("the row of %s names no codes", r.Reading)
		}
		got = append(got, r.Reading)
	}
	want := []Reading{fault.Partial, fault.Incomplete, fault.Auth, fault.NotFound, fault.Rejected, fault.Pending, fault.Unknown, fault.Failed}
	if !slices.Equal(got, want) {
		t.Errorf("the rows read %v, want %v", got, want)
	}
	if r := ReadCode(nil, CodeContext{}); r != fault.Failed {
		t.Errorf("no error at all is read as %s", r)
	}
}
