package aiptest

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Kind is what a request is for, by the routes of the native HTTP surface.
type Kind string

// The kinds of requests. A plan has one list of answers for each.
const (
	Follow Kind = "follow" // GET …/events with follow=true or 1
	Page   Kind = "page"   // GET …/events or …/chunks without follow
	Result Kind = "result" // GET …/result
	Status Kind = "status" // every other GET
	Post   Kind = "post"   // POST whose target has no "cancel"
	Cancel Kind = "cancel" // POST whose target has "cancel"
)

var kinds = []Kind{Follow, Page, Result, Status, Post, Cancel}

// Request is one request as it arrived, body included.
type Request struct {
	Time       time.Duration // since the player started
	Kind       Kind
	Method     string
	Target     string // path and query as sent
	Host       string
	Header     http.Header
	Body       string
	PeerClosed bool // the client closed a connection that the plan kept hanging
}

// Query returns the decoded query of the target.
func (r Request) Query() url.Values {
	_, q, _ := strings.Cut(r.Target, "?")
	v, _ := url.ParseQuery(q)
	return v
}

// Player is a daemon that plays one plan over loopback. It answers any number
// of connections at once, one request each.
type Player struct {
	plan  *plan
	url   string
	ln    net.Listener
	tls   *tls.Config
	speed float64
	cuts  *cuts
	start time.Time
	ctx   context.Context
	stop  context.CancelFunc
	wg    sync.WaitGroup

	mu      sync.Mutex
	seen    map[Kind]int
	log     []Request
	changed chan struct{} // closed and replaced whenever log changes
}

// PlayOption changes how a plan is played.
type PlayOption func(*Player) error

// WithSpeed scales every pause of the plan: 0.01 plays a minute in 0.6 seconds,
// 0 plays without pauses. The default is 1.
func WithSpeed(f float64) PlayOption {
	return func(p *Player) error {
		if f < 0 {
			return fmt.Errorf("negative speed %v", f)
		}
		p.speed = f
		return nil
	}
}

// WithTLS serves https with the certificate.
func WithTLS(cert tls.Certificate) PlayOption {
	return func(p *Player) error {
		p.tls = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
		return nil
	}
}

// WithCuts replaces the cuts of every follow answer: "whole", "each" (one byte a
// piece), "cr" (behind every CR), "multibyte" (inside every character longer
// than one byte), a single offset as int, or several as []int. Pieces are
// written one by one without a pause, except that a single offset keeps the
// plan's pause, so that the two reads surely fall apart.
func WithCuts(v any) PlayOption {
	return func(p *Player) error {
		c, err := newCuts(v)
		p.cuts = &c
		return err
	}
}

// PlayCase plays the plan named play (for instance "play.json") of the case
// folder dir until the test ends. The test fails at once where the plan or a
// file it names cannot be read.
func PlayCase(t testing.TB, dir, play string, opts ...PlayOption) *Player {
	t.Helper()
	p, err := openCase(dir, play, opts...)
	if err != nil {
		t.Fatalf("play case: %v", err)
	}
	t.Cleanup(p.Close)
	return p
}

func openCase(dir, play string, opts ...PlayOption) (*Player, error) {
	pl, err := loadPlan(dir, play)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	p := &Player{
		plan: pl, speed: 1, start: time.Now(), ctx: ctx, stop: stop,
		seen: map[Kind]int{}, changed: make(chan struct{}),
	}
	for _, o := range opts {
		if err := o(p); err != nil {
			stop()
			return nil, err
		}
	}
	if p.ln, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		stop()
		return nil, err
	}
	scheme := "http"
	if p.tls != nil {
		scheme = "https"
	}
	p.url = scheme + "://" + p.ln.Addr().String()
	p.wg.Go(p.accept)
	return p, nil
}

// URL returns the base URL, without a slash at its end.
func (p *Player) URL() string { return p.url }

// ActionID returns the action id the plan speaks of.
func (p *Player) ActionID() string { return p.plan.ActionID }

// Requests returns the requests seen so far in the order of their arrival: all
// of them, or those of the given kinds.
func (p *Player) Requests(of ...Kind) []Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []Request
	for _, r := range p.log {
		if len(of) == 0 || slices.Contains(of, r.Kind) {
			out = append(out, r)
		}
	}
	return out
}

// Await returns once n requests of the kind were seen, or the error of ctx.
func (p *Player) Await(ctx context.Context, k Kind, n int) error {
	return p.await(ctx, func() bool { return len(p.Requests(k)) >= n })
}

// AwaitPeerClosed returns once the client closed a hanging connection of the
// kind, or the error of ctx.
func (p *Player) AwaitPeerClosed(ctx context.Context, k Kind) error {
	return p.await(ctx, func() bool {
		return slices.ContainsFunc(p.Requests(k), func(r Request) bool { return r.PeerClosed })
	})
}

func (p *Player) await(ctx context.Context, done func() bool) error {
	for {
		p.mu.Lock()
		next := p.changed
		p.mu.Unlock()
		if done() {
			return nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Close ends the player and every connection it holds. It may be called more
// than once.
func (p *Player) Close() {
	p.stop()
	p.ln.Close()
	p.wg.Wait()
}

// record keeps a request and returns its place in the log.
func (p *Player) record(r Request) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	r.Time = time.Since(p.start)
	p.log = append(p.log, r)
	p.tell()
	return len(p.log) - 1
}

func (p *Player) recordPeerClosed(i int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log[i].PeerClosed = true
	p.tell()
}

// tell wakes whoever awaits a change of the log; the lock is held.
func (p *Player) tell() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// kindOf sorts a request by its method and target.
func kindOf(method, target string) Kind {
	route, _, _ := strings.Cut(target, "?")
	last := path.Base(route)
	switch {
	case method != http.MethodGet && strings.Contains(target, "cancel"):
		return Cancel
	case method != http.MethodGet:
		return Post
	case last == "events" || last == "chunks":
		f := Request{Target: target}.Query().Get("follow")
		if last == "events" && (f == "true" || f == "1") {
			return Follow
		}
		return Page
	case last == "result":
		return Result
	default:
		return Status
	}
}

// next takes the answer for a request of the kind. The last of a list repeats;
// a page past its list is empty and keeps the cursor that was asked for.
func (p *Player) next(k Kind, target string) answer {
	p.mu.Lock()
	i := p.seen[k]
	p.seen[k]++
	if k == Result {
		// The result never lags behind the state that was shown.
		i = max(i, p.seen[Status]-1)
	}
	p.mu.Unlock()

	list := p.plan.list(k)
	if i < len(list) {
		return list[i]
	}
	if k == Page {
		return emptyPage(p.plan.ActionID, Request{Target: target}.Query().Get("cursor"))
	}
	if k == Follow && p.plan.After == "refuse" {
		return answer{Status: new(0)}
	}
	if len(list) == 0 || k == Follow && p.plan.After == "404" {
		return notFound()
	}
	return list[len(list)-1]
}

func emptyPage(actionID, cursor string) answer {
	type page struct {
		ActionID string `json:"action_id"`
		Events   []any  `json:"events"`
		Chunks   []any  `json:"chunks"`
		Cursor   string `json:"cursor"`
		Terminal bool   `json:"terminal"`
	}
	body, err := json.Marshal(map[string]page{"action_events": {actionID, []any{}, []any{}, cursor, true}})
	if err != nil {
		panic(err) // strings, a bool and empty lists always encode
	}
	return answer{payload: body}
}

func notFound() answer {
	return answer{
		Status:  new(404),
		Headers: map[string]*string{"Content-Type": new("application/json")},
		payload: []byte(`{"error":{"code":"not_found"}}`),
	}
}
