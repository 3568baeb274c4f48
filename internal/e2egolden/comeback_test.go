package e2egolden_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aipctl/aipctl/internal/cmd"
	"github.com/aipctl/aipctl/internal/e2erig"
	"github.com/aipctl/aipctl/internal/fault"
)

// TestFinalTextIsShownOnce interrupts a first reading where all deltas are
// written and only the event that repeats the whole text is missing, and comes
// back from the saved cursor. The second process has seen no delta, and must not
// take the repeat for the answer.
func TestFinalTextIsShownOnce(t *testing.T) {
	for _, tc := range []struct {
		rule, stream string
		last         string // the event that repeats the text
		silent       bool   // the deltas go by a name nobody knows: the repeat is the only text
		first        string // what the first reading has to show
		second       string
	}{
		{"run", "run_events_complete", "run.completed", false, "Reading done.", ""},
		{"session", "session_chat_stream_complete", "assistant.completed", false, "Привет, мир", ""},
		{"responses", "responses_stream_complete", "response.completed", false, "", ""},
		{"operator", "operator_complete", "run.completed", false, "Routing ", ""},
		{"a run without deltas", "run_events_complete", "run.completed", true, "", "Reading done.\n"},
		{"a session without deltas", "session_chat_stream_complete", "assistant.completed", true, "", "Привет, мир\n"},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			t.Parallel()
			g := loadGolden(t, tc.stream)
			first := tc.first
			if first == "" && !tc.silent {
				first = g.answer()
			}
			for _, form := range []string{"text", "jsonl"} {
				for _, from := range []string{"saved", "given"} {
					t.Run(form+"/"+from, func(t *testing.T) {
						k := keep(t, tc.stream, g.Operation)
						if tc.silent {
							k.rename(`.delta"`, `.murmur"`)
						}
						stop := k.index(t, tc.last)
						k.publish(stop)
						w := newWorld(t)
						one := w.interrupted(func(stdout, stderr string) bool {
							switch {
							case form == "jsonl":
								return strings.Count(stdout, `"type":"chunk"`) == stop
							case tc.silent:
								return strings.Count(stderr, ".murmur\n") == strings.Count(fmt.Sprintf("%s", k.chunks), `.murmur"`)
							}
							return stdout == first
						}, k.come("-o", form)...)
						if one.code != fault.Interrupt.Code() {
							t.Fatalf("the first reading: exit code %d, %s", one.code, one.stderr)
						}
						if got := shownText(t, form, one); got != first {
							t.Fatalf("the first reading shows %q, want %q", got, first)
						}
						k.publish(len(k.chunks))
						args := k.come("-o", form)
						if from == "given" {
							args = append(args, "--from", k.cursor(stop))
						}
						two := w.run(args...)
						if got := shownText(t, form, two); got != strings.TrimSuffix(tc.second, "\n") {
							t.Errorf("the second reading shows %q, want %q", got, tc.second)
						}
						if form == "text" && two.stdout != tc.second {
							t.Errorf("stdout is %q, want %q", two.stdout, tc.second)
						}
						if two.code != g.ExitCode {
							t.Errorf("exit code %d, want %d: %s", two.code, g.ExitCode, two.stderr)
						}
						whole := w.run(k.come("--from", "start")...)
						if want := g.stdout(); !tc.silent && whole.stdout != want {
							t.Errorf("from the start it shows %q, want %q", whole.stdout, want)
						}
					})
				}
			}
		})
	}
}

// TestFinalTextWhereNothingTellsIfItWasShown shows the text: what was written
// before cannot be read, and twice is better than never.
func TestFinalTextWhereNothingTellsIfItWasShown(t *testing.T) {
	t.Parallel()
	k := keep(t, "run_events_complete", "run_events")
	k.noPages = true
	s := newWorld(t).run(k.come("--from", k.cursor(k.index(t, "run.completed")))...)
	if s.stdout != "Reading done.\n" {
		t.Errorf("stdout is %q, want the text", s.stdout)
	}
	if !strings.Contains(s.stderr, "page.unreadable") {
		t.Errorf("nothing says that it may have been shown before:\n%s", s.stderr)
	}
}

// shownText is the text of an output, without the line end that text mode adds.
func shownText(t *testing.T, form string, s shot) string {
	t.Helper()
	if form == "text" {
		return strings.TrimSuffix(s.stdout, "\n")
	}
	all, _ := records(t, s)
	var b strings.Builder
	for _, r := range ofType(all, "text") {
		b.WriteString(r.Text)
	}
	return b.String()
}

// rename changes a word of the stream, in the chunks and in the result.
func (k *keeper) rename(old, by string) {
	for i, c := range k.chunks {
		k.chunks[i] = bytes.ReplaceAll(c, []byte(old), []byte(by))
	}
	k.result = bytes.ReplaceAll(k.result, []byte(old), []byte(by))
}

// index is the place of the first chunk with an event of that name.
func (k *keeper) index(t *testing.T, name string) int {
	t.Helper()
	for i, c := range k.chunks {
		var x struct {
			Data struct {
				SSE struct {
					Event string `json:"event"`
					Data  struct {
						Event string `json:"event"`
					} `json:"data"`
				} `json:"hermes_sse"`
				Operator struct {
					Event string `json:"event"`
				} `json:"hermes_operator"`
			} `json:"data"`
		}
		// Where data is no object it is no event of that name either.
		_ = json.Unmarshal(c, &x)
		if x.Data.SSE.Event == name || x.Data.SSE.Data.Event == name || x.Data.Operator.Event == name {
			return i
		}
	}
	t.Fatalf("no chunk has the event %s", name)
	return 0
}

// interrupted runs a command until what it has written is enough, and ends it as
// Ctrl-C does.
func (w *world) interrupted(enough func(stdout, stderr string) bool, args ...string) shot {
	w.t.Helper()
	ctx, cancel := context.WithCancelCause(w.t.Context())
	defer cancel(nil)
	var stdout, stderr screen
	ended := make(chan int, 1)
	go func() {
		ended <- cmd.App{
			Version: e2erig.Version, Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr,
			Env: func(name string) string { return w.env[name] }, Now: time.Now, Executable: "aipctl", Width: func() int { return 200 },
		}.Run(ctx, args)
	}()
	until(w.t, "the first reading", func() bool { return enough(stdout.String(), stderr.String()) })
	cancel(fault.New(fault.Interrupt, "signal", "interrupt received"))
	code := <-ended
	if len(w.ofState("cursor")) == 0 {
		w.t.Error("no cursor was saved")
	}
	return shot{code, stdout.String(), stderr.String()}
}
