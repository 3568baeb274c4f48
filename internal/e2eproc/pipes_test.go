//go:build unix

package e2eproc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// lastCursor is the last sequence that the state file says was written out.
func (h *home) lastCursor(id string) (seq uint64, ok bool) {
	h.t.Helper()
	for _, r := range h.of("cursor", id) {
		if s := r.Cursor.LastSequence; s != nil && (!ok || *s > seq) {
			seq, ok = *s, true
		}
	}
	return seq, ok
}

// readerGoes closes the reading end of stdout. A process that is just being
// forked by another test would keep a copy of it open.
func (p *process) readerGoes() {
	syscall.ForkLock.RLock()
	p.out.f.Close()
	syscall.ForkLock.RUnlock()
	p.out = nil
}

// wantQuietEnd fails where a reader that went away is answered with an error.
func wantQuietEnd(t *testing.T, stderr string) {
	t.Helper()
	for _, word := range []string{"aipctl: ", `"type":"error"`, "panic", "goroutine", "broken pipe"} {
		if strings.Contains(stderr, word) {
			t.Errorf("stderr says %q:\n%s", word, stderr)
		}
	}
}

// A reader that goes away ends the watching at the next write, however long
// the stream would go on.
func TestReaderOfStdoutGoesAway(t *testing.T) {
	t.Parallel()
	want := play(t, slow)
	const early, at, later = 4, 9, 14
	for _, format := range []string{"text", "jsonl"} {
		for _, verb := range []string{"call", "events"} {
			t.Run(format+" of "+verb, func(t *testing.T) {
				t.Parallel()
				d := newDaemon(t, setup{})
				h := d.newHome()
				begun, held, end := d.holdAt(early), d.holdAt(at), d.holdAt(later)
				p := h.start("action", "call", d.url, slow, "--action-id", "act_pipe", "--prompt", "x", "-o", format)
				// A first cursor is saved; what comes right after it is left to the end.
				begun.await(t)
				if verb == "events" {
					p.kill()
					h = d.newHome()
					p = h.start("action", "events", d.url, "act_pipe", "--follow", "--include-chunks", "-o", format)
				}
				h.awaitRecord("cursor", "act_pipe")
				begun.release()
				if format == "text" {
					p.out.exactly(want.upTo(at))
				} else {
					p.out.record(func(r record) bool { return r.Type == "text" && r.Sequence == at-1 })
				}
				held.await(t)
				p.readerGoes()
				held.release()
				left := p.wait() // the stream stands still at the later chunk
				wantCode(t, left, 141)
				wantQuietEnd(t, left.stderr)
				// It ended by itself, and not by the signal of the pipe.
				if ends := map[string]string{"text": "verdict: pending (exit 141)", "jsonl": `"exit_code":141`}[format]; !strings.Contains(left.stderr, ends) {
					t.Errorf("stderr has no %s:\n%s", ends, left.stderr)
				}
				if seq, ok := h.lastCursor("act_pipe"); !ok || seq != at-1 {
					t.Errorf("the cursor stands at %d (%t), and %d was the last chunk written", seq, ok, at-1)
				}
				end.release()
				back := h.run("action", "events", d.url, "act_pipe", "--follow", "--include-chunks")
				wantCode(t, back, 0)
				if rest := strings.TrimSuffix(back.out, "\n"); want.upTo(at)+rest != want.text {
					t.Errorf("after %q came %q", want.upTo(at), rest)
				}
				if d.srv.Executions("act_pipe") != 1 || d.submits() != 1 || d.requests("cancel") != 0 {
					t.Errorf("%d executions of %d submits, %d cancels; want 1 of 1 and none", d.srv.Executions("act_pipe"), d.submits(), d.requests("cancel"))
				}
			})
		}
	}
}

// The same with head, as people write it.
func TestPipedIntoHead(t *testing.T) {
	t.Parallel()
	want := play(t, slow)
	const at = 9
	for rule, tt := range map[string]struct{ args, head, out string }{
		"text":                    {"", "head -c 4", want.text[:4]},
		"text, stderr closed":     {"2>&-", "head -c 4", want.text[:4]},
		"jsonl":                   {"-o jsonl", "head -1", `{"v":1,"type":"identity",`},
		"json of a plain reading": {"-o json", "head -c 4", `{"v"`},
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			d := newDaemon(t, setup{})
			h := d.newHome()
			held := d.holdAt(at)
			h.start("action", "call", d.url, slow, "--action-id", "act_head", "--prompt", "x").signalAt(held)
			reader := d.newHome()
			p := reader.launch(reader.command("sh", "-c",
				`{ aipctl events "$AIP_URL" act_head --follow --include-chunks `+tt.args+`; echo $? >code; } | `+tt.head))
			if tt.args == "-o json" {
				held.release() // there is nothing to read before the end
			}
			p.out.until(tt.out[len(tt.out)-1:])
			held.release()
			got := p.wait()
			if !strings.HasPrefix(got.out, tt.out) {
				t.Errorf("head got %q", got.out)
			}
			code, err := os.ReadFile(filepath.Join(reader.dir, "code"))
			if err != nil {
				t.Fatal(err)
			}
			// A document that was written in one piece before head had gone is whole.
			if c := strings.TrimSpace(string(code)); c != "141" && (tt.args != "-o json" || c != "0") {
				t.Errorf("exit code %s, want 141", c)
			}
			wantQuietEnd(t, got.stderr)
			if d.requests("cancel") != 0 || d.submits() != 1 {
				t.Errorf("%d cancels, %d submits", d.requests("cancel"), d.submits())
			}
		})
	}
}

// signalAt lets a caller leave once the daemon stands still.
func (p *process) signalAt(h *hold) {
	p.t.Helper()
	h.await(p.t)
	p.signal(syscall.SIGTERM)
	if got := p.wait(); got.code != 143 {
		p.t.Fatalf("the caller did not leave: %s", got)
	}
}

// fullPipe is a pipe that takes nothing more.
func fullPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Close()
		w.Close()
	})
	fd := int(w.Fd())
	if err := syscall.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	for piece := slices.Repeat([]byte("."), 4096); ; {
		switch _, err := syscall.Write(fd, piece); {
		case errors.Is(err, syscall.EAGAIN) && len(piece) > 1:
			piece = piece[:1]
		case errors.Is(err, syscall.EAGAIN):
			if err := syscall.SetNonblock(fd, false); err != nil {
				t.Fatal(err)
			}
			return r, w
		case err != nil:
			t.Fatal(err)
		}
	}
}

// Nobody reads, and the process is blocked in a write: it can be left all the
// same, and what was not written is not lost.
func TestInterruptWhileNobodyReads(t *testing.T) {
	t.Parallel()
	want := play(t, slow)
	const at = 9
	for _, format := range []string{"text", "jsonl", "json"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			d := newDaemon(t, setup{})
			h := d.newHome()
			held := d.holdAt(at)
			_, full := fullPipe(t)
			c := h.command("aipctl", "action", "call", d.url, slow, "--action-id", "act_full", "--prompt", "x", "-o", format)
			c.Stdout = full
			p := h.launch(c)
			sent := format != "jsonl" // its first record waits already, before anything is sent
			if sent {
				held.await(t)
			} else {
				h.awaitRecord("intent", "act_full")
			}
			p.signal(syscall.SIGINT)
			left := p.wait()
			wantCode(t, left, 130)
			held.release()
			if strings.Contains(left.stderr, "panic") {
				t.Errorf("stderr:\n%s", left.stderr)
			}
			if !sent {
				if d.requests("submit") != 0 || len(h.of("not_sent", "act_full")) != 1 {
					t.Errorf("%d posts, %d not_sent records; want none and one", d.requests("submit"), len(h.of("not_sent", "act_full")))
				}
				return
			}
			// Whether the request was seen to leave before the signal came is a race.
			if !strings.Contains(left.stderr, "pending") && !strings.Contains(left.stderr, "unknown") || !strings.Contains(left.stderr, "act_full") {
				t.Errorf("stderr does not say how it stands:\n%s", left.stderr)
			}
			back := h.run("action", "events", d.url, "act_full", "--follow", "--include-chunks")
			wantCode(t, back, 0)
			if back.out != want.text+"\n" {
				t.Errorf("what nobody read is lost: %q", back.out)
			}
			if d.srv.Executions("act_full") != 1 || d.requests("cancel") != 0 {
				t.Errorf("%d executions, %d cancels", d.srv.Executions("act_full"), d.requests("cancel"))
			}
		})
	}
}

// A signal that comes once the action is settled finds nothing left to detach
// from: what is lost is the answer, and nobody may take that for success.
func TestInterruptWhileNobodyTakesTheAnswer(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, setup{})
	h := d.newHome()
	_, full := fullPipe(t)
	c := h.command("aipctl", "action", "call", d.url, "cap:hermes_agent:chat-stop:chat_stream", "--action-id", "act_answer", "--prompt", "x", "-o", "json")
	c.Stdout = full
	p := h.launch(c)
	h.awaitRecord("settled", "act_answer")
	p.signal(syscall.SIGINT)
	left := p.wait()
	wantCode(t, left, 15)
	records := recordsOf(t, left.stderr)
	if o := records[len(records)-1]; o.Type != "outcome" || o.Verdict != "accepted" || o.ExitCode != 15 {
		t.Errorf("stderr ends in %+v", o)
	}
}

// A full disk below stdout changes nothing about the action.
func TestStdoutThatTakesNothing(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("this system has no /dev/full")
	}
	want := play(t, slow)
	for rule, tt := range map[string]struct {
		verb, format string
		sent         bool
	}{
		"text of call":    {"call", "text", true},
		"json of call":    {"call", "json", true},
		"jsonl of call":   {"call", "jsonl", false},
		"text of events":  {"events", "text", true},
		"json of events":  {"events", "json", true},
		"jsonl of events": {"events", "jsonl", true},
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			d := newDaemon(t, setup{})
			h := d.newHome()
			args := []string{"action", "call", d.url, slow, "--action-id", "act_disk", "--prompt", "x"}
			if tt.verb == "events" {
				wantCode(t, d.run(t, args...), 0)
				args = []string{"action", "events", d.url, "act_disk", "--follow", "--include-chunks"}
			}
			full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer full.Close()
			c := h.command("aipctl", append(args, "-o", tt.format)...)
			c.Stdout = full
			got := h.launch(c).wait()
			wantCode(t, got, 15)
			if !tt.sent {
				// The identity could not be shown, so nothing was sent.
				if d.requests("submit") != 0 || len(h.of("not_sent", "act_disk")) != 1 {
					t.Errorf("%d posts, %d not_sent records; want none and one", d.requests("submit"), len(h.of("not_sent", "act_disk")))
				}
				return
			}
			if tt.format == "text" {
				if !strings.Contains(got.stderr, "verdict: accepted (exit 15)") {
					t.Errorf("stderr has no verdict:\n%s", got.stderr)
				}
			} else {
				records := recordsOf(t, got.stderr)
				o := records[len(records)-1]
				if o.Type != "outcome" || o.Verdict != "accepted" || o.ExitCode != 15 {
					t.Errorf("stderr ends in %+v", o)
				}
			}
			if d.srv.Executions("act_disk") != 1 {
				t.Errorf("%d executions, want 1", d.srv.Executions("act_disk"))
			}
			back := h.run("action", "events", d.url, "act_disk", "--follow", "--include-chunks")
			wantCode(t, back, 0)
			if back.out != want.text+"\n" {
				t.Errorf("what the disk did not take is lost: %q", back.out)
			}
		})
	}
}

// The other two streams may be missing altogether.
func TestClosedStreams(t *testing.T) {
	t.Parallel()
	want := play(t, "cap:hermes_agent:chat-stop:chat_stream")
	for rule, tt := range map[string]struct {
		redirect string
		code     int
		out      string
	}{
		"stdin":                    {"--input @request.json <&-", 0, want.text + "\n"},
		"stdin that is to be read": {"--input - <&-", 2, ""},
		"stderr":                   {"--input @request.json 2>&-", 0, want.text + "\n"},
		"stdin and stderr":         {"--input @request.json <&- 2>&-", 0, want.text + "\n"},
		"a pipe on stdin":          {"--input - <request.json", 0, want.text + "\n"},
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			d := newDaemon(t, setup{})
			h := d.newHome()
			h.request(`{"prompt":"x"}`)
			got := h.shell(`aipctl action call "$AIP_URL" cap:hermes_agent:chat-stop:chat_stream ` + tt.redirect)
			wantCode(t, got, tt.code)
			if got.out != tt.out {
				t.Errorf("it wrote %q, want %q", got.out, tt.out)
			}
			if want := (2 - tt.code) / 2; d.submits() != want || len(h.of("intent", h.intentOr("none"))) != want {
				t.Errorf("%d submits; the state file: %+v", d.submits(), h.records())
			}
		})
	}
}

// intentOr is the id of the first intent.
func (h *home) intentOr(none string) string {
	for _, r := range h.records() {
		if r.Type == "intent" {
			return r.ActionID
		}
	}
	return none
}

// awaitRecord waits until the state file holds a record.
func (h *home) awaitRecord(typ, id string) {
	h.t.Helper()
	h.poll("a record of type "+typ, func() bool { return len(h.of(typ, id)) > 0 })
}

// The line that scripts are written with: the first line is enough, the code of
// the program stands in PIPESTATUS, and the cursor lets the rest be read later.
func TestHeadInAScript(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("this system has no bash, and no other shell knows PIPESTATUS")
	}
	const line, at = 5, 9 // the chunk that ends a line, and where the stream stands still
	d := newDaemon(t, setup{rewrite: func(s string) string { return strings.ReplaceAll(s, " word03", ` word03\n`) }})
	h := d.newHome()
	held := d.holdAt(at)
	h.start("action", "call", d.url, slow, "--action-id", "act_line", "--prompt", "x").signalAt(held)
	reader := d.newHome()
	p := reader.launch(reader.command(bash, "-c",
		`aipctl events "$AIP_URL" act_line --follow --include-chunks | head -1; echo "${PIPESTATUS[0]}" >code`))
	p.out.until("\n")
	held.release()
	got := p.wait()
	code, err := os.ReadFile(filepath.Join(reader.dir, "code"))
	if err != nil {
		t.Fatal(err)
	}
	if first := "Once upon a time word00 word01 word02 word03\n"; got.out != first || strings.TrimSpace(string(code)) != "141" {
		t.Errorf("head got %q, and PIPESTATUS is %s; want %q and 141", got.out, code, first)
	}
	wantQuietEnd(t, got.stderr)
	seq, ok := reader.lastCursor("act_line")
	if !ok || seq < line || seq >= at+1 {
		t.Fatalf("the cursor stands at %d (%t), and the line ends with chunk %d", seq, ok, line)
	}
	back := reader.run("action", "events", d.url, "act_line", "--follow", "--include-chunks")
	wantCode(t, back, 0)
	if want := fmt.Sprintf("word%02d", seq-1); !strings.HasPrefix(strings.TrimSpace(back.out), want) {
		t.Errorf("after chunk %d the rest begins with %.20q, want %s", seq, back.out, want)
	}
	if d.submits() != 1 || d.requests("cancel") != 0 {
		t.Errorf("%d submits, %d cancels", d.submits(), d.requests("cancel"))
	}
}
