package cmd

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/aipctl/aipctl/internal/aiptest"
	"github.com/spf13/cobra"
)

// said is what a command line puts on the two streams.
func said(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = App{
		Stdin: strings.NewReader(""), Stdout: &out, Stderr: &err,
		Env: func(string) string { return "" }, Executable: "aipctl",
	}.Run(t.Context(), args)
	return code, out.String(), err.String()
}

// TestErrorsAreRecords breaks every command line in ways that are seen before
// its flags are read, with them, and after.
func TestErrorsAreRecords(t *testing.T) {
	_, root := newTree()
	var leaves [][]string
	everyCmd(root, func(c *cobra.Command) {
		if !c.HasAvailableSubCommands() {
			leaves = append(leaves, strings.Fields(c.CommandPath())[1:])
		}
	})
	if len(leaves) < 15 {
		t.Fatalf("only %d commands were found", len(leaves))
	}
	for _, leaf := range leaves {
		for _, wrong := range [][]string{
			{"-o", "json", "--no-such-flag"}, {"--no-such-flag", "-o", "jsonl"}, {"--no-such-flag", "--output=json"}, {"--no-such-flag", "-ojsonl"},
			{"-vo", "json", "--no-such-flag"}, {"-qvo=jsonl", "--no-such-flag"}, {"--output", "json", "--wait=soon"}, {"-o", "jsonl", "--jq"},
			{"-o", "jsonl", "--jq", ".["}, {"-o", "json", "--color", "some"}, {"-o", "json", "--max-result-bytes", "1"},
		} {
			args := slices.Concat(leaf, wrong)
			code, stdout, stderr := said(t, args...)
			wantErrorRecord(t, args, code, stdout, stderr)
		}
	}
	for _, args := range [][]string{
		{"nothing", "-o", "json"}, {"-o", "json", "action", "nothing"}, {"--output=jsonl", "state", "nothing"}, {"help", "nothing", "-o", "json"},
		{"action", "call", "-o", "json"}, {"action", "status", "-o", "jsonl"}, {"state", "show", "-o", "jsonl", "a", "b"}, {"demo", "--scenario", "x", "-o", "json"},
	} {
		code, stdout, stderr := said(t, args...)
		wantErrorRecord(t, args, code, stdout, stderr)
	}
}

// wantErrorRecord wants one object on stderr and nothing on stdout.
func wantErrorRecord(t *testing.T, args []string, code int, stdout, stderr string) {
	t.Helper()
	var e struct {
		V        int    `json:"v"`
		Type     string `json:"type"`
		Class    string `json:"class"`
		ExitCode int    `json:"exit_code"`
		Message  string `json:"message"`
		Hint     string `json:"hint"`
	}
	if err := json.Unmarshal([]byte(stderr), &e); err != nil || strings.Count(stderr, "\n") != 1 {
		t.Errorf("%q: stderr is no single object: %q (%v)", args, stderr, err)
		return
	}
	aiptest.CheckRecords(t, stderr)
	if code != 2 || e.V != 1 || e.Type != "error" || e.Class != "usage" || e.ExitCode != code || e.Message == "" || e.Hint == "" || stdout != "" {
		t.Errorf("%q: exit code %d, stdout %q, error %+v", args, code, stdout, e)
	}
}

// Text stays text, also where a value looks like the flag.
func TestErrorsInText(t *testing.T) {
	for _, args := range [][]string{
		{"nothing"}, {"nothing", "-o", "text"}, {"nothing", "-o", "yaml"}, {"nothing", "-o", "json", "-o", "text"}, {"nothing", "--", "-o", "json"},
		{"nothing", "-xo", "json"}, {"nothing", "--color", "-voice"},
	} {
		if code, _, stderr := said(t, args...); code != 2 || !strings.HasPrefix(stderr, "aipctl: ") {
			t.Errorf("%q: exit code %d, stderr %q", args, code, stderr)
		}
	}
}
