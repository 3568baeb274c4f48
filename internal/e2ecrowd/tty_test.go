//go:build unix

package e2ecrowd

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
)

// terminal runs a command on a terminal of its own and copies what it shows to
// the process's stdout.
func (h *home) terminal(c *exec.Cmd) (*process, *os.File) {
	h.t.Helper()
	master, slave, err := pty.Open()
	if err != nil {
		h.t.Fatalf("no terminal: %v", err)
	}
	h.t.Cleanup(func() { master.Close() })
	defer slave.Close()
	c.Stdin = slave
	if c.Stderr == nil {
		c.Stderr = slave
	}
	if c.Stdout == nil {
		c.Stdout = slave
	}
	// The keys of this terminal send their signals to the process.
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	out, copied := newTap(), make(chan struct{})
	p := h.begin(c, out, copied)
	go func() {
		defer close(copied)
		_, _ = io.Copy(out, master) // ends, with an error, when nobody has the terminal any more
	}()
	return p, master
}

// prunable puts a file with an old settled action and others into the home.
func (h *home) prunable() []byte {
	h.t.Helper()
	b := fixture(h.t, "old.jsonl")
	h.put(b)
	return b
}

func TestPruneAsks(t *testing.T) {
	t.Parallel()
	prune := []string{"state", "prune", "--settled", "--older-than", "720h"}
	const question = "drop 3 settled actions from "
	for _, tt := range []struct {
		rule    string
		types   string // what a person types at the question
		more    []string
		code    int
		dropped bool
		silent  bool // nothing is asked
		shows   string
	}{
		{rule: "y", types: "y\n", dropped: true, shows: "3 actions dropped, 7 records"},
		{rule: "yes, in capitals and with space", types: "  YES \n", dropped: true},
		{rule: "n", types: "n\n", code: 2, shows: "answer y to go on"},
		{rule: "the enter key alone is no yes", types: "\n", code: 2},
		{rule: "another word that begins with y", types: "yesterday\n", code: 2},
		{rule: "the end of the input", types: "\x04", code: 2},
		{rule: "a y that was not sent off", types: "y\x04\x04", code: 2},
		{rule: "Ctrl-C", types: "\x03", code: 130},
		{rule: "--yes does not ask", more: []string{"--yes"}, dropped: true, silent: true},
		{rule: "nothing to drop is not asked for", more: []string{"--older-than", "87600h"}, silent: true, shows: "0 actions dropped"},
		{rule: "JSON Lines on a terminal", types: "y\n", more: []string{"-o", "jsonl"}, dropped: true, shows: `"dropped_records":7`},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			before := h.prunable()
			p, keys := h.terminal(h.command("aipctl", append(prune, tt.more...)...))
			if tt.types != "" {
				p.await(p.out, "the question", func(s string) bool { return strings.HasSuffix(s, "? [y/N] ") })
				if _, err := keys.WriteString(tt.types); err != nil {
					t.Fatal(err)
				}
			}
			got := p.wait()
			got.want(t, tt.code)
			if !strings.Contains(got.out, tt.shows) {
				t.Errorf("it does not show %q: %s", tt.shows, got)
			}
			if asked := strings.Contains(got.out, question+h.stateFile()+"?"); asked == tt.silent {
				t.Errorf("asked is %v: %s", asked, got)
			}
			if after := h.bytes(); tt.dropped == bytes.Equal(before, after) {
				t.Errorf("dropped is to be %v; the file had %d bytes and has %d", tt.dropped, len(before), len(after))
			}
			if tt.dropped {
				h.wantUnsettledKept()
			}
		})
	}
	// Without a terminal to ask on, only --yes says yes.
	for _, tt := range []struct {
		rule string
		c    func(h *home, c *exec.Cmd) *process
	}{
		{"no terminal at all", func(h *home, c *exec.Cmd) *process { return h.launch(c) }},
		{"a yes in a pipe is none", func(h *home, c *exec.Cmd) *process {
			c.Stdin = strings.NewReader("y\n")
			return h.launch(c)
		}},
		{"stderr in a file: the question would not be seen", func(h *home, c *exec.Cmd) *process {
			c.Stderr = new(bytes.Buffer)
			p, _ := h.terminal(c)
			return p
		}},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			before := h.prunable()
			got := tt.c(h, h.command("aipctl", prune...)).wait()
			got.want(t, 2)
			if strings.Contains(got.out, "[y/N]") || strings.Contains(got.stderr, "[y/N]") {
				t.Errorf("it asked: %s", got)
			}
			if !bytes.Equal(before, h.bytes()) {
				t.Error("the file was changed")
			}
			if _, err := os.Stat(h.stateFile() + ".lock"); err == nil {
				t.Error("a lock was made for what was not done")
			}
			h.run(append(prune, "--yes")...).want(t, 0)
			h.wantUnsettledKept()
		})
	}
}
