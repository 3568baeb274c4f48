package cmd

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestCredentialsInAURLAreNotShown: such a URL is refused, and people write one
// all the same, by hand or in a variable. What is in it is a secret by then.
func TestCredentialsInAURLAreNotShown(t *testing.T) {
	const url = "https://user:hunter2@aipd.example.net"
	dir := t.TempDir()
	file := filepath.Join(dir, "config.toml")
	for _, args := range [][]string{
		{"context", "list", "-v"}, {"context", "list", "-o", "json"}, {"context", "show", "lab"}, {"context", "show", "lab", "-o", "json"},
		{"context", "set", "north", "--endpoint", "x"}, {"context", "delete", "lab"}, {"context", "delete", "lab", "-o", "json"},
		{"action", "status", "act_1", "-v"}, {"action", "status", url, "act_1", "-v"}, {"action", "status", "http://127.0.0.1:1", "act_1", "-v"},
		{"doctor", "-v"}, {"__complete", "context", "use", ""},
	} {
		for _, variable := range []string{"", url} {
			content := "current = \"lab\"\n[contexts.lab]\nurl = \"" + url + "\"\ntoken_file = \"token\"\n"
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			env := map[string]string{"AIP_URL": variable, "AIPCTL_CONFIG": file, "AIPCTL_STATE": filepath.Join(dir, "state.jsonl")}
			var out, errs bytes.Buffer
			code := App{
				Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Executable: "aipctl",
				Env: func(name string) string { return env[name] }, Now: time.Now,
			}.Run(context.Background(), args)
			if all := out.String() + errs.String(); all == "" || strings.Contains(all, "hunter2") {
				t.Errorf("%q with AIP_URL=%q ends with %d and shows:\n%s", args, variable, code, all)
			}
		}
	}
}
