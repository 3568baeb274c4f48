package e2e_test

import (
	"net/http"
	"strings"
	"testing"
)

// A daemon that puts the caller's own token into a word that is shown: the
// code of a stream's error, of a result's error, a word of the durable view.
// Each other word is shown, so that the test would see the token too.
func TestTokenInAWordOfTheDaemon(t *testing.T) {
	t.Parallel()
	const secret = "canary-token-7b31"
	for _, tc := range []struct{ name, word, shown string }{
		{"the token", "auth." + secret, ""},
		{"the token in other letters", strings.ToUpper(secret), ""},
		{"the token within text", "see " + secret + "!", ""},
		{"another word", "auth.other_word", "auth.other_word"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			rec := loadRecording(t, "chat_stream_complete")
			rec.result = encode(map[string]any{"action_id": rec.action, "status": "failed", "error": map[string]any{"code": tc.word, "category": "auth"}})
			rec.status = "failed"
			start := func(t *testing.T, status string) *daemon {
				told := false
				return serve(t, rec, func(d *daemon) {
					d.follow = func(w http.ResponseWriter, r *http.Request) {
						if told {
							d.stream(w, r, r.URL.Query().Get("cursor"))
							return
						}
						told = true
						openStream(w)
						frame(w, "aip.error", map[string]any{"error": map[string]any{"code": tc.word, "category": "permanent"}}, "x")
					}
					d.status = status
				})
			}
			shown := 0
			for _, format := range []string{"text", "json", "jsonl"} {
				for _, terminal := range []bool{false, true} {
					d, view, w := start(t, "failed"), start(t, tc.word), newWorld(t)
					w.env["AIP_TOKEN"], w.terminal = secret, terminal
					for _, args := range [][]string{
						{"action", "status", view.URL, rec.action},
						{"action", "events", d.URL, rec.action, "--follow", "--include-chunks"},
						{"action", "result", d.URL, rec.action},
					} {
						s := w.run(append(args, "-v", "--debug-http", "-o", format)...)
						if strings.Contains(strings.ToLower(s.stdout+s.stderr), secret) {
							t.Errorf("%s of %s shows the token:\n%s%s", format, args[1], s.stdout, s.stderr)
						}
						if tc.shown != "" && strings.Contains(s.stdout+s.stderr, tc.shown) {
							shown++
						}
					}
					if rest := string(read(t, w.env["AIPCTL_STATE"], "")); strings.Contains(strings.ToLower(rest), secret) {
						t.Errorf("the state file holds the token:\n%s", rest)
					}
				}
			}
			if tc.shown != "" && shown != 18 {
				t.Errorf("the word is shown by %d of 18 commands", shown)
			}
		})
	}
}
