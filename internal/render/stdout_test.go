package render

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/record"
	"github.com/aipctl/aipctl/internal/transcript"
	"github.com/aipctl/aipctl/internal/verdict"
	"github.com/go-json-experiment/json"
)

// narrow takes so many bytes and then fails with err; a nil err makes short
// writes, which say nothing.
type narrow struct {
	room   int
	err    error
	taken  strings.Builder
	failed bool
	after  int // writes after the first failure
}

func (w *narrow) Write(p []byte) (int, error) {
	if w.failed {
		w.after++
	}
	n := min(w.room, len(p))
	w.room -= n
	w.taken.Write(p[:n])
	if n < len(p) {
		w.failed = true
		return n, w.err
	}
	return n, nil
}

func TestStdoutThatFailsIsNotWrittenAgain(t *testing.T) {
	full := &fs.PathError{Op: "write", Path: "/secret/path", Err: syscall.ENOSPC}
	for name, tt := range map[string]struct {
		err     error
		class   fault.Class
		code    string
		message string
	}{
		"a full disk":          {full, fault.Output, "output.write", "stdout took 2 of 5 bytes: no space left on device"},
		"a short write":        {nil, fault.Output, "output.write", "stdout took 2 of 5 bytes: short write"},
		"a reader that left":   {&fs.PathError{Op: "write", Err: syscall.EPIPE}, fault.BrokenPipe, "output.broken_pipe", "the reader of stdout went away after 2 of 5 bytes"},
		"a pipe of the module": {io.ErrClosedPipe, fault.BrokenPipe, "output.broken_pipe", "the reader of stdout went away after 2 of 5 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			w := &narrow{room: 2, err: tt.err}
			g := newRig(t, Options{Stdout: w})
			d := record.Delivery{Ops: []transcript.Op{transcript.Text{Text: "12345"}, transcript.Text{Text: "6"}}}
			err := g.r.Deliver(d)
			e := fault.As(err)
			if e == nil || e.Class != tt.class || e.Code != tt.code || e.Message != tt.message {
				t.Fatalf("Deliver: %#v, want class %v, code %s, message %q", e, tt.class, tt.code, tt.message)
			}
			if tt.err != nil && !errors.Is(err, tt.err) {
				t.Errorf("the cause is lost: %v", err)
			}
			again := g.r.Deliver(record.Delivery{Ops: []transcript.Op{transcript.Tool{CallID: "c", Name: "t", Status: transcript.ToolRunning}}})
			if again != err {
				t.Errorf("a later delivery gives %v, want the first error", again)
			}
			if last := g.r.Outcome(outcome(func(o *verdict.Outcome) { o.ExitCode = tt.class.Code() })); last != err {
				t.Errorf("the outcome gives %v, want the first error", last)
			}
			if w.after != 0 {
				t.Errorf("%d writes after the failure", w.after)
			}
			if g.err.String() == "" || !strings.Contains(g.err.String(), "verdict: accepted (exit ") {
				t.Errorf("stderr %q does not tell the verdict", g.err.String())
			}
		})
	}
}

// Also where stdout fails, a script finds exactly one outcome, on stderr.
func TestOutcomeGoesToStderrWhenStdoutIsGone(t *testing.T) {
	whole := outcome(func(o *verdict.Outcome) { o.Text, o.Items = "secret answer", []verdict.ItemText{{Text: "secret item"}} })
	for _, format := range []Format{JSON, JSONL} {
		for name, tt := range map[string]struct {
			room  int // in records
			given int
			exit  int
		}{
			"before the outcome":           {room: 0, given: 15, exit: 15},
			"at the outcome":               {room: 1, given: 0, exit: 15},
			"at the outcome of a signal":   {room: 1, given: 130, exit: 130},
			"before, and a signal came in": {room: 0, given: 143, exit: 143},
		} {
			t.Run(format.String()+" "+name, func(t *testing.T) {
				w := &narrow{err: syscall.ENOSPC}
				if tt.room > 0 {
					probe := newRig(t, Options{Format: format})
					probe.identity()
					w.room = probe.out.Len() + 10
				}
				g := newRig(t, Options{Format: format, Stdout: w})
				first := g.r.Identity(record.Identity{
					ActionID:       "act_1",
					CapabilityID:   "cap:hermes_agent:qa:chat_stream",
					URL:            "http://127.0.0.1:8080/base path",
					IdempotencyKey: "key-1",
					StateFile:      "/state/state.jsonl",
					Resume:         []string{"aipctl", "action", "events", "http://127.0.0.1:8080/base path", "act_1", "--follow"},
					Cancel:         []string{"aipctl", "action", "cancel", "http://127.0.0.1:8080/base path", "act_1"},
				})
				if failed := first != nil; failed != (format == JSONL && tt.room == 0) {
					t.Fatalf("the identity gave %v", first)
				}
				o := *whole
				o.ExitCode = tt.given
				err := g.r.Outcome(&o)
				if fault.ClassOf(err) != fault.Output {
					t.Errorf("Outcome: %v", err)
				}
				var got verdict.Outcome
				if err := json.Unmarshal(g.err.Bytes(), &got); err != nil {
					t.Fatalf("stderr is no outcome: %v: %q", err, g.err.String())
				}
				if strings.Count(g.err.String(), "\n") != 1 {
					t.Errorf("stderr is not one line: %q", g.err.String())
				}
				if got.Verdict != "accepted" || got.ExitCode != tt.exit || got.Type != "outcome" {
					t.Errorf("the outcome says %s, exit %d, want accepted, exit %d", got.Verdict, got.ExitCode, tt.exit)
				}
				if strings.Contains(g.err.String(), "secret") {
					t.Errorf("the answer got to stderr: %q", g.err.String())
				}
				if w.after != 0 {
					t.Errorf("%d writes after the failure", w.after)
				}
				if o.Text != "secret answer" {
					t.Error("the caller's outcome was changed")
				}
			})
		}
	}
}

// A failure at the very end shows in the last line, for the exit code is
// already on its way to the shell.
func TestTextOutcomeTellsOfItsOwnFailure(t *testing.T) {
	w := &narrow{room: 1, err: syscall.ENOSPC}
	g := newRig(t, Options{Stdout: w, Quiet: true})
	g.deliver(0, transcript.Text{Text: "a"})
	if err := g.r.Outcome(outcome(nil)); fault.ClassOf(err) != fault.Output {
		t.Errorf("Outcome: %v", err)
	}
	if !strings.Contains(g.err.String(), "verdict: accepted (exit 15)") {
		t.Errorf("stderr %q", g.err.String())
	}
}

func TestPipeWithoutReaderIsABrokenPipe(t *testing.T) {
	for _, format := range []Format{Text, JSONL} {
		t.Run(format.String(), func(t *testing.T) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			g := newRig(t, Options{Stdout: w, Format: format})
			_ = g.r.Identity(record.Identity{ActionID: "act_1"})
			err = g.r.Deliver(record.Delivery{Ops: []transcript.Op{transcript.Text{Text: "secret"}}})
			if fault.ClassOf(err) != fault.BrokenPipe {
				t.Fatalf("Deliver: %v", err)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("the error repeats the text: %v", err)
			}
			g.err.Reset()
			g.r.Error(err)
			if g.err.Len() > 0 {
				t.Errorf("a message for nobody: %q", g.err.String())
			}
		})
	}
}

func TestFullDeviceIsAnOutputError(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("this system has no /dev/full")
	}
	defer full.Close()
	g := newRig(t, Options{Stdout: full})
	err = g.r.Deliver(record.Delivery{Ops: []transcript.Op{transcript.Text{Text: "abc"}}})
	if e := fault.As(err); e == nil || e.Class != fault.Output || e.Message != "stdout took 0 of 3 bytes: no space left on device" {
		t.Errorf("Deliver: %v", err)
	}
}

// stuck blocks in Write until it is let go.
type stuck struct{ release chan struct{} }

func (w stuck) Write(p []byte) (int, error) {
	<-w.release
	return len(p), nil
}

// A reader that does not read must not keep a person from leaving.
func TestAbandonFreesAWriteThatNobodyTakes(t *testing.T) {
	for _, format := range []Format{Text, JSONL} {
		t.Run(format.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := stuck{make(chan struct{})}
				g := newRig(t, Options{Stdout: w, Format: format})
				done := make(chan error, 1)
				go func() {
					if err := g.r.Identity(record.Identity{ActionID: "act_1"}); err != nil {
						done <- err
						return
					}
					done <- g.r.Deliver(record.Delivery{Ops: []transcript.Op{transcript.Text{Text: "a"}}})
				}()
				synctest.Wait()
				select {
				case err := <-done:
					t.Fatalf("the write did not wait: %v", err)
				default:
				}
				g.r.Abandon()
				g.r.Abandon()
				err := <-done
				if e := fault.As(err); e == nil || e.Class != fault.Output || e.Code != "output.abandoned" {
					t.Fatalf("the waiting call gave %v", err)
				}
				if last := g.r.Outcome(outcome(func(o *verdict.Outcome) { o.Verdict, o.ExitCode = "pending", 130 })); last != err {
					t.Errorf("Outcome: %v", last)
				}
				if s := g.err.String(); !strings.Contains(s, "pending") || !strings.Contains(s, "130") {
					t.Errorf("stderr does not tell how it was left: %q", s)
				}
				close(w.release)
			})
		})
	}
}

// A run may go on after the user has asked to stop, until a cancellation has
// taken hold. Its reader must not lose the rest.
func TestAbandonLeavesAReaderWhoReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, Options{})
		g.deliver(0, transcript.Text{Text: "a"})
		g.r.Abandon()
		if err := g.r.Deliver(record.Delivery{Ops: []transcript.Op{transcript.Text{Text: "b"}}}); err != nil || g.out.String() != "ab" {
			t.Errorf("Deliver: %v, stdout %q", err, g.out.String())
		}
	})
}

// Nobody is waited for twice.
func TestAbandonedStdoutIsNotWrittenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := stuck{make(chan struct{})}
		defer close(w.release)
		g := newRig(t, Options{Stdout: w})
		g.r.Abandon()
		first := g.r.Deliver(record.Delivery{Ops: []transcript.Op{transcript.Text{Text: "a"}}})
		start := time.Now()
		again := g.r.Deliver(record.Delivery{Ops: []transcript.Op{transcript.Text{Text: "b"}}})
		if fault.ClassOf(first) != fault.Output || again != first || time.Since(start) != 0 {
			t.Errorf("Deliver: %v, then %v after %v", first, again, time.Since(start))
		}
	})
}

// deaf is a stderr that is closed.
type deaf struct{}

func (deaf) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestClosedStderrCostsNothing(t *testing.T) {
	g := newRig(t, Options{Stderr: deaf{}})
	g.identity()
	g.play(toolFrames)
	g.outcome(nil)
	if got := g.out.String(); got != "Checking: level 3.2 m.\n" {
		t.Errorf("stdout %q", got)
	}
}

// Wherever stdout ends, what it took is the beginning of the whole, it is left
// alone from then on, and the outcome is told once.
func TestStdoutMayEndAnywhere(t *testing.T) {
	for _, format := range []Format{Text, JSON, JSONL} {
		for name, run := range map[string]func(*rig){"tools": runTools, "items": runItems, "trouble": runTrouble} {
			t.Run(format.String()+" "+name, func(t *testing.T) {
				full := newRig(t, Options{Format: format})
				run(full)
				whole := full.out.String()
				step := max(len(whole)/97, 1)
				for room := 0; room < len(whole); room += step {
					w := &narrow{room: room, err: syscall.EPIPE}
					g := newRig(t, Options{Format: format, Stdout: w})
					g.lenient = true
					run(g)
					if got := w.taken.String(); got != whole[:room] {
						t.Fatalf("room %d: took %q, want %q", room, got, whole[:room])
					}
					if w.after != 0 {
						t.Fatalf("room %d: %d writes after the failure", room, w.after)
					}
					told := strings.Count(g.err.String(), "\"type\":\"outcome\"")
					if format == Text {
						told = strings.Count(g.err.String(), "verdict: ")
					}
					if told != 1 {
						t.Fatalf("room %d: the outcome is told %d times: %q", room, told, g.err.String())
					}
				}
			})
		}
	}
}

func TestCancelOutcomeSurvivesStdout(t *testing.T) {
	for _, format := range []Format{Text, JSON, JSONL} {
		g := newRig(t, Options{Format: format, Stdout: &narrow{err: syscall.ENOSPC}})
		err := g.r.CancelOutcome(outcome(func(o *verdict.Outcome) { o.Verdict = "cancelled" }))
		if fault.ClassOf(err) != fault.Output {
			t.Errorf("%v: %v", format, err)
		}
		if s := g.err.String(); !strings.Contains(s, "cancelled") || !strings.Contains(s, "15") {
			t.Errorf("%v: stderr %q", format, s)
		}
	}
}
