package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aipctl/aipctl/internal/aip"
)

const result = `{"body":{"action_result":{"action_id":"act_1","status":"completed"}}}`

func ok(body string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// bigEnvelope does not fit into the buffers between two processes.
func bigEnvelope() []byte {
	return []byte(`{"body":"` + strings.Repeat("x", 8<<20) + `"}`)
}

// TestASubmitIsMadeOnce, at whatever moment the connection ends.
func TestASubmitIsMadeOnce(t *testing.T) {
	for _, tc := range []struct {
		rule     string
		big      bool
		handle   func(w *wire, c *net.TCPConn, r *bufio.Reader)
		requests int // that reached the daemon in full
	}{
		{"reset as soon as it is there", false, func(_ *wire, c *net.TCPConn, _ *bufio.Reader) { reset(c) }, 0},
		{"closed as soon as it is there", false, func(_ *wire, c *net.TCPConn, _ *bufio.Reader) { c.Close() }, 0},
		{"reset after the first byte", false, func(_ *wire, c *net.TCPConn, r *bufio.Reader) { _, _ = r.ReadByte(); reset(c) }, 0},
		{"reset inside the body", true, func(_ *wire, c *net.TCPConn, r *bufio.Reader) {
			_, _ = io.CopyN(io.Discard, r, 64<<10)
			reset(c)
		}, 0},
		{"closed inside the body", true, func(_ *wire, c *net.TCPConn, r *bufio.Reader) { _, _ = io.CopyN(io.Discard, r, 64<<10) }, 0},
		{"reset after the body", false, func(w *wire, c *net.TCPConn, r *bufio.Reader) { w.take(r); reset(c) }, 1},
		{"closed after the body", false, func(w *wire, _ *net.TCPConn, r *bufio.Reader) { w.take(r) }, 1},
		{"reset after a large body", true, func(w *wire, c *net.TCPConn, r *bufio.Reader) { w.take(r); reset(c) }, 1},
		{"reset inside the head of the answer", false, func(w *wire, c *net.TCPConn, r *bufio.Reader) {
			w.take(r)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Ty")
			reset(c)
		}, 1},
		{"closed inside the answer", false, func(w *wire, c *net.TCPConn, r *bufio.Reader) {
			w.take(r)
			_, _ = io.WriteString(c, ok(result)[:90])
		}, 1},
		{"an answer that says close", false, says("HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n"), 1},
		{"an answer that says misdirected", false, says("HTTP/1.1 421 Misdirected Request\r\nContent-Length: 0\r\n\r\n"), 1},
		{"an answer that asks for another way", false, says("HTTP/1.1 426 Upgrade Required\r\nUpgrade: h2c\r\nContent-Length: 0\r\n\r\n"), 1},
		{"a request timeout, as servers send on idle connections", false, says("HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"), 1},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			w := plug(t, tc.handle)
			c := open(t, w.URL, nil)
			envelope := []byte(`{"body":"small"}`)
			if tc.big {
				envelope = bigEnvelope()
			}
			reply, err := c.Submit(t.Context(), envelope, nil, aip.ResultDecoding{})
			if err == nil {
				t.Fatalf("the reply is %+v", reply)
			}
			// A reset may come before the system calls the connection one.
			early := strings.HasSuffix(tc.rule, "as soon as it is there")
			var te *TransportError
			if errors.As(err, &te) && te.NoConnection && !early {
				t.Error("a connection was there, and the error says there was none")
			}
			conns, requests := w.seen()
			if conns != 1 || len(requests) != tc.requests {
				t.Errorf("%d connections and the requests %q", conns, requests)
			}
		})
	}
}

// TestASubmitHasAConnectionOfItsOwn: on one that was used before, the end of
// the old exchange could be taken for the fate of the new one.
func TestASubmitHasAConnectionOfItsOwn(t *testing.T) {
	var closes atomic.Int32
	w := plug(t, func(w *wire, c *net.TCPConn, r *bufio.Reader) {
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
			w.mu.Lock()
			w.requests = append(w.requests, req.Method)
			w.mu.Unlock()
			if req.Method == http.MethodPost && req.Header.Get("Connection") == "close" {
				closes.Add(1)
			}
			_, _ = io.WriteString(c, ok(strings.Replace(result, `{"body":`, `{"x":1,"body":`, 1)))
		}
	})
	c := open(t, w.URL, nil)
	for range 2 {
		if _, err := c.Result(t.Context(), "act_1", aip.ResultDecoding{}); err != nil {
			t.Fatal(err)
		}
	}
	before, _ := w.seen()
	for range 3 {
		if _, err := c.Submit(t.Context(), []byte(`{}`), nil, aip.ResultDecoding{}); err != nil {
			t.Fatal(err)
		}
	}
	after, requests := w.seen()
	if after-before != 3 || closes.Load() != 3 {
		t.Errorf("3 submits took %d connections, %d of them said to be the last request; all requests: %v", after-before, closes.Load(), requests)
	}
}

// TestACancelOnAConnectionThatDiedIsNotRepeated: the kept connection is
// closed by the daemon in the moment in which the cancel leaves.
func TestACancelOnAConnectionThatDiedIsNotRepeated(t *testing.T) {
	w := plug(t, func(w *wire, c *net.TCPConn, r *bufio.Reader) {
		if w.take(r) { // the read
			_, _ = io.WriteString(c, ok(`{"action_status":{"state":"running"}}`))
		}
		w.take(r) // whatever comes on the kept connection gets no answer
	})
	c := open(t, w.URL, nil)
	if _, err := c.Status(t.Context(), "act_1"); err != nil {
		t.Fatal(err)
	}
	err := c.Cancel(t.Context(), "act_1", "")
	_, requests := w.seen()
	cancels := 0
	for _, r := range requests {
		if strings.HasPrefix(r, "POST") {
			cancels++
		}
	}
	if err == nil || cancels != 1 {
		t.Errorf("%d cancels arrived, the error is %v", cancels, err)
	}
}

// TestSentIsSaidOnceTheRequestHasLeft, and never of one that has not. It may
// be said a moment after a quick answer.
func TestSentIsSaidOnceTheRequestHasLeft(t *testing.T) {
	for rule, url := range map[string]string{
		"a submit that was answered": serve(t, answer(200, "application/json", result)),
		"a submit that was refused":  serve(t, answer(500, "", "")),
		"a submit that was answered before it was read": plug(t, func(_ *wire, c *net.TCPConn, r *bufio.Reader) {
			_, _ = r.ReadString('\n')
			_, _ = io.WriteString(c, "HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		}).URL,
	} {
		t.Run(rule, func(t *testing.T) {
			said := make(chan struct{}, 2)
			_, _ = open(t, url, nil).Submit(t.Context(), []byte(`{}`), func() { said <- struct{}{} }, aip.ResultDecoding{})
			<-said
		})
	}
	never := func() { t.Error("it is said of a request that has not left") }
	refused := open(t, "http://127.0.0.1:1", nil)
	dialer(refused, func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no way") })
	if _, err := refused.Submit(t.Context(), []byte(`{}`), never, aip.ResultDecoding{}); err == nil {
		t.Error("a submit without a connection has no error")
	}
	cut := plug(t, func(_ *wire, c *net.TCPConn, r *bufio.Reader) {
		_, _ = io.CopyN(io.Discard, r, 64<<10)
		reset(c)
	})
	if _, err := open(t, cut.URL, nil).Submit(t.Context(), bigEnvelope(), never, aip.ResultDecoding{}); err == nil {
		t.Error("a submit that was cut has no error")
	}
}

func TestWhatASubmitAnswers(t *testing.T) {
	for _, tc := range []struct {
		rule, body string
		check      func(t *testing.T, r *aip.Reply, err error)
	}{
		{"a result", result, func(t *testing.T, r *aip.Reply, err error) {
			if err != nil || r.Result.Status != "completed" {
				t.Errorf("%+v (%v)", r, err)
			}
		}},
		{"an acknowledgement", `{"body":{"ack":{"action_id":"act_1","status":"queued"}}}`, func(t *testing.T, r *aip.Reply, err error) {
			if err != nil || r.Ack.Status != "queued" {
				t.Errorf("%+v (%v)", r, err)
			}
		}},
		{"an error inside a 200", `{"body":{"error":{"error":{"code":"connector.hermes_agent.transport","message":"CANARY","category":"transport","retry_after_ms":2000,"details":{"uncertain_outcome":true}}}}}`, func(t *testing.T, _ *aip.Reply, err error) {
			re := remote(t, err)
			if re.Status != 200 || re.Form != aip.FormEnvelope || !re.AIP() || re.Code() != "connector.hermes_agent.transport" || re.Proto.Uncertain() == nil || re.Retry.Seconds() != 2 {
				t.Errorf("%+v", re)
			}
		}},
		{"a plain error inside a 200", `{"error":{"code":"x.y","message":"CANARY"}}`, func(t *testing.T, _ *aip.Reply, err error) {
			if re := remote(t, err); re.Form != aip.FormPlain || re.AIP() {
				t.Errorf("%+v", re)
			}
		}},
		{"another body", `{"body":{"event_stream":{"CANARY":[]}}}`, func(t *testing.T, _ *aip.Reply, err error) {
			var re *aip.RemoteError
			if err == nil || errors.As(err, &re) {
				t.Errorf("the error is %v", err)
			}
		}},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			c := open(t, serve(t, answer(200, "application/json", tc.body)), nil)
			r, err := c.Submit(t.Context(), []byte(`{}`), nil, aip.ResultDecoding{})
			quiet(t, err)
			tc.check(t, r, err)
		})
	}
}
