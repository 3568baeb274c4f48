package e2e_test

import (
	"strings"
	"testing"
)

// One key belongs to one exact intent: shown with another input, a daemon gives
// the first result back and runs nothing, so such a call never leaves.
func TestAKeyIsNotUsedForAnotherIntent(t *testing.T) {
	w := newWorld(t)
	first := serveMinted(t, loadRecording(t, "chat_stream_complete"))
	call := func(d *daemon, capability, input string) shot {
		return w.run("action", "call", d.URL, capability, "--input", input, "--idempotency-key", "nightly-7")
	}
	if s := call(first, first.capability, `{"prompt":"a","session_id":"s"}`); s.code != 0 {
		t.Fatalf("exit code %d; stderr:\n%s", s.code, s.stderr)
	}
	original := w.state("intent")[0].ActionID
	for _, tc := range []struct{ rule, capability, input string }{
		{"another input", first.capability, `{"prompt":"b","session_id":"s"}`},
		{"another endpoint", "cap:hermes_agent:other:chat_stream", `{"prompt":"a","session_id":"s"}`},
	} {
		// Nothing is asked either: not even another daemon.
		other := serveMinted(t, loadRecording(t, "chat_stream_complete"))
		s := call(other, tc.capability, tc.input)
		if s.code != 2 || s.stdout != "" || other.count("post") != 0 || other.count("follow") != 0 {
			t.Errorf("%s: exit code %d, stdout %q, %d submits", tc.rule, s.code, s.stdout, other.count("post"))
		}
		if !strings.Contains(s.stderr, original) || !strings.Contains(s.stderr, "action result "+first.URL) {
			t.Errorf("%s: stderr names neither the original nor how to read it:\n%s", tc.rule, s.stderr)
		}
	}
	if n := len(w.state("intent")); n != 1 {
		t.Errorf("%d intents are recorded, want the first alone", n)
	}
	// The exact intent again is what a key is for; white space is none of it.
	again := serveMinted(t, loadRecording(t, "chat_stream_complete"))
	if s := call(again, first.capability, ` { "prompt": "a", "session_id": "s" } `); s.code != 0 || again.count("post") != 1 {
		t.Errorf("exit code %d, %d submits; stderr:\n%s", s.code, again.count("post"), s.stderr)
	}
}
