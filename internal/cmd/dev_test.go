package cmd

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/aipctl/aipctl/internal/aiptest"
)

// serveFor starts dev serve in a folder and returns its first record, its exit
// code once it was told to end, and what it wrote to stderr.
func serveFor(t *testing.T, args ...string) (serving map[string]any, end func() int) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	out, in := io.Pipe()
	done := make(chan int, 1)
	go func() {
		code := App{
			Stdin: strings.NewReader(""), Stdout: in, Stderr: io.Discard,
			Env: func(string) string { return "" }, Executable: "aipctl",
		}.Run(ctx, append([]string{"dev", "serve", "-o", "jsonl"}, args...))
		in.Close()
		done <- code
	}()
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatalf("no record (exit code %d): %v", <-done, err)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	if err := json.Unmarshal(line, &serving); err != nil {
		t.Fatal(err)
	}
	end = func() int { stop(); return <-done }
	t.Cleanup(func() { stop() })
	return serving, end
}

// TestServeHasTwoPrincipals holds that each token stands in an owner-only file
// of its own, that the files go with the daemon, and that only the second token
// reads the approvals of the first one's actions as another principal.
func TestServeHasTwoPrincipals(t *testing.T) {
	aiptest.GuardNetwork(t)
	dir := t.TempDir()
	mine, theirs := filepath.Join(dir, "mine"), filepath.Join(dir, "theirs")
	serving, end := serveFor(t, "--token-out", mine, "--approver-token-out", theirs)
	if serving["token_file"] != mine || serving["approver_token_file"] != theirs {
		t.Fatalf("the record is %v", serving)
	}
	if serving["principal"].(map[string]any)["kind"] != "service" || serving["approver"].(map[string]any)["kind"] != "human" {
		t.Errorf("the principals are %v and %v", serving["principal"], serving["approver"])
	}
	tokens := map[string]string{}
	for _, name := range []string{mine, theirs} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		tokens[name] = string(bytes.TrimSpace(text))
	}
	if tokens[mine] == tokens[theirs] || tokens[mine] == "" {
		t.Error("the two tokens are not two")
	}
	for _, token := range tokens {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, serving["url"].(string)+"/aip/v1/approvals", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("the list of approvals is %d", resp.StatusCode)
		}
	}
	if code := end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	for name := range tokens {
		if _, err := os.Stat(name); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", name, err)
		}
	}
}

// TestServeLeavesNoTokenBehind holds that a second token file that cannot be
// written takes the first one with it.
func TestServeLeavesNoTokenBehind(t *testing.T) {
	dir := t.TempDir()
	mine, taken := filepath.Join(dir, "mine"), filepath.Join(dir, "taken")
	if err := os.WriteFile(taken, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	app := App{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: &errs, Env: func(string) string { return "" }, Executable: "aipctl"}
	for code, args := range map[int][]string{
		14: {"--token-out", mine, "--approver-token-out", taken},
		2:  {"--token-out", mine, "--approval-ttl", "0s"},
	} {
		if got := app.Run(t.Context(), append([]string{"dev", "serve"}, args...)); got != code {
			t.Errorf("exit code %d, want %d: %s", got, code, errs.String())
		}
	}
	if !strings.Contains(errs.String(), "--approver-token-out names a file that does not exist yet") {
		t.Errorf("stderr says %s", errs.String())
	}
	if _, err := os.Stat(mine); !os.IsNotExist(err) {
		t.Errorf("the first token file is still there: %v", err)
	}
	if kept, err := os.ReadFile(taken); err != nil || string(kept) != "kept" {
		t.Errorf("the file in the way now holds %q (%v)", kept, err)
	}
}
