package follow

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aipctl/aipctl/internal/aip"
)

// with adds lifecycle events to a page.
func with(a answer, ids ...string) answer {
	for _, id := range ids {
		a.page.Events = append(a.page.Events, aip.Event{ID: id, Kind: "aip.action.ack", ActionID: actionID})
	}
	return a
}

func refused(code string) answer { return answer{err: httpError(400, code)} }

func TestDrain(t *testing.T) {
	down := answer{err: httpError(503, "")}
	tests := []struct {
		rule  string
		o     Options
		pages map[string][]answer
		items []string
		asked []string
		err   string
	}{
		{
			rule:  "pages are read until one is empty, and each moves the cursor",
			o:     Options{Cursor: "c_1", Begin: Begin{Written: at(0)}},
			pages: map[string][]answer{"c_1": {paged("c_2", 1, "b", "c")}, "c_2": {with(paged("c_3", 3, "done"), "evt_1")}, "c_3": {paged("c_4", 0)}},
			items: []string{"chunk 1 page", "chunk 2 page", "cursor c_2 last 2", "event evt_1", "chunk 3 page", "cursor c_3 last 3", "cursor c_4 last 3"},
			asked: []string{`page "c_1" at 0s`, `page "c_2" at 0s`, `page "c_3" at 0s`},
		},
		{
			rule:  "an empty first page is the end",
			o:     Options{Cursor: "c_1"},
			items: nil,
			asked: []string{`page "c_1" at 0s`},
		},
		{
			rule:  "without a cursor it reads from the start, and repeats are dropped",
			o:     Options{},
			pages: map[string][]answer{"": {paged("c_1", 0, "a", "b")}},
			items: []string{"chunk 0 page", "chunk 1 page", "cursor c_1 last 1"},
			asked: []string{`page "" at 0s`, `page "c_1" at 0s`},
		},
		{
			rule:  "a page that never moves on is read twice and then left, with a word",
			o:     Options{},
			pages: map[string][]answer{"": {paged("c_1", 0, "a")}, "c_1": {paged("c_1", 0, "a")}},
			items: []string{"chunk 0 page", "cursor c_1 last 0", "duplicate", "stuck"},
			asked: []string{`page "" at 0s`, `page "c_1" at 0s`},
		},
		{
			rule: "pages that move their cursor and bring nothing new end too",
			o:    Options{},
			pages: map[string][]answer{
				"": {paged("c_1", 0, "a")}, "c_1": {paged("c_2", 0, "a")}, "c_2": {paged("c_3", 0, "a")}, "c_3": {paged("c_4", 0, "a")},
			},
			items: []string{"chunk 0 page", "cursor c_1 last 0", "duplicate", "cursor c_2 last 0", "duplicate", "cursor c_3 last 0", "stuck"},
			asked: []string{`page "" at 0s`, `page "c_1" at 0s`, `page "c_2" at 0s`},
		},
		{
			rule:  "an expired cursor restarts from the start",
			o:     Options{Cursor: "c_9", Begin: Begin{Written: at(0)}},
			pages: map[string][]answer{"c_9": {refused("stream.cursor_expired")}, "": {paged("d_1", 0, "a", "b")}},
			items: []string{"restarted stream.cursor_expired", "chunk 0 page past", "chunk 1 page", "cursor d_1 last 1"},
			asked: []string{`page "c_9" at 0s`, `page "" at 0s`, `page "d_1" at 0s`},
		},
		{
			rule:  "a hole is looked for from the start before the cursor passes it",
			o:     Options{Cursor: "c_1", Begin: Begin{Written: at(0)}},
			pages: map[string][]answer{"c_1": {paged("c_2", 2, "c")}, "": {paged("c_2", 0, "a", "b", "c")}},
			items: []string{"chunk 0 page past", "chunk 1 page", "chunk 2 page", "duplicate", "cursor c_2 last 2"},
			asked: []string{`page "c_1" at 0s`, `page "" at 0s`, `page "c_2" at 0s`},
		},
		{
			rule:  "a hole that stays is passed with a gap",
			o:     Options{Cursor: "c_1", Begin: Begin{Written: at(0)}},
			pages: map[string][]answer{"c_1": {paged("c_2", 2, "c")}, "": {paged("c_2", 0, "a", "", "c")}},
			items: []string{"chunk 0 page past", "duplicate", "gap 1-1", "chunk 2 page", "cursor c_2 last 2"},
			asked: []string{`page "c_1" at 0s`, `page "" at 0s`, `page "c_2" at 0s`, `page "c_2" at 0s`},
		},
		{
			rule:  "what waits behind a hole that cannot be looked for is shown with a gap, and the cursor stays",
			o:     Options{Cursor: "c_1", Begin: Begin{Written: at(0)}},
			pages: map[string][]answer{"c_1": {paged("c_2", 2, "c", "d")}, "": {down}},
			items: []string{"gap 1-1", "chunk 2 page", "chunk 3 page"},
			asked: []string{`page "c_1" at 0s`, `page "" at 0s`, `page "" at 500ms`, `page "" at 1.5s`, `page "" at 3.5s`},
			err:   "HTTP 503 with an unknown body",
		},
		{
			rule:  "a chunk may stand anywhere in its page",
			o:     Options{},
			pages: map[string][]answer{"": {{page: aip.EventsPage{ActionID: actionID, Cursor: "c_1", Chunks: []aip.Chunk{*piece(2, "c"), *piece(0, "a"), *piece(1, "b")}}}}},
			items: []string{"chunk 0 page", "chunk 1 page", "chunk 2 page", "cursor c_1 last 2"},
			asked: []string{`page "" at 0s`, `page "c_1" at 0s`},
		},
		{
			rule:  "a passing failure is tried four times, and what was read before it stands",
			o:     Options{},
			pages: map[string][]answer{"": {paged("c_1", 0, "a")}, "c_1": {down}},
			items: []string{"chunk 0 page", "cursor c_1 last 0"},
			asked: []string{`page "" at 0s`, `page "c_1" at 0s`, `page "c_1" at 500ms`, `page "c_1" at 1.5s`, `page "c_1" at 3.5s`},
			err:   "HTTP 503 with an unknown body",
		},
		{
			rule:  "a passing failure that passes is nothing",
			o:     Options{},
			pages: map[string][]answer{"": {down, {err: errReset}, paged("c_1", 0, "a")}},
			items: []string{"chunk 0 page", "cursor c_1 last 0"},
			asked: []string{`page "" at 0s`, `page "" at 500ms`, `page "" at 1.5s`, `page "c_1" at 1.5s`},
		},
		{
			rule:  "a refusal is not tried again",
			o:     Options{},
			pages: map[string][]answer{"": {{err: httpError(401, "auth.not_authorized")}}},
			asked: []string{`page "" at 0s`},
			err:   "HTTP 401, auth.not_authorized",
		},
		{
			rule:  "a contradiction in a page is reported",
			o:     Options{},
			pages: map[string][]answer{"": {{page: aip.EventsPage{ActionID: actionID, Cursor: "c_1", Chunks: []aip.Chunk{*piece(0, "done"), *piece(1, "b"), *piece(0, "x")}}}}},
			items: []string{"chunk 0 page", "contradiction above 1 first=true", "contradiction conflict 0 first=true", "cursor c_1 last 0"},
			asked: []string{`page "" at 0s`, `page "c_1" at 0s`},
		},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := &source{pages: tt.pages}
				items, err := drive(t, src, tt.o, func(ctx context.Context, f *Follower, emit Emit) error { return f.Drain(ctx, emit) })
				if got := message(err); got != tt.err {
					t.Errorf("ended with %q, want %q", got, tt.err)
				}
				expect(t, "items", items, tt.items...)
				expect(t, "asked", src.asked, tt.asked...)
			})
		})
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// A resumed follow may need what lies before its cursor as evidence.
func TestReread(t *testing.T) {
	tests := []struct {
		rule      string
		pages     map[string][]answer
		items     []string
		fromStart bool
	}{
		{
			rule:      "what was written before comes as past, and the cursor is not moved",
			pages:     map[string][]answer{"": {paged("p_1", 0, "a", "b", "c")}},
			items:     []string{"chunk 0 page past", "chunk 1 page past", "chunk 2 page past"},
			fromStart: true,
		},
		{
			rule:      "what no stream delivered is handed out as text, behind a gap where one stays",
			pages:     map[string][]answer{"": {paged("p_1", 0, "a", "b", "c", "", "e")}},
			items:     []string{"chunk 0 page past", "chunk 1 page past", "chunk 2 page past", "gap 3-3", "chunk 4 page"},
			fromStart: true,
		},
		{
			rule:  "a reading that failed has not seen the start",
			pages: map[string][]answer{"": {refused("query.invalid")}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := &source{pages: tt.pages}
				items, err := drive(t, src, Options{Cursor: "c_1", Begin: Begin{Written: at(2)}}, func(ctx context.Context, f *Follower, emit Emit) error {
					err := f.Reread(ctx, emit)
					if f.FromStart() != tt.fromStart || f.Cursor() != "c_1" {
						t.Errorf("from start %t, cursor %q; want %t, c_1", f.FromStart(), f.Cursor(), tt.fromStart)
					}
					return err
				})
				if (err == nil) != tt.fromStart {
					t.Errorf("ended with %v", err)
				}
				expect(t, "items", items, tt.items...)
			})
		})
	}
}

// What a run has handed out, a drain behind it does not hand out again.
func TestDrainGoesOnWhereTheStreamEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &source{
			conns: []conn{stream(chunkFrame(0, "a"), eventFrame("evt_1", "aip.action.result"), terminalFrame("c_1"))},
			pages: map[string][]answer{"c_1": {with(paged("c_2", 0, "a", "b", "done"), "evt_1", "evt_2")}},
		}
		items, err := drive(t, src, Options{}, func(ctx context.Context, f *Follower, emit Emit) error {
			if err := f.Run(ctx, emit); err != nil {
				return err
			}
			return f.Drain(ctx, emit)
		})
		if err != nil {
			t.Fatal(err)
		}
		expect(t, "items", items, "opened 1", "chunk 0 follow", "event evt_1", "cursor c_1 last 0", "terminal",
			"event evt_2", "duplicate", "chunk 1 page", "chunk 2 page", "cursor c_2 last 2")
	})
}

func TestTheContextEndsADrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stopped := errors.New("stopped")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(700*time.Millisecond, func() { cancel(stopped) })
		src := &source{begun: time.Now(), pages: map[string][]answer{"": {{err: errReset}}}}
		err := New(src, Options{ActionID: actionID, Jitter: constant(almostOne)}).Drain(ctx, func(Item) error { return nil })
		if err != stopped {
			t.Errorf("ended with %v, want the cause", err)
		}
		expect(t, "asked", src.asked, `page "" at 0s`, `page "" at 500ms`)
	})
}

func TestAnErrorOfTheReaderEndsADrain(t *testing.T) {
	gone := errors.New("stdout is gone")
	for _, stop := range []string{"chunk 0 page", "gap 1-1", "chunk 2 page", "cursor c_1 last 2"} {
		t.Run(stop, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := &source{begun: time.Now(), pages: map[string][]answer{"": {paged("c_1", 0, "a", "", "c")}}}
				err := New(src, Options{ActionID: actionID}).Drain(t.Context(), func(it Item) error {
					if told(it) == stop {
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
