package render

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/aipctl/aipctl/internal/aiptest"
	"github.com/aipctl/aipctl/internal/record"
	"github.com/aipctl/aipctl/internal/transcript"
)

func squeeze(s string) string {
	return strings.NewReplacer(" ", "", "\n", "").Replace(s)
}

// kind is a terminal and what its user wants of it.
type kind struct {
	color   ColorMode
	resizes bool
	rewraps bool
}

func (k kind) env() func(string) string {
	if k.rewraps {
		return environment("TERM", "tmux-256color")
	}
	return environment("TERM", "xterm")
}

// However text, tools, states, errors, the clock and the size of the window
// come together, on a terminal that both streams share no character of the
// answer is ever written over, no line of it is shared with one of ours, and no
// status line stays.
func TestScreenIsNeverTorn(t *testing.T) {
	for name, k := range map[string]kind{
		"plain":                            {color: ColorNever},
		"colour":                           {color: ColorAlways},
		"plain, resized":                   {color: ColorNever, resizes: true},
		"colour, resized":                  {color: ColorAlways, resizes: true},
		"plain, resized and wrapped anew":  {color: ColorNever, resizes: true, rewraps: true},
		"colour, resized and wrapped anew": {color: ColorAlways, resizes: true, rewraps: true},
	} {
		t.Run(name, func(t *testing.T) {
			escapes := 0
			for seed := range uint64(100) {
				escapes += tear(t, k, seed)
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
			if moved := escapes > 0; moved != (k.color == ColorAlways) {
				t.Errorf("the cursor was moved %d times", escapes)
			}
		})
	}
}

// tear runs one random run on one random screen, and says how often the cursor
// was moved.
func tear(t *testing.T, k kind, seed uint64) (escapes int) {
	words := []string{"a", "word ", "two words", "\n", "line\n", "\n\n", "\u6f22\u5b57", "a much longer piece of text that fills a whole line or more ", "\u65e5\u672c\n", " ", "x\ny"}
	rng := rand.New(rand.NewPCG(seed, 7))
	scr := aiptest.NewScreen(12 + rng.IntN(70))
	scr.Rewraps = k.rewraps
	out, errs := scr.Stream("stdout"), scr.Stream("stderr")
	o := terminal()
	o.Stdout, o.Stderr, o.Color, o.Env = out, errs, k.color, k.env()
	o.Width = func() int { return scr.Width }
	g := newRig(t, o)
	g.identity()
	seq := uint64(0)
	var said strings.Builder
	for range 60 {
		seq++
		events := 8
		if k.resizes {
			events++
		}
		switch rng.IntN(events) {
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
		case 8:
			scr.Resize(12 + rng.IntN(70))
		}
	}
	g.outcome(nil)
	if len(scr.Faults) > 0 {
		t.Error(strings.Join(scr.Faults, "\n"))
	}
	shown, shared := scr.Text("stdout")
	if want := squeeze(said.String()); shown != want && (!k.resizes || k.rewraps) {
		t.Errorf("the screen shows the answer %q, want %q", shown, want)
	}
	if shared {
		t.Error("a line is shared")
	}
	if got, want := squeeze(out.Log.String()), squeeze(said.String()); got != want {
		t.Errorf("stdout has %q, want %q", got, want)
	}
	// A terminal that wraps a long status line when it gets narrower keeps some
	// of it where the cursor cannot be moved.
	if ours, _ := scr.Text("stderr"); strings.Contains(ours, "reconnecting") && (!k.rewraps || k.color == ColorAlways) {
		t.Errorf("a status line stays: %q", ours)
	}
	if k.color == ColorNever && strings.Contains(errs.Log.String(), "\x1b") || strings.ContainsAny(out.Log.String(), "\r\x1b") {
		t.Error("escapes where none may be")
	}
	return scr.Escapes
}

// A line of ours ends the line of text that it comes into. What the text itself
// then ends with, or begins with, leaves no empty line on a terminal; the bytes
// of stdout are the same everywhere.
func TestNoEmptyLineAfterALineThatWasEnded(t *testing.T) {
	for name, tt := range map[string]struct {
		color ColorMode
		want  string
	}{
		"with colour": {ColorAlways, "First.\ntool t running\n\nSecond.\nwarning: w\nverdict: accepted;"},
		"without":     {ColorNever, "First.\ntool t running\n\n\nSecond.\nwarning: w\nverdict: accepted;"},
	} {
		t.Run(name, func(t *testing.T) {
			scr := aiptest.NewScreen(80)
			out, errs := scr.Stream("stdout"), scr.Stream("stderr")
			o := terminal()
			o.Stdout, o.Stderr, o.Color, o.Width = out, errs, tt.color, func() int { return 80 }
			g := newRig(t, o)
			g.state(record.StateFollowing)
			g.deliver(0, transcript.Text{Text: "First."})
			g.deliver(1, transcript.Tool{Name: "t", CallID: "1", Status: transcript.ToolRunning})
			g.r.Tick(g.clock)
			g.deliver(2, transcript.Text{Text: "\n\nSecond."})
			g.ok(g.r.Warning(record.Warning{Message: "w"}))
			g.outcome(nil)
			if got := scr.Shown(); !strings.HasPrefix(got, tt.want) || len(scr.Faults) > 0 {
				t.Errorf("the screen shows\n%s\nwant\n%s\nfaults %q", got, tt.want, scr.Faults)
			}
			if got := out.Log.String(); got != "First.\n\nSecond.\n" {
				t.Errorf("stdout %q", got)
			}
		})
	}
}

// A line of text that stays unfinished does not hide for ever what goes on.
func TestStatusLineBelowALineOfTextThatStands(t *testing.T) {
	for name, tt := range map[string]struct {
		state record.State
		quiet time.Duration
		want  string
	}{
		"a pause is none yet":       {record.State{State: record.StateFollowing}, 14 * time.Second, "half a \n"},
		"a long pause":              {record.State{State: record.StateFollowing}, 15 * time.Second, "half a\n15s following, nothing new for 15s\n"},
		"trouble that passes":       {record.State{State: record.StateReconnecting, Attempt: 1, Reason: "r"}, time.Second, "half a \n"},
		"trouble that stays":        {record.State{State: record.StateReconnecting, Attempt: 1, Reason: "r"}, 2 * time.Second, "half a\n2s reconnecting, attempt 1: r\n"},
		"trouble with a wait ahead": {record.State{State: record.StateReconnecting, Attempt: 1, WaitMS: 7500, Reason: "r"}, 2 * time.Second, "half a\n2s reconnecting, attempt 1 in 6s: r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			scr := aiptest.NewScreen(60)
			out, errs := scr.Stream("stdout"), scr.Stream("stderr")
			o := terminal()
			o.Stdout, o.Stderr, o.Width = out, errs, func() int { return 60 }
			g := newRig(t, o)
			g.deliver(0, transcript.Text{Text: "half a "})
			g.ok(g.r.State(tt.state))
			for range tt.quiet / time.Second {
				g.wait(time.Second)
				g.r.Tick(g.clock)
			}
			if got := strings.TrimRight(scr.Shown(), " \n"); got != strings.TrimRight(tt.want, " \n") {
				t.Errorf("the screen shows %q, want %q", got, tt.want)
			}
			g.deliver(1, transcript.Text{Text: "line"})
			g.ok(g.r.Close())
			if len(scr.Faults) > 0 || out.Log.String() != "half a line\n" {
				t.Errorf("faults %q, stdout %q", scr.Faults, out.Log.String())
			}
			if strings.Contains(scr.Shown(), "ing") {
				t.Errorf("the status line stays: %q", scr.Shown())
			}
		})
	}
}

// The tools that run stand in the status line with their time.
func TestStatusLineNamesTheToolsThatRun(t *testing.T) {
	w := &writes{}
	o := terminal()
	o.Stderr, o.Width = w, func() int { return 90 }
	g := newRig(t, o)
	tool := func(id, name, status string) {
		g.deliver(0, transcript.Tool{CallID: id, Name: name, Status: status})
	}
	look := func(want string) {
		t.Helper()
		g.wait(time.Second)
		g.r.Tick(g.clock)
		if got := strings.Trim(w.all[len(w.all)-1], "\r "); got != want {
			t.Errorf("the status line is %q, want %q", got, want)
		}
	}
	g.state(record.StateFollowing)
	tool("1", "read_file", transcript.ToolRunning)
	look("1s streaming; tool running: read_file 1s")
	tool("", "web", transcript.ToolRunning)
	look("2s streaming; 2 tools running: read_file 2s, web 1s")
	tool("1", "read_file", transcript.ToolFailed)
	look("3s streaming; tool running: web 2s")
	tool("", "web", transcript.ToolCompleted)
	look("4s streaming")
}

// The screen of these tests sees what it is there for.
func TestScreenSeesATornLine(t *testing.T) {
	scr := aiptest.NewScreen(20)
	out, errs := scr.Stream("stdout"), scr.Stream("stderr")
	fmt.Fprint(errs, "\rstatus\r")
	fmt.Fprint(out, "text")
	if len(scr.Faults) != 4 {
		t.Errorf("text over a status line: %q", scr.Faults)
	}
	if _, shared := scr.Text("stdout"); !shared {
		t.Error("a shared line was not seen")
	}
	fmt.Fprint(errs, "\rstat")
	if len(scr.Faults) != 8 {
		t.Errorf("a status line over text: %q", scr.Faults)
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
			if n := most(strings.Trim(s, "\r")); n > width {
				t.Errorf("width %d: %d cells: %q", width+1, n, s)
			}
		}
	}
}
