package cmd

import (
	"bytes"
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aipctl/aipctl/internal/aiptest"
)

// TestWrongUseSaysWhatToDo runs command lines that are wrong, each in its own
// way: the message says what is wrong, and the line below it what to do.
func TestWrongUseSaysWhatToDo(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	list := file("list.json", "[]")
	latin := file("latin.txt", "caf\xe9")
	call := func(more ...string) []string {
		return append([]string{"action", "call", "http://127.0.0.1:1", "cap:hermes_agent:lab:chat_stream", "--state", filepath.Join(dir, "state.jsonl")}, more...)
	}
	status := func(more ...string) []string {
		return append([]string{"action", "status", "http://127.0.0.1:1"}, more...)
	}
	const secret = "the words of a prompt"
	for _, tc := range []struct {
		args []string
		what string // in the message
		next string // in the line below it
	}{
		{[]string{"acton"}, "no command", "did you mean `aipctl action`?"},
		{[]string{"action", "xyzzy"}, "no command", "--help"},
		{[]string{"help", "exit-code"}, "no help", "aipctl help exit-codes"},
		{[]string{"help", "action", "cal"}, "no help", "aipctl help action call"},
		{[]string{"help", "xyzzy"}, "no help", "aipctl help"},
		{[]string{"action", "status"}, "the action id is missing", "usage: aipctl action status"},
		{status("act_1", "act_2"), "there is 1 argument too many", "usage:"},
		{status("act_1", "act_2", "act_3"), "there are 2 arguments too many", "usage:"},
		{status("act_1", ""), "empty", "shell variable"},
		{status("resp_1"), "stored response", "aipctl response get"},
		{status("appr_1"), "approval", "aipctl approval get"},
		{status("1"), "act_", "aipctl state list"},
		{status("act_" + strings.Repeat("a", 121)), "too long", "shorter"},
		{status("act_a/b"), "1 to 120", "aipctl state list"},
		{status("act_1", "--outptu", "json"), "unknown flag", "--output"},
		{status("act_1", "--xyzzy"), "unknown flag", "--help"},
		{status("act_1", "-Z"), "unknown shorthand", "--help"},
		{status("act_1", "-o", "jsno"), "text, json or jsonl", "did you mean --output json?"},
		{status("act_1", "-o", "yaml"), "text, json or jsonl", "write one of them"},
		{status("act_1", "--color", "alwys"), "auto, always or never", "--color always"},
		{status("act_1", "--wait"), "needs an argument", "--wait TIME"},
		{status("act_1", "--wait", "soon"), "length of time", "45s"},
		{status("act_1", "--wait=-1s"), "negative", "--wait 0"},
		{status("act_1", "--idle-timeout", "0"), "longer than nothing", "--idle-timeout 45s"},
		{status("act_1", "--quiet=perhaps"), "true or false", "--quiet alone"},
		{status("act_1", "--max-event-bytes", "many"), "whole number", "8388608"},
		{status("act_1", "--max-event-bytes", "1"), "between", "leave it out"},
		{status("act_1", "--max-result-bytes", "1"), "at least", "leave it out"},
		{status("act_1", "--url", "http://127.0.0.1:2"), "two daemons", "one of them"},
		{status("act_1", "--token-file", ""), "file name", "leave the flag out"},
		{status("act_1", "--token-file", "a", "--native-bearer-token-file", "b"), "two different files", "one of them"},
		{[]string{"state", "list", "--state", ""}, "file name", "off"},
		{status("act_1", "--jq", "."), "records", "-o jsonl"},
		{[]string{"action", "status", "act_1"}, "no daemon", "AIP_URL"},
		{[]string{"action", "status", "ftp://127.0.0.1", "act_1"}, "http", "http"},
		{[]string{"action", "status", "https://user:pw@127.0.0.1", "act_1"}, "--token-file", "give it as"},
		{[]string{"action", "events", "http://127.0.0.1:1", "act_1", "--from", ""}, "--from", "--from saved"},
		{[]string{"action", "call", "chat_stream", "--prompt", "x"}, "endpoint", "--endpoint"},
		{[]string{"action", "call", "chat_stream", "--endpoint", "a b", "--prompt", "x"}, "no endpoint", "--endpoint"},
		{[]string{"action", "call", "cap:hermes_agent:a:b:c", "--prompt", "x"}, "parts", "capability list"},
		{[]string{"action", "call", "cap:hermes_agent:a:chat", "--endpoint", "b", "--prompt", "x"}, "does not go with", "bare operation"},
		{call(), "no input", "--prompt"},
		{call("--prompt", "x", "--input", "{}"), "cannot stand together", "--input"},
		{call("--prompt", " "), "blank", "--prompt"},
		{call("--prompt", "@"), "names no file", "@request.json"},
		{call("--prompt", "@"+filepath.Join(dir, "none")), "cannot be read", "path"},
		{call("--prompt", "@"+dir), "cannot be read", "file"},
		{call("--prompt", "@"+latin), "UTF-8", "iconv"},
		{call("--input", "@"+latin), "UTF-8", "iconv"},
		{call("--input", "{"), "JSON", "JSON tool"},
		{call("--input", "@"+list), "no JSON object", "{…}"},
		{call("--input", "{}"), "exactly one", "write"},
		{call("--input", `{"_aip":1,"prompt":"x"}`), "_aip", "leave the key out"},
		{call("--prompt", "x", "--mode", "stream"), "auto, sync, async or streaming", "--mode streaming"},
		{call("--prompt", "x", "--mode", secret), "auto, sync, async or streaming", "leave the flag out"},
		{call("--prompt", "x", "--on-interrupt", "cancle"), "detach or cancel", "--on-interrupt cancel"},
		{call("--prompt", "x", "--detach", "--mode", "sync"), "contradicts", "leave one"},
		{call("--prompt", "x", "--detach", "--effect-check", "true"), "--detach", "aipctl action result"},
		{call("--prompt", "x", "--effect-check", " "), "no command", "leave it out"},
		{call("--prompt", "x", "--require-tool", ""), "names no tool", "leave it out"},
		{call("--prompt", "x", "--timeout", "0s"), "millisecond", "--timeout 2m"},
		{call("--prompt", "x", "--idempotency-key", " "), "blank", "leave the flag out"},
		{append(call("--prompt", "x"), "--state", "off"), "state file", "--state FILE"},
		{call("--prompt", "Say", secret), "1 argument too many", "quotes"},
		{[]string{"demo", "--scenario", "chat-lengt"}, "no scenario", "chat-length"},
		{[]string{"demo", "--speed", "fast"}, "number", "2.5"},
		{[]string{"demo", "--speed", "-1"}, "negative", "--speed 4"},
		{[]string{"demo", "--url", "http://127.0.0.1:1"}, "--url", "leave it out"},
		{[]string{"dev", "serve", "--listen", "0.0.0.0:0"}, "loopback", "127.0.0.1"},
		{[]string{"dev", "serve", "--listen", "here"}, "no address", "HOST:PORT"},
		{[]string{"state", "list", "--state", "off"}, "no file", "--state FILE"},
		{[]string{"state", "merge"}, "missing", "usage:"},
		{[]string{"approval", "list", "--status", "pendign"}, "pending, approved", "--status pending"},
		{[]string{"approval", "list", "--status", "open"}, "pending, approved", "leave the flag out"},
		{[]string{"approval", "get"}, "missing", "usage:"},
		{[]string{"approval", "get", "act_1"}, "approval", ""},
		{[]string{"response", "get", "act_1"}, "response", "aipctl action result"},
		{[]string{"response", "get", "a b"}, "response", "aipctl state list"},
		{[]string{"capability", "describe"}, "missing", "usage:"},
		{[]string{"capability", "list", "x"}, "1 argument too many", "usage:"},
		{[]string{"context", "use"}, "missing", "usage:"},
		{[]string{"state", "prune"}, "settled", "--settled"},
		{[]string{"state", "prune", "--settled"}, "--older-than", "720h"},
		{[]string{"version", "x"}, "1 argument too many", "usage:"},
	} {
		var out, errs bytes.Buffer
		app := App{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Env: func(string) string { return "" }, Now: time.Now, Executable: "aipctl"}
		code := app.Run(context.Background(), tc.args)
		shown := strings.Join(tc.args, " ")
		first, rest, _ := strings.Cut(errs.String(), "\n")
		what, isMessage := strings.CutPrefix(first, "aipctl: ")
		next, hasNext := strings.CutPrefix(rest, "next: ")
		switch {
		case code != 2 || out.Len() > 0:
			t.Errorf("%s: exit %d, stdout %q", shown, code, out.String())
		case !isMessage || !strings.Contains(what, tc.what):
			t.Errorf("%s: the message has no %q: %s", shown, tc.what, first)
		case !hasNext || !strings.Contains(next, tc.next):
			t.Errorf("%s: the next step has no %q: %s", shown, tc.next, rest)
		case strings.Contains(errs.String(), secret):
			t.Errorf("%s: the message repeats what may be a prompt: %s", shown, errs.String())
		case strings.HasSuffix(what, "."), strings.Count(rest, "\n") != 1:
			t.Errorf("%s: not one line and one next step:\n%s", shown, errs.String())
		}
	}
}

// TestEveryUsageFaultHasAHint reads the sources: a fault of the command line
// that is made anywhere goes on with WithHint.
func TestEveryUsageFaultHasAHint(t *testing.T) {
	made := 0
	root := filepath.Join(aiptest.ModuleRoot(t), "internal")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			return err
		}
		for _, decl := range f.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Body == nil || fn.Name.Name == "usageError" {
				continue
			}
			hints := 0
			ast.Inspect(fn, func(n ast.Node) bool {
				if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "WithHint" {
					hints++
				}
				return true
			})
			ast.Inspect(fn, func(n ast.Node) bool {
				if c, ok := n.(*ast.CallExpr); ok && isUsageFault(c) {
					made++
					hints--
				}
				return true
			})
			if hints < 0 {
				rel, _ := filepath.Rel(root, path)
				t.Errorf("%s: %s makes more faults of class Usage than it gives hints", filepath.ToSlash(rel), fn.Name.Name)
			}
		}
		return nil
	})
	if err != nil || made == 0 {
		t.Errorf("%d faults found: %v", made, err)
	}
}

// isUsageFault recognises fault.New(fault.Usage, …).
func isUsageFault(c *ast.CallExpr) bool {
	return len(c.Args) > 0 && selects(c.Fun, "fault", "New") && selects(c.Args[0], "fault", "Usage")
}

func selects(e ast.Expr, pkg, name string) bool {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != name {
		return false
	}
	x, ok := sel.X.(*ast.Ident)
	return ok && x.Name == pkg
}
