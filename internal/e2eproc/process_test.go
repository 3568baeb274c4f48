//go:build unix

package e2eproc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aipctl/aipctl/internal/aiptest"
)

// lockedBuffer is a buffer that one goroutine fills while another looks.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// home is where one user's processes keep their files.
type home struct {
	t   *testing.T
	dir string
	env []string
}

// newHome makes an empty home for processes that talk to a daemon.
func (d *daemon) newHome() *home {
	d.t.Helper()
	h := &home{t: d.t, dir: d.t.TempDir()}
	if err := os.Mkdir(h.temp(), 0o700); err != nil {
		d.t.Fatal(err)
	}
	h.env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + h.dir, "XDG_STATE_HOME=" + h.dir, "TMPDIR=" + h.temp(),
		"AIP_TOKEN_FILE=" + d.tokenFile,
		"AIP_URL=" + d.url,
	}
	if cover := os.Getenv("GOCOVERDIR"); cover != "" {
		h.env = append(h.env, "GOCOVERDIR="+cover)
	}
	return h
}

// stateFile is where the program keeps its records by default.
func (h *home) stateFile() string { return filepath.Join(h.dir, "aipctl", "state.jsonl") }

// temp is the folder for temporary files.
func (h *home) temp() string { return filepath.Join(h.dir, "tmp") }

// stateRecord is one line of the state file, read by the names its format
// promises.
type stateRecord struct {
	Type     string `json:"type"`
	ActionID string `json:"action_id"`
	Intent   *struct {
		CapabilityID   string `json:"capability_id"`
		IdempotencyKey string `json:"idempotency_key"`
		Mode           string `json:"mode"`
		URL            string `json:"url"`
		InputHash      string `json:"input_hash"`
	} `json:"intent"`
	NotSent *struct {
		Class int    `json:"class"`
		Code  string `json:"code"`
	} `json:"not_sent"`
	Cursor *struct {
		Cursor       string  `json:"cursor"`
		LastSequence *uint64 `json:"last_sequence"`
	} `json:"cursor"`
	Settled *struct {
		Verdict  string `json:"verdict"`
		ExitCode int    `json:"exit_code"`
	} `json:"settled"`
}

// records reads the state file; a missing one holds none.
func (h *home) records() []stateRecord {
	h.t.Helper()
	b, err := os.ReadFile(h.stateFile())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		h.t.Fatal(err)
	}
	var out []stateRecord
	for line := range bytes.Lines(b) {
		var r stateRecord
		if err := json.Unmarshal(line, &r); err != nil {
			h.t.Fatalf("a line of the state file: %v", err)
		}
		out = append(out, r)
	}
	return out
}

// of returns the records of one type about one action.
func (h *home) of(typ, id string) []stateRecord {
	h.t.Helper()
	return slices.DeleteFunc(h.records(), func(r stateRecord) bool { return r.Type != typ || r.ActionID != id })
}

// poll looks again and again for what no pipe and no request tells.
func (h *home) poll(what string, there func() bool) {
	h.t.Helper()
	for end := time.Now().Add(hang); !there(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			h.t.Fatalf("waited in vain for %s", what)
		}
	}
}

// process is a running aipctl, or a shell that runs one.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	out    *pipe
	stderr *lockedBuffer
	done   chan struct{}
	code   int
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

// pipe is the reading end of a process's stdout, with everything read so far.
type pipe struct {
	t   *testing.T
	f   *os.File
	got []byte
}

// until reads on until everything read ends in want.
func (p *pipe) until(want string) {
	p.t.Helper()
	p.awaiting(fmt.Sprintf("the end %q", want), func() bool { return bytes.HasSuffix(p.got, []byte(want)) })
}

// exactly reads until that much is there, and compares all of it.
func (p *pipe) exactly(want string) {
	p.t.Helper()
	p.awaiting(fmt.Sprintf("%q", want), func() bool { return len(p.got) >= len(want) })
	if string(p.got) != want {
		p.t.Fatalf("stdout is %q, want %q", p.got, want)
	}
}

// record reads on until a record is there.
func (p *pipe) record(match func(record) bool) {
	p.t.Helper()
	p.awaiting("a record", func() bool {
		return len(p.got) > 0 && p.got[len(p.got)-1] == '\n' && slices.ContainsFunc(recordsOf(p.t, string(p.got)), match)
	})
}

func (p *pipe) awaiting(what string, there func() bool) {
	p.t.Helper()
	if err := p.f.SetReadDeadline(time.Now().Add(hang)); err != nil {
		p.t.Fatal(err)
	}
	var b [1]byte // one by one, so that nothing beyond is taken
	for !there() {
		n, err := p.f.Read(b[:])
		p.got = append(p.got, b[:n]...)
		if err != nil {
			p.t.Fatalf("stdout ends (%v) before %s; it is %q", err, what, p.got)
		}
	}
}

// rest reads to the end and returns everything.
func (p *pipe) rest() string {
	p.t.Helper()
	if err := p.f.SetReadDeadline(time.Now().Add(hang)); err != nil {
		p.t.Fatal(err)
	}
	more, err := io.ReadAll(p.f)
	if err != nil {
		p.t.Fatalf("stdout does not end: %v; it is %q", err, p.got)
	}
	p.got = append(p.got, more...)
	return string(p.got)
}

// command prepares a process in a home.
func (h *home) command(name string, args ...string) *exec.Cmd {
	h.t.Helper()
	c := exec.Command(name, args...)
	c.Dir, c.Env = h.dir, slices.Clone(h.env)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that a shell's children can be ended too
	return c
}

// start runs aipctl with stdout in a pipe.
func (h *home) start(args ...string) *process {
	h.t.Helper()
	return h.launch(h.command("aipctl", args...))
}

// launch starts a command; stdout goes to a pipe unless it is set already.
func (h *home) launch(c *exec.Cmd) *process {
	h.t.Helper()
	p := &process{t: h.t, cmd: c, stderr: &lockedBuffer{}, done: make(chan struct{})}
	if c.Stderr == nil {
		c.Stderr = p.stderr
	}
	var w *os.File
	if c.Stdout == nil {
		r, pw, err := os.Pipe()
		if err != nil {
			h.t.Fatal(err)
		}
		p.out, w, c.Stdout = &pipe{t: h.t, f: r}, pw, pw
		h.t.Cleanup(func() { r.Close() })
	}
	if err := c.Start(); err != nil {
		h.t.Fatal(err)
	}
	if w != nil {
		w.Close()
	}
	go func() {
		_ = c.Wait() // the state says how it ended
		p.code = c.ProcessState.ExitCode()
		if ws := c.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
			p.code = 128 + int(ws.Signal())
		}
		close(p.done)
	}()
	h.t.Cleanup(func() {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // most have ended long ago
		<-p.done
	})
	return p
}

// signal sends a signal to the process.
func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("signal %v: %v\nstderr:\n%s", s, err, p.stderr)
	}
}

// wait waits for the end.
func (p *process) wait() result {
	p.t.Helper()
	var out string
	if p.out != nil {
		out = p.out.rest()
	}
	select {
	case <-p.done:
	case <-time.After(hang):
		p.signal(syscall.SIGQUIT) // its stack tells where it hangs
		<-p.done
		p.t.Fatalf("the process does not end; stderr:\n%s", p.stderr)
	}
	aiptest.CheckOutput(p.t, p.cmd.Args, out, p.stderr.String())
	return result{code: p.code, out: out, stderr: p.stderr.String()}
}

// kill ends the process as kill -9 does, and waits for its end.
func (p *process) kill() result {
	p.t.Helper()
	_ = p.cmd.Process.Kill() // it may have been faster
	return p.wait()
}

// run runs aipctl to its end.
func (h *home) run(args ...string) result {
	h.t.Helper()
	return h.start(args...).wait()
}

// shell runs a line of a script to its end.
func (h *home) shell(line string, env ...string) result {
	h.t.Helper()
	c := h.command("sh", "-c", line)
	c.Env = append(c.Env, env...)
	return h.launch(c).wait()
}

// run runs aipctl to its end, in a home of its own.
func (d *daemon) run(t *testing.T, args ...string) result {
	t.Helper()
	return d.newHome().run(args...)
}

// wantCode fails unless the process ended with that code.
func wantCode(t *testing.T, got result, want int) {
	t.Helper()
	if got.code != want {
		t.Fatalf("exit code %d, want %d\n%s", got.code, want, got)
	}
}

// record is a JSON Lines record, as far as these tests read it.
type record struct {
	Type     string `json:"type"`
	Sequence uint64 `json:"sequence"`
	Text     string `json:"text"`
	ActionID string `json:"action_id"`
	Verdict  string `json:"verdict"`
	ExitCode int    `json:"exit_code"`
	Code     string `json:"code"`
	Message  string `json:"message"`
	Hint     string `json:"hint"`
	Reason   string `json:"reason"`
	Cursor   string `json:"cursor"`
	Next     any    `json:"next"`
}

// recordsOf reads lines of JSON.
func recordsOf(t *testing.T, s string) []record {
	t.Helper()
	var out []record
	for line := range strings.Lines(s) {
		var r record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%q is no record: %v", line, err)
		}
		out = append(out, r)
	}
	return out
}

// textOf joins the text records.
func textOf(records []record) string {
	var b strings.Builder
	for _, r := range records {
		if r.Type == "text" {
			b.WriteString(r.Text)
		}
	}
	return b.String()
}

// wantOneOutcome fails unless the records begin with one identity and end in
// exactly one outcome, which it returns.
func wantOneOutcome(t *testing.T, records []record) record {
	t.Helper()
	count := map[string]int{}
	for _, r := range records {
		count[r.Type]++
	}
	if len(records) < 2 || count["outcome"] != 1 || count["identity"] != 1 ||
		records[0].Type != "identity" || records[len(records)-1].Type != "outcome" {
		t.Fatalf("of %d records %d are outcomes and %d identities; want one identity first and one outcome last", len(records), count["outcome"], count["identity"])
	}
	return records[len(records)-1]
}
