package engine_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/aipctl/aipctl/internal/aiptest/faults"
	"github.com/aipctl/aipctl/internal/devserver"
	"github.com/aipctl/aipctl/internal/fault"
)

// The faults, by the names under which they are counted.
const (
	fFollowEnd       = "follow ends cleanly"
	fFollowCut       = "follow cut"
	fFollowReset     = "follow reset"
	fFollowHalfOpen  = "follow half-open"
	fFollowStall     = "follow stalls, keep-alives"
	fHeaderHeld      = "header held"
	fPostRefused     = "post: no connection"
	fPostDuring      = "post reset in its body"
	fPostAfter       = "post reset after its body"
	fPostLost        = "post reply lost"
	fPostCut         = "post reply cut"
	fReadBroken      = "read broken"
	fBothLost        = "both lost"
	fOutage          = "503 for a while"
	fRestart         = "daemon restart, shorter log"
	fAmnesia         = "daemon restart, nothing kept"
	fCursorRefused   = "cursor refused"
	fEmptyStream     = "resume answered empty"
	fRepeat          = "duplicates"
	fShuffle         = "disorder in a page"
	fConflict        = "conflict, true content first"
	fConflictLast    = "conflict, true content last"
	fAboveTerminal   = "chunk above the terminal one"
	fHoleFilled      = "hole that fills"
	fHoleKept        = "hole, frame in the result"
	fHoleForever     = "hole, no frame anywhere"
	fTerminalFirst   = "terminal mark first"
	fLateResult      = "result late"
	fBigFrame        = "frame of 3 MiB"
	fHugeFrame       = "frame of 12 MiB"
	fHTML            = "HTML"
	fGzip            = "gzip"
	fOldHTTP         = "HTTP/1.0"
	fRedirect        = "302"
	fTokenRefused    = "401, same token"
	fTokenChanged    = "401, changed token file"
	fSlow            = "slow bytes"
	fCancelled       = "cancelled meanwhile"
	fSkewAhead       = "daemon's clock ahead"
	fSkewBehind      = "daemon's clock behind"
	fKill            = "client killed"
	fSignal          = "client signalled"
	fTwoFollowers    = "two followers at once"
	fStdoutFull      = "stdout full"
	fStdoutGone      = "stdout gone"
	fStateFull       = "state file full"
	fSubmitOnInstead = "post answered by a gateway"
)

// weighted lists every fault that a schedule draws, with how often.
var weighted = []struct {
	name   string
	weight float64
}{
	{fFollowEnd, 1}, {fFollowCut, 1}, {fFollowReset, 1}, {fFollowHalfOpen, 1}, {fFollowStall, 1}, {fHeaderHeld, 1},
	{fPostRefused, .6}, {fPostDuring, .6}, {fPostAfter, 1}, {fPostLost, 1}, {fPostCut, 1}, {fReadBroken, 1},
	{fBothLost, 1}, {fOutage, 1.5}, {fRestart, 1}, {fAmnesia, .5}, {fCursorRefused, 1}, {fEmptyStream, 1},
	{fRepeat, 1}, {fShuffle, 1}, {fConflict, .7}, {fConflictLast, .5}, {fAboveTerminal, .7}, {fHoleFilled, 2}, {fHoleKept, .7}, {fHoleForever, .7},
	{fTerminalFirst, 1.5}, {fLateResult, 1}, {fBigFrame, .35}, {fHugeFrame, .3},
	{fHTML, 1}, {fGzip, .7}, {fOldHTTP, .7}, {fRedirect, .7}, {fTokenRefused, 1}, {fTokenChanged, 1}, {fSlow, .8},
	{fCancelled, 1}, {fSkewAhead, .5}, {fSkewBehind, .5}, {fStdoutFull, 1.5}, {fStdoutGone, 1.5}, {fStateFull, .7}, {fSubmitOnInstead, .7},
}

// allFaults are the rows of the table of hits.
func allFaults() []string {
	var names []string
	for _, f := range weighted {
		names = append(names, f.name)
	}
	return append(names, fKill, fSignal, fTwoFollowers)
}

// phase says how far a run had come when something hit it.
type phase int

const (
	phaseOpen      phase = iota // before the post
	phaseRun                    // the submit is open
	phaseReplied                // it was answered
	phaseUncertain              // its answer is lost
	phaseDrain
	phaseSettle
	phaseBack // a come-back, before it drains
	phases
)

func (p phase) String() string {
	return [...]string{"open", "run", "replied", "uncertain", "drain", "settle", "back"}[p]
}

// The places where a life may be struck.
const (
	atSink    = "sink"
	atJournal = "journal"
	atRequest = "request"
	atTime    = "time"
)

// kill is the end of a life that it did not choose.
type kill struct {
	what   string
	n      int  // which step of that kind
	before bool // before the step took effect, or after
	after  time.Duration
	signal fault.Class // 0 is SIGKILL
}

// lifePlan is what happens to one life.
type lifePlan struct {
	kill      *kill
	pair      bool // another one follows beside it
	wait      *time.Duration
	atEnd     bool // output is one document
	stdout    fault.Class
	stdoutAt  int
	stateFull int // from which append on; 0 never
}

// strikeOn is one exchange that breaks.
type strikeOn struct {
	name   string
	route  faults.Route
	nth    int
	cursor bool // only an exchange that has a cursor counts
	brk    faults.Break
	seen   int
}

// plan is the schedule of one seed.
type plan struct {
	scenario          devserver.Scenario
	mode              string
	detach, explicit  bool
	cancelOnInterrupt bool
	speed             float64
	wait              *time.Duration
	timeout           *uint64
	skew              time.Duration
	late              time.Duration
	names             []string // of the faults that were drawn
	lives             []lifePlan

	strikes   []*strikeOn
	timed     []func(*world)
	tampers   []func(*world)
	lies      []func(*world) // tampers that add what is not so, behind all others
	hole      *uint64        // the sequence that is withheld for ever
	holeGo    *uint64        // the one that is withheld for a while
	eventless bool           // the result keeps no frames
	foreign   *uint64        // the sequence that has foreign words beside its own
	foreign1st,
	above bool
}

func (p *plan) has(name string) bool { return slices.Contains(p.names, name) }

// absent reports whether the stream never brings a sequence, or not yet.
func (p *plan) absent(seq uint64) bool {
	return p.hole != nil && *p.hole == seq || p.holeGo != nil && *p.holeGo == seq
}

// headless reports whether a sequence is missing with all that lie below it.
func (p *plan) headless(seq uint64) bool {
	for s := range seq {
		if !p.absent(s) {
			return false
		}
	}
	return p.absent(seq)
}

// sometime is a moment of a run, early ones as likely as late ones.
func sometime(rnd *rand.Rand) time.Duration {
	return time.Duration(math.Exp(rnd.Float64()*math.Log(40_000)) * float64(time.Millisecond))
}

func pick[T any](rnd *rand.Rand, from ...T) T { return from[rnd.IntN(len(from))] }

// newPlan draws the schedule of a seed. Everything random comes from here or
// from generators that the seed makes.
func newPlan(seed uint64, or oracles) plan {
	rnd := rand.New(rand.NewPCG(seed, 0x5eed))
	p := plan{scenario: pick(rnd, or.scenarios...), speed: pick(rnd, 0.0, 0.3, 1, 1, 3, 10)}
	p.mode = pick(rnd, modesOf(p.scenario)...)
	p.detach = p.mode == "async" && rnd.IntN(3) == 0
	p.explicit = rnd.IntN(5) == 0
	p.cancelOnInterrupt = rnd.IntN(8) == 0
	if rnd.IntN(5) == 0 {
		d := sometime(rnd)
		p.wait = &d
	}
	if rnd.IntN(12) == 0 {
		ms := uint64(max(sometime(rnd)/time.Millisecond, 1))
		p.timeout = &ms
	}
	p.drawLives(rnd)
	total := 0.0
	for _, f := range weighted {
		total += f.weight
	}
	for range pick(rnd, 0, 1, 1, 1, 2, 2, 2, 3, 3, 4, 6) {
		x := rnd.Float64() * total
		for _, f := range weighted {
			if x -= f.weight; x < 0 {
				if !p.has(f.name) {
					p.names = append(p.names, f.name)
					p.draw(f.name, rnd, or.of(p.scenario, p.mode))
				}
				break
			}
		}
	}
	return p
}

func (p *plan) drawLives(rnd *rand.Rand) {
	for i := range 1 + pick(rnd, 0, 0, 1, 1, 2, 3) {
		lp := lifePlan{atEnd: rnd.IntN(10) == 0}
		if i > 0 {
			lp.pair = rnd.IntN(8) == 0
			if rnd.IntN(3) == 0 {
				d := sometime(rnd)
				lp.wait = &d
			}
		}
		if rnd.IntN(10) < 6 {
			k := &kill{what: pick(rnd, atSink, atSink, atJournal, atRequest, atTime), n: rnd.IntN(30), before: rnd.IntN(2) == 0, after: sometime(rnd)}
			if k.what != atSink {
				k.n /= 4
			}
			if rnd.IntN(3) == 0 {
				k.signal = pick(rnd, fault.Interrupt, fault.Terminate, fault.HangUp)
			}
			lp.kill = k
		}
		p.lives = append(p.lives, lp)
	}
}

// draw adds one fault to the schedule.
func (p *plan) draw(name string, rnd *rand.Rand, o oracle) {
	read := func() faults.Route {
		return pick(rnd, faults.Page, faults.Page, faults.Status, faults.Result, faults.Result)
	}
	somewhere := func() faults.Route {
		return pick(rnd, faults.Follow, faults.Follow, faults.Page, faults.Status, faults.Result)
	}
	text := func() *uint64 {
		if len(o.textSeqs) == 0 {
			return nil
		}
		s := pick(rnd, o.textSeqs...)
		return &s
	}
	strike := func(route faults.Route, b faults.Break) *strikeOn {
		s := &strikeOn{name: name, route: route, nth: pick(rnd, 0, 0, 0, 1, 2), brk: b}
		if route == faults.Submit {
			s.nth = 0
		}
		p.strikes = append(p.strikes, s)
		return s
	}
	// A body breaks at a block, or anywhere inside one.
	inside := func(kind faults.Kind) faults.Break {
		if rnd.IntN(3) == 0 {
			return faults.Break{Kind: kind, Bytes: true, After: rnd.IntN(6000)}
		}
		return faults.Break{Kind: kind, After: rnd.IntN(14)}
	}
	switch name {
	case fFollowEnd:
		strike(faults.Follow, inside(faults.EndBody))
	case fFollowCut:
		strike(faults.Follow, inside(faults.CutBody))
	case fFollowReset:
		strike(faults.Follow, inside(faults.ResetBody))
	case fFollowHalfOpen:
		strike(faults.Follow, inside(faults.HalfOpen))
	case fFollowStall:
		b := inside(faults.Stall)
		b.For, b.Bytes = time.Duration(1+rnd.IntN(200))*time.Second, false
		strike(faults.Follow, b)
	case fHeaderHeld:
		s := strike(pick(rnd, somewhere(), somewhere(), faults.Submit), faults.Break{Kind: faults.HoldHeader})
		if s.route == faults.Submit && p.wait == nil {
			// Nothing but --wait bounds an open submit.
			d := 10 * time.Minute
			p.wait = &d
		}
	case fPostRefused:
		strike(faults.Submit, faults.Break{Kind: faults.Refuse})
	case fPostDuring:
		strike(faults.Submit, faults.Break{Kind: faults.ResetDuring, After: rnd.IntN(300)})
	case fPostAfter:
		strike(faults.Submit, faults.Break{Kind: faults.ResetAfter})
	case fPostLost:
		strike(faults.Submit, faults.Break{Kind: faults.LoseReply})
	case fPostCut:
		strike(faults.Submit, faults.Break{Kind: pick(rnd, faults.EndBody, faults.CutBody, faults.ResetBody, faults.HalfOpen), After: rnd.IntN(3000)})
	case fReadBroken:
		strike(read(), faults.Break{Kind: pick(rnd, faults.Refuse, faults.ResetAfter, faults.LoseReply, faults.EndBody, faults.CutBody, faults.ResetBody, faults.HalfOpen), After: rnd.IntN(400)})
	case fCursorRefused:
		s := strike(pick(rnd, faults.Follow, faults.Page), faults.Break{Kind: faults.Instead, Handler: faults.RefuseCursor(pick(rnd, "query.invalid_cursor", "stream.cursor_expired"))})
		s.cursor, s.nth = true, pick(rnd, 0, 0, 1)
	case fEmptyStream:
		s := strike(faults.Follow, faults.Break{Kind: faults.Instead, Handler: faults.EmptyStream()})
		s.cursor = rnd.IntN(3) > 0
	case fHTML:
		strike(somewhere(), faults.Break{Kind: faults.Instead, Handler: faults.HTML(pick(rnd, 200, 403, 502))})
	case fRedirect:
		strike(somewhere(), faults.Break{Kind: faults.Instead, Handler: faults.Redirect()})
	case fSubmitOnInstead:
		strike(faults.Submit, faults.Break{Kind: faults.Instead, Handler: pick(rnd, faults.HTML(200), faults.HTML(502), faults.HTML(404), faults.Redirect(), faults.Unavailable(0), faults.Unavailable(5*time.Second))})
	case fGzip:
		route := pick(rnd, somewhere(), faults.Submit)
		p.timed = append(p.timed, func(w *world) {
			w.plan.strikes = append(w.plan.strikes, &strikeOn{name: name, route: route, nth: 0, brk: faults.Break{Kind: faults.Instead, Handler: faults.Gzip(w.daemon)}})
		})
	case fOldHTTP:
		strike(pick(rnd, somewhere(), faults.Submit), faults.Break{Kind: faults.Old})
	case fSlow:
		// Slow, and not for ever: nothing bounds a body that still comes.
		b := faults.Break{Kind: faults.Slow, Step: 1 + rnd.IntN(50), Every: time.Millisecond}
		if rnd.IntN(2) == 0 {
			b.Step, b.Every = 400+rnd.IntN(900), time.Second
		}
		strike(pick(rnd, somewhere(), faults.Submit), b)
	default:
		p.drawLasting(name, rnd, text)
	}
}

// drawLasting adds what is not one exchange: an hour, a daemon, a person.
func (p *plan) drawLasting(name string, rnd *rand.Rand, text func() *uint64) {
	when, long := sometime(rnd), sometime(rnd)
	hitting := func(w *world) func() { return func() { w.hit(name, nil) } }
	tamper := func(f func(*world, *rand.Rand) func(*faults.EventPage)) {
		own := rand.New(rand.NewPCG(rnd.Uint64(), 1))
		p.tampers = append(p.tampers, func(w *world) { w.daemon.Pages = append(w.daemon.Pages, f(w, own)) })
	}
	lie := func(f func(*world) func(*faults.EventPage)) {
		p.lies = append(p.lies, func(w *world) { w.daemon.Pages = append(w.daemon.Pages, f(w)) })
	}
	life := &p.lives[rnd.IntN(len(p.lives))]
	switch name {
	case fBothLost:
		p.timed = append(p.timed, func(w *world) { w.at(when, func() { w.darken(name, long) }) })
	case fOutage:
		midway := rnd.IntN(2) == 0
		p.timed = append(p.timed, func(w *world) { w.at(when, func() { w.goDown(long, midway) }) })
	case fRestart:
		p.timed = append(p.timed, func(w *world) {
			w.daemon.ShiftLog(1_000_000)
			w.at(when, func() {
				w.daemon.RestartLog()
				w.net.BreakAll(nil)
				w.hit(name, nil)
			})
		})
	case fAmnesia:
		p.timed = append(p.timed, func(w *world) { w.at(when, w.forget) })
	case fTokenRefused, fTokenChanged:
		drop := rnd.IntN(2) == 0
		p.timed = append(p.timed, func(w *world) { w.at(when, func() { w.changeToken(name == fTokenChanged, long, drop) }) })
	case fCancelled:
		p.timed = append(p.timed, func(w *world) { w.at(when, w.cancel) })
	case fSkewAhead:
		p.skew = pick(rnd, 10*time.Second, 299*time.Second, 302*time.Second, time.Hour)
	case fSkewBehind:
		p.skew = -pick(rnd, 10*time.Second, 29*time.Second, 32*time.Second, time.Hour)
	case fLateResult:
		p.late = time.Duration(1+rnd.IntN(12)) * time.Second
	case fStdoutFull:
		life.stdout, life.stdoutAt = fault.Output, rnd.IntN(12)
	case fStdoutGone:
		life.stdout, life.stdoutAt = fault.BrokenPipe, rnd.IntN(12)
	case fStateFull:
		life.stateFull = 1 + rnd.IntN(4)
	case fRepeat:
		tamper(func(w *world, own *rand.Rand) func(*faults.EventPage) { return faults.Repeat(own, hitting(w)) })
	case fShuffle:
		tamper(func(w *world, own *rand.Rand) func(*faults.EventPage) { return faults.Shuffle(own, hitting(w)) })
	case fAboveTerminal:
		p.above = true
		lie(func(w *world) func(*faults.EventPage) { return faults.AboveTerminal(hitting(w)) })
	case fConflict, fConflictLast:
		seq := text()
		if seq == nil || p.foreign != nil || p.hole != nil {
			return
		}
		p.foreign, p.foreign1st = seq, name == fConflictLast
		lie(func(w *world) func(*faults.EventPage) { return faults.Contradict(*seq, name == fConflict, hitting(w)) })
	case fHoleFilled:
		seq := text()
		if seq == nil || p.foreign != nil {
			return
		}
		p.holeGo = seq
		tamper(func(w *world, _ *rand.Rand) func(*faults.EventPage) {
			return faults.Withhold(*seq, func() bool { return time.Since(w.started) < long && !w.isCalm() }, hitting(w))
		})
	case fHoleKept, fHoleForever:
		seq := text()
		if seq == nil || p.hole != nil || p.foreign != nil {
			return
		}
		p.hole = seq
		tamper(func(w *world, _ *rand.Rand) func(*faults.EventPage) {
			return faults.Withhold(*seq, func() bool { return true }, hitting(w))
		})
		if name == fHoleForever {
			p.eventless = true
			p.tampers = append(p.tampers, func(w *world) {
				w.daemon.Output = func(out map[string]json.RawMessage) { delete(out, "events") }
			})
		}
	case fTerminalFirst:
		nth := rnd.IntN(12)
		tamper(func(w *world, _ *rand.Rand) func(*faults.EventPage) { return faults.TerminalFirst(nth, hitting(w)) })
	case fBigFrame, fHugeFrame:
		seq, size := uint64(rnd.IntN(8)), 3<<20
		if name == fHugeFrame {
			size = 12 << 20
		}
		tamper(func(w *world, _ *rand.Rand) func(*faults.EventPage) { return faults.Inflate(seq, size, hitting(w)) })
	}
}
