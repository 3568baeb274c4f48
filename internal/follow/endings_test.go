package follow

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aipctl/aipctl/internal/aip"
)

func TestRefusals(t *testing.T) {
	notStream := &aip.RemoteError{Status: 200, Form: aip.FormHTML, NotStream: true}
	redirect := &aip.RemoteError{Status: 302, Redirect: "https://elsewhere.example"}
	tests := []struct {
		rule      string
		err       error
		permanent bool
	}{
		{"no network is passing", errReset, false},
		{"an answer without a stream is permanent", notStream, true},
		{"a redirect is permanent", redirect, true},
		{"401 is permanent", httpError(401, "auth.not_authorized"), true},
		{"403 is permanent", httpError(403, "policy.example"), true},
		{"404 is permanent", httpError(404, ""), true},
		{"400 is permanent", httpError(400, "query.invalid"), true},
		{"408 is passing", httpError(408, ""), false},
		{"425 is passing", httpError(425, ""), false},
		{"429 is passing", httpError(429, ""), false},
		{"500 is passing", httpError(500, ""), false},
		{"502 is passing", httpError(502, ""), false},
		{"503 is passing", httpError(503, "storage.unavailable"), false},
		{"504 is passing", httpError(504, ""), false},
		{"an event past the bound is permanent", fmt.Errorf("reading: %w", &ErrEventTooLarge{Limit: 1}), true},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			if got := Permanent(tt.err); got != tt.permanent {
				t.Errorf("permanent %t, want %t", got, tt.permanent)
			}
			synctest.Test(t, func(t *testing.T) {
				src := &source{conns: []conn{{refuse: tt.err}, stream(terminalFrame("c_1"))}}
				_, err := run(t, src, Options{})
				switch {
				case tt.permanent && (!errors.Is(err, tt.err) || len(src.asked) != 1):
					t.Errorf("ended with %v after %q, want the refusal after one request", err, src.asked)
				case !tt.permanent && (err != nil || len(src.asked) != 2):
					t.Errorf("ended with %v after %q, want a second request and its terminal mark", err, src.asked)
				}
			})
		})
	}
}

func TestARetryAfterIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &source{conns: []conn{
			{refuse: &aip.RemoteError{Status: 503, Retry: 9 * time.Second}},
			{refuse: &aip.RemoteError{Status: 503, Retry: 24 * time.Hour}},
			stream(terminalFrame("c_1")),
		}}
		items, err := run(t, src, Options{})
		if err != nil {
			t.Fatal(err)
		}
		expect(t, "asked", src.asked, `follow "" at 0s`, `follow "" at 9s`, `follow "" at 1m9s`)
		if !strings.HasSuffix(items[0], "(not opened)") {
			t.Errorf("%q does not say that no stream was opened", items[0])
		}
	})
}

func TestEventPastTheBound(t *testing.T) {
	const bound = 4096
	big := chunkFrame(1, strings.Repeat("x", bound))
	tests := []struct {
		rule string
		conn conn
	}{
		{"a whole event", stream(chunkFrame(0, "a"), cursorFrame("c_1"), big, terminalFrame("c_2"))},
		{"an event that comes slowly", stream(chunkFrame(0, "a"), cursorFrame("c_1"), big[:2000], time.Second, big[2000:])},
		{"a line that never ends", conn{steps: []any{chunkFrame(0, "a"), cursorFrame("c_1"), "data: ", strings.Repeat("x", 10*bound), strings.Repeat("x", 10*bound)}}},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := &source{conns: []conn{tt.conn}}
				items, err := run(t, src, Options{MaxEventBytes: bound, Idle: 45 * time.Second})
				var large *ErrEventTooLarge
				if !errors.As(err, &large) || large.Limit != bound || !strings.Contains(err.Error(), "4096 bytes of --max-event-bytes") {
					t.Errorf("ended with %v, want the bound named", err)
				}
				expect(t, "items", items, "opened 1", "chunk 0 follow", "cursor c_1 last 0")
				expect(t, "asked", src.asked, `follow "" at 0s`)
			})
		})
	}
	t.Run("an event at the bound is read", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			fits := chunkFrame(0, strings.Repeat("x", bound-len(chunkFrame(0, ""))+len("event: aip.stream.chunk\ndata: \nid: chunk:0\n\n")))
			items, err := run(t, &source{conns: []conn{stream(fits, terminalFrame("c_1"))}}, Options{MaxEventBytes: bound})
			if err != nil {
				t.Errorf("ended with %v", err)
			}
			expect(t, "items", items, "opened 1", "chunk 0 follow", "cursor c_1 last 0", "terminal")
		})
	})
}

func TestAnErrorOfTheReaderEndsTheFollow(t *testing.T) {
	gone := errors.New("stdout is gone")
	for _, stop := range []string{"opened 1", "chunk 0 follow", "cursor c_1 last 0", "lost 1 after 500ms: the stream ended without a terminal mark", "terminal"} {
		t.Run(stop, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := &source{begun: time.Now(), conns: []conn{stream(chunkFrame(0, "a"), cursorFrame("c_1")), stream(terminalFrame("c_1"))}}
				f := New(src, Options{ActionID: actionID, Jitter: constant(almostOne)})
				after := false
				err := f.Run(t.Context(), func(it Item) error {
					if after {
						t.Errorf("%s came after the reader had failed", told(it))
					}
					if told(it) == stop {
						after = true
						return gone
					}
					return nil
				})
				if err != gone {
					t.Errorf("ended with %v, want the reader's own error", err)
				}
			})
		})
	}
}

func TestTheContextEndsEveryWait(t *testing.T) {
	stopped := errors.New("stopped")
	tests := []struct {
		rule string
		conn conn
	}{
		{"while an answer is waited for", conn{}},
		{"while a stream is silent", conn{steps: []any{chunkFrame(0, "a")}}},
		{"between two connections", conn{refuse: errReset}},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				src := &source{begun: time.Now(), conns: []conn{tt.conn}}
				if tt.conn.steps == nil && tt.conn.refuse == nil {
					src.conns = nil
				}
				f := New(src, Options{ActionID: actionID, Jitter: constant(almostOne)})
				done := make(chan error)
				go func() { done <- f.Run(ctx, func(Item) error { return nil }) }()
				synctest.Wait()
				began := time.Now()
				cancel(stopped)
				if err := <-done; err != stopped {
					t.Errorf("ended with %v, want the cause", err)
				}
				if time.Since(began) != 0 {
					t.Errorf("it took %s of waiting", time.Since(began))
				}
			})
		})
	}
}
