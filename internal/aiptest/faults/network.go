// Package faults breaks what lies between a client and a daemon: an in-memory
// network whose every exchange can be refused, cut, reset, held or answered by
// somebody else ([Network]), and a daemon whose stream says less, more or other
// than it should ([Daemon]). Both work under virtual time: nothing here uses a
// socket, and every wait ends with the exchange it belongs to.
//
// Invariant: like the rest of the test help it does not know the program. It
// was written from the protocol, and it decides nothing: what breaks, when and
// how often is the schedule of the test.
package faults

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Route says what an exchange is for.
type Route string

// The routes that clients of the native surface use.
const (
	Submit Route = "submit"
	Follow Route = "follow"
	Page   Route = "page"
	Status Route = "status"
	Result Route = "result"
	Cancel Route = "cancel"
	Other  Route = "other"
)

// RouteOf reads the route of a request.
func RouteOf(r *http.Request) Route {
	_, rest, ok := strings.Cut(r.URL.Path, "/aip/v1/")
	if !ok {
		return Other
	}
	switch {
	case r.Method == http.MethodPost && (rest == "messages" || rest == "actions"):
		return Submit
	case !strings.HasPrefix(rest, "actions/"):
		return Other
	case strings.HasSuffix(rest, "/cancel"):
		return Cancel
	case strings.HasSuffix(rest, "/result"):
		return Result
	case strings.HasSuffix(rest, "/events"), strings.HasSuffix(rest, "/chunks"):
		if r.URL.Query().Get("follow") == "true" {
			return Follow
		}
		return Page
	}
	return Status
}

// Exchange is one request before anything of it has happened.
type Exchange struct {
	Route  Route
	N      int    // how many of its route came before it on this network
	Cursor string // of a follow or a page
	Client *Client
}

// Kind is a way in which an exchange breaks.
type Kind int

// The ways of breaking. After counts the blocks of an event stream (frames and
// comments alike) and the bytes of any other body that pass before the break;
// with Bytes set it counts bytes everywhere.
const (
	// None breaks nothing.
	None Kind = iota
	// Refuse obtains no connection: not a byte has left.
	Refuse
	// ResetDuring resets the connection once After bytes of the request body
	// have left.
	ResetDuring
	// ResetAfter resets the connection when the whole request has arrived.
	ResetAfter
	// LoseReply closes the connection without an answer when the handler has
	// worked the request to its end.
	LoseReply
	// HoldHeader sends no response header, ever. The request has arrived.
	HoldHeader
	// EndBody ends the response body cleanly: nothing tells that it is short.
	EndBody
	// CutBody breaks the response body off in its transfer encoding.
	CutBody
	// ResetBody resets the connection inside the response body.
	ResetBody
	// HalfOpen lets the response body fall silent for ever.
	HalfOpen
	// Stall holds the response body for a while, with keep-alive comments each
	// 15 seconds where it is an event stream.
	Stall
	// Slow lets at most Step bytes of the response body through in each Every.
	Slow
	// Old answers as an HTTP/1.0 server does: no length, no chunks, closed at
	// the end.
	Old
	// Instead has another handler answer: something between client and daemon.
	Instead
)

// Break is what happens to one exchange.
type Break struct {
	Kind    Kind
	After   int
	Bytes   bool
	For     time.Duration // of a stall
	Step    int           // bytes, of a slow body
	Every   time.Duration // of a slow body
	Handler http.Handler  // of Instead
	Hit     func()        // called when it bites; may be nil
}

func (b *Break) hit() {
	if b.Hit != nil {
		b.Hit()
	}
}

// Network connects clients with one handler, in memory.
type Network struct {
	// Handler is the daemon's end.
	Handler http.Handler
	// HeaderTimeout is how long a client waits for the header of a response;
	// a submit waits without a bound. 0 bounds nothing.
	HeaderTimeout time.Duration
	// Decide says what happens to an exchange. It may be nil. It is called
	// from the goroutine of the exchange, before anything has left.
	Decide func(Exchange) Break

	mu    sync.Mutex
	count map[Route]int
	open  map[*exchange]bool
}

// Client returns the end of one client.
func (n *Network) Client() *Client { return &Client{net: n} }

// Count returns how many exchanges of a route were begun.
func (n *Network) Count(r Route) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.count[r]
}

// BreakAll resets every exchange that is open, as a daemon that is restarted
// does. A submit that has no answer yet gets the one of gateway instead, unless
// that is nil. It returns how many exchanges it broke.
func (n *Network) BreakAll(gateway http.Handler) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	for x := range n.open {
		if gateway != nil && x.route == Submit && !x.answered.Load() {
			x.end(errGateway{gateway})
			continue
		}
		x.end(ErrReset)
	}
	return len(n.open)
}

// errGateway is the end of an exchange that something on the way answers.
type errGateway struct{ http.Handler }

func (errGateway) Error() string { return "answered by the gateway" }

// The errors of the network as a client's transport sees them.
var (
	ErrReset   error = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	ErrRefused error = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	errKilled        = errors.New("the client is no more")
	errTimeout error = timeoutError{}
)

type timeoutError struct{}

func (timeoutError) Error() string   { return "timeout awaiting response headers" }
func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return true }

// Client is one client's end of the network; it is an [http.RoundTripper].
type Client struct {
	net *Network

	mu   sync.Mutex
	dead bool
}

// Kill ends every exchange of the client at once and lets no new one begin:
// what becomes of a process that is killed.
func (c *Client) Kill() {
	c.mu.Lock()
	c.dead = true
	c.mu.Unlock()
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	for x := range c.net.open {
		if x.client == c {
			x.end(errKilled)
		}
	}
}

func (c *Client) killed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dead
}

// exchange is one request under way.
type exchange struct {
	client   *Client
	route    Route
	brk      Break
	answered atomic.Bool // the client has the header

	// over ends when the exchange does, whoever ended it; its cause says why.
	over context.Context
	end  context.CancelCauseFunc
}

// RoundTrip implements http.RoundTripper. It tells an httptrace.ClientTrace of
// the connection and of the request that was written, as the real transport
// does.
func (c *Client) RoundTrip(req *http.Request) (*http.Response, error) {
	var whole []byte
	if req.Body != nil {
		var err error
		whole, err = io.ReadAll(req.Body)
		req.Body.Close()
		if err != nil {
			return nil, err
		}
	}
	ctx := req.Context()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if c.killed() {
		return nil, errKilled
	}
	x := c.net.begin(c, req)
	if c.killed() {
		c.net.forget(x, errKilled)
		return nil, errKilled
	}
	if x.brk.Kind == Refuse {
		x.brk.hit()
		c.net.forget(x, ErrRefused)
		return nil, ErrRefused
	}
	if trace := httptrace.ContextClientTrace(ctx); trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{})
	}
	handler := c.net.Handler
	if x.brk.Kind == Instead {
		x.brk.hit()
		handler = x.brk.Handler
	}
	w := newWriter(x)
	go x.serve(handler, req, whole, w)

	var headerTimeout <-chan time.Time
	if c.net.HeaderTimeout > 0 && x.route != Submit {
		t := time.NewTimer(c.net.HeaderTimeout)
		defer t.Stop()
		headerTimeout = t.C
	}
	var err error
	select {
	case resp := <-w.header:
		x.answered.Store(true)
		resp.Request = req
		stop := context.AfterFunc(ctx, func() { x.end(context.Cause(ctx)) })
		resp.Body = &body{x: x, net: c.net, pipe: w.read, stop: stop}
		return resp, nil
	case <-x.over.Done():
		err = context.Cause(x.over)
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-headerTimeout:
		err = errTimeout
	}
	c.net.forget(x, err)
	var gateway errGateway
	if errors.As(err, &gateway) {
		return answer(gateway.Handler, req), nil
	}
	return nil, err
}

func (n *Network) begin(c *Client, req *http.Request) *exchange {
	x := &exchange{client: c, route: RouteOf(req)}
	x.over, x.end = context.WithCancelCause(context.Background())
	n.mu.Lock()
	if n.count == nil {
		n.count, n.open = map[Route]int{}, map[*exchange]bool{}
	}
	before := n.count[x.route]
	n.count[x.route]++
	n.open[x] = true
	n.mu.Unlock()
	if n.Decide != nil {
		x.brk = n.Decide(Exchange{Route: x.route, N: before, Cursor: req.URL.Query().Get("cursor"), Client: c})
	}
	return x
}

// forget ends an exchange, if it has not ended, and takes it out of the table.
func (n *Network) forget(x *exchange, why error) {
	x.end(why)
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.open, x)
}

// serve is the daemon's side: the request arrives, the handler works.
func (x *exchange) serve(h http.Handler, req *http.Request, whole []byte, w *writer) {
	got, send := io.Pipe()
	stop := context.AfterFunc(x.over, func() { send.CloseWithError(io.ErrUnexpectedEOF) })
	defer stop()
	go x.upload(req.Context(), send, whole)
	in := req.Clone(x.over)
	in.Body = got
	h.ServeHTTP(w, in)
	_ = got.Close() // what the handler did not want is not waited for
	w.finish()
}

// upload sends the body of the request.
func (x *exchange) upload(ctx context.Context, to *io.PipeWriter, whole []byte) {
	if x.brk.Kind == ResetDuring {
		_, _ = to.Write(whole[:min(x.brk.After, len(whole))])
		x.brk.hit()
		to.CloseWithError(io.ErrUnexpectedEOF)
		x.end(ErrReset)
		return
	}
	if _, err := to.Write(whole); err != nil {
		return
	}
	_ = to.Close()
	if trace := httptrace.ContextClientTrace(ctx); trace != nil && trace.WroteRequest != nil {
		trace.WroteRequest(httptrace.WroteRequestInfo{})
	}
	if x.brk.Kind == ResetAfter {
		x.brk.hit()
		x.end(ErrReset)
	}
}

// body is the client's side of a response body.
type body struct {
	x    *exchange
	net  *Network
	pipe *io.PipeReader
	stop func() bool
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.pipe.Read(p)
	if err != nil {
		b.stop()
		b.net.forget(b.x, err)
	}
	return n, err
}

func (b *body) Close() error {
	b.stop()
	b.net.forget(b.x, errClosed)
	return b.pipe.CloseWithError(errClosed)
}

var errClosed = errors.New("http: read on closed response body")
