package client

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/aipctl/aipctl/internal/aip"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// canary stands wherever no error and no log may take a byte from.
const canary = "CANARY"

const token = "secret-" + canary

// open builds a client for a URL; change may be nil.
func open(t *testing.T, raw string, change func(*Options)) *Client {
	t.Helper()
	base, err := ParseBase(raw)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Base: base, Token: func() (string, error) { return token, nil }}
	if change != nil {
		change(&o)
	}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// serve answers over HTTP on loopback and returns the URL.
func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// answer is a handler that always writes the same.
func answer(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if contentType != "" {
			w.Header().Set("Content-Type", contentType)
		} else {
			w.Header()["Content-Type"] = nil
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// wire is a daemon that speaks bytes: it counts connections and the requests
// that came over them.
type wire struct {
	URL string

	mu       sync.Mutex
	conns    int
	requests []string // request lines
}

// plug starts a wire. Each connection gets its own goroutine and is closed
// when handle returns.
func plug(t *testing.T, handle func(w *wire, c *net.TCPConn, r *bufio.Reader)) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{URL: "http://" + l.Addr().String()}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			w.mu.Lock()
			w.conns++
			w.mu.Unlock()
			running.Go(func() {
				defer c.Close()
				handle(w, c.(*net.TCPConn), bufio.NewReader(c))
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		running.Wait()
	})
	return w
}

// take reads one request with its body; false when none came.
func (w *wire) take(r *bufio.Reader) bool {
	req, err := http.ReadRequest(r)
	if err != nil {
		return false
	}
	w.mu.Lock()
	w.requests = append(w.requests, req.Method+" "+req.RequestURI)
	w.mu.Unlock()
	_, err = io.Copy(io.Discard, req.Body)
	return err == nil
}

func (w *wire) seen() (conns int, requests []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.conns, append([]string(nil), w.requests...)
}

// reset ends a connection with a reset, not with an end.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	c.Close()
}

// says answers every request of a connection with these bytes and closes it.
func says(response string) func(*wire, *net.TCPConn, *bufio.Reader) {
	return func(w *wire, c *net.TCPConn, r *bufio.Reader) {
		if w.take(r) {
			_, _ = io.WriteString(c, response)
		}
	}
}

// dialer replaces the way to the network of both transports.
func dialer(c *Client, dial func(ctx context.Context, network, addr string) (net.Conn, error)) {
	for _, rt := range []http.RoundTripper{c.read, c.submit} {
		rt.(*http.Transport).DialContext = dial
	}
}

// call is one route of the client, with ids and values that hold the canary.
type call struct {
	name string
	do   func(ctx context.Context, c *Client) error
}

var calls = []call{
	{"submit", func(ctx context.Context, c *Client) error {
		_, err := c.Submit(ctx, []byte(`{"body":"`+canary+`"}`), nil, aip.ResultDecoding{})
		return err
	}},
	{"result", func(ctx context.Context, c *Client) error {
		_, err := c.Result(ctx, "act_"+canary, aip.ResultDecoding{})
		return err
	}},
	{"status", func(ctx context.Context, c *Client) error {
		_, err := c.Status(ctx, "act_"+canary)
		return err
	}},
	{"page", func(ctx context.Context, c *Client) error {
		_, err := c.Page(ctx, aip.EventsQuery{ActionID: "act_" + canary, Cursor: canary, Kinds: []string{canary}}, aip.Decoding{})
		return err
	}},
	{"follow", func(ctx context.Context, c *Client) error {
		body, err := c.Follow(ctx, aip.EventsQuery{ActionID: "act_" + canary, Cursor: canary})
		if err == nil {
			body.Close()
		}
		return err
	}},
	{"cancel", func(ctx context.Context, c *Client) error { return c.Cancel(ctx, "act_"+canary, canary) }},
	{"ready", func(ctx context.Context, c *Client) error {
		_, err := c.Readiness(ctx)
		return err
	}},
	{"capabilities", func(ctx context.Context, c *Client) error {
		_, err := c.Capabilities(ctx, aip.CapabilityQuery{CapabilityID: canary, Cursor: canary})
		return err
	}},
	{"manifest", func(ctx context.Context, c *Client) error {
		_, err := c.Manifest(ctx, canary)
		return err
	}},
	{"may read", func(ctx context.Context, c *Client) error { return c.MayRead(ctx, ReadActions) }},
}

// submitCall and reads name the routes that differ: a submit is never made
// twice, whatever happens.
func submitCall() call { return calls[0] }
func reads() []call    { return calls[1:] }

// transported wants a TransportError and returns it.
func transported(t *testing.T, err error) *TransportError {
	t.Helper()
	var te *TransportError
	if !errors.As(err, &te) {
		t.Fatalf("the error is %T %v, want one of the transport", err, err)
	}
	return te
}

// remote wants a RemoteError and returns it.
func remote(t *testing.T, err error) *aip.RemoteError {
	t.Helper()
	var re *aip.RemoteError
	if !errors.As(err, &re) {
		t.Fatalf("the error is %T %v, want an answer", err, err)
	}
	return re
}

// quiet wants an error text without a byte of the canary.
func quiet(t *testing.T, err error) {
	t.Helper()
	if err != nil && strings.Contains(err.Error(), canary) {
		t.Errorf("the error repeats what it must not: %v", err)
	}
}

func mustParse(t *testing.T, raw string) *url.URL {
	t.Helper()
	u, err := ParseBase(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// discardLog is for servers whose clients hang up on purpose.
func discardLog() *log.Logger { return log.New(io.Discard, "", 0) }
