//go:build unix

package e2ecrowd

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A place is a part of a call where a process can be killed. at brings a call
// there, holds it, and returns it with what lets the daemon go on.
type place struct {
	name string
	sent bool // the submit has left
	slow bool // the stream lasts long enough for positions to be kept on its way
	at   func(k *killing) (p *process, free func())
}

// killing is one call that is to be killed.
type killing struct {
	t    testing.TB
	d    *daemon
	h    *home
	rng  *rand.Rand
	what string // the capability
	want undisturbed
	id   string // given to the call; empty where the call mints its own
}

// call starts the call; more stands behind its usual arguments.
func (k *killing) call(more ...string) *process {
	args := append([]string{"action", "call", k.d.url, k.what, "--prompt", "x"}, more...)
	if k.id != "" {
		args = append(args, "--action-id", k.id)
	}
	return k.h.start(args...)
}

// atChunk holds the daemon before a chunk. In half of the cases the process has
// shown all that stands before it by then.
func (k *killing) atChunk(seq int) (*process, func()) {
	before := k.want[:seq].text()
	held := k.d.holdChunk(uint64(seq))
	p := k.call()
	held.await(p)
	if k.rng.IntN(2) == 0 {
		p.await(p.out, "the text before the held chunk", func(s string) bool { return s == before })
	}
	return p, held.release
}

var places = []place{
	{name: "before the intent", at: func(k *killing) (*process, func()) {
		if k.rng.IntN(2) == 0 {
			// It has asked the daemon whether the id is free.
			k.id = fmt.Sprintf("act_probed.%d", k.rng.Uint32())
			kind := []string{"status", "page"}[k.rng.IntN(2)]
			held := k.d.holdRequest(kind)
			p := k.call()
			held.await(p)
			return p, held.release
		}
		// It reads its input, of which there is no end.
		c := k.h.command("aipctl", "action", "call", k.d.url, k.what, "--input", "-")
		in, err := c.StdinPipe()
		if err != nil {
			k.t.Fatal(err)
		}
		p := k.h.launch(c)
		// More than a pipe holds: when it is written, some of it has been read.
		if _, err := in.Write(make([]byte, 65<<10+k.rng.IntN(200<<10))); err != nil {
			k.t.Fatalf("the input was not read: %v", err)
		}
		return p, func() { _ = in.Close() }
	}},
	{name: "intent written", at: func(k *killing) (*process, func()) {
		// Its first word is the identity, behind the intent, and nobody takes it.
		full, pipe := fullPipe(k.t)
		c := k.h.command("aipctl", "action", "call", k.d.url, k.what, "--prompt", "x")
		c.Stderr = full
		before := k.h.wholeIntents()
		p := k.h.launch(c)
		full.Close()
		for k.h.wholeIntents() == before {
			if !p.alive() {
				k.t.Fatalf("the process ended without an intent: %s", p.result())
			}
			time.Sleep(time.Millisecond) // a file tells nobody that it was written
		}
		return p, func() { pipe.Close() }
	}},
	{name: "follow opening", at: func(k *killing) (*process, func()) {
		held := k.d.holdRequest("follow")
		p := k.call()
		held.await(p)
		return p, held.release
	}},
	{name: "submit sent, no chunk", sent: true, at: func(k *killing) (*process, func()) {
		return k.atChunk(0)
	}},
	{name: "streaming", sent: true, slow: true, at: func(k *killing) (*process, func()) {
		return k.atChunk(1 + k.rng.IntN(len(k.want)-2)) // before the finish chunk, the last but one, at most
	}},
	{name: "finish chunk seen", sent: true, at: func(k *killing) (*process, func()) {
		return k.atChunk(len(k.want) - 1)
	}},
	{name: "settling", sent: true, at: func(k *killing) (*process, func()) {
		held := k.d.holdRequest("page")
		p := k.call()
		held.await(p)
		if k.rng.IntN(2) == 0 {
			return p, held.release
		}
		// It reads the last page and judges, and cannot write its verdict down.
		unlock := lockFile(k.t, k.h.stateFile()+".lock")
		held.release()
		return p, unlock
	}},
}

// wholeIntents counts the lines of intents that have their end, while the last
// one may be on its way into the file: a reader without the lock can see a line
// up to where a page of memory ends.
func (h *home) wholeIntents() int {
	h.t.Helper()
	n := 0
	for line := range strings.Lines(string(h.bytes())) {
		if strings.HasSuffix(line, "\n") && strings.Contains(line, `"type":"intent"`) {
			n++
		}
	}
	return n
}

// fullPipe is a pipe that takes not a byte more.
func fullPipe(t testing.TB) (w, r *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := w.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var full error
	err = raw.Control(func(fd uintptr) {
		if full = syscall.SetNonblock(int(fd), true); full != nil {
			return
		}
		for full == nil {
			_, full = syscall.Write(int(fd), make([]byte, 512))
		}
	})
	if err != nil || full != syscall.EAGAIN {
		t.Fatalf("the pipe cannot be filled: %v %v", err, full)
	}
	return w, r
}

// lockFile takes the lock that writers of the state file take, and returns what
// lets go of it.
func lockFile(t testing.TB, path string) func() {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	return func() { f.Close() }
}

// Whatever place of a call kill -9 strikes, the action runs at most once, its
// id is in the state file before the daemon hears of it, and coming back gives
// the verdict that nothing had disturbed, or says that there is none.
func TestKilledAnywhere(t *testing.T) {
	t.Parallel()
	want := map[string]undisturbed{short: play(t, short), long: play(t, long)}
	each := (*killCount + len(places) - 1) / len(places)
	for _, pl := range places {
		t.Run(pl.name, func(t *testing.T) {
			t.Parallel()
			rng := chance(t)
			h := newHome(t)
			tally := map[string]int{}
			dead, tries := 0, 0
			for dead < each && tries < 2*each && !t.Failed() {
				tries++
				k := &killing{t: t, h: h, rng: rng, what: short}
				if pl.slow {
					k.what = long
					k.d = newDaemonAt(t, 40, nil) // half a second
				} else {
					k.d = newDaemon(t, nil)
				}
				k.want = want[k.what]
				h.env = withToken(h.env, k.d.tokenFile)
				if k.strike(pl, tally) {
					dead++
				}
			}
			if dead < each {
				t.Errorf("%d were killed, want %d", dead, each)
			}
			h.wantSound()
			t.Logf("%d calls, %d killed here; the come-backs: %v", tries, dead, tally)
		})
	}
}

// withToken names the token file of another daemon.
func withToken(env []string, file string) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(s string) bool { return strings.HasPrefix(s, "AIP_TOKEN_FILE=") })
	return append(env, "AIP_TOKEN_FILE="+file)
}

// strike kills one call and comes back to it. It reports false when the call
// was faster, which is right as long as it ended well.
func (k *killing) strike(pl place, tally map[string]int) (struck bool) {
	t, d, h := k.t, k.d, k.h
	before := h.ids("intent")
	p, free := pl.at(k)
	got := p.kill()
	if struck = got.code == killed; !struck {
		got.want(t, 0)
	}
	id := k.id
	for _, new := range h.ids("intent") {
		if !slices.Contains(before, new) {
			id = new
		}
	}
	// Sometimes the impatient come back while the daemon stands still.
	args := []string{"action", "events", d.url, id, "--follow", "--include-chunks"}
	first := got.out
	if pl.sent && pl.name != "settling" && k.rng.IntN(4) == 0 {
		early := h.run("action", "events", d.url, id, "--follow", "--include-chunks", "--from", "start", "--wait", "50ms")
		if early.code != 0 && early.code != 8 && early.code != 9 {
			t.Errorf("%s, early: %s", pl.name, early)
		}
		tally[fmt.Sprintf("early %d", early.code)]++
		args, first = append(args, "--from", "start"), "" // what was shown early is shown again
	}
	free()
	submits := d.srv.Submits()
	if sent := len(submits) == 1; sent != pl.sent || len(submits) > 1 {
		t.Errorf("%s: %d submits reached the daemon", pl.name, len(submits))
	}
	d.wantKept(h)
	if pl.name == places[0].name {
		if len(h.ids("intent")) != len(before) {
			t.Errorf("%s: there is an intent", pl.name)
		}
		if id == "" {
			tally["no id to come back to"]++
			return struck
		}
	}
	if !pl.sent {
		// Nobody will ever run it, and nobody can know that.
		back := h.run(append(args, "--wait", "50ms")...)
		if back.code != 9 || back.out != "" {
			t.Errorf("%s: %s", pl.name, back)
		}
		tally[fmt.Sprint(back.code)]++
		if n := d.srv.Executions(id); n != 0 || len(d.srv.Submits()) != 0 {
			t.Errorf("%s: coming back made %d executions of %d submits", pl.name, n, len(d.srv.Submits()))
		}
		return struck
	}
	back := h.run(append(args, "--wait", "2m")...)
	tally[fmt.Sprint(back.code)]++
	if back.code != 0 {
		t.Errorf("%s: %s", pl.name, back)
	}
	k.wantWhole(first, strings.TrimSuffix(back.out, "\n"))
	d.wantOnce(id)
	if n := d.requests("submit"); n != 1 {
		t.Errorf("%s: %d posts", pl.name, n)
	}
	verdict := ""
	for _, r := range h.records() {
		if r.ActionID == id && r.Settled != nil {
			verdict = r.Settled.Verdict
		}
	}
	if verdict != "accepted" {
		t.Errorf("%s: the recorded verdict is %q", pl.name, verdict)
	}
	return struck
}

// wantWhole fails unless the two outputs make the text: some of it may be there
// twice, and none of it may be missing.
func (k *killing) wantWhole(first, second string) {
	k.t.Helper()
	first = strings.TrimSuffix(first, "\n")
	if !strings.HasPrefix(k.want.text(), first) || !strings.HasSuffix(k.want.text(), second) || len(first)+len(second) < len(k.want.text()) {
		k.t.Errorf("the killed process wrote %q, the come-back %q; together they are to be %q", first, second, k.want.text())
	}
}
