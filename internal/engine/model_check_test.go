package engine_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/aiptest/faults"
	"github.com/aipctl/aipctl/internal/cursor"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/state"
	"github.com/aipctl/aipctl/internal/verdict"
)

// checkEnd looks at a life that is over: one outcome, and, where it ended by
// itself, a state file that says exactly what was written.
func (l *life) checkEnd() {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.dead && len(l.outcomes) > 1, !l.dead && l.err == nil && len(l.outcomes) != 1, !l.dead && l.err != nil && len(l.outcomes) != 0:
		l.violate("%d outcomes, with error %v", len(l.outcomes), l.err)
	case !l.dead && l.err == nil && l.outcomes[0] != l.result:
		l.violate("the outcome that was shown is not the one that was returned")
	}
	if l.dead || !l.keep || l.failing || len(l.out) == 0 {
		return
	}
	wrote := l.out[len(l.out)-1].seq
	_, saved, ok := cursor.Saved(l.w.ledger.view(), l.w.binding())
	if !ok || saved == nil || *saved < wrote {
		l.violate("it ended by itself after writing %d, and the state file says that %s was written: the next one repeats", wrote, spell(saved))
	}
}

// judge reads the world to its end and holds every life against it.
func (w *world) judge() {
	id := w.actionID
	executions, submits := w.executions(), w.net.Count(faults.Submit)
	if executions > 1 {
		w.violate("the action was executed %d times", executions)
	}
	if submits > 1 {
		w.violate("the intent was submitted %d times", submits)
	}
	intents := len(w.ledger.records(state.TypeIntent))
	if submits > intents {
		w.violate("%d submits for %d intents", submits, intents)
	}
	known := w.ledger.view().Action(id)
	if known == nil {
		return // nothing was ever recorded, and nothing sent
	}
	var final *life
	if known.NotSent == nil {
		final = w.newLife("events", lifePlan{})
		final.run()
	}
	truth := w.observe("observer", w.direct(), true)
	if truth.result == nil {
		w.violate("the undisturbed daemon gives no outcome: %v", truth.err)
		return
	}
	j := &judge{w: w, truth: truth, verdict: truth.result.Verdict, executions: executions}
	for _, l := range w.lives {
		if !l.observes() && !l.killed() {
			j.life(l, l == final)
		}
	}
	if known.NotSent == nil {
		j.text()
		j.observer()
	}
}

// judge holds what is true against what was said.
type judge struct {
	w          *world
	truth      *life
	verdict    string
	executions int
}

var notSentVerdicts = []string{fault.Unavailable.String(), fault.Auth.String(), fault.Rejected.String(), fault.NotFound.String()}

// allowed are the verdicts that a life may come to: the true one, or honestly
// none, and what the evidence that it may have seen adds.
func (j *judge) allowed() []string {
	p := j.w.plan
	out := []string{j.verdict}
	if j.verdict == fault.Unknown.String() {
		// Nothing is stored: the reply was the only copy of the outcome.
		out = append(out, oraclesOf.of(p.scenario, p.mode).verdict)
	}
	if j.w.forgot() && (p.has(fCancelled) || p.timeout != nil) {
		out = append(out, fault.Cancelled.String()) // said before the restart
	}
	if p.foreign != nil || p.above {
		out = append(out, fault.Conflict.String())
	}
	if j.holed() {
		out = append(out, fault.Incomplete.String())
	}
	return out
}

// holed reports whether the evidence has a hole that nothing fills: chunks on
// both sides of it, and a result that keeps no frames. With the frames goes
// whatever contradicted them.
func (j *judge) holed() bool {
	if j.w.plan.hole == nil || !j.frameless() {
		return false
	}
	below, above := false, false
	for _, d := range j.truth.out {
		below, above = below || d.seq < *j.w.plan.hole, above || d.seq > *j.w.plan.hole
	}
	return below && above
}

func (j *judge) life(l *life, final bool) {
	o := l.result
	if o == nil {
		if final {
			j.w.violate("the last come-back of a calm world gave no outcome: %v", l.err)
		}
		return
	}
	is := func(c fault.Class) bool { return o.Verdict == c.String() }
	allowed := j.allowed()
	if !final {
		allowed = append(allowed, fault.Pending.String(), fault.Unknown.String())
		if j.w.plan.holeGo != nil && j.frameless() {
			allowed = append(allowed, fault.Incomplete.String()) // while the hole was there
		}
		if is(fault.Incomplete) && o.Checks.AIPStatus == "missing" && o.State == aip.StateCompleted {
			allowed = append(allowed, o.Verdict) // it says itself that it could not read the result
		}
	}
	if j.verdict == fault.Conflict.String() && !final && (l.unstreamed() || j.w.plan.holeGo != nil) {
		allowed = append(allowed, fault.Accepted.String()) // the result alone has no conflict
	}
	sent := true
	if l.kind == "call" && slices.Contains(notSentVerdicts, o.Verdict) && j.executions == 0 {
		sent, allowed = false, append(allowed, o.Verdict)
	}
	if !slices.Contains(allowed, o.Verdict) {
		l.violate("the verdict is %s, and the truth %s (%s)", o.Verdict, j.verdict, o.Reason)
	}
	detached := l.kind == "call" && j.w.plan.detach && is(fault.Pending)
	switch o.ExitCode {
	case fault.HangUp.Code(), fault.Interrupt.Code(), fault.Terminate.Code(), fault.BrokenPipe.Code(), fault.Output.Code():
	case 0:
		if !is(fault.Accepted) && !detached {
			l.violate("exit 0 with the verdict %s", o.Verdict)
		}
	case fault.Unavailable.Code(), fault.Auth.Code(), fault.Rejected.Code(), fault.NotFound.Code(), fault.Usage.Code(), fault.State.Code():
		if l.kind == "call" && sent && j.executions > 0 && o.Verdict != oraclesOf.of(j.w.plan.scenario, j.w.plan.mode).verdict && o.Verdict != j.verdict {
			l.violate("exit %d says that nothing ran, and it ran", o.ExitCode)
		}
	default:
		if !slices.ContainsFunc(fault.Exits(), func(e fault.Exit) bool { return e.Class.Code() == o.ExitCode && e.Name == o.Verdict }) {
			l.violate("exit %d with the verdict %s", o.ExitCode, o.Verdict)
		}
	}
	if o.ExitCode == fault.Pending.Code() && aip.TerminalState(o.State) {
		l.violate("pending, though the state read is %s", o.State)
	}
	if final && o.ExitCode != 0 && j.verdict == fault.Accepted.String() && is(fault.Accepted) {
		l.violate("accepted with exit %d", o.ExitCode)
	}
}

// frameless reports whether nothing but chunks speaks for an action that may
// be accepted, or contradicted: its result keeps no frames.
func (j *judge) frameless() bool {
	if j.verdict != fault.Accepted.String() && j.verdict != fault.Conflict.String() {
		return false
	}
	return j.w.plan.eventless || j.w.plan.scenario.Operation == "operator"
}

// aggregate reports whether the result tells what frames there are.
func (j *judge) aggregate() bool {
	t := j.truth.result.Checks.Terminal
	return !j.w.plan.eventless && (t == verdict.Pass || t == verdict.Fail)
}

// unstreamed reports whether the stream could not be read in full, so that the
// result had to speak alone.
func (l *life) unstreamed() bool {
	return slices.ContainsFunc(l.result.Warnings, func(w verdict.Warning) bool { return w.Code == "page.unreadable" })
}

// text joins what all lives have written: nothing is lost, and nothing is
// other than what the daemon has.
func (j *judge) text() {
	w := j.w
	joined := map[uint64]delivery{}
	passed := map[uint64]*life{}
	for _, l := range w.lives {
		if l.observes() {
			continue
		}
		for _, d := range l.out {
			if _, ok := joined[d.seq]; !ok {
				joined[d.seq] = d
			}
		}
		for _, g := range l.gaps {
			for s := g.from; s <= g.to; s++ {
				passed[s] = l
			}
		}
	}
	highest := uint64(0)
	for s, d := range joined {
		highest = max(highest, s)
		if w.forgot() {
			// What was not read in time is gone; what was read is right.
			if want := oraclesOf.of(w.plan.scenario, w.plan.mode).text[s]; d.text != want && !w.mayDiffer(d) {
				w.violate("chunk %d was shown as %q, and was %q", s, d.text, want)
			}
		}
	}
	if w.forgot() {
		return
	}
	for _, d := range j.truth.out {
		got, ok := joined[d.seq]
		switch {
		case ok && (got.text == d.text || w.mayDiffer(got)):
		case ok:
			w.violate("chunk %d was shown as %q, and is %q", d.seq, got.text, d.text)
		case d.text == "":
		case passed[d.seq] == nil && w.plan.headless(d.seq) && !(j.aggregate() && w.settledFromStart()):
		case passed[d.seq] == nil && w.plan.absent(d.seq) && d.seq > highest && !j.aggregate():
			// The last of a stream, and no result tells that there is more.
		case passed[d.seq] == nil:
			w.violate("chunk %d (%q) was never shown", d.seq, d.text)
		case !w.plan.absent(d.seq) && !passed[d.seq].pageFail:
			w.violate("chunk %d was passed with a gap, and every read of the start had it", d.seq)
		}
	}
	if n := len(j.truth.out); n > 0 && highest > j.truth.out[n-1].seq {
		w.violate("chunk %d was shown, and the daemon has none above %d", highest, j.truth.out[n-1].seq)
	}
}

// settledFromStart reports whether some life has seen the whole stream and the
// result, and lived to tell what was missing.
func (w *world) settledFromStart() bool {
	return slices.ContainsFunc(w.lives, func(l *life) bool {
		return !l.observes() && l.sawAt == nil && !l.killed() && l.refused == "" && len(l.out) > 0 && l.result != nil && l.result.AIPStatus != "" && l.result.ExitCode < 100
	})
}

// mayDiffer reports whether a chunk may have been shown with other words than
// the stream's own: the result has others in one scenario, and the content that
// nobody wrote may be the one that was seen first, and so the one that is kept.
func (w *world) mayDiffer(d delivery) bool {
	p := w.plan
	if p.scenario.Name == "chat-conflict" && d.source == "aggregate" {
		return true
	}
	return p.foreign != nil && *p.foreign == d.seq && (p.foreign1st || p.has(fShuffle) || p.has(fRepeat))
}

// observer reads the whole stream through what the daemon says wrongly: here
// the evidence is complete, and so the verdict is exact.
func (j *judge) observer() {
	w := j.w
	before := map[string]int{}
	for _, name := range []string{fConflict, fConflictLast, fAboveTerminal} {
		before[name] = w.bitesOf(name)
	}
	o := w.observe("observer", w.daemon, false)
	if o.result == nil {
		w.violate("the observer has no outcome: %v", o.err)
		return
	}
	want := j.verdict
	switch bit := func(name string) bool { return w.bitesOf(name) > before[name] }; {
	case bit(fConflict), bit(fConflictLast), bit(fAboveTerminal):
		want = fault.Conflict.String()
	case j.holed():
		want = fault.Incomplete.String()
	}
	if o.result.Verdict != want {
		w.violate("whoever reads it all must call it %s, not %s (%s)", want, o.result.Verdict, o.result.Reason)
	}
	if j.truth.result.AIPStatus == "" {
		return // there is no result to read
	}
	switch r := w.observe("result", w.daemon, false); {
	case r.result == nil:
		w.violate("the result has no outcome: %v", r.err)
	case r.result.Verdict != want:
		w.violate("whoever reads the result must call it %s, not %s (%s)", want, r.result.Verdict, r.result.Reason)
	}
}

// report is what a failed seed says.
func (w *world) report() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %s, mode %s, speed %v, faults %q, lives %d\n", w.seed, w.plan.scenario.Name, w.plan.mode, w.plan.speed, w.plan.names, len(w.plan.lives))
	for _, v := range w.broken {
		fmt.Fprintf(&b, "  broken: %s\n", v)
	}
	for _, line := range w.trace {
		fmt.Fprintf(&b, "    %s\n", line)
	}
	fmt.Fprintf(&b, "  again: go test ./internal/engine -run '^TestModel$' -model.start=%d -model.seeds=1 -count=20", w.seed)
	return b.String()
}
