//go:build unix

package e2eproc

import (
	"testing"
	"time"

	"github.com/aipctl/aipctl/internal/devserver"
)

// Who follows an action before it exists sees what its caller sees, and a
// third process ends it for both.
func TestEventsBeforeCallAndACancelFromOutside(t *testing.T) {
	t.Parallel()
	want := play(t, "cap:hermes_agent:chat-slow:chat_stream")
	const at = 12
	for rule, own := range map[string]bool{"one state file": false, "three machines": true} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			d := newDaemon(t, setup{Options: devserver.Options{Speed: 100, Poll: 5 * time.Millisecond}})
			caller := d.newHome()
			watcher, third := caller, caller
			if own {
				watcher, third = d.newHome(), d.newHome()
			}
			held := d.holdAt(at)
			following := make(chan struct{}, 8)
			d.setDoor(telling("follow", following))
			events := watcher.start("action", "events", d.url, "act_shared", "--follow", "--include-chunks")
			within(t, following, "the follow of the events")
			call := caller.start("action", "call", d.url, "cap:hermes_agent:chat-slow:chat_stream", "--action-id", "act_shared", "--prompt", "x")
			held.await(t)
			call.out.exactly(want.upTo(at))
			events.out.exactly(want.upTo(at))
			got := third.run("action", "cancel", d.url, "act_shared", "--reason", "enough")
			held.release()
			wantCode(t, got, 0)
			c, e := call.wait(), events.wait()
			wantCode(t, c, 6)
			wantCode(t, e, 6)
			if c.out != e.out || c.out != want.upTo(at)+"\n" {
				t.Errorf("call wrote %q, events %q, want %q", c.out, e.out, want.upTo(at)+"\n")
			}
			if d.srv.Executions("act_shared") != 1 || d.submits() != 1 || d.requests("submit") != 1 || d.requests("cancel") != 1 {
				t.Errorf("%d executions, %d submits, %d posts, %d cancels; want 1 of each",
					d.srv.Executions("act_shared"), d.submits(), d.requests("submit"), d.requests("cancel"))
			}
		})
	}
}
