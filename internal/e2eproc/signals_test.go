//go:build unix

package e2eproc

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

var detaching = map[string]struct {
	signal os.Signal
	code   int
}{
	"SIGINT":  {syscall.SIGINT, 130},
	"SIGTERM": {syscall.SIGTERM, 143},
	"SIGHUP":  {syscall.SIGHUP, 129},
}

const slow = "cap:hermes_agent:chat-slow:chat_stream"

// A signal ends the watching and nothing else. Who comes back reads on at the
// very letter.
func TestSignalDetaches(t *testing.T) {
	t.Parallel()
	want := play(t, slow)
	const early, at = 4, 9
	for name, sig := range detaching {
		for _, format := range []string{"text", "jsonl", "json"} {
			for _, verb := range []string{"call", "events"} {
				t.Run(name+" in "+format+" of "+verb, func(t *testing.T) {
					t.Parallel()
					d := newDaemon(t, setup{})
					h := d.newHome()
					begun, held := d.holdAt(early), d.holdAt(at)
					p := h.start("action", "call", d.url, slow, "--action-id", "act_left", "--prompt", "x", "-o", format)
					begun.await(t)
					if verb == "events" {
						p.kill()
						h = d.newHome()
						following := make(chan struct{}, 1)
						d.setDoor(telling("follow", following))
						p = h.start("action", "events", d.url, "act_left", "--follow", "--include-chunks", "-o", format)
						within(t, following, "the follow of the events")
					}
					if format != "json" {
						// A first cursor is saved; what comes right after it is left to the end.
						h.awaitRecord("cursor", "act_left")
					}
					begun.release()
					held.await(t)
					switch format {
					case "text":
						p.out.exactly(want.upTo(at))
					case "jsonl":
						p.out.record(func(r record) bool { return r.Type == "text" && r.Sequence == at-1 })
					}
					p.signal(sig.signal)
					left := p.wait()
					wantCode(t, left, sig.code)
					wantWayBack(t, left.stderr, format, "act_left")
					held.release()
					first := wantLeft(t, left, format, sig.code)
					if format != "json" && first != want.upTo(at) {
						t.Errorf("it wrote %q, want %q", first, want.upTo(at))
					}

					back := h.run("action", "events", d.url, "act_left", "--follow", "--include-chunks", "-o", "jsonl")
					wantCode(t, back, 0)
					records := recordsOf(t, back.out)
					if o := wantOneOutcome(t, records); o.Verdict != "accepted" {
						t.Errorf("the come-back's verdict is %s", o.Verdict)
					}
					rest := textOf(records)
					if first+rest != want.text {
						t.Errorf("%q and then %q are not the whole text", first, rest)
					}
					if d.srv.Executions("act_left") != 1 || d.submits() != 1 || d.requests("cancel") != 0 {
						t.Errorf("%d executions of %d submits, %d cancels; want 1 of 1 and none", d.srv.Executions("act_left"), d.submits(), d.requests("cancel"))
					}
				})
			}
		}
	}
}

// wantWayBack fails unless a person finds the way back on stderr.
func wantWayBack(t *testing.T, stderr, format, id string) {
	t.Helper()
	if format != "text" {
		return // the outcome holds it
	}
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	for _, verb := range []string{"events", "cancel"} {
		found := false
		for _, line := range lines[len(lines)-3:] {
			found = found || strings.HasPrefix(line, "next: aipctl action "+verb+" ") && strings.Contains(line, id)
		}
		if !found {
			t.Errorf("the last lines do not say how to %s:\n%s", verb, stderr)
		}
	}
}

// wantLeft checks what a signal left on stdout, and returns the text.
func wantLeft(t *testing.T, left result, format string, code int) string {
	t.Helper()
	if format == "text" {
		return strings.TrimSuffix(left.out, "\n") // the line that was broken off gets its end
	}
	records := recordsOf(t, left.out)
	o := records[len(records)-1]
	if format == "jsonl" {
		o = wantOneOutcome(t, records)
	} else if len(records) != 1 || o.Type != "outcome" {
		t.Fatalf("stdout is not one document: %q", left.out)
	}
	next, _ := o.Next.([]any)
	// In JSON nothing tells the test whether the client had seen its request
	// leave; if not, it cannot know.
	known := o.Verdict == "pending" || format == "json" && o.Verdict == "unknown"
	if !known || o.ExitCode != code || len(next) != 2 {
		t.Errorf("the outcome says %s, exit %d, next %v", o.Verdict, o.ExitCode, o.Next)
	}
	if format == "json" {
		return o.Text // as much as had come when the signal did
	}
	return textOf(records)
}

// A signal that comes before the post stops it.
func TestSignalBeforeThePost(t *testing.T) {
	t.Parallel()
	for name, sig := range detaching {
		for _, at := range []string{"status", "follow"} {
			t.Run(name+" at the "+at, func(t *testing.T) {
				t.Parallel()
				there := make(chan struct{})
				d := newDaemon(t, setup{door: func(v *visit) bool {
					if v.kind != at {
						return false
					}
					close(there)
					return v.starve()
				}})
				h := d.newHome()
				p := h.start("action", "call", d.url, slow, "--action-id", "act_early", "--prompt", "x")
				within(t, there, "the "+at)
				p.signal(sig.signal)
				got := p.wait()
				wantCode(t, got, sig.code)
				if got.out != "" || d.requests("submit") != 0 {
					t.Errorf("%d posts; %s", d.requests("submit"), got)
				}
				intents, notSent := len(h.of("intent", "act_early")), len(h.of("not_sent", "act_early"))
				if want := map[string]int{"status": 0, "follow": 1}[at]; intents != want || notSent != want {
					t.Errorf("%d intents and %d not_sent records, want %d of each", intents, notSent, want)
				}
				// Nothing ran, so the same id may be called again.
				d.setDoor(nil)
				wantCode(t, h.run("action", "call", d.url, slow, "--action-id", "act_early", "--prompt", "x"), 0)
				if d.srv.Executions("act_early") != 1 {
					t.Errorf("%d executions, want 1", d.srv.Executions("act_early"))
				}
			})
		}
	}
}

// --on-interrupt cancel asks for one cancel and waits for what becomes of it,
// however long the daemon takes.
func TestInterruptCancels(t *testing.T) {
	t.Parallel()
	want := play(t, slow)
	const at = 9
	for rule, delay := range map[string]time.Duration{
		"at once":          0,
		"by a slow daemon": 1500 * time.Millisecond, // longer than a stuck stdout is waited for
	} {
		for _, format := range []string{"text", "jsonl"} {
			t.Run(rule+" in "+format, func(t *testing.T) {
				t.Parallel()
				d := newDaemon(t, setup{door: func(v *visit) bool {
					if v.kind == "cancel" {
						<-time.After(delay)
					}
					return false
				}})
				held := d.holdAt(at)
				p := d.newHome().start("action", "call", d.url, slow, "--action-id", "act_stop", "--prompt", "x", "-o", format, "--on-interrupt", "cancel")
				held.await(t)
				if format == "text" {
					p.out.exactly(want.upTo(at))
				} else {
					p.out.record(func(r record) bool { return r.Type == "text" && r.Sequence == at-1 })
				}
				p.signal(syscall.SIGINT)
				got := p.wait()
				wantCode(t, got, 6)
				if format == "jsonl" {
					if o := wantOneOutcome(t, recordsOf(t, got.out)); o.Verdict != "cancelled" || o.ExitCode != 6 {
						t.Errorf("the outcome says %s, exit %d", o.Verdict, o.ExitCode)
					}
				} else if got.out != want.upTo(at)+"\n" {
					t.Errorf("it wrote %q", got.out)
				}
				if d.srv.Executions("act_stop") != 1 || d.requests("submit") != 1 || d.requests("cancel") != 1 {
					t.Errorf("%d executions, %d posts, %d cancels; want 1 of each", d.srv.Executions("act_stop"), d.requests("submit"), d.requests("cancel"))
				}
			})
		}
	}
}

// The second signal waits for nothing.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	want := play(t, slow)
	const at = 9
	asked := make(chan struct{})
	d := newDaemon(t, setup{door: func(v *visit) bool {
		if v.kind != "cancel" {
			return false
		}
		close(asked)
		return v.starve()
	}})
	h := d.newHome()
	held := d.holdAt(at)
	p := h.start("action", "call", d.url, slow, "--action-id", "act_twice", "--prompt", "x", "--on-interrupt", "cancel")
	held.await(t)
	p.out.exactly(want.upTo(at))
	p.signal(syscall.SIGINT)
	within(t, asked, "the cancel")
	p.signal(syscall.SIGTERM)
	wantCode(t, p.wait(), 143)
	held.release()
	back := h.run("action", "events", d.url, "act_twice", "--follow", "--include-chunks")
	wantCode(t, back, 0)
	if rest := strings.TrimSuffix(back.out, "\n"); want.upTo(at)+rest != want.text {
		t.Errorf("after %q came %q", want.upTo(at), rest)
	}
}

// nohup has a reason.
func TestIgnoredHangUpStaysIgnored(t *testing.T) {
	t.Parallel()
	want := play(t, slow)
	const at = 9
	for rule, line := range map[string]string{
		"nohup":     `exec nohup aipctl action call "$AIP_URL" ` + slow + ` --prompt x --action-id act_hup`,
		"trap '' 1": `trap '' HUP; exec aipctl action call "$AIP_URL" ` + slow + ` --prompt x --action-id act_hup`,
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			d := newDaemon(t, setup{})
			h := d.newHome()
			held := d.holdAt(at)
			p := h.launch(h.command("sh", "-c", line))
			held.await(t)
			p.out.exactly(want.upTo(at))
			p.signal(syscall.SIGHUP)
			held.release()
			got := p.wait()
			wantCode(t, got, 0)
			if got.out != want.text+"\n" {
				t.Errorf("it wrote %q", got.out)
			}
		})
	}
}

// Who leaves an action of which nothing was seen is not told that it goes on.
func TestSignalClaimsNothingOfAnUnknownAction(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, setup{})
	h := d.newHome()
	p := h.start("action", "events", d.url, "act_mistyped", "--follow", "--include-chunks")
	h.poll("the state", func() bool { return strings.Contains(p.stderr.String(), "action unknown") })
	p.signal(syscall.SIGINT)
	got := p.wait()
	wantCode(t, got, 130)
	if !strings.Contains(got.stderr, "nothing of the action") || strings.Contains(got.stderr, "goes on") {
		t.Errorf("what it says of the action: %s", got)
	}
}
