package cmd

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aipctl/aipctl/internal/aiptest"
)

// TestEveryVariableTheCodeReadsIsInTheTable finds the names in the sources, so
// that a new variable cannot be read without being documented.
func TestEveryVariableTheCodeReadsIsInTheTable(t *testing.T) {
	var listed []string
	for _, v := range environment() {
		if v.name == "" || v.does == "" || strings.HasSuffix(v.does, ".") {
			t.Errorf("row %q says %q", v.name, v.does)
		}
		for name := range strings.SplitSeq(v.name, ", ") {
			if slices.Contains(listed, name) {
				t.Errorf("%s has two rows", name)
			}
			listed = append(listed, name)
		}
	}
	reads := regexp.MustCompile(`(?i)env\("([A-Z_]+)"\)|= "((?:AIP|AIPCTL|GETAIP)_[A-Z_]+)"`)
	found := 0
	err := filepath.WalkDir(filepath.Join(aiptest.ModuleRoot(t), "internal"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "aiptest") {
			return err
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range reads.FindAllStringSubmatch(string(src), -1) {
			found++
			if name := m[1] + m[2]; !slices.Contains(listed, name) {
				t.Errorf("%s reads %s, which the table does not list", filepath.Base(path), name)
			}
		}
		return nil
	})
	if err != nil || found < 20 {
		t.Errorf("%d readings were found (%v)", found, err)
	}
}

// TestEveryVariableIsHonoured runs a command for each variable that a run reads
// by itself, and one that beats it. Nobody listens at the daemons, so a command
// that would reach one says which it was and ends with 3.
func TestEveryVariableIsHonoured(t *testing.T) {
	t.Parallel()
	const url, other = "http://127.0.0.1:1", "http://127.0.0.1:2"
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	token, second, config := file("token", "tok-canary-1"), file("second", "tok-canary-2"), file("config.toml", "current = 'a'\n[contexts.a]\nurl = '"+url+"'\n[contexts.b]\nurl = '"+other+"'\n")
	place := func(in string) string { return filepath.Join(in, "aipctl", "state.jsonl") }
	status := []string{"-v", "action", "status", "act_1"}
	type step struct {
		args []string
		code int
		want string // on stdout or stderr
	}
	plus := func(args []string, more ...string) []string { return append(slices.Clone(args), more...) }
	for _, tt := range []struct {
		name, value string
		env         map[string]string // beside it
		honoured    step
		beaten      step // by what beats it; no args for nothing
	}{
		{envURL, url, nil, step{status, 3, "url " + url + ", from AIP_URL"}, step{plus(status, "--url", other), 3, "url " + other + ", from --url"}},
		{envURL, url, nil, step{status, 3, "url " + url + ", from AIP_URL"}, step{plus(status[:3], other, "act_1"), 3, "url " + other + ", from the argument"}},
		{envTokenFile, token, map[string]string{envURL: url}, step{status, 3, "token file " + token + ", from AIP_TOKEN_FILE"}, step{plus(status, "--token-file", second), 3, "token file " + second + ", from --token-file"}},
		{envTokenFilePeer, token, map[string]string{envURL: url}, step{status, 3, "token file " + token + ", from GETAIP_NATIVE_BEARER_TOKEN_FILE"}, step{plus(status, "--native-bearer-token-file", second), 3, "token file " + second + ", from --native-bearer-token-file"}},
		{envToken, "tok-canary-3", map[string]string{envURL: url}, step{status, 3, "token (not shown), from AIP_TOKEN"}, step{plus(status, "--token-file", token), 3, "token file " + token + ", from --token-file"}},
		{envCAFilePeer, token, map[string]string{envURL: url}, step{status, 2, "the CA file " + token + " holds no PEM certificate"}, step{plus(status, "--ca-file", second), 2, "the CA file " + second}},
		{envCapability, "cap:hermes_agent:lab:chat", map[string]string{envURL: url}, step{[]string{"action", "call", "--prompt", "x", "--dry-run"}, 0, "cap:hermes_agent:lab:chat"}, step{[]string{"action", "call", "cap:hermes_agent:two:chat", "--prompt", "x", "--dry-run"}, 0, "cap:hermes_agent:two:chat"}},
		{envCapability, "cap:hermes_agent:lab:chat", map[string]string{envURL: url}, step{[]string{"action", "status"}, 2, "the action id is missing"}, step{}},
		{envAction, "act_env", map[string]string{envURL: url}, step{[]string{"action", "status"}, 3, "act_env"}, step{[]string{"action", "status", "act_arg"}, 3, "act_arg"}},
		{envAction, "act_env", map[string]string{envURL: url}, step{[]string{"action", "result"}, 3, ""}, step{}},
		{envAction, "act_env", map[string]string{envURL: url}, step{[]string{"action", "events"}, 3, ""}, step{}},
		{envAction, "act_env", map[string]string{envURL: url}, step{[]string{"action", "cancel"}, 2, "the action id is missing"}, step{}},
		{envState, place(dir), nil, step{[]string{"state", "path"}, 0, place(dir)}, step{[]string{"state", "path", "--state", token}, 0, token}},
		{envConfig, config, nil, step{[]string{"context", "list", "-o", "json"}, 0, config}, step{}},
		{envContext, "b", map[string]string{envConfig: config}, step{status, 3, "context b, from AIPCTL_CONTEXT"}, step{plus(status, "--context", "a"), 3, "context a, from --context"}},
		{"XDG_STATE_HOME", dir, nil, step{[]string{"state", "path"}, 0, place(dir)}, step{[]string{"state", "path", "--state", token}, 0, token}},
		{"XDG_CONFIG_HOME", dir, nil, step{[]string{"context", "list", "-o", "json"}, 0, filepath.Join(dir, "aipctl", "config.toml")}, step{}},
		{"NO_COLOR", "1", nil, step{[]string{"nope"}, 2, "\naipctl: "}, step{[]string{"--color", "always", "nope"}, 2, "\x1b["}},
		{"CLICOLOR", "0", nil, step{[]string{"nope"}, 2, "\naipctl: "}, step{[]string{"--color", "always", "nope"}, 2, "\x1b["}},
		{"CLICOLOR_FORCE", "1", map[string]string{"TERM": "dumb"}, step{[]string{"nope"}, 2, "\x1b["}, step{[]string{"--color", "never", "nope"}, 2, "\naipctl: "}},
		{"TERM", "dumb", nil, step{[]string{"nope"}, 2, "\naipctl: "}, step{[]string{"--color", "always", "nope"}, 2, "\x1b["}},
	} {
		if !slices.ContainsFunc(environment(), func(v variable) bool { return slices.Contains(strings.Split(v.name, ", "), tt.name) }) {
			t.Errorf("%s is not in the table", tt.name)
		}
		env := map[string]string{"HOME": t.TempDir(), "USERPROFILE": t.TempDir(), tt.name: tt.value}
		maps.Copy(env, tt.env)
		for _, s := range []step{tt.honoured, tt.beaten} {
			if s.args == nil {
				continue
			}
			var out bytes.Buffer
			app := App{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out, StderrTTY: true, Env: func(name string) string { return env[name] }, Now: time.Now, Executable: "aipctl", Width: func() int { return 0 }}
			code := app.Run(t.Context(), s.args)
			if code != s.code || !strings.Contains("\n"+out.String(), s.want) {
				t.Errorf("%s=%s aipctl %s: exit %d, want %d and %q:\n%s", tt.name, tt.value, strings.Join(s.args, " "), code, s.code, s.want, out.String())
			}
			if strings.Contains(out.String(), "tok-canary") {
				t.Errorf("%s: a token is shown:\n%s", tt.name, out.String())
			}
		}
	}
}
