//go:build unix

package e2ecrowd

import (
	"net/http"
	"slices"
	"sync"
	"testing"
)

// Whoever follows an action sees what its caller sees, whether he came before
// the submit or in the middle of the stream, on the same machine or on another.
func TestFollowersSeeWhatTheCallerSees(t *testing.T) {
	t.Parallel()
	const id, middle = "act_watched", 5
	for _, tt := range []struct {
		rule        string
		own, before bool
	}{
		{"two who came before the submit, one state file", false, true},
		{"two who came before the submit, on machines of their own", true, true},
		{"two who came in the middle, one state file", false, false},
		{"two who came in the middle, on machines of their own", true, false},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			t.Parallel()
			followed := make(chan struct{}, 16)
			d := newDaemon(t, func(kind string, _ *http.Request) {
				if kind == "follow" {
					followed <- struct{}{}
				}
			})
			h := d.newHome()
			place := func() *home {
				if tt.own {
					return d.newHome()
				}
				return h
			}
			held := d.holdChunk(middle)
			var watchers []*process
			watch := func() {
				for range 2 {
					// From the start: one state file has one saved position, and the
					// second one would go on where the first one is.
					watchers = append(watchers, place().start("action", "events", d.url, id, "--follow", "--include-chunks", "--from", "start"))
				}
				for range 2 {
					arrives(t, followed)
				}
			}
			if tt.before {
				watch()
			}
			call := h.start("action", "call", d.url, short, "--action-id", id, "--prompt", "x")
			held.await(call)
			if !tt.before {
				arrives(t, followed) // the caller's own
				watch()
			}
			held.release()
			want := call.wait()
			want.want(t, 0)
			text := d.answer(id)
			if want.out != text+"\n" {
				t.Errorf("the caller wrote %q, stored is %q", want.out, text)
			}
			for i, w := range watchers {
				got := w.wait()
				got.want(t, 0)
				if got.out != want.out {
					t.Errorf("watcher %d wrote %q, the caller %q", i, got.out, want.out)
				}
			}
			d.wantOnce(id)
			if n := d.requests("submit"); n != 1 {
				t.Errorf("%d posts, want 1", n)
			}
		})
	}
}

// One id is submitted once, however many ask for it at once: the one who is
// late is told so, and sends nothing.
func TestOneOfTwoSubmitsIsRefused(t *testing.T) {
	t.Parallel()
	const id = "act_wanted.twice"
	args := func(d *daemon) []string {
		return []string{"action", "call", d.url, short, "--action-id", id, "--prompt", "x"}
	}
	// Both have asked the daemon, which knows nothing, before either can write
	// its intent.
	t.Run("both have asked the daemon before either is recorded", func(t *testing.T) {
		t.Parallel()
		asked, both := make(chan struct{}, 2), make(chan struct{})
		d := newDaemon(t, func(kind string, r *http.Request) {
			if kind == "page" && r.URL.Query().Get("limit") == "1" { // the question before an intent
				asked <- struct{}{}
				<-both
			}
		})
		h := d.newHome()
		release := sync.OnceFunc(func() { close(both) })
		defer release()
		one, other := h.start(args(d)...), h.start(args(d)...)
		arrives(t, asked)
		arrives(t, asked)
		release()
		codes := []int{one.wait().code, other.wait().code}
		slices.Sort(codes)
		if codes[0] != 0 || codes[1] != 2 {
			t.Errorf("the exit codes are %v, want 0 and 2\n%s\n%s", codes, one.result(), other.result())
		}
		d.wantOnce(id)
		d.wantKept(h)
		h.wantSound()
	})
	for _, tt := range []struct {
		rule string
		own  bool
		code int
	}{
		{"the other one streams, same state file", false, 2}, // the file knows its intent
		{"the other one streams, another machine", true, 12}, // the daemon shows its chunk
	} {
		t.Run(tt.rule, func(t *testing.T) {
			t.Parallel()
			d := newDaemon(t, nil)
			h := d.newHome()
			late := h
			if tt.own {
				late = d.newHome()
			}
			held := d.holdChunk(1) // chunk 0 shows that the action runs
			first := h.start(args(d)...)
			held.await(first)
			got := late.run(args(d)...)
			held.release()
			if got.code != tt.code || got.out != "" {
				t.Errorf("the late one: %s", got)
			}
			first.wait().want(t, 0)
			d.wantOnce(id)
			d.wantKept(h)
			if n := len(late.ids("intent")); tt.own && n != 0 {
				t.Errorf("what was refused left %d intents", n)
			}
			h.wantSound()
		})
	}
	t.Run("no turns at all", func(t *testing.T) {
		t.Parallel()
		d := newDaemon(t, nil)
		h := d.newHome()
		for range 3 {
			all := []*process{h.start(args(d)...), h.start(args(d)...), h.start(args(d)...)}
			for _, p := range all {
				if got := p.wait(); got.code != 0 && got.code != 2 && got.code != 12 {
					t.Errorf("not refused: %s", got)
				}
			}
		}
		d.wantOnce(id)
		d.wantKept(h)
		h.wantSound()
	})
}
