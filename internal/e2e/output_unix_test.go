//go:build unix

package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/aipctl/aipctl/internal/aiptest"
)

func testTokenFileModes(t *testing.T, dir string, tokenFile func(*testing.T, string) string) {
	t.Run("refused: readable for others", func(t *testing.T) {
		for _, mode := range []os.FileMode{0o644, 0o640, 0o606} {
			p, file := aiptest.PlayCase(t, dir, "play-ok.json"), tokenFile(t, "token-newline.txt")
			if err := os.Chmod(file, mode); err != nil {
				t.Fatal(err)
			}
			s := newWorld(t).follow(p, "--token-file", file)
			if s.code != 4 || len(p.Requests()) != 0 || !strings.Contains(s.stderr, file) {
				t.Errorf("mode %o: exit code %d and %d requests; stderr:\n%s", mode, s.code, len(p.Requests()), s.stderr)
			}
		}
	})
	t.Run("refused: a symbolic link", func(t *testing.T) {
		p, file := aiptest.PlayCase(t, dir, "play-ok.json"), tokenFile(t, "token-newline.txt")
		link := filepath.Join(t.TempDir(), "link")
		if err := os.Symlink(file, link); err != nil {
			t.Fatal(err)
		}
		s := newWorld(t).follow(p, "--token-file", link)
		if s.code != 4 || len(p.Requests()) != 0 || !strings.Contains(s.stderr, link) {
			t.Errorf("exit code %d and %d requests; stderr:\n%s", s.code, len(p.Requests()), s.stderr)
		}
	})
}

// exitCode is the code of a process, 128 and the signal's number where a
// signal ended it.
func exitCode(t *testing.T, err error) int {
	t.Helper()
	var ee *exec.ExitError
	switch {
	case err == nil:
		return 0
	case !errors.As(err, &ee):
		t.Fatal(err)
	}
	if ws := ee.Sys().(syscall.WaitStatus); ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ee.ExitCode()
}

func testClosedPipeAndCtrlC(t *testing.T, dir string) {
	// Nothing but the reader or the signal ends these runs.
	dir = running(t, running(t, dir, "play-pipe.json"), "play-hang.json")
	noCancel := func(t *testing.T, p *aiptest.Player) {
		t.Helper()
		if n := len(p.Requests(aiptest.Cancel, aiptest.Post)); n != 0 {
			t.Errorf("%d submits and cancels", n)
		}
	}
	for _, format := range []string{"text", "jsonl"} {
		t.Run("the reader leaves after a line: "+format, func(t *testing.T) {
			p, w := aiptest.PlayCase(t, dir, "play-pipe.json"), newWorld(t)
			c := command(t, w, "action", "events", p.URL(), p.ActionID(), "--follow", "--include-chunks", "-o", format)
			out, err := c.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			var stderr bytes.Buffer
			c.Stderr = &stderr
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			first := make([]byte, 7) // "line 0" and its end, or the begin of a record
			if _, err := io.ReadFull(out, first); err != nil {
				t.Fatal(err)
			}
			out.Close()
			if code := exitCode(t, c.Wait()); code != 141 {
				t.Errorf("exit code %d, want 141", code)
			}
			for _, word := range []string{"panic", "goroutine", "broken pipe", "EPIPE"} {
				if strings.Contains(stderr.String(), word) {
					t.Errorf("stderr speaks of %q:\n%s", word, &stderr)
				}
			}
			noCancel(t, p)
			for _, r := range w.state("cursor") {
				if last := r.Cursor.LastSequence; last != nil && *last > 300 {
					t.Errorf("the cursor %+v lies beyond what can have been written", *r.Cursor)
				}
			}
		})
		t.Run("no reader at all: "+format, func(t *testing.T) {
			p := aiptest.PlayCase(t, dir, "play-pipe.json")
			c := command(t, newWorld(t), "action", "events", p.URL(), p.ActionID(), "--follow", "--include-chunks", "-o", format)
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			c.Stdout = w
			r.Close()
			err = c.Run()
			w.Close()
			if code := exitCode(t, err); code != 141 {
				t.Errorf("exit code %d, want 141", code)
			}
			noCancel(t, p)
		})
	}
	t.Run("stderr closed", func(t *testing.T) {
		p := aiptest.PlayCase(t, dir, "play-pipe.json", aiptest.WithCuts("whole"))
		c := command(t, newWorld(t), "action", "events", p.URL(), p.ActionID(), "--follow", "--include-chunks")
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		c.Stderr = w
		r.Close()
		out, err := c.Output()
		w.Close()
		if code := exitCode(t, err); code != 0 || !strings.HasSuffix(string(out), "line 399\n") {
			t.Errorf("exit code %d, stdout ends in %q", code, tail(string(out)))
		}
	})
	for _, tc := range []struct {
		signal syscall.Signal
		code   int
	}{{syscall.SIGINT, 130}, {syscall.SIGTERM, 143}, {syscall.SIGHUP, 129}} {
		t.Run("while it waits: "+tc.signal.String(), func(t *testing.T) {
			t.Parallel()
			p, w := aiptest.PlayCase(t, dir, "play-hang.json"), newWorld(t)
			c := command(t, w, "action", "events", p.URL(), p.ActionID(), "--follow", "--include-chunks")
			out, err := c.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			var stderr bytes.Buffer
			c.Stderr = &stderr
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			if _, err := out.Read(make([]byte, 1)); err != nil { // it follows now
				t.Fatal(err)
			}
			if err := c.Process.Signal(tc.signal); err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, out); err != nil {
				t.Fatal(err)
			}
			if code := exitCode(t, c.Wait()); code != tc.code {
				t.Errorf("exit code %d, want %d; stderr:\n%s", code, tc.code, &stderr)
			}
			noCancel(t, p)
			ctx, stop := context.WithTimeout(t.Context(), patience)
			defer stop()
			if err := p.AwaitPeerClosed(ctx, aiptest.Follow); err != nil {
				t.Errorf("the stream was not closed: %v", err)
			}
			for _, words := range []string{p.ActionID(), "goes on", "action events", "action cancel"} {
				if !strings.Contains(stderr.String(), words) {
					t.Errorf("stderr does not say %q:\n%s", words, &stderr)
				}
			}
			if len(w.state("cursor")) == 0 {
				t.Error("no cursor was saved")
			}
		})
	}
	t.Run("while it writes to a full pipe", func(t *testing.T) {
		for _, twice := range []bool{false, true} {
			p := aiptest.PlayCase(t, dir, "play-pipe.json", aiptest.WithCuts("whole"))
			c := command(t, newWorld(t), "action", "events", p.URL(), p.ActionID(), "--follow", "--include-chunks", "-o", "jsonl")
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			c.Stdout = w
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			w.Close()
			// The records are longer than any pipe holds; one is taken.
			if _, err := r.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithTimeout(t.Context(), patience)
			if err := p.Await(ctx, aiptest.Follow, 1); err != nil {
				t.Fatal(err)
			}
			stop()
			if err := c.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			if twice {
				_ = c.Process.Signal(syscall.SIGINT) // it may have ended
			}
			if code := exitCode(t, c.Wait()); code != 130 {
				t.Errorf("exit code %d, want 130", code)
			}
			r.Close()
			noCancel(t, p)
		}
	})
}
