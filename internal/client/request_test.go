package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/fault"
)

func TestParseBase(t *testing.T) {
	for raw, want := range map[string]string{
		"http://host":                   "http://host",
		"HTTPS://Host.Example:8443/":    "https://host.example:8443",
		"https://host/pre/fix":          "https://host/pre/fix",
		"https://host/pre/fix//":        "https://host/pre/fix",
		"https://host/a%2Fb/":           "https://host/a%2Fb",
		"http://[::1]:8080/Case/Stays/": "http://[::1]:8080/Case/Stays",
	} {
		u, err := ParseBase(raw)
		if err != nil || u.String() != want {
			t.Errorf("%s is read as %v (%v), want %s", raw, u, err, want)
		}
	}
	for _, raw := range []string{
		"", "host", "host:8080", "ftp://host", "file:///etc/passwd", "http://", "http:///path", "https://:443", "http://user:CANARY@host", "http://CANARY@host",
		"http://host/?token=CANARY", "http://host?", "http://host/#CANARY", "http://ho st/CANARY", "http://host:port/CANARY", "http://[::1/CANARY", "\x7f",
	} {
		u, err := ParseBase(raw)
		f := fault.As(err)
		if f == nil || f.Class != fault.Usage || f.Code != "url.invalid" || f.Hint == "" {
			t.Errorf("%q is read as %v (%v)", raw, u, err)
		}
		quiet(t, err)
	}
}

func TestLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "a.localhost": true, "127.0.0.1": true, "127.9.9.9": true, "[::1]": true,
		"10.0.0.1": false, "[::]": false, "0.0.0.0": false, "example.com": false, "127.0.0.1.example.com": false, "localhost.example.com": false, "notlocalhost": false,
	} {
		if got := Loopback(mustParse(t, "http://"+host+":80")); got != want {
			t.Errorf("%s is this machine: %v", host, got)
		}
	}
}

// stub answers without a network and keeps the requests.
type stub struct {
	requests []*http.Request
	bodies   []string
	status   int
	body     string
}

func (s *stub) RoundTrip(r *http.Request) (*http.Response, error) {
	s.requests = append(s.requests, r)
	body := ""
	if r.Body != nil {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		body = string(b)
	}
	s.bodies = append(s.bodies, body)
	status := s.status
	if status == 0 {
		status = http.StatusOK
	}
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(s.body)), Request: r}, nil
}

// TestWhereRequestsGo: the prefix of the URL is kept, and ids and values are
// escaped so that they stay in their place.
func TestWhereRequestsGo(t *testing.T) {
	const id = "act_a/b?c=d#e%2Fé .."
	const escaped = "act_a%2Fb%3Fc=d%23e%252F%C3%A9%20.."
	for _, base := range []string{"http://127.0.0.1:1", "http://127.0.0.1:1/pre/fix/", "http://127.0.0.1:1/a%2Fb"} {
		prefix := strings.TrimSuffix(strings.TrimPrefix(base, "http://127.0.0.1:1"), "/")
		s := &stub{}
		c := open(t, base, func(o *Options) { o.Transport = s })
		ctx := t.Context()
		_, _ = c.Submit(ctx, []byte(`{}`), nil, aip.ResultDecoding{})
		_, _ = c.Result(ctx, id, aip.ResultDecoding{})
		_, _ = c.Status(ctx, id)
		_, _ = c.Page(ctx, aip.EventsQuery{ActionID: id}, aip.Decoding{})
		_, _ = c.Page(ctx, aip.EventsQuery{ActionID: id, Cursor: "a&b=c d", Limit: 7, IncludeChunks: true, Kinds: []string{"k1", "k2"}}, aip.Decoding{})
		_, _ = c.Follow(ctx, aip.EventsQuery{ActionID: id, Cursor: "x"})
		_ = c.Cancel(ctx, id, "")
		_, _ = c.Readiness(ctx)
		_, _ = c.Capabilities(ctx, aip.CapabilityQuery{CapabilityID: id, Cursor: "a&b", Limit: 200})
		_, _ = c.Manifest(ctx, id)
		_ = c.MayRead(ctx, ReadApprovals)
		want := []string{
			"POST " + prefix + "/aip/v1/messages",
			"GET " + prefix + "/aip/v1/actions/" + escaped + "/result",
			"GET " + prefix + "/aip/v1/actions/" + escaped,
			"GET " + prefix + "/aip/v1/actions/" + escaped + "/events",
			"GET " + prefix + "/aip/v1/actions/" + escaped + "/events?cursor=a%26b%3Dc+d&include_chunks=true&kinds=k1%2Ck2&limit=7",
			"GET " + prefix + "/aip/v1/actions/" + escaped + "/events?cursor=x&follow=true",
			"POST " + prefix + "/aip/v1/actions/" + escaped + "/cancel",
			"GET " + prefix + "/ready",
			"GET " + prefix + "/aip/v1/capabilities?capability_id=act_a%2Fb%3Fc%3Dd%23e%252F%C3%A9+..&cursor=a%26b&limit=200",
			"GET " + prefix + "/aip/v1/manifest?capability_id=act_a%2Fb%3Fc%3Dd%23e%252F%C3%A9+..",
			"GET " + prefix + "/aip/v1/approvals?limit=1",
		}
		var got []string
		for _, r := range s.requests {
			got = append(got, r.Method+" "+r.URL.RequestURI())
			if r.URL.Host != "127.0.0.1:1" {
				t.Errorf("a request went to %s", r.URL.Host)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("below %s the requests are\n%s\nwant\n%s", base, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// TestHeadersOfARequest lists them all: above all there is no header by which
// Go's transport or anything on the way would send a submit again.
func TestHeadersOfARequest(t *testing.T) {
	got := map[string][]string{}
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got[r.Method+" "+r.URL.Path] = slices.Sorted(maps.Keys(r.Header))
		if r.Header.Get("Accept-Encoding") != "identity" || r.Header.Get("Authorization") != "Bearer "+token || r.Header.Get("User-Agent") != "aipctl/test" {
			t.Errorf("%s: headers %v", r.URL.Path, r.Header)
		}
		answer(200, "application/json", `{"ack":{"action_id":"act_1","status":"queued"}}`)(w, r)
	})
	c := open(t, url, func(o *Options) { o.UserAgent = "aipctl/test" })
	if _, err := c.Submit(t.Context(), []byte(`{"idempotency_key":"k"}`), nil, aip.ResultDecoding{}); err != nil {
		t.Fatal(err)
	}
	if err := c.Cancel(t.Context(), "act_1", "why"); err != nil {
		t.Fatal(err)
	}
	_, _ = c.Status(t.Context(), "act_1")
	for path, want := range map[string][]string{
		"POST /aip/v1/messages":             {"Accept-Encoding", "Authorization", "Connection", "Content-Length", "Content-Type", "User-Agent"},
		"POST /aip/v1/actions/act_1/cancel": {"Accept-Encoding", "Authorization", "Content-Length", "Content-Type", "User-Agent"},
		"GET /aip/v1/actions/act_1":         {"Accept-Encoding", "Authorization", "User-Agent"},
	} {
		if !slices.Equal(got[path], want) {
			t.Errorf("%s has the headers %q, want %q", path, got[path], want)
		}
	}
}

// TestTheEnvelopeIsSentByteForByte, with its length and no way to send it a
// second time.
func TestTheEnvelopeIsSentByteForByte(t *testing.T) {
	envelope := []byte("{ \"a\":1,\"a\":1.50, \"b\":\"\\ud83d\u00e9\" }\n")
	s := &stub{}
	c := open(t, "http://127.0.0.1:1", func(o *Options) { o.Transport = s })
	_, _ = c.Submit(t.Context(), envelope, nil, aip.ResultDecoding{})
	r := s.requests[0]
	if s.bodies[0] != string(envelope) || r.ContentLength != int64(len(envelope)) || r.Header.Get("Content-Type") != "application/json" {
		t.Errorf("sent %q of %d bytes as %s", s.bodies[0], r.ContentLength, r.Header.Get("Content-Type"))
	}
	if r.GetBody != nil {
		t.Error("the request can be sent again")
	}
}

func TestATokenDoesNotCrossPlainHTTP(t *testing.T) {
	for _, tc := range []struct {
		rule, url string
		allow     bool
		token     string
		sent      bool
	}{
		{"to another host", "http://daemon.example", false, token, false},
		{"to another address", "http://10.0.0.1:8080", false, token, false},
		{"to another host, allowed", "http://daemon.example", true, token, true},
		{"over TLS", "https://daemon.example", false, token, true},
		{"to this machine", "http://127.0.0.1:8080", false, token, true},
		{"to this machine by name", "http://localhost:8080", false, token, true},
		{"without a token", "http://daemon.example", false, "", true},
	} {
		for _, call := range calls {
			t.Run(tc.rule+"/"+call.name, func(t *testing.T) {
				s := &stub{}
				c := open(t, tc.url, func(o *Options) {
					o.Transport, o.AllowPlaintext = s, tc.allow
					o.Token = func() (string, error) { return tc.token, nil }
				})
				err := call.do(t.Context(), c)
				quiet(t, err)
				if sent := len(s.requests) > 0; sent != tc.sent {
					t.Fatalf("sent: %v (%v)", sent, err)
				}
				if !tc.sent {
					te := transported(t, err)
					if f := fault.As(err); !te.NoConnection || f == nil || f.Code != "url.plaintext_token" || f.Class != fault.Usage {
						t.Errorf("the error is %+v", te)
					}
					return
				}
				want := []string{"Bearer " + tc.token}
				if tc.token == "" {
					want = nil
				}
				if got := s.requests[0].Header["Authorization"]; !slices.Equal(got, want) {
					t.Errorf("the header is %q", got)
				}
			})
		}
	}
}

func TestATokenThatCannotBeReadSendsNothing(t *testing.T) {
	s := &stub{}
	unreadable := fault.New(fault.Auth, "token.unreadable", "the token file cannot be read")
	c := open(t, "http://127.0.0.1:1", func(o *Options) {
		o.Transport = s
		o.Token = func() (string, error) { return "", unreadable }
	})
	for _, call := range calls {
		err := call.do(t.Context(), c)
		if te := transported(t, err); !te.NoConnection || fault.As(err).Code != unreadable.Code || te.Error() != unreadable.Message {
			t.Errorf("%s: %+v", call.name, te)
		}
	}
	if len(s.requests) != 0 {
		t.Errorf("%d requests were sent", len(s.requests))
	}
}

func TestCancelBodies(t *testing.T) {
	s := &stub{body: `{"action_result":{"action_id":"act_1","status":"cancelled","output":{"cancelled":true}}}`}
	c := open(t, "http://127.0.0.1:1", func(o *Options) { o.Transport = s })
	for _, reason := range []string{"", `it's "over" & <done>`, "line\nfeed"} {
		if err := c.Cancel(t.Context(), "act_1", reason); err != nil {
			t.Errorf("%q: %v", reason, err)
		}
	}
	want := []string{`{}`, `{"reason":"it's \"over\" & <done>"}`, `{"reason":"line\nfeed"}`}
	if !slices.Equal(s.bodies, want) {
		t.Errorf("the bodies are %q, want %q", s.bodies, want)
	}
	if err := c.Cancel(t.Context(), "act_1", "\xff"+canary); err == nil || len(s.requests) != 3 {
		t.Errorf("a reason that is no UTF-8 was sent: %v", err)
	} else {
		quiet(t, err)
	}
}

func TestReady(t *testing.T) {
	for status, want := range map[int]struct{ ready, err bool }{200: {true, false}, 503: {false, false}, 404: {false, true}, 500: {false, true}, 302: {false, true}} {
		s := &stub{status: status, body: `{"status":"x"}`}
		c := open(t, "http://127.0.0.1:1", func(o *Options) { o.Transport = s })
		got, err := c.Readiness(context.Background())
		if (err != nil) != want.err || err == nil && got.Ready != want.ready {
			t.Errorf("%d: %+v, %v", status, got, err)
		}
	}
}

// TestAPageOfSomethingElseIsNoReadiness: whatever answers 200 to everything is
// no daemon.
func TestAPageOfSomethingElseIsNoReadiness(t *testing.T) {
	for body, status := range map[string]int{"<html>ok</html>": 200, "ok": 200, "[]": 200, "<html>sorry</html>": 503, "": 503} {
		s := &stub{status: status, body: body}
		c := open(t, "http://127.0.0.1:1", func(o *Options) { o.Transport = s })
		var remote *aip.RemoteError
		if got, err := c.Readiness(t.Context()); !errors.As(err, &remote) {
			t.Errorf("%q: %+v, %v", body, got, err)
		}
	}
}

// TestFollowHandsOutTheBytes as they are, without a bound of its own.
func TestFollowHandsOutTheBytes(t *testing.T) {
	stream := ": keep-alive\n\nevent: x\r\ndata: {\"\xff\":1}\n\n" + strings.Repeat("data: long\n", 1000)
	for _, contentType := range []string{"text/event-stream", "Text/Event-Stream; charset=utf-8"} {
		url := serve(t, answer(200, contentType, stream))
		c := open(t, url, func(o *Options) { o.MaxResultBytes = 5 })
		body, err := c.Follow(t.Context(), aip.EventsQuery{ActionID: "act_1"})
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(body)
		body.Close()
		if err != nil || !bytes.Equal(got, []byte(stream)) {
			t.Errorf("%d bytes of %d came (%v)", len(got), len(stream), err)
		}
	}
}
