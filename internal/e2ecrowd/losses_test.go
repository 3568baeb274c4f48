//go:build unix

package e2ecrowd

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// lossy is a call over a line that breaks.
type lossy struct {
	d        *daemon
	line     *cutter
	p        *process
	released int // chunks that came one by one
}

// newLossy starts the call. Each connection brings a new chunk, but one that
// follows a cut in a frame: it brings again what was cut.
func newLossy(t *testing.T, want undisturbed, plan []cut, format string) *lossy {
	t.Helper()
	l := &lossy{d: newDaemon(t, nil)}
	var held []*hold
	for seq := range want {
		held = append(held, l.d.holdChunk(uint64(seq)))
	}
	l.line = newCutter(t, l.d.url, plan, func(n int) {
		switch {
		case n >= len(plan):
			for _, h := range held {
				h.release()
			}
		case n == 0 || plan[n-1].progress():
			held[l.released].release()
			l.released++
		}
	})
	l.p = l.d.newHome().start("action", "call", l.line.url(), long, "--action-id", "act_lossy", "--prompt", "x", "-o", format)
	return l
}

// Fifty times the line breaks under a call: right behind a cursor frame, in the
// middle of one, or in the middle of a chunk; closed, or reset. Nothing is posted
// again, nothing is shown twice or left out, and no cursor is asked for that a
// whole frame has not given, nor one from before.
func TestFiftyLostConnections(t *testing.T) {
	want := play(t, long)
	var plan []cut
	for i := range 50 {
		c := cut{frame: "aip.stream.cursor", reset: i%4 == 1}
		switch i % 10 {
		case 4: // the end of the frame, of its id, of its data
			c.short = []int{1, 2, 3, 20, 60}[i/10]
		case 9:
			c.frame, c.short = "aip.stream.chunk", []int{1, 2, 12, 40, 200}[i/10]
		}
		plan = append(plan, c)
	}
	calls := map[string]*lossy{}
	for _, format := range []string{"text", "jsonl"} {
		calls[format] = newLossy(t, want, plan, format)
	}
	// The program waits between two connections, all in all for twenty seconds.
	// It does so while the other tests run.
	t.Parallel()
	for format, l := range calls {
		t.Run(format, func(t *testing.T) {
			got := l.p.wait()
			got.want(t, 0)
			text, reconnects := got.out, "other"
			switch {
			case format != "text":
				text, reconnects = linesOf(t, got.out)
			case strings.Contains(got.stderr, fmt.Sprintf("reconnects %d;", len(plan))):
				reconnects = fmt.Sprint(len(plan))
			}
			if text != want.text()+"\n" || reconnects != fmt.Sprint(len(plan)) {
				t.Errorf("%s reconnects, and the text is %q, want %q\n%s", reconnects, text, want.text()+"\n", got.stderr)
			}
			l.d.wantOnce("act_lossy")
			l.line.mu.Lock()
			defer l.line.mu.Unlock()
			if l.line.posts != 1 || l.d.requests("submit") != 1 {
				t.Errorf("%d posts went over the line, %d arrived; want 1", l.line.posts, l.d.requests("submit"))
			}
			if l.line.lost != len(plan) || len(l.line.asked) != len(plan)+1 {
				t.Errorf("%d connections were cut, %d follows asked for; want %d and one more", l.line.lost, len(l.line.asked), len(plan))
			}
			if l.released < 35 {
				t.Errorf("only %d chunks came one by one", l.released)
			}
			l.line.wantForward(t)
			t.Logf("%d connections lost, %d chunks one by one, %d cursors delivered", l.line.lost, l.released, len(l.line.delivered))
		})
	}
}

// wantForward fails unless each follow asked for a cursor that a whole frame had
// brought before, and none for one from before another that was asked for.
func (c *cutter) wantForward(t *testing.T) {
	t.Helper()
	last, moves := -1, 0
	for i, cursor := range c.asked {
		if cursor == "" && last < 0 {
			continue // the start, before the first cursor
		}
		at := slices.Index(c.delivered, cursor)
		switch {
		case at < 0:
			t.Errorf("follow %d asked for %q, which no cursor frame has brought", i, cursor)
		case at < last:
			t.Errorf("follow %d asked for %q, which is before one that was asked for already", i, cursor)
		case at > last:
			moves++
		}
		last = max(last, at)
	}
	if moves < 20 {
		t.Errorf("the follows asked for only %d different cursors", moves)
	}
}

// linesOf joins the text records, and reads the reconnects of the outcome.
func linesOf(t *testing.T, out string) (text, reconnects string) {
	t.Helper()
	for line := range strings.Lines(out) {
		var r struct {
			Type       string `json:"type"`
			Text       string `json:"text"`
			Reconnects int    `json:"reconnects"`
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%q is no record: %v", line, err)
		}
		switch r.Type {
		case "text":
			text += r.Text
		case "outcome":
			reconnects = fmt.Sprint(r.Reconnects)
		}
	}
	return text + "\n", reconnects
}
