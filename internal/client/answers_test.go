package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/aiptest"
	"github.com/aipctl/aipctl/internal/verdict"
)

var (
	dateWords = regexp.MustCompile(`^Date (\d+) s (ahead of|behind) ours$`)
	pairWords = regexp.MustCompile(`^(remote_status|uncertain_outcome) (\w+)(?: of (\w+))?$`)
)

// categories are the daemon's own for each HTTP status.
var categories = map[int]string{400: "permanent", 401: "auth", 402: "economic", 403: "policy", 502: "connector", 503: "temporary", 200: "transport"}

// answered plays a row of the table of answers over the network.
type answered struct {
	url       string
	ctx       context.Context
	change    func(*Client)
	operation string
}

func play(t *testing.T, row aiptest.Row, now time.Time) answered {
	t.Helper()
	p := answered{ctx: t.Context(), operation: "chat_stream"}
	status, _ := strconv.Atoi(row.Get("http_status"))
	extra := row.Get("extra")
	if status == 0 {
		playNoAnswer(t, &p, extra)
		return p
	}
	date := now
	location, retry := "", ""
	var details []string
	for _, words := range strings.Split(extra, ", ") {
		if d := dateWords.FindStringSubmatch(words); d != nil {
			n, _ := strconv.Atoi(d[1])
			if d[2] == "behind" {
				n = -n
			}
			date = now.Add(time.Duration(n) * time.Second)
		}
		if d := pairWords.FindStringSubmatch(words); d != nil {
			details = append(details, fmt.Sprintf("%q:%s", d[1], d[2]))
			if d[3] != "" {
				p.operation = d[3]
			}
		}
		if words == "Location names another place" {
			location = "https://elsewhere.example/x"
		}
		if n, ok := strings.CutPrefix(words, "Retry-After "); ok {
			retry = n
		}
	}
	envelope := fmt.Sprintf(`{"aip_version":"1.0","body":{"error":{"error":{"code":%q,"message":%q,"category":%q,"details":{%s}}}}}`,
		row.Get("code"), canary, categories[status], strings.Join(details, ","))
	bodies := map[string]struct{ contentType, body string }{
		"aip":  {"application/json", envelope},
		"json": {"application/json", `{"error":{"code":"catalogue.disabled","message":"` + canary + `"}}`},
		"html": {"text/html", "<html>runtime.handler_failed " + canary + "</html>"},
		"text": {"text/plain; charset=utf-8", canary},
		"none": {"", ""},
		"cut":  {"application/json", `{"body":{"action_result":{"status":"comp`},
	}
	b, ok := bodies[row.Get("body")]
	if !ok {
		t.Fatalf("the test does not know a body of the kind %q", row.Get("body"))
	}
	p.url = serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", date.UTC().Format(http.TimeFormat))
		if location != "" {
			w.Header().Set("Location", location)
		}
		if retry != "" {
			w.Header().Set("Retry-After", retry)
		}
		answer(status, b.contentType, b.body)(w, r)
	})
	return p
}

func playNoAnswer(t *testing.T, p *answered, extra string) {
	t.Helper()
	switch extra {
	case "connection refused":
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		p.url = "http://" + l.Addr().String()
	case "name does not resolve":
		p.url = "https://nowhere.invalid"
		p.change = func(c *Client) {
			dialer(c, func(context.Context, string, string) (net.Conn, error) {
				return nil, &net.DNSError{Err: "no such host", Name: canary, IsNotFound: true}
			})
		}
	case "tls handshake refused":
		w := plug(t, func(_ *wire, c *net.TCPConn, r *bufio.Reader) {
			_, _ = io.WriteString(c, "\x15\x03\x03\x00\x02\x02\x28")
			_, _ = r.ReadByte()
		})
		p.url = strings.Replace(w.URL, "http://", "https://", 1)
	case "request read, then closed without an answer":
		p.url = plug(t, func(w *wire, _ *net.TCPConn, r *bufio.Reader) { w.take(r) }).URL
	case "reset after the request left":
		p.url = plug(t, func(w *wire, c *net.TCPConn, r *bufio.Reader) { w.take(r); reset(c) }).URL
	case "no answer before --wait ran out":
		ctx, cancel := context.WithCancelCause(t.Context())
		p.ctx = ctx
		p.url = plug(t, func(w *wire, _ *net.TCPConn, r *bufio.Reader) {
			w.take(r)
			cancel(context.DeadlineExceeded)
			_, _ = r.ReadByte()
		}).URL
	default:
		t.Fatalf("the test does not know how to play %q", extra)
	}
}

// TestSubmitAnswersOverTheNetwork plays every row of the table of answers to
// the client: what it makes of them must lead to the reading of the row.
func TestSubmitAnswersOverTheNetwork(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	for _, row := range aiptest.Table(t, "submit_answers.tsv") {
		name := strings.Join([]string{row.Get("http_status"), row.Get("body"), row.Get("code"), row.Get("extra")}, "/")
		t.Run(name, func(t *testing.T) {
			p := play(t, row, now)
			c := open(t, p.url, nil)
			if p.change != nil {
				p.change(c)
			}
			reply, err := c.Submit(p.ctx, []byte(`{"body":"`+canary+`"}`), nil, aip.ResultDecoding{})
			if err == nil {
				t.Fatalf("the answer is taken for the reply %+v", reply)
			}
			quiet(t, err)
			a := verdict.Answer{Now: now}
			var te *TransportError
			if !errors.As(err, &a.Remote) {
				a.NoConnection = errors.As(err, &te) && te.NoConnection
				a.Lost = !a.NoConnection
			}
			got := verdict.ReadSubmit(a, verdict.CodeContext{Operation: p.operation})
			want := verdict.SubmitReading{NotSent: row.Get("not_sent") == "yes", Closed: row.Get("closed") == "yes", Skew: got.Skew}
			reading := row.Get("reading")
			if want.Settled = reading != "uncertain"; !want.Settled {
				reading = "unknown"
			}
			if got.Settled != want.Settled || got.NotSent != want.NotSent || got.Closed != want.Closed || got.Reading.String() != reading {
				t.Errorf("%v is read as %+v, want %s, not sent %v, closed %v", err, got, row.Get("reading"), want.NotSent, want.Closed)
			}
			if code := row.Get("exit_code"); code != "" && strconv.Itoa(got.Reading.Code()) != code {
				t.Errorf("the exit code is %d, want %s", got.Reading.Code(), code)
			}
		})
	}
}
