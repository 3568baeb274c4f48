package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aipctl/aipctl/internal/client"
	"github.com/aipctl/aipctl/internal/engine"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/identity"
	"github.com/aipctl/aipctl/internal/render"
	"github.com/aipctl/aipctl/internal/state"
	"github.com/google/go-cmp/cmp"
)

// wire is a daemon in memory, for the cases whose waits would take minutes of
// real time: below it everything is the program's own, and under synctest all
// of its clocks are virtual.
type wire struct {
	t        *testing.T
	dir      string
	follows  []string // files, one a connection; when there are no more, refused
	statuses []string // files; the last one repeats
	results  []string // files, or "" for an action that is not known; the last repeats

	mu   sync.Mutex
	seen map[string]int
	at   []time.Time // of the follows
	asks []string    // cursors of the follows
	sent int         // anything that is no read
}

// RoundTrip answers one request. A reset is what refuses a follow.
func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen == nil {
		w.seen = map[string]int{}
	}
	next := func(kind string, files []string) (string, bool) {
		i := w.seen[kind]
		w.seen[kind]++
		if i < len(files) {
			return files[i], true
		}
		return files[len(files)-1], false
	}
	q := r.URL.Query()
	switch {
	case r.Method != http.MethodGet:
		w.sent++
		return nil, syscall.ECONNRESET
	case q.Get("follow") == "true":
		w.at = append(w.at, time.Now())
		w.asks = append(w.asks, q.Get("cursor"))
		file, more := next("follow", w.follows)
		if !more {
			return nil, syscall.ECONNRESET
		}
		return answer(200, "text/event-stream", read(w.t, w.dir, file)), nil
	case strings.HasSuffix(r.URL.Path, "/events"):
		return answer(200, "application/json", encode(map[string]any{"action_events": map[string]any{
			"action_id": "act", "events": []any{}, "cursor": q.Get("cursor"), "terminal": true,
		}})), nil
	case strings.HasSuffix(r.URL.Path, "/result"):
		// The result never lags behind the state that was shown.
		w.seen["result"] = max(w.seen["result"], w.seen["status"]-1)
		if file, _ := next("result", w.results); file != "" {
			return answer(200, "application/json", read(w.t, w.dir, file)), nil
		}
		return answer(400, "application/json", encode(aipError("action.not_found", "permanent", nil))), nil
	default:
		file, _ := next("status", w.statuses)
		return answer(200, "application/json", read(w.t, w.dir, file)), nil
	}
}

func answer(status int, typ string, body []byte) *http.Response {
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {typ}}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: -1,
	}
}

// follow comes back to an action over the wire as action events does, with the
// wait between two tries at its upper or lower end.
func (w *wire) follow(ctx context.Context, actionID string, jitter float64) (shot, []state.Record) {
	w.t.Helper()
	base := &url.URL{Scheme: "http", Host: "127.0.0.1:1"}
	c, err := client.New(client.Options{Base: base, Transport: w})
	if err != nil {
		w.t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	journal := &journal{}
	outcome, err := engine.Events(ctx, engine.Config{
		Net: c, Journal: journal, Now: time.Now, MessageID: identity.NewMessageID,
		Sink:    render.New(render.Options{Stdout: &stdout, Stderr: &stderr}),
		Binding: engine.BindingFor(base.String(), "anon", actionID, true),
		Idle:    45 * time.Second, Jitter: func() float64 { return jitter },
	}, engine.FollowPlan{ActionID: actionID, Chunks: true, Follow: true, From: engine.FromStart})
	if err != nil {
		w.t.Fatal(err)
	}
	return shot{outcome.ExitCode, stdout.String(), stderr.String()}, journal.records
}

// journal keeps the records in memory.
type journal struct{ records []state.Record }

func (j *journal) RecordIntent(context.Context, string, state.Intent, bool) error {
	return errors.New("a reading command recorded an intent")
}

func (j *journal) Append(_ context.Context, _ bool, recs ...state.Record) error {
	j.records = append(j.records, recs...)
	return nil
}

func testRetryValues(t *testing.T, dir string) {
	retries := func(t *testing.T) *wire {
		return &wire{
			t: t, dir: dir, follows: []string{"conn1.sse", "empty0.sse", "empty0.sse", "empty0.sse", "empty0.sse", "last.sse"},
			// A state that is terminal already would end the waiting earlier.
			statuses: []string{"unknown.json"}, results: []string{"result.json"},
		}
	}
	dir = running(t, dir, "play.json")
	for _, tc := range []struct {
		rule   string
		jitter float64
		least  []time.Duration
	}{
		{"no value takes the wait below the floor", 0, []time.Duration{250, 250, 250, 250, 250}},
		{"the waits grow, and no value makes one a day", 0.9999, []time.Duration{499, 999, 1999, 3999, 7999}},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := retries(t)
				s, _ := w.follow(t.Context(), "act_qa_08", tc.jitter)
				if s.code != 0 || s.stdout != "slow and steady\n" {
					t.Errorf("exit code %d and stdout %q; stderr:\n%s", s.code, s.stdout, s.stderr)
				}
				if diff := cmp.Diff([]string{"", "aev_cursor_402_1", "aev_cursor_402_1", "aev_cursor_402_1", "aev_cursor_402_1", "aev_cursor_402_1"}, w.asks); diff != "" {
					t.Fatalf("cursors of the follows (-want +got):\n%s", diff)
				}
				for i, least := range tc.least {
					gap := w.at[i+1].Sub(w.at[i])
					if least *= time.Millisecond; gap < least || gap > least+2*time.Millisecond {
						t.Errorf("wait %d was %v, want %v", i+1, gap, least)
					}
				}
				if w.sent != 0 {
					t.Errorf("%d requests were no reads", w.sent)
				}
			})
		})
	}
	t.Run("the wait ends at once on a signal", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := retries(t)
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(3*time.Second, func() { cancel(fault.New(fault.Interrupt, "signal", "interrupt received")) })
			begun := time.Now()
			s, _ := w.follow(ctx, "act_qa_08", 0.9999)
			if s.code != 130 {
				t.Errorf("exit code %d, want 130", s.code)
			}
			if took := time.Since(begun); took != 3*time.Second {
				t.Errorf("the run ended %v after its begin, want at the signal", took)
			}
		})
	})
	t.Run("over a socket", func(t *testing.T) {
		dir := changedPlan(t, dir, "play.json", func(plan map[string]any) {
			plan["follow"] = []any{body("conn1.sse"), body("empty0.sse"), body("last.sse")}
		})
		want{
			text: "slow and steady", verdict: "accepted", code: 0,
			follows: []string{"", "aev_cursor_402_1", "aev_cursor_402_1"}, cursor: "aev_cursor_406_4",
		}.settle(t, dir)
	})
}

// testStreamDiesActionFails is case 28 a: the stream ends in the middle and
// never comes back, and the action turns out to have failed half a minute
// later.
func testStreamDiesActionFails(t *testing.T, dir string) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{
			t: t, dir: dir, follows: []string{"part.sse"},
			statuses: []string{"status-unknown.json", "status-unknown.json", "status-failed.json"},
			results:  []string{"", "", "result-failed.json"},
		}
		s, records := w.follow(t.Context(), "act_qa_28", 0.5)
		if s.code != 11 || s.stdout != "Pressure is\n" {
			t.Errorf("exit code %d and stdout %q, want 11 and what was streamed; stderr:\n%s", s.code, s.stdout, s.stderr)
		}
		if line := verdictLine(t, s.stderr); !verdictIs(line, "incomplete") {
			t.Errorf("stderr says %q", line)
		}
		for i, ask := range w.asks[1:] {
			if ask != "aev_cursor_402_1" {
				t.Errorf("follow %d asks for %q", i+2, ask)
			}
			if i > 0 && w.at[i+1].Sub(w.at[i]) < 250*time.Millisecond {
				t.Errorf("follow %d came %v after the one before", i+2, w.at[i+1].Sub(w.at[i]))
			}
		}
		if w.sent != 0 {
			t.Errorf("%d requests were no reads", w.sent)
		}
		last := records[len(records)-1]
		for _, r := range records {
			if r.Type == state.TypeSettled {
				last = r
			}
		}
		if last.Settled == nil || last.Settled.Verdict != "incomplete" || last.Settled.ExitCode != 11 {
			t.Errorf("the verdict was not recorded: %+v", last)
		}
	})
}
