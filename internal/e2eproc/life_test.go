//go:build unix

package e2eproc

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
)

// wants runs commands that only read, by the words of their lines, and
// compares their exit codes.
func (h *home) wants(url, id string, codes map[string]int) {
	h.t.Helper()
	for line, code := range codes {
		verb, flags, _ := strings.Cut(line, " ")
		args := append([]string{"action", verb, url, id}, strings.Fields(flags)...)
		if got := h.run(args...); got.code != code {
			h.t.Errorf("%s of %s: want exit code %d\n%s", line, id, code, got)
		}
	}
}

// awaitState waits until the daemon reports a state.
func (d *daemon) awaitState(h *home, id, state string) {
	d.t.Helper()
	h.poll("the state "+state, func() bool {
		return strings.Contains(string(d.get("/aip/v1/actions/"+id)), `"state":"`+state+`"`)
	})
}

func TestReadsOfAStreamThatRuns(t *testing.T) {
	t.Parallel()
	want := play(t, slow)
	const at = 9
	d := newDaemon(t, setup{})
	h := d.newHome()
	held := d.holdAt(at)
	p := h.start("action", "call", d.url, slow, "--action-id", "act_runs", "--prompt", "x")
	held.await(t)
	other := d.newHome()
	// To the daemon it is not to be told from one that never was, but for its
	// chunks.
	other.wants(d.url, "act_runs", map[string]int{
		"status":                           9,
		"result":                           9,
		"events":                           0,
		"status --wait 1s":                 9,
		"result --wait 1s":                 9,
		"events --include-chunks -o json":  0,
		"events --include-chunks -o jsonl": 0,
	})
	d.newHome().wants(d.url, "act_runs", map[string]int{"events --follow --include-chunks --wait 3s": 8}) // its chunks came now
	if got := d.run(t, "action", "events", d.url, "act_runs", "--include-chunks"); got.code != 0 || strings.TrimSuffix(got.out, "\n") != want.upTo(at) {
		t.Errorf("the text so far: %s", got)
	}
	held.release()
	wantCode(t, p.wait(), 0)
	other.wants(d.url, "act_runs", map[string]int{
		"status": 0, "result": 0, "events": 0, "events --follow": 0, "cancel": 12,
	})
}

func TestReadsOfTheQueue(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, setup{})
	h := d.newHome()
	held := d.holdAt(3)
	queue := func(id string, more ...string) {
		args := append([]string{"action", "call", d.url, slow, "--action-id", id, "--prompt", "x", "--detach"}, more...)
		wantCode(t, h.run(args...), 0)
	}
	queue("act_first")
	held.await(t)
	queue("act_second")
	queue("act_expires", "--timeout", "1s")
	queue("act_stops")
	d.awaitState(h, "act_first", "running")
	h.wants(d.url, "act_first", map[string]int{"status": 0, "result": 8, "result --wait 1s": 8, "status --wait 1s": 0, "events --follow --wait 1s": 8})
	h.wants(d.url, "act_second", map[string]int{"status": 0, "result": 8, "events --follow --wait 1s": 8})

	// Cancelled while it waited: there never will be a result.
	if got := h.run("action", "cancel", d.url, "act_stops"); got.code != 0 || !strings.Contains(got.out, "cancelled") {
		t.Errorf("the cancel of a queued action: %s", got)
	}
	h.wants(d.url, "act_stops", map[string]int{"status": 0, "result": 6, "events --follow": 6, "cancel": 0})

	// Expired before anyone took it.
	d.awaitState(h, "act_expires", "expired")
	h.wants(d.url, "act_expires", map[string]int{"status": 0, "result": 5, "events --follow": 5})

	held.release()
	h.wants(d.url, "act_first", map[string]int{"events --follow --include-chunks": 0})
	// Whether the second one still runs is the daemon's to say: it may have
	// waited for longer than its queue allows. It ends in any case.
	if got := h.run("action", "result", d.url, "act_second", "--wait", "30s"); got.code != 0 && (got.code != 12 || !strings.Contains(got.stderr, "sla.queue_delay_exceeded")) {
		t.Errorf("the second one: %s", got)
	}
	for id, want := range map[string]int{"act_first": 1, "act_expires": 0, "act_stops": 0} {
		if n := d.srv.Executions(id); n != want {
			t.Errorf("%s was executed %d times, want %d", id, n, want)
		}
	}
}

// --wait is the client's own: the action goes on, and coming back settles it.
func TestWaitRunsOut(t *testing.T) {
	t.Parallel()
	want := play(t, slow)
	const at = 9
	for _, format := range []string{"text", "jsonl"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			d := newDaemon(t, setup{})
			h := d.newHome()
			held := d.holdAt(at)
			got := h.run("action", "call", d.url, slow, "--action-id", "act_waits", "--prompt", "x", "--wait", "3s", "-o", format)
			wantCode(t, got, 8)
			first := strings.TrimSuffix(got.out, "\n")
			if format == "jsonl" {
				records := recordsOf(t, got.out)
				if o := wantOneOutcome(t, records); o.Verdict != "pending" || o.ExitCode != 8 {
					t.Errorf("the outcome is %+v", o)
				}
				first = textOf(records)
			}
			held.release()
			back := h.run("action", "events", d.url, "act_waits", "--follow", "--include-chunks")
			wantCode(t, back, 0)
			if rest := strings.TrimSuffix(back.out, "\n"); first+rest != want.text {
				t.Errorf("%q and then %q are not the whole text", first, rest)
			}
			if d.srv.Executions("act_waits") != 1 || d.requests("cancel") != 0 {
				t.Errorf("%d executions, %d cancels", d.srv.Executions("act_waits"), d.requests("cancel"))
			}
		})
	}
}

// --timeout is the action's own: the daemon ends it, and what its part that ran
// has done is not known.
func TestTimeoutOfTheAction(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, setup{})
	h := d.newHome()
	d.holdAt(9)
	got := h.run("action", "call", d.url, slow, "--action-id", "act_limit", "--prompt", "x", "--timeout", "1s")
	wantCode(t, got, 9)
	if !strings.Contains(got.stderr, "sla.timeout_exceeded") {
		t.Errorf("the code is missing: %s", got)
	}
	h.wants(d.url, "act_limit", map[string]int{"result": 9, "status": 0, "events --follow": 9})
}

// down is a door through which nobody comes.
func down(*visit) bool { panic(http.ErrAbortHandler) }

func TestDaemonDiesOnTheWay(t *testing.T) {
	t.Parallel()
	want := play(t, slow)
	const at = 9
	for rule, tt := range map[string]struct {
		back bool // while the call still waits
		code int
		args []string
	}{
		"and comes back":         {true, 0, nil},
		"and does not come back": {false, 9, []string{"--wait", "3s", "--idle-timeout", "1s"}},
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			d := newDaemon(t, setup{})
			h := d.newHome()
			held := d.holdAt(at)
			p := h.start(append([]string{"action", "call", d.url, slow, "--action-id", "act_dies", "--prompt", "x"}, tt.args...)...)
			held.await(t)
			p.out.exactly(want.upTo(at))
			again := make(chan struct{}, 1)
			d.setDoor(func(v *visit) bool {
				select {
				case again <- struct{}{}:
				default:
				}
				return down(v)
			})
			d.http.CloseClientConnections()
			within(t, again, "another try")
			if tt.back {
				d.setDoor(nil)
				held.release()
			}
			got := p.wait()
			wantCode(t, got, tt.code)
			rest := ""
			if !tt.back {
				if strings.Contains(got.stderr, "nothing was sent") || len(h.of("not_sent", "act_dies")) > 0 || !strings.Contains(got.stderr, "verdict: unknown") {
					t.Errorf("a submit that left is called something else than unknown: %s", got)
				}
				d.setDoor(nil)
				held.release()
				later := h.run("action", "events", d.url, "act_dies", "--follow", "--include-chunks")
				wantCode(t, later, 0)
				rest = strings.TrimSuffix(later.out, "\n")
			}
			if text := strings.TrimSuffix(got.out, "\n") + rest; text != want.text {
				t.Errorf("the whole text is %q", text)
			}
			if d.srv.Executions("act_dies") != 1 || d.requests("submit") != 1 || d.requests("cancel") != 0 {
				t.Errorf("%d executions, %d posts, %d cancels; want 1, 1 and none", d.srv.Executions("act_dies"), d.requests("submit"), d.requests("cancel"))
			}
		})
	}
}

// Waiting reads end by a signal like everything else.
func TestSignalEndsAReading(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, setup{})
	h := d.newHome()
	held := d.holdAt(3)
	wantCode(t, h.run("action", "call", d.url, slow, "--action-id", "act_read", "--prompt", "x", "--detach"), 0)
	held.await(t)
	for _, tt := range []struct {
		line string
		kind string // of the request that shows that it waits
		sig  syscall.Signal
	}{
		{"status --wait 1m", "status", syscall.SIGINT},
		{"result --wait 1m", "result", syscall.SIGTERM},
		{"events --follow", "follow", syscall.SIGHUP},
		{"events --follow --include-chunks -o json", "follow", syscall.SIGINT},
	} {
		asked := make(chan struct{}, 1)
		d.setDoor(telling(tt.kind, asked))
		verb, flags, _ := strings.Cut(tt.line, " ")
		p := h.start(append([]string{"action", verb, d.url, "act_read"}, strings.Fields(flags)...)...)
		within(t, asked, "the "+tt.kind)
		p.signal(tt.sig)
		if got := p.wait(); got.code != 128+int(tt.sig) {
			t.Errorf("%s: want exit code %d\n%s", tt.line, 128+int(tt.sig), got)
		}
	}
	if d.requests("cancel") != 0 {
		t.Error("a reading has cancelled the action")
	}
	held.release()
	h.wants(d.url, "act_read", map[string]int{"result --wait 30s": 0})
}

// A cancel that nobody answers may have been heard all the same.
func TestCancelWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, setup{})
	h := d.newHome()
	held := d.holdAt(3)
	p := h.start("action", "call", d.url, slow, "--action-id", "act_mute", "--prompt", "x")
	held.await(t)
	d.setDoor(func(v *visit) bool { return v.kind == "cancel" && down(v) })
	got := h.run("action", "cancel", d.url, "act_mute")
	wantCode(t, got, 9)
	if !strings.Contains(got.stderr, "may stop all the same") || strings.Contains(got.stderr, "action call") {
		t.Errorf("the advice is another one: %s", got)
	}
	d.setDoor(nil)
	wantCode(t, h.run("action", "cancel", d.url, "act_mute"), 0)
	held.release()
	wantCode(t, p.wait(), 6)
}
