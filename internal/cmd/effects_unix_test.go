//go:build unix

package cmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aipctl/aipctl/internal/devserver"
)

// TestEffectCheckThatHangs holds that a check which does not end in its time
// fails the action, and that nothing of it runs on. The limit of the contract is
// a minute; here it is short.
func TestEffectCheckThatHangs(t *testing.T) {
	server := devserver.New(devserver.Options{Poll: 5 * time.Millisecond})
	defer server.Close()
	hs := httptest.NewServer(server.Handler())
	defer hs.Close()
	defer hs.CloseClientConnections()
	dir := t.TempDir()
	pids := filepath.Join(dir, "pids")
	var stdout, stderr bytes.Buffer
	app := App{
		Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Now: time.Now, Executable: "aipctl",
		Width: func() int { return 200 },
		Env: func(name string) string {
			return map[string]string{"AIPCTL_STATE": filepath.Join(dir, "state.jsonl")}[name]
		},
		effectLimit: 300 * time.Millisecond,
	}
	code := app.Run(t.Context(), []string{
		"action", "call", hs.URL, "cap:hermes_agent:chat-stop:chat_stream", "--prompt", "hello", "-o", "json",
		"--effect-check", "sleep 1000 & echo $! $$ >'" + pids + "'; wait",
	})
	var o struct {
		Verdict string            `json:"verdict"`
		Checks  map[string]string `json:"checks"`
	}
	if err := json.Unmarshal(stdout.Bytes(), &o); err != nil {
		t.Fatalf("%v in %q; stderr %s", err, stdout.String(), stderr.String())
	}
	if code != 5 || o.Verdict != "failed" || o.Checks["effect_check"] != "fail" {
		t.Errorf("exit code %d, %s, effect_check %s; want 5, failed, fail", code, o.Verdict, o.Checks["effect_check"])
	}
	src, err := os.ReadFile(pids)
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(src))
	shell, err := strconv.Atoi(fields[len(fields)-1])
	if err != nil || len(fields) != 2 {
		t.Fatalf("the check says that it runs as %q (%v)", src, err)
	}
	// The shell leads the group. It was collected, so its number stands for the
	// group alone, which lasts until the child in it has been collected too.
	for end := time.Now().Add(time.Minute); !errors.Is(syscall.Kill(-shell, 0), syscall.ESRCH) && !onlyZombies(fields[0]); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the group of the check is still there")
		}
	}
}

// onlyZombies reports whether the process has ended and waits to be collected.
func onlyZombies(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && strings.Contains(string(stat), ") Z ")
}

func TestEffectLimitOfTheContract(t *testing.T) {
	if effectLimit != time.Minute {
		t.Errorf("a check may run %s, the contract gives it a minute", effectLimit)
	}
}

// What a check prints goes to stderr in text. Where stdout carries records,
// stderr is for errors, and more has to be asked for.
func TestWhereTheOutputOfAnEffectCheckGoes(t *testing.T) {
	server := devserver.New(devserver.Options{Poll: 5 * time.Millisecond})
	defer server.Close()
	hs := httptest.NewServer(server.Handler())
	defer hs.Close()
	defer hs.CloseClientConnections()
	dir := t.TempDir()
	for name, tt := range map[string]struct {
		flags []string
		shown bool
	}{
		"text":            {nil, true},
		"quiet text":      {[]string{"-q"}, false},
		"records":         {[]string{"-o", "jsonl"}, false},
		"a document":      {[]string{"-o", "json"}, false},
		"records, and -v": {[]string{"-o", "jsonl", "-v"}, true},
		"text, and -v":    {[]string{"-v"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			app := App{
				Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Now: time.Now, Executable: "aipctl",
				Width: func() int { return 200 },
				Env: func(name string) string {
					return map[string]string{"AIPCTL_STATE": filepath.Join(dir, "state.jsonl")}[name]
				},
			}
			app.Run(t.Context(), append([]string{
				"action", "call", hs.URL, "cap:hermes_agent:chat-stop:chat_stream", "--input", `{"prompt":"x","session_id":"s"}`,
				"--effect-check", `printf 'one\r\n\033[2Jtwo'`,
			}, tt.flags...))
			const want = "effect check: one\neffect check: \\x1b[2Jtwo\neffect check 1 of 1: passed\n"
			if got := strings.Contains(stderr.String(), want); got != tt.shown {
				t.Errorf("shown %v, want %v:\n%s", got, tt.shown, stderr.String())
			}
			if !tt.shown && strings.Contains(stderr.String(), "effect") {
				t.Errorf("stderr has\n%s", stderr.String())
			}
			if strings.Contains(stdout.String(), "two") {
				t.Errorf("stdout has\n%s", stdout.String())
			}
		})
	}
}
