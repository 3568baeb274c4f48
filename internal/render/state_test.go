package render

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/record"
	"github.com/aipctl/aipctl/internal/sanitize"
	"github.com/aipctl/aipctl/internal/transcript"
)

func plainText(s string) sanitize.Text { return sanitize.Line(s) }

// terminal is what a person at a terminal without colour has.
func terminal() Options {
	return Options{StdoutTTY: true, StderrTTY: true, Color: ColorNever, Width: func() int { return 40 }}
}

func TestStatusLineIsRedrawnInPlace(t *testing.T) {
	w := &writes{}
	o := terminal()
	o.Stderr = w
	g := newRig(t, o)
	g.state(record.StateConnecting)
	g.wait(1500 * time.Millisecond)
	g.r.Tick(g.clock)
	g.ok(g.r.State(record.State{State: record.StateReconnecting, Attempt: 2, WaitMS: 1500, Reason: "a reason that is longer than the line"}))
	g.state(record.StateFollowing)
	g.deliver(0, transcript.Text{Text: "text"})
	g.r.Tick(g.clock) // the line holds text now
	g.deliver(1, transcript.Text{Text: "\n"})
	g.wait(time.Minute)
	g.r.Tick(g.clock)
	g.r.Note(plainText("a line"))
	g.state(record.StateSettling)
	g.ok(g.r.Close())
	g.r.Tick(g.clock)
	clear := func(n int) string { return "\r" + strings.Repeat(" ", n) + "\r" }
	want := []string{
		"\r0s connecting",
		"\r1s connecting",
		"\r1s reconnecting, attempt 2 in 2s: a re…",
		"\r1s following" + strings.Repeat(" ", 39-12),
		clear(39),
		"\r1m01s streaming, nothing new for 1m00s",
		clear(38) + "a line\n",
		"\r1m01s reading the result",
		clear(24),
	}
	if !slices.Equal(w.all, want) {
		t.Errorf("stderr\n%q\nwant\n%q", w.all, want)
	}
}

func TestStatusLineOnlyWhereItCanBeRedrawn(t *testing.T) {
	for name, tt := range map[string]struct {
		edit func(*Options)
		want bool
	}{
		"a terminal":             {func(*Options) {}, true},
		"without colour":         {func(o *Options) { o.Env = environment("NO_COLOR", "1") }, true},
		"with the answer piped":  {func(o *Options) { o.StdoutTTY = false }, true},
		"with one JSON document": {func(o *Options) { o.Format = JSON }, true},
		"CI is off":              {func(o *Options) { o.Env = environment("CI", "false") }, true},
		"a pipe":                 {func(o *Options) { o.StderrTTY = false }, false},
		"quiet":                  {func(o *Options) { o.Quiet = true }, false},
		"a dumb terminal":        {func(o *Options) { o.Env = environment("TERM", "dumb") }, false},
		"a CI log":               {func(o *Options) { o.Env = environment("CI", "true") }, false},
		"with records":           {func(o *Options) { o.Format = JSONL }, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := terminal()
			tt.edit(&o)
			g := newRig(t, o)
			g.identity()
			g.state(record.StateFollowing)
			g.r.Tick(g.clock)
			if got := strings.Contains(g.err.String(), "\r"); got != tt.want {
				t.Errorf("redrawn = %v, want %v: %q", got, tt.want, g.err.String())
			}
			g.outcome(nil)
			if strings.Contains(g.out.String(), "\r") {
				t.Errorf("stdout %q", g.out.String())
			}
			if strings.HasSuffix(strings.TrimRight(g.err.String(), "\r"), "0s") {
				t.Errorf("the status line is left behind: %q", g.err.String())
			}
		})
	}
}

// A log has a line for each change, and for each minute in which it would
// otherwise be silent.
func TestLogHasAHeartbeatAMinute(t *testing.T) {
	g := newRig(t, Options{})
	tick := func(seconds int) {
		for range seconds {
			g.wait(time.Second)
			g.r.Tick(g.clock)
		}
	}
	tick(90) // nothing is going on yet
	g.state(record.StateConnecting)
	tick(59)
	g.state(record.StateFollowing)
	g.deliver(0, transcript.Text{Text: "stdout is elsewhere"})
	tick(59)
	g.state(record.StateFollowing) // the same state is no change
	tick(62)
	g.r.Note(plainText("a line"))
	tick(60)
	g.state(record.StateSettling)
	g.ok(g.r.Close())
	tick(120)
	want := `2030-01-15T12:01:30Z connecting
2030-01-15T12:02:29Z following
2030-01-15T12:03:29Z still streaming, nothing new for 1m00s, 1m59s so far
2030-01-15T12:04:29Z still streaming, nothing new for 2m00s, 2m59s so far
a line
2030-01-15T12:05:30Z still streaming, nothing new for 3m01s, 4m00s so far
2030-01-15T12:05:30Z reading the result
`
	if got := g.err.String(); got != want {
		t.Errorf("stderr\n%s\nwant\n%s", got, want)
	}
}

// Where both streams are one log, text breaks the silence as well, and a line
// of ours does not begin within one of the text.
func TestOneLogForBothStreams(t *testing.T) {
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	g := newRig(t, Options{Stdout: log, Stderr: log})
	g.state(record.StateFollowing)
	g.wait(50 * time.Second)
	g.deliver(0, transcript.Text{Text: "some"})
	g.wait(50 * time.Second)
	g.r.Tick(g.clock)
	g.deliver(1, transcript.Tool{Name: "t", Status: transcript.ToolRunning})
	g.deliver(2, transcript.Text{Text: " text\n"})
	g.deliver(3, transcript.Tool{Name: "t", Status: transcript.ToolCompleted})
	g.ok(g.r.Close())
	got, err := os.ReadFile(log.Name())
	if err != nil {
		t.Fatal(err)
	}
	want := "2030-01-15T12:00:00Z following\nsome\n2030-01-15T12:01:40Z tool t running\n text\n2030-01-15T12:01:40Z tool t completed 0s\n"
	if string(got) != want {
		t.Errorf("log %q, want %q", got, want)
	}
}

func TestRunTicksUntilItIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g rig
		r := New(Options{Stderr: &g.err, Now: time.Now})
		if err := r.State(record.State{State: record.StateFollowing}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan struct{})
		go func() { r.Run(ctx); close(stopped) }()
		time.Sleep(3*time.Minute + time.Second/2)
		cancel()
		<-stopped
		time.Sleep(3 * time.Minute)
		if got := strings.Count(g.err.String(), "still following"); got != 3 {
			t.Errorf("%d heartbeats in three minutes, want 3: %q", got, g.err.String())
		}
	})
}

// wrapped changes what is written to a file, and says which file it is.
type wrapped struct {
	io.Writer
	f *os.File
}

func (w wrapped) Stat() (os.FileInfo, error) { return w.f.Stat() }

func TestPlaceOfTheStreams(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) *os.File {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	a, b := file("a"), file("b")
	_, pipe, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pipe.Close() })
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { null.Close() })
	for name, tt := range map[string]struct {
		o    Options
		want place
	}{
		"one terminal":               {Options{StdoutTTY: true, StderrTTY: true}, together},
		"one file":                   {Options{Stdout: a, Stderr: a}, together},
		"one file behind a wrapper":  {Options{Stdout: a, Stderr: wrapped{a, a}}, together},
		"one pipe":                   {Options{Stdout: pipe, Stderr: pipe}, together},
		"two files":                  {Options{Stdout: a, Stderr: b}, apart},
		"a file and a terminal":      {Options{Stdout: a, StderrTTY: true}, apart},
		"nowhere and a terminal":     {Options{Stdout: null, StderrTTY: true}, apart},
		"a pipe that may lead to it": {Options{Stdout: pipe, Stderr: b, StderrTTY: true}, unsure},
		"a terminal and a file":      {Options{StdoutTTY: true, Stderr: b}, unsure},
		"a writer of the caller":     {Options{Stdout: &strings.Builder{}, Stderr: b}, unsure},
	} {
		t.Run(name, func(t *testing.T) {
			if got := placeOf(tt.o.withDefaults()); got != tt.want {
				t.Errorf("placeOf = %d, want %d", got, tt.want)
			}
		})
	}
}

// An answer that goes to a file leaves the terminal to the status line.
func TestStatusLineStaysWhileTheAnswerGoesToAFile(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "answer"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := &writes{}
	o := terminal()
	o.StdoutTTY, o.Stdout, o.Stderr = false, f, w
	g := newRig(t, o)
	g.state(record.StateFollowing)
	g.deliver(0, transcript.Text{Text: "in the middle"})
	g.wait(time.Second)
	g.r.Tick(g.clock)
	if want := []string{"\r0s following", "\r1s streaming"}; !slices.Equal(w.all, want) {
		t.Errorf("stderr %q, want %q", w.all, want)
	}
}

func TestThoughtsAreShownByLines(t *testing.T) {
	think := func(s string) transcript.Op { return transcript.Thought{Text: s} }
	long := strings.Repeat("x", thoughtMax)
	for name, tt := range map[string]struct {
		o    Options
		ops  []transcript.Op
		want string
	}{
		"not in a log":                     {Options{}, []transcript.Op{think("a\n")}, ""},
		"in a log on request":              {Options{Verbose: true}, []transcript.Op{think("a\n")}, "2030-01-15T12:00:00Z thought: a\n"},
		"on a terminal":                    {terminal(), []transcript.Op{think("a\n")}, "thought: a\n"},
		"never when quiet":                 {Options{Verbose: true, Quiet: true}, []transcript.Op{think("a\n")}, ""},
		"pieces make a line":               {Options{Verbose: true}, []transcript.Op{think("a"), think("b\nc"), think("\n")}, "2030-01-15T12:00:00Z thought: ab\n2030-01-15T12:00:00Z thought: c\n"},
		"empty lines are none":             {Options{Verbose: true}, []transcript.Op{think("\n \n\na\n")}, "2030-01-15T12:00:00Z thought: a\n"},
		"what is held comes before others": {Options{Verbose: true}, []transcript.Op{think("a"), transcript.Note{}}, "2030-01-15T12:00:00Z thought: a\n2030-01-15T12:00:00Z unknown frame: kind data, sequence 1\n"},
		"a long line is not held for ever": {Options{Verbose: true}, []transcript.Op{think(long), think("y")}, "2030-01-15T12:00:00Z thought: " + long + "y\n"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, tt.o)
			for i, op := range tt.ops {
				g.deliver(uint64(i), op)
			}
			if g.err.String() != tt.want || g.out.Len() > 0 {
				t.Errorf("stderr %q, want %q; stdout %q", g.err.String(), tt.want, g.out.String())
			}
		})
	}
	g := newRig(t, Options{Verbose: true})
	g.deliver(0, think("held"))
	g.r.Tick(g.clock)
	if g.err.String() != "2030-01-15T12:00:00Z thought: held\n" {
		t.Errorf("a tick leaves it: %q", g.err.String())
	}
}

// Labels and messages fill the line of a terminal and not more.
func TestLabelsFitTheLine(t *testing.T) {
	for width, want := range map[int]string{
		40: "tool t running: \u6f22\u5b57\u6f22\u5b57\u6f22\u5b57\u6f22\u5b57\u6f22\u5b57\u6f22…\n",
		20: "tool t running: \u6f22\u5b57\u6f22\u5b57\u6f22…\n", // a few cells at least
	} {
		o := terminal()
		o.Width = func() int { return width }
		g := newRig(t, o)
		g.deliver(0, transcript.Tool{Name: "t", Status: transcript.ToolRunning, Label: strings.Repeat("\u6f22\u5b57", 20)})
		if g.err.String() != want {
			t.Errorf("width %d: %q, want %q", width, g.err.String(), want)
		}
	}
}

func TestQuietErrorsAreShown(t *testing.T) {
	g := newRig(t, Options{Quiet: true})
	g.r.Error(fault.New(fault.Auth, "auth.x", "the token was refused"))
	if g.err.String() != "aipctl: the token was refused\n" {
		t.Errorf("stderr %q", g.err.String())
	}
}

func TestStateInWords(t *testing.T) {
	for want, v := range map[string]record.State{
		"connecting":                        {State: record.StateConnecting},
		"following":                         {State: record.StateFollowing, Attempt: 1},
		"following again":                   {State: record.StateFollowing, Attempt: 2},
		"submitted, waiting for the answer": {State: record.StateSubmitted},
		"reconnecting, attempt 1 in 500ms: the line was cut": {State: record.StateReconnecting, Attempt: 1, WaitMS: 500, Reason: "the line was cut"},
		"answered, reading the rest":                         {State: record.StateReplied},
		"answered (completed), reading the rest":             {State: record.StateReplied, Action: "completed"},
		"no answer to the submit, reading on: a reset":       {State: record.StateUncertain, Reason: "a reset"},
		"reading what is left":                               {State: record.StateDraining},
		"reading the result":                                 {State: record.StateSettling},
		"waiting, action running in 2s":                      {State: record.StateWaiting, Action: "running", WaitMS: 2000},
		"a state of its own":                                 {State: "a state of its own"},
	} {
		g := newRig(t, Options{})
		g.ok(g.r.State(v))
		if got := g.err.String(); got != "2030-01-15T12:00:00Z "+want+"\n" {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The clock, the run and messages of the command come from goroutines of
// their own; with the race detector this also says whether they may.
func TestCallsMayComeTogether(t *testing.T) {
	out, errs := &writes{}, &writes{}
	o := terminal()
	o.Stdout, o.Stderr = out, errs
	g := newRig(t, o)
	g.state(record.StateFollowing)
	const n = 200
	var all sync.WaitGroup
	for _, f := range []func(i int){
		func(i int) {
			_ = g.r.Deliver(record.Delivery{Ops: []transcript.Op{transcript.Text{Text: "line\n"}}})
		},
		func(int) { g.r.Tick(noon) },
		func(int) { g.r.Note(plainText("note")) },
		func(int) { g.r.Error(fault.New(fault.Internal, "x", "error")) },
	} {
		all.Go(func() {
			for i := range n {
				f(i)
			}
		})
	}
	all.Wait()
	g.ok(g.r.Close())
	if got := strings.Join(out.all, ""); got != strings.Repeat("line\n", n) {
		t.Errorf("stdout %q", got)
	}
	for line, want := range map[string]int{"note\n": n, "aipctl: error\n": n} {
		if got := strings.Count(strings.Join(errs.all, ""), line); got != want {
			t.Errorf("%d lines %q, want %d", got, line, want)
		}
	}
}

// In one log for both streams a line that can wait does not come into a line
// of text, keeps its time, and does not wait for ever.
func TestLogWaitsForTheEndOfALineOfText(t *testing.T) {
	for name, tt := range map[string]struct {
		run  func(g *rig)
		want string
	}{
		"until the line ends": {func(g *rig) {
			g.state(record.StateReplied)
			g.wait(2 * time.Second)
			g.deliver(1, transcript.Text{Text: " text\n"})
		}, "some text\n2030-01-15T12:00:00Z answered, reading the rest\n"},
		"until the answer ends": {func(g *rig) {
			g.state(record.StateDraining)
			g.ok(g.r.Warning(record.Warning{Message: "w"}))
		}, "some\n2030-01-15T12:00:00Z reading what is left\n2030-01-15T12:00:00Z warning: w\n"},
		"until another line comes": {func(g *rig) {
			g.ok(g.r.Warning(record.Warning{Message: "w"}))
			g.wait(time.Second)
			g.deliver(1, transcript.Tool{Name: "t", Status: transcript.ToolRunning})
		}, "some\n2030-01-15T12:00:00Z warning: w\n2030-01-15T12:00:01Z tool t running\n\n"},
		"until no text comes": {func(g *rig) {
			g.ok(g.r.Warning(record.Warning{Message: "w"}))
			g.wait(time.Second)
			g.r.Tick(g.clock)
			g.deliver(1, transcript.Text{Text: " text\n"})
		}, "some\n2030-01-15T12:00:00Z warning: w\n text\n"},
		"until a line beside the run comes": {func(g *rig) {
			g.state(record.StateDraining)
			g.r.Note(plainText("a note"))
		}, "some\n2030-01-15T12:00:00Z reading what is left\na note\n\n"},
		"trouble does not wait": {func(g *rig) {
			g.state(record.StateReconnecting)
			g.deliver(1, transcript.Text{Text: " text\n"})
		}, "some\n2030-01-15T12:00:00Z reconnecting\n text\n"},
	} {
		t.Run(name, func(t *testing.T) {
			log, err := os.Create(filepath.Join(t.TempDir(), "log"))
			if err != nil {
				t.Fatal(err)
			}
			defer log.Close()
			g := newRig(t, Options{Stdout: log, Stderr: log})
			g.deliver(0, transcript.Text{Text: "some"})
			tt.run(g)
			g.ok(g.r.Close())
			got, err := os.ReadFile(log.Name())
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != tt.want {
				t.Errorf("log\n%swant\n%s", got, tt.want)
			}
		})
	}
}
