// Package devserver is the embedded development daemon: an http.Handler that
// answers the native AIP routes from memory as the real daemon does, traps
// included, and runs recorded provider answers through the rules of the Hermes
// connector. The endpoint part of a capability id names the scenario to play,
// the last part the operation, which decides on modes, keys, timeouts and the
// form of the answer. An endpoint whose operation makes or keeps responses also
// reads and deletes them, under response_get and response_delete.
//
// Invariants:
//
//   - It imports nothing of this module. It was written from the protocol
//     alone, so that one misreading cannot hide on both sides of the wire.
//   - Time comes from package time only, and every wait ends with Close. The
//     whole daemon can therefore run on a fake clock.
//   - What an answer cannot tell a client of the real daemon, it does not tell
//     here: a sync or streaming action that runs reads unknown, a failed
//     handler leaves no result, a terminal mark promises nothing about what was
//     delivered.
//
// It is for development and tests. It checks the shape of requests, two bearer
// tokens, their scopes on actions and approvals, and nothing else: no signatures,
// tenants, sessions, receipts, constraints of decisions, retries of the queue or
// limits on what it keeps. An operator's run starts without the approval that its contract asks for at a
// real daemon, and one that waits for a human is never resumed.
package devserver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Options set a Server up. The zero value is a daemon in insecure development
// mode that plays recordings without pauses.
type Options struct {
	// Token is the static bearer token. Empty is the insecure development mode:
	// no token is needed, and one that is sent is refused, since none is known.
	Token string
	// ApproverToken is a second bearer token, of another principal: a person who
	// may decide about approvals, and about nothing of its own. Empty is nobody.
	ApproverToken string
	// Scopes and ApproverScopes are what the two principals may do; nil is what
	// each needs for its part. Of the revealing ones, approval:export and
	// approval:sensitive, the first principal has none.
	Scopes, ApproverScopes []string
	// ApprovalTTL is how long an approval waits for a decision; 0 is 15 minutes.
	// It is not scaled.
	ApprovalTTL time.Duration
	// Keys are the terms on which the capability of that id takes idempotency
	// keys.
	Keys map[string]KeyTerms
	// Catalogue and Manifest say how the two places of discovery answer.
	Catalogue, Manifest Discovery
	// Schemas are announced as the input schema of the capability of that id, and
	// nothing is checked against them.
	Schemas map[string]json.RawMessage
	// PolicyCodes makes a refused decision tell the rule it broke: HTTP 403 and a
	// code such as policy.approval_hash_mismatch. Otherwise it is 401 and
	// auth.not_authorized, whatever the rule. Daemons of both kinds may exist.
	PolicyCodes bool
	// PathPrefix is a path under which every route lives, as behind a proxy:
	// "/agents/aip". The links inside answers do not know it.
	PathPrefix string
	// Speed divides the recorded pauses and the worker's polling interval: 1 is
	// real time, 10 is ten times faster, 0 is no pause at all. Timeouts,
	// expiries and the two intervals below are not scaled.
	Speed float64
	// KeepAlive is the silence after which a follow stream gets a comment
	// frame; 0 is 15 s.
	KeepAlive time.Duration
	// Poll is the pause of a follow stream after a page that brought nothing;
	// 0 is 500 ms.
	Poll time.Duration
	// ClockSkew is added to the daemon's clock: the replay window, every
	// timestamp and the Date header.
	ClockSkew time.Duration
	// Recordings are played beside the scenarios, each under its name as the
	// endpoint part of the capability id. New panics where one cannot be.
	Recordings map[string]Recording
	// Hooks are called while requests and streams are worked on.
	Hooks Hooks
}

// Hooks let a test watch and hold the daemon. Either may be nil. They run on
// the daemon's goroutines, without any lock held.
type Hooks struct {
	// Request is called when the headers and body of a request have been read,
	// before it is answered.
	Request func(Request)
	// BeforeChunk is called before the connector publishes the chunk of that
	// sequence. While it blocks, the stream stands still; a cancel request or a
	// deadline still ends the action. Close waits for it to return.
	BeforeChunk func(actionID string, sequence uint64)
}

// Request is one HTTP request as it arrived. Path is the decoded path with the
// prefix, Query the raw query string. A body above 2 MiB is cut one byte later.
type Request struct {
	Method, Path, Query string
	Header              http.Header
	Body                []byte
}

// Principal names a party of the protocol by its id and kind.
type Principal struct{ ID, Kind string }

// Requester and Approver are the principals of the two tokens.
func Requester() Principal { return Principal(edgePrincipal) }

// Approver is the principal of ApproverToken.
func Approver() Principal { return Principal(approverPrincipal) }

// Server is the daemon. Make one with New and end it with Close.
type Server struct {
	opts      Options
	scenarios []Scenario
	served    []Scenario           // every capability, as the scenario it plays
	providers map[string]*provider // by endpoint id
	callers   map[string]caller    // by token
	store     *store
	startedAt time.Time
	wake      chan struct{} // tells the worker that something was queued
	cycles    atomic.Int64  // looks of the worker into the queue
	revision  atomic.Uint64 // of the catalogue

	ctx  context.Context
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	timers   []*time.Timer
	requests []Request
	losing   int // replies to decisions that are to be lost
}

// New starts a daemon with an empty memory. Its worker runs until Close.
func New(opts Options) *Server {
	if opts.KeepAlive <= 0 {
		opts.KeepAlive = 15 * time.Second
	}
	if opts.Poll <= 0 {
		opts.Poll = 500 * time.Millisecond
	}
	if opts.ApprovalTTL <= 0 {
		opts.ApprovalTTL = defaultApprovalTTL
	}
	if opts.PathPrefix = strings.Trim(opts.PathPrefix, "/"); opts.PathPrefix != "" {
		opts.PathPrefix = "/" + opts.PathPrefix
	}
	s := &Server{opts: opts, scenarios: Scenarios(), wake: make(chan struct{}, 1)}
	s.scenarios = append(s.scenarios, scenariosOf(opts.Recordings, s.scenarios)...)
	s.served, s.providers = serves(s.scenarios), providersOf(s.scenarios)
	for i, sc := range s.served {
		if terms, ok := opts.Keys[sc.CapabilityID()]; ok {
			s.served[i].play.key = terms
		}
	}
	s.callers = callers(opts)
	s.store = newStore(s.now)
	s.startedAt = s.now()
	s.revision.Store(1)
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.spawn(s.work)
	return s
}

// Handler returns the daemon's routes. After Close it answers 503.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.serve) }

// Close stops the worker, the running actions and the open answers, and waits
// for all but the answers, which end by themselves. An action that runs leaves
// what it has stored so far, as when the process dies. Close may be called more
// than once.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	for _, t := range s.timers {
		t.Stop()
	}
	s.timers = nil
	s.mu.Unlock()
	s.stop()
	s.wg.Wait()
}

// Executions returns how often a handler was started for the action.
func (s *Server) Executions(actionID string) int {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	return s.store.counts[actionID]
}

// Submits returns the action id of every action envelope that passed the
// checks of its form, its token and the replay window, in order. What the
// runtime then made of the action does not matter.
func (s *Server) Submits() []string {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	return slices.Clone(s.store.submits)
}

// Requests returns every request so far, in the order in which their bodies
// had been read.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

func (s *Server) now() time.Time { return time.Now().Add(s.opts.ClockSkew) }

// scaled shortens a recorded pause; Speed must be positive.
func (s *Server) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) / s.opts.Speed)
}

// spawn runs f on a goroutine that Close waits for; false when it is too late.
func (s *Server) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.wg.Go(f)
	return true
}

// after runs f once d has passed, unless the daemon is closed first.
func (s *Server) after(d time.Duration, f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.timers = append(s.timers, time.AfterFunc(d, func() { s.spawn(f) }))
	}
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
