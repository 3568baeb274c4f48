//go:build unix

package e2eproc

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

// Once the submit has left, nothing that goes wrong on this side changes how
// the action ended.
func TestTroubleAfterTheSubmit(t *testing.T) {
	t.Parallel()
	want := play(t, slow)
	const at = 9
	for rule, tt := range map[string]struct {
		trouble func(t *testing.T, d *daemon, h *home)
		warning string
	}{
		"the state file cannot be written any more": {func(t *testing.T, _ *daemon, h *home) {
			if err := os.Rename(h.stateFile(), h.stateFile()+".gone"); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(h.stateFile(), 0o700); err != nil {
				t.Fatal(err)
			}
		}, "state.write"},
		"the token file goes": {func(t *testing.T, d *daemon, _ *home) {
			if err := os.Remove(d.tokenFile); err != nil {
				t.Fatal(err)
			}
		}, "page.unreadable"},
		"the token is refused": {func(_ *testing.T, d *daemon, _ *home) {
			d.setDoor(func(v *visit) bool { return v.answer(401, "text/plain", "no") })
		}, "page.unreadable"},
		"the reads find no daemon": {func(_ *testing.T, d *daemon, _ *home) {
			d.setDoor(func(v *visit) bool { return v.answer(502, "text/html", "<html>") })
		}, "page.unreadable"},
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			d := newDaemon(t, setup{})
			h := d.newHome()
			held := d.holdAt(at)
			p := h.start("action", "call", d.url, slow, "--action-id", "act_stands", "--prompt", "x")
			held.await(t)
			p.out.exactly(want.upTo(at))
			tt.trouble(t, d, h)
			held.release()
			got := p.wait()
			wantCode(t, got, 0)
			if got.out != want.text+"\n" || !strings.Contains(got.stderr, "("+tt.warning+")") {
				t.Errorf("the text is not whole, or the trouble %s is not told: %s", tt.warning, got)
			}
			if d.srv.Executions("act_stands") != 1 || d.requests("submit") != 1 {
				t.Errorf("%d executions, %d posts; want 1 of each", d.srv.Executions("act_stands"), d.requests("submit"))
			}
		})
	}
}

// A cancel on interrupt that is refused leaves the action alone, and says so.
func TestInterruptThatMayNotCancel(t *testing.T) {
	t.Parallel()
	want := play(t, slow)
	const at = 9
	d := newDaemon(t, setup{door: func(v *visit) bool { return v.kind == "cancel" && v.answer(401, "text/plain", "no") }})
	h := d.newHome()
	held := d.holdAt(at)
	p := h.start("action", "call", d.url, slow, "--action-id", "act_keeps", "--prompt", "x", "--on-interrupt", "cancel")
	held.await(t)
	p.out.exactly(want.upTo(at))
	p.signal(syscall.SIGINT)
	left := p.wait()
	wantCode(t, left, 130)
	if !strings.Contains(left.stderr, "cancel.failed") || !strings.Contains(left.stderr, "verdict: pending (exit 130)") {
		t.Errorf("it does not say what became of the cancel:\n%s", left.stderr)
	}
	held.release()
	back := h.run("action", "events", d.url, "act_keeps", "--follow", "--include-chunks")
	wantCode(t, back, 0)
	if rest := strings.TrimSuffix(back.out, "\n"); want.upTo(at)+rest != want.text {
		t.Errorf("after %q came %q", want.upTo(at), rest)
	}
}

// Help is output like any other.
func TestHelpThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("this system has no /dev/full")
	}
	d := newDaemon(t, setup{})
	h := d.newHome()
	for line, code := range map[string]int{
		"aipctl --help >/dev/full":               15,
		"aipctl action >/dev/full":               15,
		"aipctl help exit-codes >/dev/full":      15,
		"aipctl version >/dev/full":              15,
		"aipctl demo --list >/dev/full":          15,
		"aipctl action status act_1 >/dev/full":  15,
		"aipctl action events act_1 >/dev/full":  0, // there is nothing to write
		"aipctl action cancel act_1 >/dev/full":  13,
		"aipctl action status act_1 2>/dev/full": 9,
	} {
		if got := h.shell(line); got.code != code || strings.Count(got.stderr, "aipctl: ") > 1 {
			t.Errorf("%s: want exit code %d and one error\n%s", line, code, got)
		}
	}
}
