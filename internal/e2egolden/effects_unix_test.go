//go:build unix

package e2egolden_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/aipctl/aipctl/internal/devserver"
)

// TestEffectCheckThatFails holds that a check which does not exit 0, for
// whatever reason, fails the action.
func TestEffectCheckThatFails(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("exit 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for rule, command := range map[string]string{
		"exit 1":                  "exit 1",
		"a command that is not":   filepath.Join(dir, "nowhere"),
		"a file without x":        plain,
		"ended by a signal":       "kill -9 $$",
		"a syntax error":          "if",
		"the last of a pipe":      "true | false",
		"output and then failure": "echo confirmed; exit 3",
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			server, url := embedded(t, devserver.Options{})
			w := newWorld(t)
			s := w.run(callScenario(scenario(t, "demo"), url, "-o", "jsonl", "--effect-check", command)...)
			_, o := records(t, s)
			if s.code != 5 || o.Verdict != "failed" || o.Checks["effect_check"] != "fail" || o.AIPStatus != "completed" {
				t.Errorf("exit code %d, %s, checks %v; want 5, failed, effect_check fail\n%s", s.code, o.Verdict, o.Checks, s.stderr)
			}
			if o.ToolEffects != "unconfirmed" {
				t.Errorf("tool_effects is %s, want unconfirmed", o.ToolEffects)
			}
			// A come-back takes what is recorded: it can run the check no more.
			for _, verb := range []string{"events", "result"} {
				args := []string{"action", verb, url, o.ActionID, "-o", "jsonl"}
				if verb == "events" {
					args = append(args, "--follow", "--include-chunks")
				}
				again := w.run(args...)
				if _, o := records(t, again); again.code != 5 || o.Checks["effect_check"] != "fail" {
					t.Errorf("%s: exit code %d, checks %v; want 5 and effect_check fail", verb, again.code, o.Checks)
				}
			}
			if n := posts(server); n != 1 {
				t.Errorf("%d submits, want one", n)
			}
		})
	}
}

func TestEffectCheckThatPasses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	got := func(name string) string {
		src, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(src)
	}
	token := "a-token-that-no-check-may-see"
	tokenFile := filepath.Join(dir, "token")
	if err := os.WriteFile(tokenFile, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, url := embedded(t, devserver.Options{Token: token})
	home := t.TempDir()
	p := start(t, home, []string{"AIP_TOKEN=" + token, "GETAIP_NATIVE_BEARER_TOKEN_FILE=" + tokenFile, "KEPT=yes"},
		callScenario(scenario(t, "demo"), url, "-o", "jsonl", "--token-file", tokenFile, "--effect-check",
			`cat >'`+dir+`/stdin'; env >'`+dir+`/env'`, "--effect-check", `echo second >'`+dir+`/second'`)...)
	s := p.wait()
	_, o := records(t, s)
	if s.code != 0 || o.Verdict != "accepted" || o.Checks["effect_check"] != "pass" || o.ToolEffects != "confirmed" {
		t.Fatalf("exit code %d, %s, checks %v, effects %s; want 0, accepted, pass, confirmed\n%s", s.code, o.Verdict, o.Checks, o.ToolEffects, s.stderr)
	}
	if slices.Contains(o.warned(), "tools.unconfirmed") {
		t.Error("effects were confirmed, and the outcome warns that they were not")
	}
	if got("second") != "second\n" {
		t.Error("the second check did not run")
	}

	t.Run("the outcome record is on stdin, one line", func(t *testing.T) {
		in := got("stdin")
		if strings.Count(in, "\n") != 1 || !strings.HasSuffix(in, "\n") {
			t.Fatalf("stdin is %d lines, want one: %q", strings.Count(in, "\n"), in)
		}
		r := readOutcome(t, in)
		if r.ActionID != o.ActionID || r.Verdict != "accepted" || r.AIPStatus != "completed" || len(r.Tools) != 2 || r.FinishReason != "stop" {
			t.Errorf("the record says %+v", r)
		}
		var m map[string]json.RawMessage
		if err := json.Unmarshal([]byte(in), &m); err != nil {
			t.Fatal(err)
		}
		if w := string(m["warnings"]); !strings.HasPrefix(w, "[") {
			t.Errorf("warnings is %s, want an array", w)
		}
	})
	t.Run("no token is in its environment", func(t *testing.T) {
		env := got("env")
		for _, secret := range []string{token, "AIP_TOKEN", "BEARER_TOKEN", tokenFile} {
			if strings.Contains(env, secret) {
				t.Errorf("the environment holds %s", secret)
			}
		}
		if !strings.Contains(env, "KEPT=yes") || !strings.Contains(env, "PATH=") {
			t.Errorf("the rest of the environment is gone: %q", env)
		}
	})
	t.Run("a come-back takes the recorded pass", func(t *testing.T) {
		for _, name := range []string{"stdin", "env", "second"} {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		again := start(t, home, nil, "action", "result", url, o.ActionID, "-o", "jsonl", "--token-file", tokenFile).wait()
		if _, o := records(t, again); again.code != 0 || o.Checks["effect_check"] != "pass" || o.ToolEffects != "confirmed" {
			t.Errorf("exit code %d, checks %v; want 0 and pass", again.code, o.Checks)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "s*")); left != nil {
			t.Errorf("a come-back ran a check: %v", left)
		}
	})
}

// TestEffectCheckThatIsNotStarted holds that a check runs only once everything
// else has passed.
func TestEffectCheckThatIsNotStarted(t *testing.T) {
	for _, tc := range []struct {
		rule, scenario string
		flags          []string
		code           int
	}{
		{"the finish is length", "chat-length", nil, 7},
		{"the action failed", "responses-failed", nil, 5},
		{"a required tool is missing", "demo", []string{"--require-tool", "send_email"}, 5},
		{"the stream has no finish", "chat-no-finish", nil, 11},
		{"the daemon contradicts itself", "chat-conflict", nil, 10},
		{"it waits for an approval", "chat-approval", nil, 8},
		{"the outcome is unknown", "chat-transport-break", nil, 9},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			t.Parallel()
			_, url := embedded(t, devserver.Options{})
			mark := filepath.Join(t.TempDir(), "ran")
			args := append([]string{"-o", "jsonl", "--effect-check", "touch '" + mark + "'"}, tc.flags...)
			s := newWorld(t).run(callScenario(scenario(t, tc.scenario), url, args...)...)
			if _, o := records(t, s); s.code != tc.code || o.Checks["effect_check"] == "pass" {
				t.Errorf("exit code %d, checks %v; want %d\n%s", s.code, o.Checks, tc.code, s.stderr)
			}
			if _, err := os.Stat(mark); !os.IsNotExist(err) {
				t.Errorf("the check ran (%v)", err)
			}
		})
	}
	t.Run("the one before it failed", func(t *testing.T) {
		t.Parallel()
		_, url := embedded(t, devserver.Options{})
		mark := filepath.Join(t.TempDir(), "ran")
		s := newWorld(t).run(callScenario(scenario(t, "demo"), url, "--effect-check", "exit 1", "--effect-check", "touch '"+mark+"'")...)
		if _, err := os.Stat(mark); s.code != 5 || !os.IsNotExist(err) {
			t.Errorf("exit code %d, the second check ran: %v", s.code, err == nil)
		}
	})
}

func TestRequiredToolsAndWarnings(t *testing.T) {
	for _, tc := range []struct {
		rule, scenario string
		flags          []string
		code           int
		verdict, tools string
	}{
		{"required and completed", "demo", []string{"--require-tool", "read_file", "--require-tool", "terminal"}, 0, "accepted", "pass"},
		{"required and never seen", "demo", []string{"--require-tool", "send_email"}, 5, "failed", "fail"},
		{"required and never completed", "chat-tool-unfinished", []string{"--require-tool", "terminal"}, 5, "failed", "fail"},
		{"not judged where the action did not pass", "responses-failed", []string{"--require-tool", "send_email"}, 5, "failed", ""},
		{"a warning, when asked", "demo", []string{"--fail-on-warning"}, 11, "incomplete", "not_applicable"},
		{"a warning, not asked", "demo", nil, 0, "accepted", "not_applicable"},
		{"no warning, when asked", "chat-stop", []string{"--fail-on-warning"}, 0, "accepted", "not_applicable"},
		{"effects confirmed are no warning", "demo", []string{"--fail-on-warning", "--effect-check", "true"}, 0, "accepted", "not_applicable"},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			t.Parallel()
			_, url := embedded(t, devserver.Options{})
			w := newWorld(t)
			s := w.run(callScenario(scenario(t, tc.scenario), url, append([]string{"-o", "jsonl"}, tc.flags...)...)...)
			_, o := records(t, s)
			if s.code != tc.code || o.Verdict != tc.verdict {
				t.Errorf("exit code %d and %s, want %d and %s; warnings %v", s.code, o.Verdict, tc.code, tc.verdict, o.Warnings)
			}
			if got := o.Checks["required_tools"]; tc.tools != "" && got != tc.tools || tc.tools == "" && got == "fail" {
				t.Errorf("required_tools is %s, want %s", got, tc.tools)
			}
			if slices.Contains(tc.flags, "--require-tool") {
				again := w.run("action", "result", url, o.ActionID, "-o", "jsonl")
				if _, b := records(t, again); again.code != tc.code || b.Checks["required_tools"] != o.Checks["required_tools"] {
					t.Errorf("a come-back says %d and %s, the call said %d and %s", again.code, b.Checks["required_tools"], s.code, o.Checks["required_tools"])
				}
			}
		})
	}
}

// TestEffectCheckOutputIsShownNotSent has a check print what would drive a
// terminal.
func TestEffectCheckOutputIsShownNotSent(t *testing.T) {
	for _, terminal := range []bool{false, true} {
		t.Run(fmt.Sprintf("terminal %v", terminal), func(t *testing.T) {
			t.Parallel()
			_, url := embedded(t, devserver.Options{})
			w := newWorld(t)
			w.terminal = terminal
			s := w.run(callScenario(scenario(t, "chat-stop"), url, "--color", "never", "--effect-check",
				`printf 'out \033]0;owned\007\033[2J\rx\n'; printf 'err \033[31m\302\233m' >&2`)...)
			if s.code != 0 {
				t.Fatalf("exit code %d: %s", s.code, s.stderr)
			}
			for _, bad := range []string{"\x1b]0;", "\x1b[2J", "\x1b[31m", "\u009b", "\a"} {
				if strings.Contains(s.stderr, bad) || strings.Contains(s.stdout, bad) {
					t.Errorf("%q was sent:\n%q", bad, s.stderr)
				}
			}
			for _, shown := range []string{"out ", "owned", "err "} {
				if !strings.Contains(s.stderr, "effect check") || !strings.Contains(s.stderr, shown) {
					t.Errorf("%q is not shown:\n%q", shown, s.stderr)
				}
			}
			if s.stdout != "Hello! How can I help you today?\n" {
				t.Errorf("stdout is %q", s.stdout)
			}
		})
	}
}

// TestEffectCheckInterrupted sends the signal of Ctrl-C while a check runs:
// the shell and what it started are gone, the exit code is the signal's, and a
// later reading has no result of the check.
func TestEffectCheckInterrupted(t *testing.T) {
	t.Parallel()
	server, url := embedded(t, devserver.Options{})
	dir, home := t.TempDir(), t.TempDir()
	pids := filepath.Join(dir, "pids")
	p := start(t, home, nil, callScenario(scenario(t, "demo"), url, "-o", "jsonl", "--effect-check",
		`sleep 1000 & echo $! $$ >'`+pids+`.new'; mv '`+pids+`.new' '`+pids+`'; wait`)...)
	var running []int
	until(t, "the check", func() bool {
		src, err := os.ReadFile(pids)
		for _, field := range strings.Fields(string(src)) {
			pid, err := strconv.Atoi(field)
			if err != nil {
				t.Fatal(err)
			}
			running = append(running, pid)
		}
		return err == nil
	})
	if len(running) != 2 || gone(running[0]) || gone(running[1]) {
		t.Fatalf("the check runs as %v, want a shell and its child", running)
	}
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	s := p.wait()
	_, o := records(t, s)
	if s.code != 130 || o.ExitCode != 130 {
		t.Errorf("exit code %d, in the outcome %d; want 130\n%s", s.code, o.ExitCode, s.stderr)
	}
	if strings.Contains(s.stdout, "the action goes on") || !strings.Contains(s.stdout, "the action has ended") {
		t.Errorf("an action that has ended is said to go on:\n%s", s.stdout)
	}
	until(t, "the end of the group", func() bool { return gone(running[0]) && gone(running[1]) })
	for _, r := range server.Requests() {
		if strings.HasSuffix(r.Path, "/cancel") {
			t.Error("a cancel was sent; the action had ended")
		}
	}
	again := start(t, home, nil, "action", "result", url, o.ActionID, "-o", "jsonl").wait()
	if _, o := records(t, again); again.code != 11 || o.Verdict != "incomplete" || o.Checks["effect_check"] != "missing" {
		t.Errorf("a come-back says %d, %s, effect_check %s; want 11, incomplete, missing", again.code, o.Verdict, o.Checks["effect_check"])
	}
}

// TestEffectCheckThatNeverRan kills the program before the action has ended.
// The record of the intent says that there was a check, and nobody knows what it
// would have said.
func TestEffectCheckThatNeverRan(t *testing.T) {
	t.Parallel()
	running, open := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(open) })
	held := sync.OnceFunc(func() { close(running) })
	server, url := embedded(t, devserver.Options{Hooks: devserver.Hooks{BeforeChunk: func(_ string, sequence uint64) {
		if sequence == 2 {
			held()
			<-open
		}
	}}})
	t.Cleanup(release)
	home := t.TempDir()
	mark := filepath.Join(t.TempDir(), "ran")
	p := start(t, home, nil, callScenario(scenario(t, "demo"), url, "--require-tool", "read_file", "--effect-check", "touch '"+mark+"'")...)
	<-running
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.wait()
	release()
	again := start(t, home, nil, "action", "events", url, server.Submits()[0], "--follow", "--include-chunks", "-o", "jsonl").wait()
	_, o := records(t, again)
	if again.code != 11 || o.Verdict != "incomplete" || o.Checks["effect_check"] != "missing" || o.Checks["required_tools"] != "pass" {
		t.Errorf("a come-back says %d, %s, checks %v; want 11, incomplete, effect_check missing, required_tools pass", again.code, o.Verdict, o.Checks)
	}
	if _, err := os.Stat(mark); !os.IsNotExist(err) {
		t.Errorf("a come-back ran the check (%v)", err)
	}
	if n := posts(server); n != 1 {
		t.Errorf("%d submits, want one", n)
	}
}

// TestEffectCheckLeavesNothingBehind holds that a check that has passed takes
// with it what it put into the background, and is not failed for it.
func TestEffectCheckLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	_, url := embedded(t, devserver.Options{})
	file := filepath.Join(t.TempDir(), "pid")
	s := newWorld(t).run(callScenario(scenario(t, "chat-stop"), url, "-o", "jsonl", "--effect-check", `sleep 1000 & echo $! >'`+file+`'`)...)
	if _, o := records(t, s); s.code != 0 || o.Checks["effect_check"] != "pass" {
		t.Errorf("exit code %d, checks %v; want 0 and pass\n%s", s.code, o.Checks, s.stderr)
	}
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(src)))
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the end of what was left", func() bool { return gone(pid) })
}

// TestEffectCheckOfACallThatIsTriedAgain has an id whose first submit never
// left: the second call runs its own checks.
func TestEffectCheckOfACallThatIsTriedAgain(t *testing.T) {
	t.Parallel()
	_, url := embedded(t, devserver.Options{})
	mark := filepath.Join(t.TempDir(), "ran")
	w := newWorld(t)
	sc := scenario(t, "chat-stop")
	away := httptest.NewServer(http.NotFoundHandler())
	away.Close() // nothing listens there any more
	first := w.run(callScenario(sc, away.URL, "-o", "jsonl", "--wait", "5s", "--effect-check", "touch '"+mark+"'")...)
	_, o := records(t, first)
	if first.code != 3 {
		t.Fatalf("exit code %d, want 3\n%s", first.code, first.stderr)
	}
	second := w.run(callScenario(sc, url, "-o", "jsonl", "--action-id", o.ActionID, "--effect-check", "touch '"+mark+"'")...)
	_, o = records(t, second)
	if second.code != 0 || o.Checks["effect_check"] != "pass" {
		t.Errorf("exit code %d, checks %v; want 0 and pass\n%s", second.code, o.Checks, second.stderr)
	}
	if _, err := os.Stat(mark); err != nil {
		t.Error("the check did not run")
	}
}

// process is a running aipctl.
type process struct {
	t              *testing.T
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer
}

// start runs the program as a process with a home of its own.
func start(t *testing.T, home string, env []string, args ...string) *process {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	t.Cleanup(stop)
	p := &process{t: t, cmd: exec.CommandContext(ctx, "aipctl", args...)}
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "XDG_STATE_HOME=" + home, "TMPDIR=" + t.TempDir()}, env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *process) wait() shot {
	p.t.Helper()
	_ = p.cmd.Wait() // the code says it
	return shot{p.cmd.ProcessState.ExitCode(), p.stdout.String(), p.stderr.String()}
}

// gone reports whether a process has ended. One that nobody has collected yet
// counts: whoever adopts it may take their time.
func gone(pid int) bool {
	if syscall.Kill(pid, 0) == syscall.ESRCH {
		return true
	}
	out, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	if stat, ferr := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); ferr == nil {
		_, rest, _ := strings.Cut(string(stat), ") ")
		return strings.HasPrefix(rest, "Z")
	}
	return err == nil && strings.HasPrefix(strings.TrimSpace(string(out)), "Z")
}
