package e2egolden_test

import (
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aipctl/aipctl/internal/devserver"
)

// TestResponseIDIsOnDiskBeforeTheNextFrame holds the frame behind
// response.created back until the state file names the response: it is the key
// to what became of the action, and no later record may be waited for. Cursors
// are saved as always, which is now and then.
func TestResponseIDIsOnDiskBeforeTheNextFrame(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var waited, found atomic.Bool
	var before atomic.Pointer[string] // the state file when the id was there
	hook := func(_ string, sequence uint64) {
		if sequence != 1 {
			return
		}
		waited.Store(true)
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-t.Context().Done():
				return
			case <-tick.C:
			}
			src, err := os.ReadFile(w.env["AIPCTL_STATE"])
			if s := string(src); err == nil && strings.Contains(s, `"response_id":"resp_`) && strings.HasSuffix(s, "\n") {
				before.Store(&s)
				found.Store(true)
				return
			}
		}
	}
	server, url := embedded(t, devserver.Options{Hooks: devserver.Hooks{BeforeChunk: hook}})
	s := w.run(callScenario(scenario(t, "responses-stop"), url, "-o", "jsonl")...)
	_, o := records(t, s)
	if !waited.Load() || !found.Load() {
		t.Fatalf("the frame was held %v, the id was found %v; stderr %s", waited.Load(), found.Load(), s.stderr)
	}
	if s.code != 0 || o.Verdict != "accepted" {
		t.Errorf("exit code %d and %s, want 0 and accepted", s.code, o.Verdict)
	}
	responses := w.ofState("response")
	if len(responses) != 1 || responses[0].Response.ResponseID != o.ResponseID || o.ResponseID == "" {
		t.Errorf("response records %+v, want the one id %q", responses, o.ResponseID)
	}
	if then := *before.Load(); strings.Contains(then, `"type":"settled"`) || strings.Count(then, `"type":"cursor"`) > 1 {
		t.Errorf("when the id was there, the state file held:\n%s", then)
	}
	if n := posts(server); n != 1 {
		t.Errorf("%d submits, want one", n)
	}
}
