package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/aiptest/faults"
	"github.com/aipctl/aipctl/internal/client"
	"github.com/aipctl/aipctl/internal/contract"
	"github.com/aipctl/aipctl/internal/cursor"
	"github.com/aipctl/aipctl/internal/devserver"
	"github.com/aipctl/aipctl/internal/engine"
	"github.com/aipctl/aipctl/internal/state"
	"github.com/aipctl/aipctl/internal/verdict"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	modelURL   = "http://127.0.0.1:8700"
	modelIdle  = 45 * time.Second
	lifeAtMost = 2 * time.Hour // virtual: whatever has not ended by then never will
)

// world is everything of one seed: a daemon, the ways to it, what is kept on
// disk, and what is remembered for the judgement at the end.
type world struct {
	seed     uint64
	plan     plan
	rnd      *rand.Rand
	servers  []*devserver.Server // the last one runs; it knows nothing of those before
	daemon   *faults.Daemon
	net      *faults.Network
	ledger   *ledger
	actionID string
	bug      *bug // a planted bug; nil for none
	started  time.Time

	mu       sync.Mutex
	calm     bool   // no further trouble on the way
	accepted string // the token that the gateway lets through
	file     string // the token in the token file
	outage   bool
	dark     bool // no connection is obtained
	lateFrom time.Time
	live     []*life
	lives    []*life
	messages int
	bitten   map[hitKey]bool // by lives, for the table
	bites    map[string]int
	broken   []string // violations
	trace    []string
}

func newWorld(seed uint64, p plan, scratch string, b *bug) *world {
	w := &world{
		seed: seed, plan: p, bug: b, bitten: map[hitKey]bool{}, bites: map[string]int{}, actionID: fmt.Sprintf("act_model_%d", seed), started: time.Now(),
		rnd: rand.New(rand.NewPCG(seed, 0xfa017)), accepted: "first", file: "first",
	}
	w.ledger = &ledger{path: scratch}
	w.boot()
	w.daemon = &faults.Daemon{Next: http.HandlerFunc(w.serve), Before: w.gate}
	w.net = &faults.Network{Handler: w.daemon, HeaderTimeout: modelIdle, Decide: w.decide}
	w.arm()
	return w
}

// boot starts a daemon with an empty memory.
func (w *world) boot() {
	s := devserver.New(devserver.Options{Speed: w.plan.speed, ClockSkew: w.plan.skew, Hooks: devserver.Hooks{Request: w.arrived}})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.servers = append(w.servers, s)
}

// serve is the daemon that runs.
func (w *world) serve(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	s := w.servers[len(w.servers)-1]
	w.mu.Unlock()
	s.Handler().ServeHTTP(rw, r)
}

// forget is a restart of a daemon that keeps everything in memory: the action
// dies with it, and nobody will ever tell how far it had come.
func (w *world) forget() {
	w.mu.Lock()
	old := w.servers[len(w.servers)-1]
	w.mu.Unlock()
	w.boot()
	w.net.BreakAll(nil)
	w.hit(fAmnesia, nil)
	old.Close()
}

// close ends the daemons.
func (w *world) close() {
	for _, s := range w.servers {
		s.Close()
	}
}

// executions is how often the action was started.
func (w *world) executions() int {
	n := 0
	for _, s := range w.servers {
		n += s.Executions(w.actionID)
	}
	return n
}

// forgot reports whether the daemon has lost its memory.
func (w *world) forgot() bool { return len(w.servers) > 1 }

// violate notes a broken invariant.
func (w *world) violate(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken = append(w.broken, fmt.Sprintf(format, args...))
}

// note keeps a line of what happened, for the report of a failed seed.
func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.trace) < 400 {
		w.trace = append(w.trace, fmt.Sprintf("%9s  ", time.Since(w.started).Round(time.Millisecond))+fmt.Sprintf(format, args...))
	}
}

// hit counts a fault that bit, in the phase that the life it met was in.
func (w *world) hit(name string, l *life) {
	w.mu.Lock()
	if l == nil && len(w.live) > 0 {
		l = w.live[len(w.live)-1]
	}
	w.mu.Unlock()
	phase := phaseBack
	if l != nil {
		phase = l.phase()
	}
	w.bite(name, phase, l != nil && l.observes())
}

func (w *world) bite(name string, p phase, observed bool) {
	w.mu.Lock()
	w.bites[name]++
	if !observed {
		w.bitten[hitKey{name, p}] = true
	}
	w.mu.Unlock()
	w.note("fault: %s (%s)", name, p)
}

// bitesOf is how often a fault has bitten, observers included.
func (w *world) bitesOf(name string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bites[name]
}

func (w *world) isCalm() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calm
}

// calmDown ends all trouble on the way. What the daemon says stays as it is.
func (w *world) calmDown() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calm, w.outage, w.dark = true, false, false
	w.accepted = w.file
}

// at runs f after d, unless the world has calmed down before.
func (w *world) at(d time.Duration, f func()) {
	time.AfterFunc(d, func() {
		if !w.isCalm() {
			f()
		}
	})
}

// arrived sees each request that reached the daemon with its body: an action
// may be submitted only when its intent is on disk, and once.
func (w *world) arrived(r devserver.Request) {
	if r.Method != http.MethodPost || !strings.HasSuffix(r.Path, "/messages") {
		return
	}
	var env struct {
		Body struct {
			Action struct {
				ID string `json:"id"`
			} `json:"action"`
		} `json:"body"`
	}
	if err := json.Unmarshal(r.Body, &env); err != nil {
		return // the body was cut on its way
	}
	if !w.ledger.hasIntent(env.Body.Action.ID) {
		w.violate("a submit of %s arrived before its intent was on disk", env.Body.Action.ID)
	}
}

// gate is the gateway in front of the daemon: the token, and a result that is
// late.
func (w *world) gate(rw http.ResponseWriter, r *http.Request) bool {
	w.mu.Lock()
	token := w.accepted
	w.mu.Unlock()
	if r.Header.Get("Authorization") != "Bearer "+token {
		faults.ProtocolError(http.StatusUnauthorized, "auth", "auth.native_http_unauthorized").ServeHTTP(rw, r)
		return true
	}
	r.Header.Del("Authorization") // the daemon behind trusts its gateway
	if w.plan.late > 0 && faults.RouteOf(r) == faults.Result {
		w.mu.Lock()
		if w.lateFrom.IsZero() {
			w.lateFrom = time.Now()
		}
		late := time.Since(w.lateFrom) < w.plan.late
		w.mu.Unlock()
		if late {
			w.hit(fLateResult, nil)
			faults.ProtocolError(http.StatusServiceUnavailable, "temporary", "action.result_not_ready").ServeHTTP(rw, r)
			return true
		}
	}
	return false
}

// skewed counts the submits that meet a daemon whose clock is another.
func (w *world) skewed(next func(http.ResponseWriter, *http.Request) bool) func(http.ResponseWriter, *http.Request) bool {
	name := fSkewAhead
	if w.plan.skew < 0 {
		name = fSkewBehind
	}
	return func(rw http.ResponseWriter, r *http.Request) bool {
		if faults.RouteOf(r) == faults.Submit {
			w.hit(name, nil)
		}
		return next(rw, r)
	}
}

// observe reads the whole stream of a daemon from its start, with nothing in
// the way: as an observer who follows, or by its result.
func (w *world) observe(kind string, through http.Handler, sound bool) *life {
	l := w.newLife(kind, lifePlan{})
	l.sound = sound
	l.way = (&faults.Network{Handler: through, HeaderTimeout: modelIdle}).Client()
	l.from, l.keep = engine.FromStart, false
	l.run()
	return l
}

// direct is the daemon without what stands in front of it.
func (w *world) direct() http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		r.Header.Del("Authorization")
		w.serve(rw, r)
	})
}

// cancel is somebody else's request to cancel.
func (w *world) cancel() {
	r := httptest.NewRequest(http.MethodPost, modelURL+"/aip/v1/actions/"+w.actionID+"/cancel", nil)
	rec := httptest.NewRecorder()
	w.serve(rec, r)
	if rec.Code == http.StatusOK {
		w.hit(fCancelled, nil)
	}
}

// connect makes the client of one life.
func (w *world) connect(way http.RoundTripper) *client.Client {
	base, err := url.Parse(modelURL)
	if err != nil {
		panic(err)
	}
	c, err := client.New(client.Options{
		Base: base, Transport: way, IdleTimeout: modelIdle, MaxResultBytes: 512 << 20, Now: time.Now,
		Token: func() (string, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.file, nil
		},
	})
	if err != nil {
		panic(err)
	}
	return c
}

func (w *world) messageID() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.messages++
	return fmt.Sprintf("msg_%d_%d", w.seed, w.messages)
}

func (w *world) binding() cursor.Binding {
	return engine.BindingFor(modelURL, "fp_model", w.actionID, true)
}

func (w *world) callPlan() engine.CallPlan {
	p := w.plan
	endpoint, operation := p.scenario.Name, p.scenario.Operation
	a := aip.Action{ID: w.actionID, CapabilityID: p.scenario.CapabilityID(), Input: jsontext.Value(p.scenario.Demo), Mode: p.mode, TimeoutMS: p.timeout}
	built := contract.Builtin(operation)
	if built.KeyRequired {
		a.IdempotencyKey = fmt.Sprintf("key-%d", w.seed)
	}
	return engine.CallPlan{
		Action: a, Operation: operation, Explicit: p.explicit, RunsAtMost: built.RunsAtMost(a.TimeoutMS), Wait: p.wait, Detach: p.detach, CancelOnInterrupt: p.cancelOnInterrupt,
		Intent: state.Intent{CapabilityID: a.CapabilityID, Endpoint: endpoint, Operation: operation, Mode: a.Mode, TimeoutMS: a.TimeoutMS, URL: modelURL, Principal: "fp_model", InputHash: "sha256:model"},
	}
}

// play lets the lives pass one after another, then calms the world down and
// reads it to its end.
func (w *world) play() {
	defer w.close()
	first := w.newLife("call", w.plan.lives[0])
	first.run()
	for _, lp := range w.plan.lives[1:] {
		if w.ledger.view().Action(w.actionID) == nil {
			break // nothing was recorded, so there is nothing to come back to
		}
		if !lp.pair {
			w.newLife("events", lp).run()
			continue
		}
		a, b := w.newLife("events", lp), w.newLife("events", lifePlan{})
		w.hit(fTwoFollowers, a)
		var both sync.WaitGroup
		both.Go(a.run)
		both.Go(b.run)
		both.Wait()
	}
	w.calmDown()
	w.judge()
}

// withTimeout bounds a life in virtual time.
func withTimeout(cause error) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(context.Background(), lifeAtMost, cause)
}

// outcomeLine says an outcome in one line of a trace.
func outcomeLine(o *verdict.Outcome) string {
	if o == nil {
		return "no outcome"
	}
	return fmt.Sprintf("%s, exit %d, state %q, aip %q, cursor %q: %s", o.Verdict, o.ExitCode, o.State, o.AIPStatus, o.Cursor, o.Reason)
}
