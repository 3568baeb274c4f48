package engine_test

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aipctl/aipctl/internal/aiptest/faults"
	"github.com/aipctl/aipctl/internal/fault"
)

// TestRulesOfDelivery plays the schedules by which the model found a client
// wrong, one for each rule. The invariants of the model hold in all of them;
// lives says what the lives must come to, the last come-back included, and "-"
// stands for one that was killed.
func TestRulesOfDelivery(t *testing.T) {
	learn(t)
	seconds := func(n float64) *time.Duration {
		d := time.Duration(n * float64(time.Second))
		return &d
	}
	killed := func(after float64) lifePlan { return lifePlan{kill: &kill{what: atTime, after: *seconds(after)}} }
	tamper := func(f func(*faults.EventPage)) func(*world) {
		return func(w *world) { w.daemon.Pages = append(w.daemon.Pages, f) }
	}
	always := func() bool { return true }
	seq := func(n uint64) *uint64 { return &n }
	tests := []struct {
		rule     string
		scenario string
		plan     plan
		lives    []string
	}{
		{
			"a signal moves no cursor past a document that is not written yet", "chat-slow",
			plan{speed: 1, lives: []lifePlan{{atEnd: true, kill: &kill{what: atTime, after: *seconds(5), signal: fault.Interrupt}}}},
			[]string{"pending", "accepted"},
		},
		{
			"once stdout has failed, no cursor passes what it did not take", "chat-stop",
			plan{lives: []lifePlan{{stdout: fault.Output, stdoutAt: 3}}},
			[]string{"accepted", "accepted"},
		},
		{
			"what was written before the first cursor is not written again", "chat-stop",
			plan{
				strikes: []*strikeOn{{name: fFollowCut, route: faults.Follow, brk: faults.Break{Kind: faults.CutBody, After: 12}}},
				lives:   []lifePlan{{kill: &kill{what: atTime, after: 600 * time.Millisecond, signal: fault.Terminate}}},
			},
			[]string{"pending", "accepted"},
		},
		{
			"a failure whose code was not read is not called failed", "chat-truncated-midway",
			plan{
				mode:    "async",
				strikes: []*strikeOn{{name: fRedirect, route: faults.Result, brk: faults.Break{Kind: faults.Instead, Handler: faults.Redirect()}}},
				lives:   make([]lifePlan, 1),
			},
			[]string{"unknown", "partial"},
		},
		{
			"an action that is found ended when the wait runs out is settled", "responses-incomplete",
			plan{speed: 1, lives: []lifePlan{killed(.5), {wait: seconds(1.443)}}},
			[]string{"-", "partial", "partial"},
		},
		{
			"a come-back is accepted only for chunks that were looked at", "chat-conflict",
			plan{lives: []lifePlan{{kill: &kill{what: atRequest, n: 2, before: true}}}}, // the first page of the drain
			[]string{"-", "conflict"},
		},
		{
			"an answer that was never a stream is written once", "chat-sync-ok",
			plan{mode: "sync", lives: make([]lifePlan, 2)},
			[]string{"accepted", "accepted", "accepted"},
		},
		{
			"a hole in an operator's chunks is incomplete, from a call and from a come-back", "operator-complete",
			plan{hole: seq(2), tampers: []func(*world){tamper(faults.Withhold(2, always, nil))}, lives: make([]lifePlan, 1)},
			[]string{"incomplete", "incomplete"},
		},
		{
			"an operator's result stands for none of its chunks", "operator-complete",
			plan{
				strikes: []*strikeOn{
					{name: fHeaderHeld, route: faults.Follow, brk: faults.Break{Kind: faults.HoldHeader}},
					{name: fRedirect, route: faults.Page, brk: faults.Break{Kind: faults.Instead, Handler: faults.Redirect()}},
				},
				lives: make([]lifePlan, 1),
			},
			[]string{"accepted", "accepted"},
		},
		{
			"a head that only the result shows is told as a gap", "run-complete",
			plan{hole: seq(0), tampers: []func(*world){tamper(faults.Withhold(0, always, nil))}, lives: make([]lifePlan, 1)},
			[]string{"accepted", "accepted"},
		},
		{
			"a hole in the stream is filled for the verdict by the result, and told for the text", "chat-stop",
			plan{hole: seq(3), tampers: []func(*world){tamper(faults.Withhold(3, always, nil))}, lives: make([]lifePlan, 1)},
			[]string{"accepted", "accepted"},
		},
		{
			"a hole that nothing fills is incomplete, from a call and from a come-back", "chat-stop",
			plan{
				hole: seq(3), eventless: true,
				tampers: []func(*world){
					tamper(faults.Withhold(3, always, nil)),
					func(w *world) { w.daemon.Output = func(out map[string]json.RawMessage) { delete(out, "events") } },
				},
				lives: make([]lifePlan, 1),
			},
			[]string{"incomplete", "incomplete"},
		},
		{
			"a failure is read by its last named frame, also where only the chunks have it", "responses-incomplete",
			plan{
				eventless: true,
				tampers:   []func(*world){func(w *world) { w.daemon.Output = func(out map[string]json.RawMessage) { delete(out, "events") } }},
				lives:     make([]lifePlan, 1),
			},
			[]string{"partial", "partial"},
		},
		{
			"our own bound on an event does not end a come-back", "chat-length",
			plan{speed: 1, tampers: []func(*world){tamper(faults.Inflate(4, 12<<20, nil))}, lives: []lifePlan{killed(.6)}},
			[]string{"-", "partial"},
		},
		{
			"the terminal mark does not end the reading", "chat-cancelled",
			plan{tampers: []func(*world){tamper(faults.TerminalFirst(0, nil))}, lives: make([]lifePlan, 1)},
			[]string{"cancelled", "cancelled"},
		},
		{
			"a lost reply is read for, and never posted again", "chat-stop",
			plan{
				strikes: []*strikeOn{{name: fPostLost, route: faults.Submit, brk: faults.Break{Kind: faults.LoseReply}}},
				lives:   make([]lifePlan, 1),
			},
			[]string{"accepted", "accepted"},
		},
		{
			"a 503 for the submit is uncertain, and never posted again", "chat-stop",
			plan{timed: []func(*world){func(w *world) { w.at(100*time.Millisecond, func() { w.goDown(3*time.Second, true) }) }}, lives: make([]lifePlan, 1), speed: 1},
			[]string{"accepted", "accepted"},
		},
		{
			"a daemon whose clock is an hour ahead refuses, and nothing ran", "chat-stop",
			plan{skew: time.Hour, lives: make([]lifePlan, 1)},
			[]string{"rejected"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			scratch := filepath.Join(t.TempDir(), "state.jsonl")
			p := tt.plan
			for _, sc := range oraclesOf.scenarios {
				if sc.Name == tt.scenario {
					p.scenario = sc
				}
			}
			if p.scenario.Name == "" {
				t.Fatalf("there is no scenario %s", tt.scenario)
			}
			if p.mode == "" {
				p.mode = p.scenario.Mode
			}
			var w *world
			synctest.Test(t, func(*testing.T) {
				w = newWorld(0, p, scratch, nil)
				w.play()
			})
			var got []string
			for _, l := range w.lives {
				switch {
				case l.observes():
				case l.killed():
					got = append(got, "-")
				case l.result == nil:
					got = append(got, "no outcome")
				default:
					got = append(got, l.result.Verdict)
				}
			}
			if !slices.Equal(got, tt.lives) {
				t.Errorf("the lives came to %q, want %q", got, tt.lives)
			}
			if len(w.broken) > 0 || t.Failed() {
				t.Error(w.report())
			}
		})
	}
}
