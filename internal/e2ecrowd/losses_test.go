//go:build unix

package e2ecrowd

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Fifty times the line breaks under a call: right behind a cursor frame, in the
// middle of one, or in the middle of a chunk; closed, or reset. Nothing is posted
// again, nothing is shown twice or left out, and no cursor is asked for that a
// whole frame has not given, nor one from before.
func TestFiftyLostConnections(t *testing.T) {
	t.Parallel()
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
	for _, format := range []string{"text", "jsonl"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			d := newDaemon(t, nil)
			var held []*hold
			for seq := range want {
				held = append(held, d.holdChunk(uint64(seq)))
			}
			// Each connection brings a new chunk, but one that follows a cut in a
			// frame: it brings again what was cut.
			released := 0
			line := newCutter(t, d.url, plan, func(n int) {
				switch {
				case n >= len(plan):
					for _, h := range held {
						h.release()
					}
				case n == 0 || plan[n-1].progress():
					held[released].release()
					released++
				}
			})
			h := d.newHome()
			got := h.run("action", "call", line.url(), long, "--action-id", "act_lossy", "--prompt", "x", "-o", format)
			got.want(t, 0)
			text, reconnects := got.out, ""
			if format == "text" {
				if strings.Contains(got.stderr, fmt.Sprintf("reconnects %d;", len(plan))) {
					reconnects = fmt.Sprint(len(plan))
				}
			} else {
				text, reconnects = linesOf(t, got.out)
			}
			if text != want.text()+"\n" || reconnects != fmt.Sprint(len(plan)) {
				t.Errorf("%s reconnects, and the text is %q, want %q\n%s", reconnects, text, want.text()+"\n", got.stderr)
			}
			d.wantOnce("act_lossy")
			line.mu.Lock()
			defer line.mu.Unlock()
			if line.posts != 1 || d.requests("submit") != 1 {
				t.Errorf("%d posts went over the line, %d arrived; want 1", line.posts, d.requests("submit"))
			}
			if line.lost != len(plan) || len(line.asked) != len(plan)+1 {
				t.Errorf("%d connections were cut, %d follows asked for; want %d and one more", line.lost, len(line.asked), len(plan))
			}
			if released < 35 {
				t.Errorf("only %d chunks came one by one", released)
			}
			line.wantForward()
			t.Logf("%d connections lost, %d chunks one by one, %d cursors delivered", line.lost, released, len(line.delivered))
		})
	}
}

// wantForward fails unless each follow asked for a cursor that a whole frame had
// brought before, and none for one from before another that was asked for.
func (c *cutter) wantForward() {
	c.t.Helper()
	last, moves := -1, 0
	for i, cursor := range c.asked {
		if cursor == "" && last < 0 {
			continue // the start, before the first cursor
		}
		at := slices.Index(c.delivered, cursor)
		switch {
		case at < 0:
			c.t.Errorf("follow %d asked for %q, which no cursor frame has brought", i, cursor)
		case at < last:
			c.t.Errorf("follow %d asked for %q, which is before one that was asked for already", i, cursor)
		case at > last:
			moves++
		}
		last = max(last, at)
	}
	if moves < 20 {
		c.t.Errorf("the follows asked for only %d different cursors", moves)
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
