package e2egolden_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/aipctl/aipctl/internal/devserver"
	"github.com/aipctl/aipctl/internal/e2erig"
)

// What scripts write: one word of one record, and an exit code.
func TestJQOnACall(t *testing.T) {
	t.Parallel()
	for rule, tc := range map[string]struct {
		scenario, format, expr string
		code                   int
		stdout                 string
	}{
		"the verdict of JSON Lines":  {"chat-stop", "jsonl", `select(.type=="outcome")|.verdict`, 0, "accepted\n"},
		"the verdict of a failure":   {"chat-error", "jsonl", `select(.type=="outcome")|.verdict`, 5, "failed\n"},
		"the document":               {"chat-length", "json", `.verdict,.exit_code,.checks.finish_reason`, 7, "partial\n7\nfail\n"},
		"nothing selected":           {"chat-stop", "jsonl", `empty`, 0, ""},
		"results that are no string": {"chat-stop", "json", `[.verdict],{v},null`, 0, "[\"accepted\"]\n{\"v\":1}\nnull\n"},
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			_, url := embedded(t, devserver.Options{})
			s := newWorld(t).run(callScenario(scenario(t, tc.scenario), url, "-o", tc.format, "--jq", tc.expr)...)
			if s.code != tc.code || s.stdout != tc.stdout {
				t.Errorf("exit code %d and stdout %q, want %d and %q; stderr:\n%s", s.code, s.stdout, tc.code, tc.stdout, s.stderr)
			}
		})
	}
}

// Whatever the expression, an identity passes all records on as they are, but
// for the order of their keys.
func TestJQIdentity(t *testing.T) {
	t.Parallel()
	_, url := embedded(t, devserver.Options{})
	w := newWorld(t)
	id := idOf(t, w.run(callScenario(scenario(t, "demo"), url, "-o", "json")...).stdout)
	back := []string{"action", "events", url, id, "--follow", "--include-chunks", "--from", "start", "-o", "jsonl"}
	plain, through := w.run(back...), w.run(append(back, "--jq", ".")...)
	a, b := strings.Split(plain.stdout, "\n"), strings.Split(through.stdout, "\n")
	if len(a) != len(b) || through.code != plain.code {
		t.Fatalf("%d lines and exit code %d, want %d and %d", len(b), through.code, len(a), plain.code)
	}
	records(t, through)
	if !slices.IsSorted(keysOf(t, b[0])) {
		t.Errorf("keys are not in order: %s", b[0])
	}
}

func idOf(t *testing.T, doc string) string { return readOutcome(t, doc).ActionID }

// keysOf are the names of an object, as it spells them.
func keysOf(t *testing.T, line string) []string {
	t.Helper()
	var out []string
	dec := json.NewDecoder(strings.NewReader(line))
	for depth := 0; ; {
		tok, err := dec.Token()
		if err != nil {
			return out
		}
		switch x := tok.(type) {
		case json.Delim:
			if x == '{' || x == '[' {
				depth++
			} else {
				depth--
			}
		case string:
			if depth == 1 {
				out = append(out, x)
				var skip json.RawMessage
				if err := dec.Decode(&skip); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// A wrong expression is a wrong command line.
func TestJQRefused(t *testing.T) {
	t.Parallel()
	d, url := embedded(t, devserver.Options{})
	for rule, tc := range map[string]struct {
		args []string
		says string
	}{
		"a syntax error":        {[]string{"-o", "jsonl", "--jq", ".a |] "}, "at character 5"},
		"an unknown function":   {[]string{"-o", "jsonl", "--jq", "verdict"}, "function not defined: verdict/0"},
		"nothing":               {[]string{"-o", "jsonl", "--jq", ""}, "without an expression"},
		"text":                  {[]string{"--jq", "."}, "-o jsonl"},
		"text that was asked":   {[]string{"-o", "text", "--jq", "."}, "-o jsonl"},
		"further input":         {[]string{"-o", "jsonl", "--jq", "[inputs]"}, "not allowed"},
		"a file":                {[]string{"-o", "jsonl", "--jq", `import "/etc/passwd" as $p; $p`}, "module"},
		"a way to standard err": {[]string{"-o", "jsonl", "--jq", "debug"}, "function not defined: debug/0"},
	} {
		w := newWorld(t)
		s := w.run(callScenario(scenario(t, "chat-stop"), url, tc.args...)...)
		if s.code != 2 || s.stdout != "" || !strings.Contains(s.stderr, tc.says) {
			t.Errorf("%s: exit code %d, stdout %q, want 2 and %q on stderr:\n%s", rule, s.code, s.stdout, tc.says, s.stderr)
		}
		if n := len(w.state()); n != 0 {
			t.Errorf("%s: %d records in the state file", rule, n)
		}
	}
	if n := len(d.Requests()); n != 0 {
		t.Errorf("%d requests were made", n)
	}
}

// An expression that fails is an output that was not written in full: what it
// did not take is not passed by the cursor, the action's verdict stands, and
// another expression goes on from there.
func TestJQThatFails(t *testing.T) {
	t.Parallel()
	d, url := embedded(t, devserver.Options{})
	w := newWorld(t)
	const good = `select(.type=="text").text`
	s := w.run(callScenario(scenario(t, "chat-stop"), url, "--action-id", "act_jq", "-o", "jsonl", "--jq",
		`select(.type=="text" and .sequence>4).text|tonumber`)...)
	if s.code != 15 || s.stdout != "" {
		t.Fatalf("exit code %d and stdout %q, want 15 and nothing; stderr:\n%s", s.code, s.stdout, s.stderr)
	}
	o := readOutcome(t, s.stderr)
	if o.Verdict != "accepted" || o.ExitCode != 15 || !strings.Contains(s.stderr, "the --jq expression fails on a record of type text") {
		t.Errorf("the outcome on stderr is %s", s.stderr)
	}
	if strings.Contains(s.stderr, "canned") {
		t.Errorf("an error shows words of the answer: %s", s.stderr)
	}
	cursors := w.ofState("cursor")
	if n := len(cursors); n == 0 || cursors[n-1].Cursor.LastSequence == nil || *cursors[n-1].Cursor.LastSequence >= 5 {
		t.Errorf("the cursor passed what was not written: %+v", cursors)
	}
	back := []string{"action", "events", url, "act_jq", "--follow", "--include-chunks", "-o", "jsonl", "--jq", good}
	rest := w.run(back...)
	all := newWorld(t).run(back...)
	if rest.code != 0 || rest.stdout == "" || !strings.HasSuffix(all.stdout, rest.stdout) || rest.stdout == all.stdout {
		t.Errorf("coming back brings %q of %q; exit code %d", rest.stdout, all.stdout, rest.code)
	}
	if n := posts(d); n != 1 {
		t.Errorf("%d submits", n)
	}

	// Where not even the identity can be shown, nothing is sent.
	s = w.run(callScenario(scenario(t, "chat-stop"), url, "-o", "jsonl", "--jq", `.text|ascii_downcase`)...)
	if s.code != 15 || posts(d) != 1 || len(w.ofState("not_sent")) != 1 || !strings.Contains(s.stderr, "record of type identity: ascii_downcase cannot be applied to: null") {
		t.Errorf("exit code %d, %d submits, %d not_sent records; stderr:\n%s", s.code, posts(d), len(w.ofState("not_sent")), s.stderr)
	}
}

// The commands beside a run print records too.
func TestJQOnOtherCommands(t *testing.T) {
	t.Parallel()
	_, url := embedded(t, devserver.Options{})
	w := newWorld(t)
	w.run(callScenario(scenario(t, "chat-stop"), url, "--action-id", "act_jq")...)
	for _, tc := range []struct{ args, expr, want string }{
		{"action status " + url + " act_jq", ".state", "completed\n"},
		{"action result " + url + " act_jq", ".verdict", "accepted\n"},
		{"action events " + url + " act_jq", ".events|length>0", "true\n"},
		{"action cancel " + url + " act_jq", "{verdict,exit_code}", `{"exit_code":12,"verdict":"accepted"}` + "\n"},
		{"state path", ".path", w.env["AIPCTL_STATE"] + "\n"},
		{"state list", ".actions[].action_id", "act_jq\n"},
		{"state show act_jq", ".condition", "accepted\n"},
		{"state check", ".sound", "true\n"},
		{"version", ".version", e2erig.Version.Version + "\n"},
		{"demo --list", `select(.name=="demo").operation`, "chat_stream\n"},
	} {
		s := w.run(append(strings.Fields(tc.args), "-o", "json", "--jq", tc.expr)...)
		if s.stdout != tc.want {
			t.Errorf("%s: stdout %q, want %q; stderr:\n%s", tc.args, s.stdout, tc.want, s.stderr)
		}
		// A failing expression is an error of the output.
		s = w.run(append(strings.Fields(tc.args), "-o", "json", "--jq", ".type|.x")...)
		if s.code != 15 || s.stdout != "" || !strings.Contains(s.stderr, "--jq expression fails") {
			t.Errorf("%s: exit code %d, stdout %q, want 15 and nothing; stderr:\n%s", tc.args, s.code, s.stdout, s.stderr)
		}
	}
}
