package e2egolden_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aipctl/aipctl/internal/devserver"
)

// TestLimitOnTheLastFrame has the event limit fall exactly on the frame that
// ends the stream. The chunk says done, the result says truncated, and the
// result stands. A truncated answer is no reason to submit again with a larger
// limit: whatever it was for has run.
func TestLimitOnTheLastFrame(t *testing.T) {
	chat, responses := scenario(t, "chat-truncated-on-done"), scenario(t, "responses-truncated-on-completed")
	given := scenario(t, "chat-stop")
	given.Demo = fmt.Sprintf(`{"prompt":"hello","session_id":"s-1","max_events":%d}`, chat.MaxEvents)
	for _, tc := range []struct {
		rule   string
		sc     devserver.Scenario
		finish string // the check of the finish: the stream itself ended well
		last   string // the event of the last chunk
	}{
		{"chat, on [DONE]", chat, "pass", ""},
		{"chat, by max_events of the input", given, "pass", ""},
		{"responses, on response.completed", responses, "pass", "response.completed"},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			t.Parallel()
			server, url := embedded(t, devserver.Options{})
			w := newWorld(t)
			s := w.run(callScenario(tc.sc, url, "-o", "jsonl")...)
			all, o := records(t, s)
			if s.code != 7 || o.Verdict != "partial" || o.ExitCode != 7 {
				t.Errorf("exit code %d, in the outcome %d and %s; want 7 and partial", s.code, o.ExitCode, o.Verdict)
			}
			for check, want := range map[string]string{"aip_status": "fail", "terminal": "fail", "truncated": "fail", "integrity": "pass"} {
				if o.Checks[check] != want {
					t.Errorf("check %s is %s, want %s", check, o.Checks[check], want)
				}
			}
			chunks := ofType(all, "chunk")
			if last := chunks[len(chunks)-1]; last.Kind != "done" || last.Event != tc.last {
				t.Errorf("the last chunk is %s %q, want done %q", last.Kind, last.Event, tc.last)
			}
			if n := posts(server); n != 1 {
				t.Errorf("%d submits, want one", n)
			}
			id := o.ActionID
			for name, args := range map[string][]string{
				"events": {"action", "events", url, id, "--follow", "--include-chunks", "--from", "start", "-o", "jsonl"},
				"result": {"action", "result", url, id, "-o", "jsonl"},
			} {
				again := w.run(args...)
				if _, o := records(t, again); again.code != 7 || o.Verdict != "partial" {
					t.Errorf("%s: exit code %d and %s, want 7 and partial", name, again.code, o.Verdict)
				}
			}
			text := newWorld(t).run(callScenario(tc.sc, url)...)
			if line := verdictLine(text.stderr); text.code != 7 || !verdictIs(line, "partial") || text.stdout != "Hello! How can I help you today?\n" {
				t.Errorf("in text: exit code %d, %q, stdout %q", text.code, line, text.stdout)
			}
			for _, argv := range o.Next {
				if line := strings.Join(argv, " "); strings.Contains(line, "max_events") || strings.Contains(line, " call ") {
					t.Errorf("next submits, or names a larger limit: %s", line)
				}
			}
			for _, said := range nextLines(text.stderr) {
				if strings.Contains(said, "max_events") || strings.Contains(said, " call ") {
					t.Errorf("next submits, or names a larger limit: %s", said)
				}
			}
			if n := posts(server); n != 2 {
				t.Errorf("%d submits of two calls and two readings, want two", n)
			}
		})
	}
}

// nextLines are the commands that text names to go on with.
func nextLines(stderr string) []string {
	var out []string
	for line := range strings.Lines(stderr) {
		if rest, ok := strings.CutPrefix(line, "next: "); ok {
			out = append(out, rest)
		}
	}
	return out
}
