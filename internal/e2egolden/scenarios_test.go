package e2egolden_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aipctl/aipctl/internal/aiptest"
	"github.com/aipctl/aipctl/internal/cmd"
	"github.com/aipctl/aipctl/internal/devserver"
	"github.com/aipctl/aipctl/internal/e2erig"
)

// TestScenarioTable runs each row in JSON, comes back to it by its result, and
// expects the verdict of the row both times.
func TestScenarioTable(t *testing.T) {
	rows := aiptest.Table(t, "scenarios.tsv")
	if n := len(devserver.Scenarios()); len(rows) != n || n < 40 {
		t.Errorf("%d rows for %d scenarios, want as many, and 40 or more", len(rows), n)
	}
	operations := map[string]int{}
	for _, sc := range devserver.Scenarios() {
		operations[sc.Operation]++
	}
	for _, op := range []string{"chat", "chat_stream", "responses", "responses_stream", "run_events", "session_chat_stream", "operator"} {
		if operations[op] == 0 {
			t.Errorf("no scenario plays %s", op)
		}
	}
	for _, row := range rows {
		t.Run(row.Get("scenario"), func(t *testing.T) {
			t.Parallel()
			sc := scenario(t, row.Get("scenario"))
			server, url := embedded(t, devserver.Options{})
			w := newWorld(t)
			s := w.run(callScenario(sc, url, "-o", "json")...)
			o := readOutcome(t, s.stdout)
			if fmt.Sprint(s.code) != row.Get("exit_code") || o.Verdict != row.Get("verdict") {
				t.Errorf("exit code %d and %s, want %s and %s by %q\nchecks %v\n%s",
					s.code, o.Verdict, row.Get("exit_code"), row.Get("verdict"), row.Get("rule"), o.Checks, s.stderr)
			}
			if n := posts(server); n > 1 {
				t.Errorf("%d submits, want no more than one", n)
			}
			for _, argv := range o.Next {
				if slices.Contains(argv, "call") {
					t.Errorf("next submits: %v", argv)
				}
			}
			if !slices.Contains([]string{"auth", "rejected", "not_found"}, o.Verdict) { // those ran nothing
				again := w.run("action", "result", url, o.ActionID, "-o", "json")
				if b := readOutcome(t, again.stdout); b.Verdict != o.Verdict || again.code != s.code {
					t.Errorf("the result says %d and %s, the call said %d and %s\n%s", again.code, b.Verdict, s.code, o.Verdict, again.stderr)
				}
			}
		})
	}
}

// TestRequiresHuman holds that an operator's run that waits for a choice is
// pending, and that words tell how it goes on: no command of this action can.
func TestRequiresHuman(t *testing.T) {
	t.Parallel()
	_, url := embedded(t, devserver.Options{})
	w := newWorld(t)
	s := w.run(callScenario(scenario(t, "operator-human"), url)...)
	line := verdictLine(s.stderr)
	if s.code != 8 || !verdictIs(line, "pending") {
		t.Errorf("exit code %d, %q; want 8 and pending", s.code, line)
	}
	for _, word := range []string{"waits for a human", "resume", "source_action_id", "choice"} {
		if !strings.Contains(line, word) {
			t.Errorf("the way on is not told, %q is missing: %q", word, line)
		}
	}
	if !strings.Contains(s.stderr, "asks for an approval: once, session, always, deny") {
		t.Errorf("the choices are not shown:\n%s", s.stderr)
	}
	next := nextLines(s.stderr)
	if len(next) == 0 {
		t.Error("no command is named to look again")
	}
	for _, n := range next {
		if strings.Contains(n, " call ") {
			t.Errorf("next submits: %s", n)
		}
	}
}

// TestWhatNobodyKnows plays an operation and events of a later year: a dim line
// each in text with kind, sequence and name, and the whole event in JSON Lines.
func TestWhatNobodyKnows(t *testing.T) {
	t.Parallel()
	_, url := embedded(t, devserver.Options{})
	sc := scenario(t, "future-stream")
	lines := []string{
		"unknown frame: kind data, sequence 0, name answer.opened",
		"unknown frame: kind data, sequence 1, name answer.delta",
		"unknown frame: kind data, sequence 2, name answer.delta",
		"unknown frame: kind data, sequence 3, name cost.updated",
	}
	plain := newWorld(t).run(callScenario(sc, url)...)
	painted := newWorld(t).run(callScenario(sc, url, "--color", "always")...)
	for _, line := range lines {
		if n := strings.Count(plain.stderr, "Z "+line+"\n"); n != 1 {
			t.Errorf("%q stands %d times on stderr, want once:\n%s", line, n, plain.stderr)
		}
		if !regexp.MustCompile(`\x1b\[2m\S+Z ` + line).MatchString(painted.stderr) {
			t.Errorf("%q is not dim:\n%q", line, painted.stderr)
		}
	}
	if plain.code != 0 || plain.stdout != "" {
		t.Errorf("exit code %d and stdout %q, want 0 and nothing", plain.code, plain.stdout)
	}
	s := newWorld(t).run(callScenario(sc, url, "-o", "jsonl")...)
	all, o := records(t, s)
	if s.code != 0 || o.Verdict != "accepted" || o.Checks["finish_reason"] != "not_applicable" {
		t.Errorf("exit code %d, %s, checks %v", s.code, o.Verdict, o.Checks)
	}
	var got []string
	for _, c := range ofType(all, "chunk") {
		var data any
		if err := json.Unmarshal(c.Data, &data); err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s %s %s %v", c.Sequence, c.Kind, c.Event, data))
	}
	want := []string{
		"0 data answer.opened map[answer_id:ans_1 revision:1]",
		"1 data answer.delta map[answer_id:ans_1 delta:Words from a provider]",
		"2 data answer.delta map[answer_id:ans_1 delta: of a later year.]",
		"3 data cost.updated map[answer_id:ans_1 cents:3]",
		"4 done done map[answer_id:ans_1]",
	}
	if !slices.Equal(got, want) {
		t.Errorf("chunks %q, want %q", got, want)
	}
}

// screen is stderr while a command still runs.
type screen struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// TestCancelOfAFollowedRun holds that cancelling the following of a run, which
// stops the run itself, is said and asked for first.
func TestCancelOfAFollowedRun(t *testing.T) {
	const says, asks = "stops the run itself", "[y/N]"
	for _, tc := range []struct {
		rule     string
		terminal bool
		stdin    string
		flags    []string
		code     int
		asked    bool
	}{
		{"without a terminal it wants --yes", false, "y\n", nil, 2, false},
		{"a terminal is asked, and no is no", true, "n\n", nil, 2, true},
		{"an answer that is none is no", true, "", nil, 2, true},
		{"a terminal is asked, and yes is yes", true, "y\n", nil, 0, true},
		{"--yes needs no answer", false, "", []string{"--yes"}, 0, false},
		{"a state file that does not know it: the first chunk tells", false, "", []string{"--state", filepath.Join(t.TempDir(), "other.jsonl")}, 2, false},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			t.Parallel()
			var stderr screen
			var held, cancelled sync.Once
			running, open := make(chan struct{}), make(chan struct{})
			before := ""
			server, url := embedded(t, devserver.Options{Hooks: devserver.Hooks{
				BeforeChunk: func(_ string, sequence uint64) {
					if sequence == 1 {
						held.Do(func() { close(running) })
						<-open
					}
				},
				Request: func(r devserver.Request) {
					if strings.HasSuffix(r.Path, "/cancel") {
						cancelled.Do(func() { before = stderr.String() })
					}
				},
			}})
			release := sync.OnceFunc(func() { close(open) })
			t.Cleanup(release)
			w := newWorld(t)
			ctx, stop := context.WithTimeout(t.Context(), patience)
			defer stop()
			ended := make(chan shot, 1)
			const id = "act_followed-run"
			go func() {
				ended <- w.runContext(ctx, callScenario(scenario(t, "run-complete"), url, "--action-id", id)...)
			}()
			select {
			case <-running:
			case s := <-ended:
				t.Fatalf("the call ended with %d: %s", s.code, s.stderr)
			}
			var stdout bytes.Buffer
			code := cmd.App{
				Version: e2erig.Version, Stdin: strings.NewReader(tc.stdin), Stdout: &stdout, Stderr: &stderr,
				StdinTTY: tc.terminal, StdoutTTY: tc.terminal, StderrTTY: tc.terminal,
				Env: func(name string) string { return w.env[name] }, Now: time.Now, Executable: "aipctl", Width: func() int { return 200 },
			}.Run(ctx, append([]string{"action", "cancel", url, id}, tc.flags...))
			if code != tc.code {
				t.Errorf("exit code %d, want %d: %s", code, tc.code, stderr.String())
			}
			sent := slices.ContainsFunc(server.Requests(), func(r devserver.Request) bool { return strings.HasSuffix(r.Path, "/cancel") })
			if sent != (tc.code == 0) {
				t.Errorf("a cancel was sent: %v", sent)
			}
			if got := strings.Contains(stderr.String(), asks); got != tc.asked {
				t.Errorf("it asked: %v, want %v: %q", got, tc.asked, stderr.String())
			}
			if !strings.Contains(stderr.String(), says) || sent && !strings.Contains(before, says) {
				t.Errorf("what it stops was not said before it was sent; stderr then %q, in the end %q", before, stderr.String())
			}
			if tc.code == 2 && !tc.terminal && !strings.Contains(stderr.String(), "--yes") {
				t.Errorf("--yes is not named: %q", stderr.String())
			}
			release()
			want := 0
			if sent {
				want = 6
			}
			if s := <-ended; s.code != want {
				t.Errorf("the call ended with %d, want %d: %s", s.code, want, s.stderr)
			}
		})
	}
}
