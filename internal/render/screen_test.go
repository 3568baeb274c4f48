package render

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/aipctl/aipctl/internal/record"
	"github.com/aipctl/aipctl/internal/transcript"
	"github.com/charmbracelet/x/ansi"
)

// screen is a terminal that both streams write to. It knows what a text
// terminal does with characters, line ends and carriage returns, and it
// remembers which stream wrote each cell.
type screen struct {
	width    int
	rows     [][]cell
	row, col int
	faults   []string
}

type cell struct {
	r    rune
	from string // the stream; empty for a blank
}

func newScreen(width int) *screen { return &screen{width: width, rows: [][]cell{nil}} }

// stream is one way to the screen.
type stream struct {
	*screen
	name string
	log  strings.Builder
}

func (s *stream) Write(p []byte) (int, error) {
	s.log.Write(p)
	for _, r := range string(p) {
		s.put(s.name, r)
	}
	return len(p), nil
}

func (s *screen) put(from string, r rune) {
	switch r {
	case '\n':
		s.down()
		return
	case '\r':
		s.col = 0
		return
	}
	w := ansi.StringWidth(string(r))
	if s.col+w > s.width {
		s.down()
	}
	for range w {
		for len(s.rows[s.row]) <= s.col {
			s.rows[s.row] = append(s.rows[s.row], cell{r: ' '})
		}
		was := &s.rows[s.row][s.col]
		if was.from == "stdout" {
			s.faults = append(s.faults, fmt.Sprintf("%s writes %q over the text %q at %d:%d", from, r, was.r, s.row, s.col))
		}
		if from == "stdout" && was.from != "" {
			s.faults = append(s.faults, fmt.Sprintf("the text %q meets %q of %s at %d:%d", r, was.r, was.from, s.row, s.col))
		}
		now := cell{r: r, from: from}
		if r == ' ' && from == "stderr" {
			now.from = ""
		}
		*was = now
		s.col++
		r = 0 // the second cell of a wide character
	}
}

func (s *screen) down() {
	s.row++
	s.col = 0
	if s.row == len(s.rows) {
		s.rows = append(s.rows, nil)
	}
}

// text is what one stream has on the screen, without blanks and line ends,
// and whether any line belongs to both.
func (s *screen) text(from string) (shown string, shared bool) {
	var b strings.Builder
	for _, row := range s.rows {
		owners := map[string]bool{}
		for _, c := range row {
			if c.from != "" {
				owners[c.from] = true
			}
			if c.from == from && c.r != 0 && c.r != ' ' {
				b.WriteRune(c.r)
			}
		}
		shared = shared || len(owners) > 1
	}
	return b.String(), shared
}

func squeeze(s string) string {
	return strings.NewReplacer(" ", "", "\n", "").Replace(s)
}

// However text, tools, states, errors and the clock come together, on a
// terminal that both streams share no character of the answer is ever written
// over, no line of it is shared with one of ours, and no status line stays.
func TestScreenIsNeverTorn(t *testing.T) {
	words := []string{"a", "word ", "two words", "\n", "line\n", "\n\n", "\u6f22\u5b57", "a much longer piece of text that fills a whole line or more ", "\u65e5\u672c\n", " ", "x\ny"}
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 7))
		width := 12 + rng.IntN(70)
		scr := newScreen(width)
		out, errs := &stream{screen: scr, name: "stdout"}, &stream{screen: scr, name: "stderr"}
		o := terminal()
		o.Stdout, o.Stderr = out, errs
		o.Width = func() int { return width }
		g := newRig(t, o)
		g.identity()
		seq := uint64(0)
		var said strings.Builder
		for range 60 {
			seq++
			switch rng.IntN(8) {
			case 0, 1, 2:
				w := words[rng.IntN(len(words))]
				said.WriteString(w)
				g.deliver(seq, transcript.Text{Text: w})
			case 3:
				g.ok(g.r.State(record.State{State: record.StateReconnecting, Attempt: rng.IntN(3), Reason: strings.Repeat("\u6f22\u5b57x", rng.IntN(20))}))
			case 4, 5:
				g.wait(time.Duration(rng.IntN(3000)) * time.Millisecond)
				g.r.Tick(g.clock)
			case 6:
				g.deliver(seq, transcript.Tool{Name: "tool", CallID: fmt.Sprint(rng.IntN(5)), Status: []string{transcript.ToolRunning, transcript.ToolCompleted}[rng.IntN(2)], Label: "a\nlabel"},
					transcript.Thought{Text: words[rng.IntN(len(words))]})
			case 7:
				g.ok(g.r.Warning(record.Warning{Message: "a warning"}))
			}
		}
		g.outcome(nil)
		if len(scr.faults) > 0 {
			t.Fatalf("seed %d: %s", seed, strings.Join(scr.faults, "\n"))
		}
		shown, shared := scr.text("stdout")
		if want := squeeze(said.String()); shown != want {
			t.Fatalf("seed %d: the screen shows the answer %q, want %q", seed, shown, want)
		}
		if shared {
			t.Fatalf("seed %d: a line is shared", seed)
		}
		if ours, _ := scr.text("stderr"); strings.Contains(ours, "reconnecting") {
			t.Fatalf("seed %d: a status line stays: %q", seed, ours)
		}
		if strings.Contains(errs.log.String(), "\x1b") || strings.ContainsAny(out.log.String(), "\r\x1b") {
			t.Fatalf("seed %d: escapes without colour", seed)
		}
	}
}

// The screen of these tests sees what it is there for.
func TestScreenSeesATornLine(t *testing.T) {
	scr := newScreen(20)
	out, errs := &stream{screen: scr, name: "stdout"}, &stream{screen: scr, name: "stderr"}
	fmt.Fprint(errs, "\rstatus\r")
	fmt.Fprint(out, "text")
	if len(scr.faults) != 4 {
		t.Errorf("text over a status line: %q", scr.faults)
	}
	if _, shared := scr.text("stdout"); !shared {
		t.Error("a shared line was not seen")
	}
	fmt.Fprint(errs, "\rstat")
	if len(scr.faults) != 8 {
		t.Errorf("a status line over text: %q", scr.faults)
	}
}

// A status line never reaches the last cell, where terminals differ on whether
// the next character begins a new line.
func TestStatusLineFitsAnyWidth(t *testing.T) {
	for width := range 60 {
		w := &writes{}
		o := terminal()
		o.Stderr = w
		o.Width = func() int { return width + 1 }
		g := newRig(t, o)
		g.ok(g.r.State(record.State{State: record.StateReconnecting, Reason: strings.Repeat("\u6f22x", 30)}))
		if width+1 > 1 && len(w.all) != 1 {
			t.Fatalf("width %d: writes %q", width+1, w.all)
		}
		for _, s := range w.all {
			if n := ansi.StringWidth(strings.Trim(s, "\r")); n > width {
				t.Errorf("width %d: %d cells: %q", width+1, n, s)
			}
		}
	}
}
