//go:build unix

package e2eproc

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aipctl/aipctl/internal/aiptest"
	"github.com/creack/pty"
)

var terminalRuns = flag.Int("terminal.runs", 20, "how many processes have both streams on one terminal")

// shownWhole is what a terminal shows of the scenario demo when all is over: every
// line of the answer and every line of ours as one, and no status line. What
// differs between runs has a pattern.
const shownWhole = `action act_terminal_\d+ \(cap:hermes_agent:demo:chat_stream\)
come back: aipctl action events http://127\.0\.0\.1:\d+ act_terminal_\d+ --follow --include-chunks --token-file \S+ --state \S+
cancel: aipctl action cancel http://127\.0\.0\.1:\d+ act_terminal_\d+ --token-file \S+ --state \S+
I'll look at the notes and the clock\.
tool read_file running: [^\n]+
tool read_file completed [<\d.]+m?s
tool terminal running: [^\n]+
tool terminal completed [<\d.]+m?s

(BROKEN)?The incident started at 09:12 UTC, was rolled back at 09:20 UTC and the error rate recovered by 09:41 UTC\.
warning: tools ran; that their effects took place is not confirmed \(tools\.unconfirmed\)
(LATE)?verdict: accepted; finish stop; tokens 2595 in, 92 out; first text [<\d.]+m?s; total [<\d.]+m?s; reconnects RECONNECTS; warnings 1
`

// Both streams of a process write to one terminal, of any width, with and
// without colour, with and without a connection that breaks in the middle: no
// line is torn, and no status line stays.
func TestBothStreamsOnOneTerminal(t *testing.T) {
	var cut atomic.Bool // the next follow is cut in the middle
	d := newDaemon(t, setup{})
	d.setDoor(func(v *visit) bool {
		broken := v.kind == "follow" && cut.CompareAndSwap(true, false)
		if broken {
			d.srv.Handler().ServeHTTP(brokenAt{v.w, "read_file"}, v.r)
		}
		return broken
	})
	h := d.newHome()
	rng := rand.New(rand.NewPCG(1, 2))
	torn, drawn := 0, 0
	for i := range *terminalRuns {
		cols, color, breaks := 24+rng.IntN(120), i%2 == 0, i%20 == 7
		cut.Store(breaks)
		screen := aiptest.NewScreen(cols)
		raw := h.onTerminal(t, cols, []string{"TERM=xterm"},
			"action", "call", "cap:hermes_agent:demo:chat_stream", "--input", `{"prompt":"x","session_id":"s"}`, "--action-id", fmt.Sprintf("act_terminal_%d", i),
			"--state", filepath.Join(h.dir, "state.jsonl"), "--color", map[bool]string{true: "always", false: "never"}[color])
		_, _ = screen.Stream("both").Write(raw)
		want := shownWhole
		if color {
			want = strings.NewReplacer("(BROKEN)?", "", "(LATE)?", "").Replace(want)
		} else {
			// On a machine that is busy the status line comes below the text while
			// the last pages are read, and the line end of the text comes then.
			want = strings.NewReplacer("(BROKEN)?", `\n`, "LATE", `\n`).Replace(want)
		}
		want = strings.ReplaceAll(want, "RECONNECTS", map[bool]string{true: "1", false: "0"}[breaks])
		if got := screen.Shown(); !regexp.MustCompile(`^`+want+`$`).MatchString(got) || len(screen.Faults) > 0 {
			torn++
			t.Errorf("run %d, %d columns, colour %v: the terminal shows\n%s\nfaults %q\nbytes %q", i, cols, color, got, screen.Faults, raw)
		}
		if bytes.Contains(raw, []byte("following")) {
			drawn++
		}
	}
	if drawn < *terminalRuns/2 {
		t.Errorf("a status line was drawn in %d runs only", drawn)
	}
	t.Logf("%d runs on a terminal, %d with a torn line, %d with a status line", *terminalRuns, torn, drawn)
}

// Who does not look gets no line that is drawn again: each change is a line of
// its own with the time, also where a CI system calls its log a terminal.
func TestNobodyLooksAtATerminal(t *testing.T) {
	d := newDaemon(t, setup{})
	h := d.newHome()
	call := []string{"action", "call", "cap:hermes_agent:demo:chat_stream", "--input", `{"prompt":"x","session_id":"s"}`, "--state", filepath.Join(h.dir, "state.jsonl")}
	stamped := regexp.MustCompile(`(?m)^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ (connecting|following|submitted, waiting for the answer|tool read_file running|tool terminal completed [<\d.]+m?s|warning: .*)`)
	for name, tt := range map[string]struct {
		env   []string
		flags []string
		lines int
	}{
		"CI":              {[]string{"TERM=xterm", "CI=true"}, []string{"--color", "never"}, 6},
		"a dumb terminal": {[]string{"TERM=dumb"}, nil, 6},
		"quiet":           {[]string{"TERM=xterm"}, []string{"-q"}, 0},
		"records":         {[]string{"TERM=xterm"}, []string{"-o", "jsonl"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			raw := h.onTerminal(t, 80, tt.env, append(call, tt.flags...)...)
			if bytes.ContainsAny(raw, "\r\x1b") {
				t.Errorf("something is drawn: %q", raw)
			}
			if got := len(stamped.FindAll(raw, -1)); got != tt.lines {
				t.Errorf("%d lines with the time, want %d:\n%s", got, tt.lines, raw)
			}
		})
	}
	t.Run("a pipe", func(t *testing.T) {
		r := d.run(t, append(call, "--url", d.url)...)
		if strings.ContainsAny(r.out+r.stderr, "\r\x1b") {
			t.Errorf("something is drawn: %s", r)
		}
		if got := len(stamped.FindAllString(r.stderr, -1)); got != 6 {
			t.Errorf("%d lines with the time, want 6: %s", got, r)
		}
		if strings.Contains(r.stderr, "notes.md") {
			t.Errorf("a label goes into a log: %s", r)
		}
	})
}

// brokenAt writes up to the end of a piece of the stream, and then no more.
type brokenAt struct {
	http.ResponseWriter
	piece string
}

func (w brokenAt) Write(p []byte) (int, error) {
	if at := bytes.Index(p, []byte(w.piece)); at >= 0 {
		_, _ = w.ResponseWriter.Write(p[:at+len(w.piece)])
		_ = http.NewResponseController(w.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap lets the daemon flush.
func (w brokenAt) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// onTerminal runs aipctl with all three streams on a terminal of its own, and
// returns what came out of it, line ends as the process wrote them.
func (h *home) onTerminal(t *testing.T, cols int, env []string, args ...string) []byte {
	t.Helper()
	c := exec.Command("aipctl", args...)
	c.Env = append(append([]string{}, h.env...), env...)
	f, err := pty.StartWithSize(c, &pty.Winsize{Rows: 40, Cols: uint16(cols)})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out bytes.Buffer
	_, _ = io.Copy(&out, f) // ends with an error when the last writer is gone
	if err := c.Wait(); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	return bytes.ReplaceAll(out.Bytes(), []byte("\r\n"), []byte("\n"))
}
