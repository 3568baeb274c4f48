package follow

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/google/go-cmp/cmp"
)

// run follows a source to the follower's own end, under virtual time and with
// no jitter: the n-th wait is the longest there is.
func run(t *testing.T, src *source, o Options) (items []string, err error) {
	t.Helper()
	return drive(t, src, o, func(ctx context.Context, f *Follower, emit Emit) error { return f.Run(ctx, emit) })
}

func drive(t *testing.T, src *source, o Options, what func(context.Context, *Follower, Emit) error) (items []string, err error) {
	t.Helper()
	src.begun = time.Now()
	if o.Jitter == nil {
		o.Jitter = constant(almostOne)
	}
	o.ActionID, o.IncludeChunks = actionID, true
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Hour, errHour)
	defer cancel()
	err = what(ctx, New(src, o), func(it Item) error {
		items = append(items, told(it))
		return nil
	})
	return items, err
}

var errHour = errors.New("an hour has passed")

// expect compares a list of lines, one to an item.
func expect(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// The tests of what comes of a stream, one rule each. The asked column is the
// whole traffic.
func TestFollower(t *testing.T) {
	tests := []struct {
		rule  string
		src   source
		o     Options
		items []string
		asked []string
		err   error
	}{
		{
			rule:  "a stream is handed out in order and ends with its terminal mark",
			src:   source{conns: []conn{stream(chunkFrame(0, "a"), chunkFrame(1, "b"), cursorFrame("c_1"), eventFrame("evt_1", "aip.action.result"), cursorFrame("c_2"), terminalFrame("c_2"))}},
			items: []string{"opened 1", "chunk 0 follow", "chunk 1 follow", "cursor c_1 last 1", "event evt_1", "cursor c_2 last 1", "cursor c_2 last 1", "terminal"},
			asked: []string{`follow "" at 0s`},
		},
		{
			rule:  "a clean end of bytes is not the end of the action",
			src:   source{conns: []conn{stream(chunkFrame(0, "a"), cursorFrame("c_1")), stream(terminalFrame("c_1"))}},
			items: []string{"opened 1", "chunk 0 follow", "cursor c_1 last 0", "lost 1 after 500ms: the stream ended without a terminal mark", "opened 2", "cursor c_1 last 0", "terminal"},
			asked: []string{`follow "" at 0s`, `follow "c_1" at 500ms`},
		},
		{
			rule:  "the ids of events and chunks are no cursors",
			src:   source{conns: []conn{{steps: []any{chunkFrame(0, "a"), cursorFrame("c_1"), eventFrame("evt_9", "aip.action.ack"), chunkFrame(1, "b")}, end: errReset}, stream(chunkFrame(1, "b"), cursorFrame("c_2"), terminalFrame("c_2"))}},
			items: []string{"opened 1", "chunk 0 follow", "cursor c_1 last 0", "event evt_9", "chunk 1 follow", "lost 1 after 500ms: the connection failed", "opened 2", "duplicate", "cursor c_2 last 1", "cursor c_2 last 1", "terminal"},
			asked: []string{`follow "" at 0s`, `follow "c_1" at 500ms`},
		},
		{
			rule:  "a lost connection is told in the words of the client, where it has some",
			src:   source{conns: []conn{{refuse: toldError{}}, stream(chunkFrame(0, "a"), terminalFrame("c_1"))}},
			items: []string{"lost 1 after 500ms: the connection was refused (not opened)", "opened 2", "chunk 0 follow", "cursor c_1 last 0", "terminal"},
			asked: []string{`follow "" at 0s`, `follow "" at 500ms`},
		},
		{
			rule:  "a sticky id is not the terminal frame's own",
			src:   source{conns: []conn{stream(chunkFrame(0, "a"), "event: aip.stream.terminal\ndata: {\"terminal\":true}\n\n")}},
			items: []string{"opened 1", "chunk 0 follow", "terminal"},
			asked: []string{`follow "" at 0s`},
		},
		{
			rule:  "a sticky id is not the cursor frame's own",
			src:   source{conns: []conn{stream(chunkFrame(0, "a"), "event: aip.stream.cursor\ndata: {}\n\n"), stream(terminalFrame("c_9"))}},
			items: []string{"opened 1", "chunk 0 follow", "lost 1 after 500ms: the stream ended without a terminal mark", "opened 2", "cursor c_9 last 0", "terminal"},
			asked: []string{`follow "" at 0s`, `follow "" at 500ms`},
		},
		{
			rule:  "an id line is a cursor frame's value where the data has none",
			src:   source{conns: []conn{stream("event: aip.stream.cursor\ndata: {}\nid: c_5\n\n"), stream(terminalFrame("c_5"))}},
			items: []string{"opened 1", "cursor c_5 last none", "lost 1 after 500ms: the stream ended without a terminal mark", "opened 2", "cursor c_5 last none", "terminal"},
			asked: []string{`follow "" at 0s`, `follow "c_5" at 500ms`},
		},
		{
			rule:  "an event that has no blank line behind it did not come",
			src:   source{conns: []conn{stream(chunkFrame(0, "a"), cursorFrame("c_1"), strings.TrimSuffix(cursorFrame("c_2"), "\n")), stream(terminalFrame("c_3"))}},
			items: []string{"opened 1", "chunk 0 follow", "cursor c_1 last 0", "lost 1 after 500ms: the stream ended without a terminal mark", "opened 2", "cursor c_3 last 0", "terminal"},
			asked: []string{`follow "" at 0s`, `follow "c_1" at 500ms`},
		},
		{
			rule:  "a frame that is cut in its JSON is no item",
			src:   source{conns: []conn{{steps: []any{chunkFrame(0, "a"), cursorFrame("c_1"), chunkFrame(1, "b")[:60]}, end: io.ErrUnexpectedEOF}, stream(chunkFrame(1, "b"), terminalFrame("c_2"))}},
			items: []string{"opened 1", "chunk 0 follow", "cursor c_1 last 0", "lost 1 after 500ms: the connection was cut", "opened 2", "chunk 1 follow", "cursor c_2 last 1", "terminal"},
			asked: []string{`follow "" at 0s`, `follow "c_1" at 500ms`},
		},
		{
			rule:  "a frame that is no JSON is passed over",
			src:   source{conns: []conn{stream("event: aip.stream.chunk\ndata: <html>\n\n", chunkFrame(0, "a"), terminalFrame("c_1"))}},
			items: []string{"opened 1", "unread aip.stream.chunk", "chunk 0 follow", "cursor c_1 last 0", "terminal"},
			asked: []string{`follow "" at 0s`},
		},
		{
			rule:  "a lifecycle event comes once, and the event beside a chunk not at all",
			src:   source{conns: []conn{stream(eventFrame("evt_s", "aip.stream.chunk"), chunkFrame(0, "a"), eventFrame("evt_1", "aip.action.ack"), eventFrame("evt_1", "aip.action.ack"), terminalFrame("c_1"))}},
			items: []string{"opened 1", "chunk 0 follow", "event evt_1", "cursor c_1 last 0", "terminal"},
			asked: []string{`follow "" at 0s`},
		},
		{
			rule: "a hole is read from the start at once, and filled",
			src: source{
				conns: []conn{stream(chunkFrame(0, "a"), chunkFrame(2, "c"), cursorFrame("c_1"), terminalFrame("c_1"))},
				pages: map[string][]answer{"": {paged("p_1", 0, "a", "b", "c")}},
			},
			items: []string{"opened 1", "chunk 0 follow", "duplicate", "chunk 1 page", "chunk 2 page", "duplicate", "cursor c_1 last 2", "cursor c_1 last 2", "terminal"},
			asked: []string{`follow "" at 0s`, `page "" at 0s`},
		},
		{
			rule: "a hole that a read from the start does not fill is passed with a gap, and only then the cursor moves",
			src: source{
				conns: []conn{stream(chunkFrame(0, "a"), chunkFrame(2, "c"), cursorFrame("c_1"), terminalFrame("c_1"))},
				pages: map[string][]answer{"": {paged("p_1", 0, "a", "", "c")}},
			},
			items: []string{"opened 1", "chunk 0 follow", "duplicate", "duplicate", "gap 1-1", "chunk 2 page", "cursor c_1 last 2", "cursor c_1 last 2", "terminal"},
			asked: []string{`follow "" at 0s`, `page "" at 0s`, `page "p_1" at 0s`},
		},
		{
			rule: "what fills a passed hole later is evidence and no text",
			src: source{
				conns: []conn{stream(chunkFrame(0, "a"), chunkFrame(2, "c"), chunkFrame(1, "b"), chunkFrame(3, "d"), terminalFrame("c_1"))},
				pages: map[string][]answer{"": {paged("p_1", 0, "a", "", "c")}},
			},
			items: []string{"opened 1", "chunk 0 follow", "duplicate", "duplicate", "gap 1-1", "chunk 2 page", "chunk 1 follow past", "chunk 3 follow", "cursor c_1 last 3", "terminal"},
			asked: []string{`follow "" at 0s`, `page "" at 0s`, `page "p_1" at 0s`},
		},
		{
			rule: "a read that does not get as far as the hole leaves it open, and what comes late in the same page fills it",
			src: source{
				conns: []conn{stream(chunkFrame(0, "a"), chunkFrame(3, "d"), chunkFrame(2, "c"), chunkFrame(1, "b"), cursorFrame("c_1"), terminalFrame("c_1"))},
				pages: map[string][]answer{"": {paged("p_1", 0, "a")}},
			},
			items: []string{"opened 1", "chunk 0 follow", "duplicate", "chunk 1 follow", "chunk 2 follow", "chunk 3 follow", "cursor c_1 last 3", "cursor c_1 last 3", "terminal"},
			asked: []string{`follow "" at 0s`, `page "" at 0s`, `page "p_1" at 0s`},
		},
		{
			rule: "a hole that is open at the end of its page is read for once more, and passed",
			src: source{
				conns: []conn{stream(chunkFrame(0, "a"), chunkFrame(2, "c"), chunkFrame(3, "d"), cursorFrame("c_1"), terminalFrame("c_1"))},
				pages: map[string][]answer{"": {paged("p_1", 0)}},
			},
			items: []string{"opened 1", "chunk 0 follow", "gap 1-1", "chunk 2 page", "chunk 3 page", "cursor c_1 last 3", "cursor c_1 last 3", "terminal"},
			asked: []string{`follow "" at 0s`, `page "" at 0s`, `page "" at 0s`},
		},
		{
			rule:  "a chunk behind the terminal frame contradicts like any other",
			src:   source{conns: []conn{stream(chunkFrame(0, "done"), terminalFrame("c_1"), chunkFrame(1, "x"))}},
			items: []string{"opened 1", "chunk 0 follow", "cursor c_1 last 0", "terminal", "contradiction above 1 first=true"},
			asked: []string{`follow "" at 0s`},
		},
		{
			rule:  "no cursor and no error counts behind the terminal frame",
			src:   source{conns: []conn{stream(chunkFrame(0, "a"), terminalFrame("c_1"), cursorFrame("c_2"), errorFrame("storage.unavailable"), terminalFrame("c_3"))}},
			items: []string{"opened 1", "chunk 0 follow", "cursor c_1 last 0", "terminal"},
			asked: []string{`follow "" at 0s`},
		},
		{
			rule:  "a connection that stays open behind its terminal frame is not waited for",
			src:   source{conns: []conn{{steps: []any{chunkFrame(0, "a"), terminalFrame("c_1"), time.Hour}}}},
			items: []string{"opened 1", "chunk 0 follow", "cursor c_1 last 0", "terminal"},
			asked: []string{`follow "" at 0s`},
		},
		{
			rule: "a stream that begins above 0 has no gap before it",
			src: source{
				conns: []conn{stream(chunkFrame(4, "e"), terminalFrame("c_1"))},
				pages: map[string][]answer{"": {paged("p_1", 4, "e")}},
			},
			items: []string{"opened 1", "duplicate", "chunk 4 page", "cursor c_1 last 4", "terminal"},
			asked: []string{`follow "" at 0s`, `page "" at 0s`, `page "p_1" at 0s`},
		},
		{
			rule: "a hole whose read fails in passing is held back, and read again on the next connection",
			src: source{
				conns: []conn{
					stream(chunkFrame(0, "a"), cursorFrame("c_0"), chunkFrame(2, "c"), cursorFrame("c_1")),
					stream(chunkFrame(2, "c"), cursorFrame("c_1"), terminalFrame("c_1")),
				},
				pages: map[string][]answer{"": {{err: httpError(503, "")}, {err: httpError(503, "")}, {err: httpError(503, "")}, {err: httpError(503, "")}, paged("p_1", 0, "a", "b", "c")}},
			},
			items: []string{"opened 1", "chunk 0 follow", "cursor c_0 last 0", "lost 1 after 500ms: HTTP 503 with an unknown body", "opened 2", "duplicate", "duplicate", "chunk 1 page", "chunk 2 page", "duplicate", "cursor c_1 last 2", "cursor c_1 last 2", "terminal"},
			asked: []string{`follow "" at 0s`, `page "" at 0s`, `page "" at 500ms`, `page "" at 1.5s`, `page "" at 3.5s`, `follow "c_0" at 4s`, `page "" at 4s`},
		},
		{
			rule: "a hole whose read is refused for good is passed when its page ends",
			src: source{
				conns: []conn{stream(chunkFrame(0, "a"), chunkFrame(2, "c"), terminalFrame("c_1"))},
				pages: map[string][]answer{"": {{err: httpError(403, "policy.example")}}},
			},
			items: []string{"opened 1", "chunk 0 follow", "gap 1-1", "chunk 2 page", "cursor c_1 last 2", "terminal"},
			asked: []string{`follow "" at 0s`, `page "" at 0s`, `page "" at 0s`},
		},
		{
			rule: "a refused read loses nothing that comes late in the same page",
			src: source{
				conns: []conn{stream(chunkFrame(1, "b"), chunkFrame(2, "c"), chunkFrame(0, "a"), terminalFrame("c_1"))},
				pages: map[string][]answer{"": {{err: httpError(401, "auth.not_authorized")}}},
			},
			items: []string{"opened 1", "chunk 0 follow", "chunk 1 follow", "chunk 2 follow", "cursor c_1 last 2", "terminal"},
			asked: []string{`follow "" at 0s`, `page "" at 0s`},
		},
		{
			rule: "a stream whose start could not be read has a gap before its first chunk",
			src: source{
				conns: []conn{stream(chunkFrame(4, "e"), terminalFrame("c_1"))},
				pages: map[string][]answer{"": {{err: httpError(401, "auth.not_authorized")}}},
			},
			items: []string{"opened 1", "gap 0-3", "chunk 4 page", "cursor c_1 last 4", "terminal"},
			asked: []string{`follow "" at 0s`, `page "" at 0s`, `page "" at 0s`},
		},
		{
			rule:  "another content is reported, once as new, and never handed out",
			src:   source{conns: []conn{stream(chunkFrame(0, "a"), chunkFrame(0, "x"), chunkFrame(0, "x"), chunkFrame(0, "a"), terminalFrame("c_1"))}},
			items: []string{"opened 1", "chunk 0 follow", "contradiction conflict 0 first=true", "contradiction conflict 0 first=false", "duplicate", "cursor c_1 last 0", "terminal"},
			asked: []string{`follow "" at 0s`},
		},
		{
			rule:  "a chunk above the terminal one is reported and never handed out",
			src:   source{conns: []conn{stream(chunkFrame(0, "done"), chunkFrame(1, "x"), terminalFrame("c_1"))}},
			items: []string{"opened 1", "chunk 0 follow", "contradiction above 1 first=true", "cursor c_1 last 0", "terminal"},
			asked: []string{`follow "" at 0s`},
		},
		{
			rule:  "a stray is reported under its own action and never handed out",
			src:   source{conns: []conn{stream(strings.Replace(chunkFrame(0, "x"), actionID, "act_theirs", 1), chunkFrame(0, "a"), terminalFrame("c_1"))}},
			items: []string{"opened 1", "contradiction stray 0 first=true", "chunk 0 follow", "cursor c_1 last 0", "terminal"},
			asked: []string{`follow "" at 0s`},
		},
		{
			rule: "a refused cursor means the start, and nothing is handed out twice",
			src: source{conns: []conn{
				stream(chunkFrame(0, "a"), cursorFrame("c_1")),
				stream(errorFrame("stream.cursor_expired")),
				stream(chunkFrame(0, "a"), chunkFrame(1, "b"), cursorFrame("d_1"), terminalFrame("d_1")),
			}},
			items: []string{"opened 1", "chunk 0 follow", "cursor c_1 last 0", "lost 1 after 500ms: the stream ended without a terminal mark",
				"opened 2", "restarted stream.cursor_expired", "lost 2 after 1s: the daemon sent stream.cursor_expired",
				"opened 3", "duplicate", "chunk 1 follow", "cursor d_1 last 1", "cursor d_1 last 1", "terminal"},
			asked: []string{`follow "" at 0s`, `follow "c_1" at 500ms`, `follow "" at 1.5s`},
		},
		{
			rule:  "a saved position is resumed, and what was written is evidence only",
			src:   source{conns: []conn{stream(errorFrame("query.invalid_cursor")), stream(chunkFrame(0, "a"), chunkFrame(1, "b"), terminalFrame("d_1"))}},
			o:     Options{Cursor: "c_7", Begin: Begin{Written: at(0)}},
			items: []string{"opened 1", "restarted query.invalid_cursor", "lost 1 after 500ms: the daemon sent query.invalid_cursor", "opened 2", "chunk 0 follow past", "chunk 1 follow", "cursor d_1 last 1", "terminal"},
			asked: []string{`follow "c_7" at 0s`, `follow "" at 500ms`},
		},
		{
			rule:  "an aip.error frame speaks of the delivery: it is told, and the stream is tried again",
			src:   source{conns: []conn{stream(errorFrame("storage.unavailable")), stream(chunkFrame(0, "a"), terminalFrame("c_1"))}},
			items: []string{"opened 1", "trouble storage.unavailable", "lost 1 after 500ms: the daemon sent storage.unavailable", "opened 2", "chunk 0 follow", "cursor c_1 last 0", "terminal"},
			asked: []string{`follow "" at 0s`, `follow "" at 500ms`},
		},
		{
			rule:  "the wait that an aip.error frame asks for is kept",
			src:   source{conns: []conn{stream(strings.Replace(errorFrame("storage.unavailable"), `"category"`, `"retry_after_ms":7000,"category"`, 1)), stream(terminalFrame("c_1"))}},
			items: []string{"opened 1", "trouble storage.unavailable", "lost 1 after 7s: the daemon sent storage.unavailable", "opened 2", "cursor c_1 last none", "terminal"},
			asked: []string{`follow "" at 0s`, `follow "" at 7s`},
		},
		{
			rule:  "a refused cursor where none was sent is a trouble, not a restart",
			src:   source{conns: []conn{stream(errorFrame("query.invalid_cursor")), stream(terminalFrame("c_1"))}},
			items: []string{"opened 1", "trouble query.invalid_cursor", "lost 1 after 500ms: the daemon sent query.invalid_cursor", "opened 2", "cursor c_1 last none", "terminal"},
			asked: []string{`follow "" at 0s`, `follow "" at 500ms`},
		},
		{
			rule:  "an empty answer to a resume costs a wait and no position",
			src:   source{conns: []conn{stream(), stream(), stream(chunkFrame(1, "b"), terminalFrame("c_2"))}},
			o:     Options{Cursor: "c_1", Begin: Begin{Written: at(0)}},
			items: []string{"opened 1", "lost 1 after 500ms: the stream ended without a terminal mark", "opened 2", "lost 2 after 1s: the stream ended without a terminal mark", "opened 3", "chunk 1 follow", "cursor c_2 last 1", "terminal"},
			asked: []string{`follow "c_1" at 0s`, `follow "c_1" at 500ms`, `follow "c_1" at 1.5s`},
		},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := tt.src
				items, err := run(t, &src, tt.o)
				if !errors.Is(err, tt.err) {
					t.Errorf("ended with %v, want %v", err, tt.err)
				}
				expect(t, "items", items, tt.items...)
				expect(t, "asked", src.asked, tt.asked...)
			})
		})
	}
}

func TestWaitsGrowUntilSomethingNewComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &source{conns: []conn{
			stream(chunkFrame(0, "a")),                            // new
			stream(), stream(chunkFrame(0, "a")), stream(":\n\n"), // an open stream, a repeat and a comment are no progress
			stream(chunkFrame(1, "b")), stream(),
			stream(cursorFrame("c_1")), stream(cursorFrame("c_1")),
			stream(eventFrame("evt_1", "aip.action.ack")), stream(terminalFrame("c_1")),
		}}
		items, _ := run(t, src, Options{})
		var waits []string
		for _, it := range items {
			if after, ok := strings.CutPrefix(it, "lost "); ok {
				waits = append(waits, strings.Fields(after)[2])
			}
		}
		expect(t, "waits", waits, "500ms:", "1s:", "2s:", "4s:", "500ms:", "1s:", "500ms:", "1s:", "500ms:")
	})
}

func TestSilence(t *testing.T) {
	const idleFor = 45 * time.Second
	tests := []struct {
		rule  string
		conn  conn
		items []string
		asked []string
	}{
		{
			rule:  "a stream without a byte for the idle time is given up, and resumed from its cursor",
			conn:  conn{steps: []any{chunkFrame(0, "a"), cursorFrame("c_1")}},
			items: []string{"opened 1", "chunk 0 follow", "cursor c_1 last 0", "lost 1 after 500ms: no byte came for 45s", "opened 2", "cursor c_2 last 0", "terminal"},
			asked: []string{`follow "" at 0s`, `follow "c_1" at 45.5s`},
		},
		{
			rule: "comments are life: minutes of nothing else are no silence",
			conn: stream(chunkFrame(0, "a"), 44*time.Second, keepAlive, 44*time.Second, keepAlive, 44*time.Second, keepAlive, 44*time.Second,
				keepAlive, 44*time.Second, keepAlive, 44*time.Second, chunkFrame(1, "b"), terminalFrame("c_1")),
			items: []string{"opened 1", "chunk 0 follow", "chunk 1 follow", "cursor c_1 last 1", "terminal"},
			asked: []string{`follow "" at 0s`},
		},
		{
			rule:  "half a comment is life too, and the rest is waited for",
			conn:  stream(chunkFrame(0, "a"), 40*time.Second, ": keep", 40*time.Second, "-alive\n\n", 40*time.Second, terminalFrame("c_1")),
			items: []string{"opened 1", "chunk 0 follow", "cursor c_1 last 0", "terminal"},
			asked: []string{`follow "" at 0s`},
		},
		{
			rule:  "silence inside an event drops the event",
			conn:  conn{steps: []any{chunkFrame(0, "a"), cursorFrame("c_1"), chunkFrame(1, "b")[:50]}},
			items: []string{"opened 1", "chunk 0 follow", "cursor c_1 last 0", "lost 1 after 500ms: no byte came for 45s", "opened 2", "cursor c_2 last 0", "terminal"},
			asked: []string{`follow "" at 0s`, `follow "c_1" at 45.5s`},
		},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := &source{conns: []conn{tt.conn, stream(terminalFrame("c_2"))}}
				items, err := run(t, src, Options{Idle: idleFor})
				if err != nil {
					t.Errorf("ended with %v", err)
				}
				expect(t, "items", items, tt.items...)
				expect(t, "asked", src.asked, tt.asked...)
			})
		})
	}
}

// A line that never lives long enough for a page gets smaller pages.
func TestPagesAreHalvedWhenAConnectionEndsBeforeTheirCursor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &source{}
		for i := range 8 {
			src.conns = append(src.conns, conn{steps: []any{chunkFrame(uint64(i), "x")}, end: errReset})
		}
		src.conns = append(src.conns,
			stream(chunkFrame(8, "x"), cursorFrame("c_1")), // its cursor came
			stream(chunkFrame(9, "x")),                     // a clean end in the middle is one too
			stream(terminalFrame("c_2")))
		if _, err := run(t, src, Options{}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]int{1000, 500, 250, 125, 62, 31, 16, 16, 16, 16, 16}, src.limit); diff != "" {
			t.Errorf("limits (-want +got):\n%s", diff)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		src := &source{conns: []conn{stream(), stream(keepAlive), {refuse: httpError(503, "")}, stream(chunkFrame(0, "a"), cursorFrame("c_1")), stream(terminalFrame("c_1"))}}
		if _, err := run(t, src, Options{}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]int{1000, 1000, 1000, 1000, 1000}, src.limit); diff != "" {
			t.Errorf("a connection that brought no part of a page (-want +got):\n%s", diff)
		}
	})
}

func TestTheFollowAsksForWhatItWasTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked aip.EventsQuery
		f := New(querySpy{&asked}, Options{ActionID: actionID, Cursor: "c_1", IncludeChunks: true, Kinds: []string{"k"}})
		_ = f.Run(t.Context(), func(Item) error { return nil })
		want := aip.EventsQuery{ActionID: actionID, Cursor: "c_1", Limit: PageLimit, IncludeChunks: true, Kinds: []string{"k"}}
		if diff := cmp.Diff(want, asked); diff != "" {
			t.Errorf("query (-want +got):\n%s", diff)
		}
		if f.FromStart() || f.Cursor() != "c_1" {
			t.Errorf("from start %t at %q; a resumed follow has not seen the start", f.FromStart(), f.Cursor())
		}
	})
}

type querySpy struct{ asked *aip.EventsQuery }

func (s querySpy) Follow(_ context.Context, q aip.EventsQuery) (io.ReadCloser, error) {
	*s.asked = q
	return nil, httpError(401, "")
}

func (querySpy) Page(context.Context, aip.EventsQuery, aip.Decoding) (*aip.EventsPage, error) {
	return nil, errors.New("no page was to be read")
}

// toldError is an error of the client that has words for a person.
type toldError struct{}

func (toldError) Error() string  { return "dial tcp 127.0.0.1:1: connect: ECONNREFUSED" }
func (toldError) Reason() string { return "the connection was refused" }
