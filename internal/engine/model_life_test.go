package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aipctl/aipctl/internal/aiptest/faults"
	"github.com/aipctl/aipctl/internal/cursor"
	"github.com/aipctl/aipctl/internal/engine"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/record"
	"github.com/aipctl/aipctl/internal/state"
	"github.com/aipctl/aipctl/internal/transcript"
	"github.com/aipctl/aipctl/internal/verdict"
)

// life is one process of the client, from its start to its end or its death.
type life struct {
	w     *world
	n     int
	kind  string // call, events; observer and result read from the start
	plan  lifePlan
	from  string
	keep  bool // a journal is kept
	sound bool // without a planted bug: what it says is the truth
	way   *faults.Client

	ctx    context.Context
	end    context.CancelCauseFunc
	sawAt  *uint64 // last sequence written by the time it began, as the state file says
	sawCur string

	mu       sync.Mutex
	dead     bool // killed: whatever it still does leaves no trace
	counts   map[string]int
	stage    phase
	out      []delivery // written, in order
	staged   []delivery // of output that is written as one document
	last     *uint64    // last sequence shown
	gaps     []span
	refused  string // why stdout takes nothing more
	failing  bool   // the state file could not take a record
	kept     *state.Cursor
	pageFail bool // some page could not be read
	outcomes []*verdict.Outcome

	result *verdict.Outcome
	err    error
}

// delivery is one chunk as it was shown.
type delivery struct {
	seq    uint64
	text   string
	source string
}

// span is a run of sequences that was passed.
type span struct{ from, to uint64 }

func (w *world) newLife(kind string, lp lifePlan) *life {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := &life{w: w, n: len(w.lives), kind: kind, plan: lp, from: engine.FromSaved, keep: true, counts: map[string]int{}, stage: phaseBack}
	if kind == "call" {
		l.stage = phaseOpen
	}
	l.way = w.net.Client()
	w.lives = append(w.lives, l)
	return l
}

// observes reports whether the life only looks, and counts for nothing.
func (l *life) observes() bool { return l.kind == "observer" || l.kind == "result" }

func (l *life) phase() phase {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stage
}

var errTooLong = errors.New("the life did not end")

// run is the life: the command line that a person would have typed.
func (l *life) run() {
	w := l.w
	bounded, stop := withTimeout(errTooLong)
	defer stop()
	l.ctx, l.end = context.WithCancelCause(bounded)
	defer l.end(nil)
	w.mu.Lock()
	w.live = append(w.live, l)
	w.mu.Unlock()
	defer l.leave()
	view := w.ledger.view()
	known := view.Action(w.actionID)
	if l.keep {
		l.sawCur, l.sawAt, _ = cursor.Saved(view, w.binding())
	}
	w.note("life %d: %s begins after %s", l.n, l.kind, spell(l.sawAt))
	if l.plan.kill != nil && l.plan.kill.what == atTime {
		t := time.AfterFunc(l.plan.kill.after, l.strike)
		defer t.Stop()
	}
	rnd := rand.New(rand.NewPCG(w.seed, uint64(l.n)))
	var jitter sync.Mutex
	cfg := engine.Config{
		Net: w.connect(l.way), Sink: l, Now: time.Now, MessageID: w.messageID, Binding: w.binding(),
		Idle: modelIdle, MaxEventBytes: 8 << 20, CursorAtEnd: l.plan.atEnd, Document: l.plan.atEnd,
		Jitter: func() float64 {
			jitter.Lock()
			defer jitter.Unlock()
			return rnd.Float64()
		},
	}
	if l.keep {
		cfg.Journal = l
	}
	if w.bug != nil && !l.sound {
		cfg = w.bug.plant(cfg)
	}
	switch l.kind {
	case "call":
		l.result, l.err = engine.Call(l.ctx, cfg, w.callPlan())
	case "result":
		l.result, l.err = engine.Result(l.ctx, cfg, engine.ResultPlan{ActionID: w.actionID})
	default:
		p := engine.FollowPlan{ActionID: w.actionID, Chunks: true, Follow: true, From: l.from, Wait: l.plan.wait}
		if l.keep {
			p.Known, p.View = known, view
		}
		if oraclesOf.of(w.plan.scenario, w.plan.mode).verdict == fault.Pending.String() && p.Wait == nil {
			// A human may never come; whoever follows waits for as long as asked.
			wait := 20 * time.Minute
			p.Wait = &wait
		}
		l.result, l.err = engine.Events(l.ctx, cfg, p)
	}
	if context.Cause(l.ctx) == errTooLong {
		w.violate("life %d (%s) had not ended after %s", l.n, l.kind, lifeAtMost)
	}
	w.note("life %d: %s; err %v; killed %t", l.n, outcomeLine(l.result), l.err, l.killed())
	l.checkEnd()
}

func spell(n *uint64) string {
	if n == nil {
		return "nothing"
	}
	return strconv.FormatUint(*n, 10)
}

func (l *life) leave() {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	for i, o := range l.w.live {
		if o == l {
			l.w.live = append(l.w.live[:i], l.w.live[i+1:]...)
			return
		}
	}
}

func (l *life) killed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

// strike ends the life: at once and without a trace, or with a signal.
func (l *life) strike() {
	k := l.plan.kill
	if k == nil || l.killed() {
		return
	}
	if k.signal != 0 {
		l.w.hit(fSignal, l)
		l.end(fault.New(k.signal, "signal", "a signal was received"))
		return
	}
	l.w.hit(fKill, l)
	l.mu.Lock()
	l.dead = true
	l.mu.Unlock()
	l.way.Kill()
	l.end(errKilled)
}

var errKilled = errors.New("killed")

// step counts one thing that the life does, and is where it may be struck:
// before the thing took effect or after.
func (l *life) step(what string, effect func() error) error {
	if l.killed() {
		return fault.New(fault.BrokenPipe, "killed", "the process is no more")
	}
	l.mu.Lock()
	n := l.counts[what]
	l.counts[what]++
	l.mu.Unlock()
	k := l.plan.kill
	due := k != nil && k.what == what && k.n == n
	if due && k.before {
		l.strike()
		if l.killed() {
			return fault.New(fault.BrokenPipe, "killed", "the process is no more")
		}
	}
	err := effect()
	if due && !k.before {
		l.strike()
	}
	return err
}

// The sink.

// Identity implements engine.Sink.
func (l *life) Identity(record.Identity) error {
	return l.step(atSink, func() error { return nil })
}

// State implements engine.Sink; it also tells how far the run has come.
func (l *life) State(s record.State) error {
	l.mu.Lock()
	switch s.State {
	case record.StateSubmitted:
		l.stage = phaseRun
	case record.StateReplied:
		l.stage = phaseReplied
	case record.StateUncertain:
		l.stage = phaseUncertain
	case record.StateDraining:
		l.stage = phaseDrain
	case record.StateSettling:
		l.stage = phaseSettle
	}
	l.mu.Unlock()
	l.w.note("life %d: state %s %s %s", l.n, s.State, s.Action, s.Reason)
	return l.step(atSink, func() error { return nil })
}

// Event implements engine.Sink.
func (l *life) Event(record.Event) error { return l.step(atSink, func() error { return nil }) }

// Warning implements engine.Sink.
func (l *life) Warning(w record.Warning) error {
	l.w.note("life %d: warning %s: %s", l.n, w.Code, w.Message)
	return l.step(atSink, func() error { return nil })
}

// Gap implements engine.Sink.
func (l *life) Gap(g record.Gap) error {
	return l.step(atSink, func() error {
		l.w.note("life %d: gap %d-%d", l.n, g.From, g.To)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.gaps = append(l.gaps, span{g.From, g.To})
		return nil
	})
}

// Deliver implements engine.Sink: each sequence once, rising, and a step that
// leaves one out was told as a gap.
func (l *life) Deliver(d record.Delivery) error {
	return l.step(atSink, func() error {
		seq := d.Chunk.Sequence
		l.w.note("life %d: chunk %d from %s", l.n, seq, d.Chunk.Source)
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.refused != "" {
			l.violate("chunk %d was written after stdout had said that %s", seq, l.refused)
		}
		deliveries := l.counts["deliveries"]
		l.counts["deliveries"]++
		if !l.plan.atEnd && l.plan.stdout != 0 && deliveries == l.plan.stdoutAt {
			return l.refuse()
		}
		if d.Chunk.Source == record.SourceResult && l.w.plan.scenario.Operation == "operator" {
			return nil // its result stands beside its chunks and is none of them
		}
		l.contiguous(seq)
		l.last = &seq
		one := delivery{seq: seq, source: d.Chunk.Source, text: textOf(d.Ops)}
		if l.plan.atEnd {
			l.staged = append(l.staged, one)
		} else {
			l.out = append(l.out, one)
		}
		return nil
	})
}

// refuse is a stdout that takes nothing more; l.mu is held.
func (l *life) refuse() error {
	name := fStdoutFull
	l.refused = "it could not take everything"
	if l.plan.stdout == fault.BrokenPipe {
		l.refused, name = "its reader has gone", fStdoutGone
	}
	l.w.bite(name, l.stage, false)
	return fault.New(l.plan.stdout, "output.write", "%s", l.refused)
}

func (l *life) violate(format string, args ...any) {
	l.w.violate("life %d (%s): %s", l.n, l.kind, fmt.Sprintf(format, args...))
}

// contiguous checks a sequence against the one before it; l.mu is held.
func (l *life) contiguous(seq uint64) {
	next := uint64(0)
	if l.sawAt != nil && l.from == engine.FromSaved {
		next = *l.sawAt + 1
	}
	if l.last != nil {
		next = *l.last + 1
	}
	if seq < next {
		l.violate("chunk %d was shown after %s had been", seq, spell(l.last))
		return
	}
	if next == 0 && l.w.plan.absent(0) {
		return // a stream may begin above its first sequence; the result tells
	}
	for s := next; s < seq; s++ {
		if !covered(l.gaps, s) {
			l.violate("chunk %d was shown, and %d was left out without a word", seq, s)
			return
		}
	}
}

func covered(gaps []span, seq uint64) bool {
	for _, g := range gaps {
		if g.from <= seq && seq <= g.to {
			return true
		}
	}
	return false
}

func textOf(ops []transcript.Op) string {
	var b strings.Builder
	for _, op := range ops {
		if t, ok := op.(transcript.Text); ok && t.Item.Choice == 0 {
			b.WriteString(t.Text)
		}
	}
	return b.String()
}

// Outcome implements engine.Sink.
func (l *life) Outcome(o *verdict.Outcome) error {
	return l.step(atSink, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.outcomes = append(l.outcomes, o)
		if l.plan.atEnd {
			if l.plan.stdout != 0 {
				return l.refuse() // of the document, nothing can be used
			}
			l.out, l.staged = append(l.out, l.staged...), nil
		}
		return nil
	})
}
