//go:build unix

package e2eproc

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/aipctl/aipctl/internal/fault"
)

// A door runs on the daemon's side, before the process under test is known to
// it.
type victim struct {
	ready chan struct{} // closed once p is set
	p     *process
	once  sync.Once
}

func newVictim() *victim { return &victim{ready: make(chan struct{})} }

func (v *victim) is(p *process) {
	v.p = p
	close(v.ready)
}

// kill ends the process where it stands, once.
func (v *victim) kill() {
	<-v.ready
	v.once.Do(func() {
		_ = v.p.cmd.Process.Kill()
		<-v.p.done
	})
}

// onlyIntent returns the id of the one intent of a state file.
func (h *home) onlyIntent() string {
	h.t.Helper()
	id := ""
	for _, r := range h.records() {
		if r.Type != "intent" {
			continue
		}
		if id != "" {
			h.t.Fatalf("there are intents of %s and %s", id, r.ActionID)
		}
		id = r.ActionID
	}
	if id == "" {
		h.t.Fatal("the state file holds no intent")
	}
	return id
}

// Before the post was whole nothing ran, but the client cannot know that: the
// daemon was reached, and what it says proves nothing.
func TestKilledBeforeThePostWasWhole(t *testing.T) {
	t.Parallel()
	for rule, tt := range map[string]struct {
		at     string // the request at which it is killed
		prompt int    // bytes
		read   func(*http.Request) error
	}{
		"the intent is written": {"follow", 1, func(*http.Request) error { return nil }},
		"the post is half sent": {"submit", 1 << 20, func(r *http.Request) error {
			_, err := io.CopyN(io.Discard, r.Body, r.ContentLength/2)
			return err
		}},
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			v := newVictim()
			killed := make(chan struct{})
			d := newDaemon(t, setup{door: func(at *visit) bool {
				if at.kind != tt.at {
					return false
				}
				if err := tt.read(at.r); err != nil {
					t.Errorf("the first half of the body: %v", err)
				}
				v.kill()
				close(killed)
				return true
			}})
			h := d.newHome()
			h.request(`{"prompt":"` + strings.Repeat("x", tt.prompt) + `","session_id":"s"}`)
			v.is(h.start("action", "call", d.url, "cap:hermes_agent:chat-stop:chat_stream", "--input", "@request.json"))
			within(t, killed, "the kill")
			v.p.wait()
			d.setDoor(nil)
			id := h.onlyIntent()
			got := h.run("action", "events", d.url, id, "--follow", "--include-chunks", "--wait", "5s")
			wantCode(t, got, fault.Unknown.Code())
			if got.out != "" || !strings.Contains(got.stderr, "verdict: unknown") || strings.Contains(got.stderr, "not reached") {
				t.Errorf("the come-back says something else than unknown: %s", got)
			}
			if d.srv.Executions(id) != 0 || d.submits() != 0 {
				t.Errorf("%d executions, %d submits; want none", d.srv.Executions(id), d.submits())
			}
		})
	}
}

// Once the post was sent, coming back finds what an undisturbed call finds, and
// nothing runs again.
func TestKilledAfterThePostWasSent(t *testing.T) {
	t.Parallel()
	const capability = "cap:hermes_agent:chat-slow:chat_stream"
	want := play(t, capability)
	const pages = "pages" // killed when it reads the end of the stream by pages, before the result
	for rule, tt := range map[string]struct {
		hold uint64
		at   string
	}{
		"no chunk came":                  {hold: 0},
		"the third delta came":           {hold: 4},
		"the finish chunk came":          {hold: want.finishAt(t) + 1},
		"the result is not yet recorded": {at: pages},
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			v := newVictim()
			killed := make(chan struct{})
			d := newDaemon(t, setup{})
			h := d.newHome()
			var held *hold
			if tt.at == pages {
				d.setDoor(func(at *visit) bool {
					if at.kind != "page" {
						return false
					}
					v.kill()
					close(killed)
					return true
				})
			} else {
				held = d.holdAt(tt.hold)
			}
			p := h.start("action", "call", d.url, capability, "--prompt", "x", "-o", "jsonl")
			v.is(p)
			if held != nil {
				held.await(t)
				if tt.hold > 0 {
					p.out.record(func(r record) bool { return r.Type == "chunk" && r.Sequence == tt.hold-1 })
				}
				v.kill()
				held.release()
			} else {
				within(t, killed, "the kill")
			}
			first := p.wait()
			wantCode(t, first, 137)
			d.setDoor(nil)
			id := h.onlyIntent()
			before := textOf(recordsOf(t, whole(first.out)))
			if len(h.of("settled", id)) != 0 || !strings.HasPrefix(want.text, before) || held != nil && before != want.upTo(tt.hold) {
				t.Fatalf("it was not killed at the mark: it wrote %q", before)
			}
			got := h.run("action", "events", d.url, id, "--follow", "--include-chunks", "-o", "jsonl")
			wantCode(t, got, 0)
			records := recordsOf(t, got.out)
			o := wantOneOutcome(t, records)
			rest := textOf(records)
			if o.Verdict != "accepted" || !strings.HasSuffix(want.text, rest) || len(before)+len(rest) < len(want.text) {
				t.Errorf("the verdict is %s; %q was written before and %q after", o.Verdict, before, rest)
			}
			if d.srv.Executions(id) != 1 || d.submits() != 1 || d.requests("submit") != 1 || d.requests("cancel") != 0 {
				t.Errorf("%d executions of %d submits, %d cancels; want 1 of 1 and none", d.srv.Executions(id), d.submits(), d.requests("cancel"))
			}
			if n := len(h.of("settled", id)); n != 1 {
				t.Errorf("%d verdicts are recorded, want 1", n)
			}
			// And once more, by another command.
			wantCode(t, h.run("action", "result", d.url, id), 0)
		})
	}
}

// whole drops a last line without an end.
func whole(out string) string { return out[:strings.LastIndexByte(out, '\n')+1] }
