//go:build unix

package e2ecrowd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aipctl/aipctl/internal/aiptest"
)

// home is where one user's processes keep their files.
type home struct {
	t   testing.TB
	dir string
	env []string
}

// newHome makes an empty home for processes that talk to a daemon.
func (d *daemon) newHome() *home {
	d.t.Helper()
	h := newHome(d.t)
	h.env = append(h.env, "AIP_TOKEN_FILE="+d.tokenFile)
	return h
}

// newHome makes an empty home.
func newHome(t testing.TB) *home {
	t.Helper()
	h := &home{t: t, dir: t.TempDir()}
	h.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + h.dir, "XDG_STATE_HOME=" + h.dir, "TMPDIR=" + h.dir, "TERM=xterm"}
	if cover := os.Getenv("GOCOVERDIR"); cover != "" {
		h.env = append(h.env, "GOCOVERDIR="+cover)
	}
	return h
}

// stateFile is where the program keeps its records by default.
func (h *home) stateFile() string { return filepath.Join(h.dir, "aipctl", "state.jsonl") }

// stateRecord is one line of the state file, by the names its format promises.
type stateRecord struct {
	Type     string `json:"type"`
	ActionID string `json:"action_id"`
	Settled  *struct {
		Verdict string `json:"verdict"`
	} `json:"settled"`
}

// records reads the state file; a missing one holds none. A line that is no
// record fails the test.
func (h *home) records() []stateRecord {
	h.t.Helper()
	var out []stateRecord
	for line := range bytes.Lines(h.bytes()) {
		var r stateRecord
		if err := json.Unmarshal(line, &r); err != nil || line[len(line)-1] != '\n' {
			h.t.Fatalf("a line of the state file is no record: %q (%v)", line, err)
		}
		out = append(out, r)
	}
	return out
}

func (h *home) bytes() []byte {
	h.t.Helper()
	b, err := os.ReadFile(h.stateFile())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		h.t.Fatal(err)
	}
	return b
}

// ids are the actions with a record of that type, each once, sorted.
func (h *home) ids(typ string) []string {
	h.t.Helper()
	var out []string
	for _, r := range h.records() {
		if r.Type == typ {
			out = append(out, r.ActionID)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// wantSound fails unless the state file is whole and nothing stands beside it
// but its lock.
func (h *home) wantSound() {
	h.t.Helper()
	h.run("state", "check").want(h.t, 0)
	left, err := filepath.Glob(h.stateFile() + "*")
	if err != nil || len(left) != 2 {
		h.t.Errorf("beside the state file stand %v (%v)", left, err)
	}
}

// process is a running program.
type process struct {
	t      testing.TB
	cmd    *exec.Cmd
	out    *tap
	stderr *tap
	done   chan struct{} // closed when it has ended and everything it wrote is here
	code   int           // 128 and the number of the signal that ended it
}

// result is how a process ended.
type result struct {
	code        int
	out, stderr string
}

// String shows a result in a failure.
func (r result) String() string {
	return fmt.Sprintf("exit code %d\nstdout: %q\nstderr:\n%s", r.code, r.out, r.stderr)
}

// want fails unless the process ended with that code.
func (r result) want(t testing.TB, code int) {
	t.Helper()
	if r.code != code {
		t.Fatalf("exit code %d, want %d\n%s", r.code, code, r)
	}
}

// tap keeps what a process writes, for a test that waits for it.
type tap struct {
	mu    sync.Mutex
	b     bytes.Buffer
	moved chan struct{} // closed, and replaced, when something was written
}

func newTap() *tap { return &tap{moved: make(chan struct{})} }

// Write implements io.Writer.
func (w *tap) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.moved)
	w.moved = make(chan struct{})
	return w.b.Write(p)
}

// String is everything that was written so far.
func (w *tap) String() string {
	s, _ := w.look()
	return s
}

func (w *tap) look() (string, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String(), w.moved
}

// await waits until what a process wrote is as it should be.
func (p *process) await(w *tap, what string, there func(string) bool) {
	p.t.Helper()
	limit := time.NewTimer(hang)
	defer limit.Stop()
	for {
		s, moved := w.look()
		if there(s) {
			return
		}
		select {
		case <-moved:
		case <-p.done:
			if s, _ := w.look(); !there(s) {
				p.t.Fatalf("the process ended before %s\n%s", what, p.result())
			}
			return
		case <-limit.C:
			p.t.Fatalf("waited in vain for %s; there is %q", what, s)
		}
	}
}

// command prepares a program in a home.
func (h *home) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(name, args...)
	c.Dir, c.Env = h.dir, slices.Clone(h.env)
	return c
}

// start runs aipctl.
func (h *home) start(args ...string) *process { return h.launch(h.command("aipctl", args...)) }

// launch starts a command. What it has no stream for yet is kept.
func (h *home) launch(c *exec.Cmd) *process { h.t.Helper(); return h.begin(c, newTap(), nil) }

// begin starts a command; it is done when it has ended and copied, which may be
// nil, is closed.
func (h *home) begin(c *exec.Cmd, out *tap, copied <-chan struct{}) *process {
	h.t.Helper()
	p := &process{t: h.t, cmd: c, out: out, stderr: newTap(), done: make(chan struct{})}
	if c.Stdout == nil {
		c.Stdout = p.out
	}
	if c.Stderr == nil {
		c.Stderr = p.stderr
	}
	if err := c.Start(); err != nil {
		h.t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		_ = c.Wait() // the state says how it ended
		p.code = c.ProcessState.ExitCode()
		if ws := c.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
			p.code = 128 + int(ws.Signal())
		}
		if copied != nil {
			<-copied
		}
	}()
	h.t.Cleanup(func() {
		_ = c.Process.Kill() // most have ended long ago
		<-p.done
	})
	return p
}

// run runs aipctl to its end.
func (h *home) run(args ...string) result { h.t.Helper(); return h.start(args...).wait() }

// wait waits for the end.
func (p *process) wait() result {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(hang):
		p.t.Fatalf("the process does not end; stderr so far:\n%s", p.stderr)
	}
	return p.result()
}

// result is how a process that is done has ended.
func (p *process) result() result {
	aiptest.CheckOutput(p.t, p.cmd.Args, p.out.String(), p.stderr.String())
	return result{code: p.code, out: p.out.String(), stderr: p.stderr.String()}
}

// killed is the code of a process that SIGKILL ended.
const killed = 128 + int(syscall.SIGKILL)

// kill ends the process as kill -9 does, and waits for its end.
func (p *process) kill() result {
	p.t.Helper()
	_ = p.cmd.Process.Kill() // it may have been faster
	return p.wait()
}

// alive reports whether the process has not ended yet, as far as is known.
func (p *process) alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}
