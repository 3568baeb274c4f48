package e2e_test

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aipctl/aipctl/internal/aiptest"
)

// moment is the frozen clock of the runs whose answers carry a Date: it has no
// fraction, as a Date has none.
var moment = time.Date(2030, 1, 15, 9, 30, 0, 0, time.UTC)

// answerRow is a row of the table of answers to the submit.
type answerRow struct {
	status            int // 0: there is no HTTP answer
	body, code, extra string
	reading           string
	exit              int // of an uncertain answer: with an action that stays unknown
	notSent, closed   bool
}

func (r answerRow) name() string {
	return strings.Join(strings.Fields(fmt.Sprint(r.status, " ", r.body, " ", r.code, " ", r.extra)), " ")
}

func answerRows(t *testing.T) []answerRow {
	t.Helper()
	var rows []answerRow
	for _, row := range aiptest.Table(t, "submit_answers.tsv") {
		r := answerRow{
			body: row.Get("body"), code: row.Get("code"), extra: row.Get("extra"), reading: row.Get("reading"),
			notSent: row.Get("not_sent") == "yes", closed: row.Get("closed") == "yes",
		}
		if v := row.Get("http_status"); v != "" {
			r.status = atoi(t, v)
		}
		switch v := row.Get("exit_code"); {
		case v != "":
			r.exit = atoi(t, v)
		case r.extra == "no answer before --wait ran out":
			r.exit = 8 // the submit is still open
		default:
			r.exit = 9
		}
		rows = append(rows, r)
	}
	return rows
}

func atoi(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestSubmitAnswers gives every kind of answer to the submit, while the stream
// is open and silent and the state unknown.
func TestSubmitAnswers(t *testing.T) {
	for _, row := range answerRows(t) {
		t.Run(row.name(), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if row.code == "replay.message_id" {
				w.now = func() time.Time { return moment }
			}
			url, posts := row.daemon(t, w)
			operation, input := "chat_stream", `{"prompt":"n","session_id":"s"}`
			if strings.Contains(row.extra, "response_get") {
				operation, input = "response_get", `{"response_id":"resp_x"}`
			}
			s := w.run("action", "call", url, "cap:hermes_agent:lab:"+operation, "--input", input, "--idempotency-key", "key-of-answers", "--wait", row.wait(), "-o", "jsonl")
			_, o := records(t, s.stdout)
			if s.code != row.exit || o.ExitCode != row.exit {
				t.Errorf("exit code %d, in the outcome %d; want %d (%s)\noutcome %+v", s.code, o.ExitCode, row.exit, row.reading, o)
			}
			if row.reading != "uncertain" && o.Verdict != row.reading {
				t.Errorf("the verdict is %s, want %s", o.Verdict, row.reading)
			}
			if got := posts(); got != row.posts() {
				t.Errorf("%d submits, want %d", got, row.posts())
			}
			notSent := w.state("not_sent")
			if want := row.notSent; (len(notSent) == 1) != want || len(notSent) > 1 {
				t.Errorf("%d not_sent records; want one: %t", len(notSent), want)
			}
			if len(notSent) == 1 && (notSent[0].NotSent.Class != row.exit || notSent[0].NotSent.InputHash == "") {
				t.Errorf("not_sent record %+v, want the class %d and the hash of the input", *notSent[0].NotSent, row.exit)
			}
			closed := slices.ContainsFunc(w.state("settled"), func(r stateRecord) bool { return r.Settled.Closed })
			if !row.notSent && closed != row.closed {
				t.Errorf("settled for good: %t, want %t", closed, row.closed)
			}
			for _, next := range o.Next {
				if slices.Contains(next, "call") {
					t.Errorf("next is a submission: %v", next)
				}
			}
		})
	}
}

// wait is what --wait is given: none of the settled answers uses it up.
func (r answerRow) wait() string {
	switch {
	case r.reading != "uncertain":
		return "30s"
	case r.exit == 8:
		return "300ms"
	default:
		return "1500ms"
	}
}

// posts is how often the submit reaches the daemon.
func (r answerRow) posts() int {
	if r.status == 0 && r.notSent {
		return 0 // no connection was obtained
	}
	return 1
}

// daemon starts what gives the answer of the row, and returns its URL and a
// count of its submits.
func (r answerRow) daemon(t *testing.T, w *world) (url string, posts func() int) {
	t.Helper()
	none := func() int { return 0 }
	switch r.extra {
	case "connection refused":
		return nobody, none
	case "name does not resolve":
		// A name with an empty label is none, and no resolver is asked for it.
		return "http://no..name:1", none
	case "tls handshake refused":
		ln := tls.NewListener(listen(t), &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return nil, errors.New("no")
		}})
		t.Cleanup(func() { ln.Close() })
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				_ = c.(*tls.Conn).Handshake()
				c.Close()
			}
		}()
		return "https://" + ln.Addr().String(), none
	}
	d := serveUnsubmitted(t, recording{}, func(d *daemon) {
		d.post = func(rw http.ResponseWriter, req *http.Request) {
			intentBefore(t, w, submittedID(t, req))
			r.answer(t, rw, req)
		}
	})
	return d.URL, func() int { return d.count("post") }
}

// nobody is a URL where no connection can be had. A port that was closed would
// be given to another test.
const nobody = "http://127.0.0.1:1"

func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// intentBefore looks into the state file while the submit is in flight: id and
// key are on disk before a byte of it left.
func intentBefore(t *testing.T, w *world, id string) {
	t.Helper()
	src, err := os.ReadFile(w.env["AIPCTL_STATE"])
	if err != nil {
		t.Errorf("the submit came before the state file: %v", err)
		return
	}
	line, _, _ := strings.Cut(string(src), "\n")
	var r stateRecord
	if err := json.Unmarshal([]byte(line), &r); err != nil || r.Type != "intent" || r.ActionID != id || r.Intent.IdempotencyKey != "key-of-answers" {
		t.Errorf("the first record is no intent of %s (%v): %s", id, err, line)
	}
}

const page = "<!DOCTYPE html><html><head><title>Sign in</title></head><body>runtime.handler_failed</body></html>"

// answer writes the answer of the row.
func (r answerRow) answer(t *testing.T, w http.ResponseWriter, req *http.Request) {
	h := w.Header()
	h["Date"] = nil // unless the row has one
	switch {
	case strings.HasPrefix(r.extra, "Location"):
		h.Set("Location", "http://127.0.0.1:1/elsewhere")
	case strings.HasPrefix(r.extra, "Date"):
		h.Set("Date", moment.Add(r.skew(t)).Format(http.TimeFormat))
	case strings.HasPrefix(r.extra, "Retry-After"):
		h.Set("Retry-After", strings.TrimPrefix(r.extra, "Retry-After "))
	}
	switch r.extra {
	case "request read, then closed without an answer":
		hijack(t, w).Close()
		return
	case "reset after the request left":
		c := hijack(t, w)
		c.(*net.TCPConn).SetLinger(0)
		c.Close()
		return
	case "no answer before --wait ran out":
		<-req.Context().Done()
		return
	}
	switch r.body {
	case "aip":
		writeJSON(w, r.status, aipError(r.code, category(r.code), r.details()))
	case "json":
		writeJSON(w, r.status, map[string]any{"error": map[string]any{"code": "some.code", "message": "no AIP body"}})
	case "html":
		h.Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(r.status)
		_, _ = io.WriteString(w, page)
	case "text":
		h.Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(r.status)
		_, _ = io.WriteString(w, "refused")
	case "cut":
		c := hijack(t, w)
		fmt.Fprintf(c, "HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: 4096\r\n\r\n%s", r.status, `{"aip_version":"1.0","body":{"action_res`)
		c.Close()
	case "none":
		w.WriteHeader(r.status)
	default:
		t.Errorf("the table has a body %q", r.body)
	}
}

func hijack(t *testing.T, w http.ResponseWriter) net.Conn {
	c, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		t.Error(err)
	}
	return c
}

var number = regexp.MustCompile(`\d+`)

// skew is how far the Date of the row is ahead of the client's clock.
func (r answerRow) skew(t *testing.T) time.Duration {
	seconds := number.FindString(r.extra)
	switch {
	case strings.Contains(r.extra, "ahead"):
		return time.Duration(atoi(t, seconds)) * time.Second
	case strings.Contains(r.extra, "behind"):
		return -time.Duration(atoi(t, seconds)) * time.Second
	default:
		return 0
	}
}

// details are the connector's own, where the row speaks of any.
func (r answerRow) details() any {
	d := map[string]any{}
	if strings.Contains(r.extra, "remote_status") {
		d["remote_status"] = json.Number(number.FindString(r.extra))
	}
	switch {
	case strings.Contains(r.extra, "uncertain_outcome true"):
		d["uncertain_outcome"] = true
	case strings.Contains(r.extra, "uncertain_outcome false"):
		d["uncertain_outcome"] = false
	}
	if len(d) == 0 {
		return nil
	}
	return d
}

// category is what aipd gives the code; nothing may be read from it.
func category(code string) string {
	switch family, _, _ := strings.Cut(code, "."); family {
	case "auth", "credential", "replay":
		return "auth"
	case "policy":
		return "policy"
	case "economic":
		return "economic"
	case "connector":
		return "connector"
	case "runtime", "storage":
		return "temporary"
	default:
		return "permanent"
	}
}
