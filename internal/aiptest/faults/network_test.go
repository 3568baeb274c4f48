package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

const (
	followURL = "http://daemon/aip/v1/actions/act_1/events?follow=true"
	pageURL   = "http://daemon/aip/v1/actions/act_1/events?cursor=c_1"
	submitURL = "http://daemon/aip/v1/messages"
)

// daemon answers a submit after five seconds, follows with three frames a
// second apart, and says ten bytes otherwise.
type daemon struct {
	mu      sync.Mutex
	arrived []string // bodies of requests, as far as they came
}

func (d *daemon) seen() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.arrived)
}

func (d *daemon) saw(body string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.arrived = append(d.arrived, body)
}

func (d *daemon) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		d.saw("cut:" + string(body))
	} else {
		d.saw(string(body))
	}
	switch RouteOf(r) {
	case Submit:
		time.Sleep(5 * time.Second)
		_, _ = io.WriteString(w, "accepted")
	case Follow:
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			if i > 0 {
				time.Sleep(time.Second)
			}
			if _, err := fmt.Fprintf(w, "data: %d\n\n", i); err != nil {
				return
			}
		}
	default:
		_, _ = io.WriteString(w, "0123456789")
	}
}

func request(ctx context.Context, t *testing.T, method, url, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// exchange sends one request over a network that breaks so, and tells what
// came of it.
func exchanged(t *testing.T, d *daemon, b Break, method, url string) (body string, err error) {
	t.Helper()
	n := &Network{Handler: d, HeaderTimeout: 45 * time.Second, Decide: func(Exchange) Break { return b }}
	resp, err := n.Client().RoundTrip(request(t.Context(), t, method, url, "the request"))
	if err != nil {
		return "", err
	}
	got, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	return string(got), err
}

func TestBreaks(t *testing.T) {
	answer := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "a gateway") })
	const all = "data: 0\n\ndata: 1\n\ndata: 2\n\n"
	tests := []struct {
		rule    string
		brk     Break
		method  string
		url     string
		body    string
		err     error
		took    time.Duration
		arrived string
		hits    int
	}{
		{"nothing breaks by itself", Break{}, "POST", submitURL, "accepted", nil, 5 * time.Second, "the request", 0},
		{"a refused connection carries nothing", Break{Kind: Refuse}, "POST", submitURL, "", syscall.ECONNREFUSED, 0, "", 1},
		{"a reset in the body lets a part arrive", Break{Kind: ResetDuring, After: 3}, "POST", submitURL, "", syscall.ECONNRESET, 0, "cut:the", 1},
		{"a reset after the body lets the request work", Break{Kind: ResetAfter}, "POST", submitURL, "", syscall.ECONNRESET, 0, "the request", 1},
		{"a lost reply lets the request be worked to its end", Break{Kind: LoseReply}, "POST", submitURL, "", io.EOF, 5 * time.Second, "the request", 1},
		{"a held header times out where a reader waits", Break{Kind: HoldHeader}, "GET", pageURL, "", errTimeout, 45 * time.Second, "the request", 1},
		{"a body ends short and clean", Break{Kind: EndBody, After: 4}, "GET", pageURL, "0123", nil, 0, "the request", 1},
		{"a body is cut", Break{Kind: CutBody, After: 4}, "GET", pageURL, "0123", io.ErrUnexpectedEOF, 0, "the request", 1},
		{"a body is reset", Break{Kind: ResetBody, After: 4}, "GET", pageURL, "0123", syscall.ECONNRESET, 0, "the request", 1},
		{"a break behind the end of a body never comes", Break{Kind: ResetBody, After: 40}, "GET", pageURL, "0123456789", nil, 0, "the request", 0},
		{"a stream breaks between two blocks", Break{Kind: ResetBody, After: 2}, "GET", followURL, "data: 0\n\ndata: 1\n\n", syscall.ECONNRESET, time.Second, "the request", 1},
		{"a stream breaks inside a block where bytes are counted", Break{Kind: EndBody, After: 12, Bytes: true}, "GET", followURL, "data: 0\n\ndat", nil, time.Second, "the request", 1},
		{"a stalled stream keeps itself alive", Break{Kind: Stall, After: 1, For: 40 * time.Second}, "GET", followURL, "data: 0\n\n: keep-alive\n\n: keep-alive\n\ndata: 1\n\ndata: 2\n\n", nil, 42 * time.Second, "the request", 1},
		{"slow bytes come all the same", Break{Kind: Slow, Step: 4, Every: time.Second}, "GET", pageURL, "0123456789", nil, 2 * time.Second, "the request", 1},
		{"an old server's answer is whole", Break{Kind: Old}, "GET", followURL, all, nil, 2 * time.Second, "the request", 1},
		{"another one answers instead", Break{Kind: Instead, Handler: answer}, "GET", pageURL, "a gateway", nil, 0, "", 1},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &daemon{}
				var hits atomic.Int32
				tt.brk.Hit = func() { hits.Add(1) }
				began := time.Now()
				body, err := exchanged(t, d, tt.brk, tt.method, tt.url)
				if body != tt.body || !errors.Is(err, tt.err) {
					t.Errorf("got %q, %v; want %q, %v", body, err, tt.body, tt.err)
				}
				if took := time.Since(began); took != tt.took {
					t.Errorf("took %s, want %s", took, tt.took)
				}
				time.Sleep(time.Minute) // what the daemon still does
				if got := strings.Join(d.seen(), ","); got != tt.arrived {
					t.Errorf("arrived %q, want %q", got, tt.arrived)
				}
				if got := int(hits.Load()); got != tt.hits {
					t.Errorf("%d hits, want %d", got, tt.hits)
				}
			})
		})
	}
}

// A half-open connection is silent until somebody gives it up.
func TestHalfOpenEndsWithItsReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &Network{Handler: &daemon{}, Decide: func(Exchange) Break { return Break{Kind: HalfOpen, After: 1} }}
		ctx, cancel := context.WithCancelCause(t.Context())
		resp, err := n.Client().RoundTrip(request(ctx, t, "GET", followURL, ""))
		if err != nil {
			t.Fatal(err)
		}
		given := errors.New("given up")
		time.AfterFunc(time.Hour, func() { cancel(given) })
		began := time.Now()
		body, err := io.ReadAll(resp.Body)
		if string(body) != "data: 0\n\n" || !errors.Is(err, given) || time.Since(began) != time.Hour {
			t.Errorf("%q, %v after %s", body, err, time.Since(began))
		}
	})
}

// A submit waits for its header for as long as its context lives.
func TestASubmitHasNoHeaderTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &Network{Handler: &daemon{}, HeaderTimeout: 45 * time.Second, Decide: func(Exchange) Break { return Break{Kind: HoldHeader} }}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, err := n.Client().RoundTrip(request(ctx, t, "POST", submitURL, "x"))
		var timeout net.Error
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errTimeout) || !errors.As(err, &timeout) {
			t.Errorf("ended with %v, want the context's own end", err)
		}
		time.Sleep(time.Minute) // what the daemon still does
	})
}

func TestTheTraceTellsHowFarARequestGot(t *testing.T) {
	tests := []struct {
		kind Kind
		want string
	}{
		{None, "connected written"}, {Refuse, ""}, {ResetDuring, "connected"}, {ResetAfter, "connected written"}, {LoseReply, "connected written"},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			var got []string
			tell := func(what string) {
				mu.Lock()
				defer mu.Unlock()
				got = append(got, what)
			}
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
				GotConn:      func(httptrace.GotConnInfo) { tell("connected") },
				WroteRequest: func(httptrace.WroteRequestInfo) { tell("written") },
			})
			n := &Network{Handler: &daemon{}, Decide: func(Exchange) Break { return Break{Kind: tt.kind} }}
			if resp, err := n.Client().RoundTrip(request(ctx, t, "POST", submitURL, "x")); err == nil {
				resp.Body.Close()
			}
			time.Sleep(time.Minute) // what the daemon still does
			mu.Lock()
			defer mu.Unlock()
			if line := strings.Join(got, " "); line != tt.want {
				t.Errorf("kind %d: %q, want %q", tt.kind, line, tt.want)
			}
		})
	}
}

func TestBreakAll(t *testing.T) {
	gateway := Unavailable(7 * time.Second)
	for _, tt := range []struct {
		rule    string
		gateway http.Handler
		status  int
	}{{"a restart resets everything", nil, 0}, {"a gateway answers the open submit", gateway, 503}} {
		t.Run(tt.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &Network{Handler: &daemon{}}
				c := n.Client()
				resp, err := c.RoundTrip(request(t.Context(), t, "GET", followURL, ""))
				if err != nil {
					t.Fatal(err)
				}
				time.AfterFunc(1500*time.Millisecond, func() {
					if broken := n.BreakAll(tt.gateway); broken != 2 {
						t.Errorf("broke %d exchanges, want the follow and the submit", broken)
					}
				})
				submitted := make(chan error)
				go func() {
					resp, err := c.RoundTrip(request(t.Context(), t, "POST", submitURL, "x"))
					switch {
					case tt.status == 0 && !errors.Is(err, syscall.ECONNRESET):
						err = fmt.Errorf("the submit ended with %v, want a reset", err)
					case tt.status != 0 && (err != nil || resp.StatusCode != tt.status || resp.Header.Get("Retry-After") != "7"):
						err = fmt.Errorf("the submit was answered %v, %v", resp, err)
					default:
						err = nil
					}
					submitted <- err
				}()
				body, err := io.ReadAll(resp.Body)
				if string(body) != "data: 0\n\ndata: 1\n\n" || !errors.Is(err, syscall.ECONNRESET) {
					t.Errorf("the follow brought %q, %v", body, err)
				}
				if err := <-submitted; err != nil {
					t.Error(err)
				}
				time.Sleep(time.Minute) // what the daemon still does
			})
		})
	}
}

func TestAKilledClientIsSilentForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &daemon{}
		n := &Network{Handler: d}
		dying, living := n.Client(), n.Client()
		resp, err := dying.RoundTrip(request(t.Context(), t, "GET", followURL, ""))
		if err != nil {
			t.Fatal(err)
		}
		other, err := living.RoundTrip(request(t.Context(), t, "GET", followURL, ""))
		if err != nil {
			t.Fatal(err)
		}
		dying.Kill()
		if _, err := io.ReadAll(resp.Body); !errors.Is(err, errKilled) {
			t.Errorf("the dead client read to %v", err)
		}
		before := len(d.seen())
		if _, err := dying.RoundTrip(request(t.Context(), t, "GET", pageURL, "")); !errors.Is(err, errKilled) || len(d.seen()) != before {
			t.Errorf("the dead client began an exchange: %v", err)
		}
		if body, err := io.ReadAll(other.Body); err != nil || len(body) != 27 {
			t.Errorf("the living client read %q, %v", body, err)
		}
	})
}

func TestDecideSeesTheExchange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		n := &Network{Handler: &daemon{}, Decide: func(x Exchange) Break {
			seen = append(seen, fmt.Sprintf("%s %d %q", x.Route, x.N, x.Cursor))
			return Break{Kind: Refuse}
		}}
		c := n.Client()
		for _, r := range [][2]string{
			{"GET", pageURL}, {"GET", pageURL}, {"GET", followURL}, {"POST", submitURL}, {"POST", "http://daemon/aip/v1/actions"},
			{"GET", "http://daemon/aip/v1/actions/act_1"}, {"GET", "http://daemon/aip/v1/actions/act_1/result"},
			{"POST", "http://daemon/aip/v1/actions/act_1/cancel"}, {"GET", "http://daemon/ready"}, {"GET", "http://daemon/aip/v1/manifest"},
		} {
			if _, err := c.RoundTrip(request(t.Context(), t, r[0], r[1], "")); !errors.Is(err, ErrRefused) {
				t.Errorf("%v: %v", r, err)
			}
		}
		want := `page 0 "c_1",page 1 "c_1",follow 0 "",submit 0 "",submit 1 "",status 0 "",result 0 "",cancel 0 "",other 0 "",other 1 ""`
		if got := strings.Join(seen, ","); got != want {
			t.Errorf("seen %s\nwant %s", got, want)
		}
		if n.Count(Submit) != 2 || n.Count(Page) != 2 {
			t.Errorf("counted %d submits and %d pages", n.Count(Submit), n.Count(Page))
		}
	})
}
