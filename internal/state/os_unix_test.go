//go:build unix

package state

import (
	"bytes"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/aipctl/aipctl/internal/fault"
)

func TestWhatAWriteMakesIsForTheOwnerAlone(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	dir := t.TempDir()
	f := New(filepath.Join(dir, "state", "aipctl", "state.jsonl"))
	if err := f.RecordIntent(t.Context(), "act_1", Intent{}, true); err != nil {
		t.Fatal(err)
	}
	check := func(when string) {
		t.Helper()
		for name, want := range map[string]fs.FileMode{
			"state": fs.ModeDir | 0o700, "state/aipctl": fs.ModeDir | 0o700,
			"state/aipctl/state.jsonl": 0o600, "state/aipctl/state.jsonl.lock": 0o600,
		} {
			fi, err := os.Stat(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if fi.Mode() != want {
				t.Errorf("%s: %s has mode %v, want %v", when, name, fi.Mode(), want)
			}
		}
	}
	check("made")
	if _, err := f.Rewrite(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	check("rewritten")
}

// Opening a named pipe would wait until somebody writes to it.
func TestNamedPipeIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err := New(path).Load(t.Context())
	wantFault(t, err, fault.State, "state.unreadable")
	e := faultOf(t, New(path).RecordIntent(t.Context(), "act_1", Intent{}, false), fault.State, "state.unwritable")
	if !strings.Contains(e.Message, "it is not a regular file") {
		t.Errorf("message %q", e.Message)
	}
}

// Modes bind everybody but the superuser, so it gives its rights up first, in
// a process of its own.
func TestFolderThatMayNotBeWritten(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state.jsonl")
	if err := os.WriteFile(path, sound(t), 0o644); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(dir, "secret.jsonl")
	if err := os.WriteFile(secret, sound(t), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(dir, 0o700) }) // or an ordinary user cannot remove it
	out := runChild(t, "readonly", path)
	for _, want := range []string{
		"load: 3 actions, <nil>\n",
		"new folder: state state.unwritable cannot write the state file " + filepath.Join(dir, "new", "state.jsonl") + ": permission denied\n",
		"append: state state.unwritable cannot lock the state file " + path + ": permission denied\n",
		"unreadable: state state.unreadable cannot read the state file " + secret + ": permission denied\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("got:\n%s\nwant a line: %s", out, want)
		}
	}
}

func childReadonly(t *testing.T, path string) {
	dir := filepath.Dir(path)
	must(t, os.Chmod(dir, 0o555))
	must(t, os.Chmod(filepath.Dir(dir), 0o755)) // the test's own folder, which is the owner's alone
	if os.Geteuid() == 0 {
		must(t, syscall.Setgroups(nil))
		must(t, syscall.Setregid(65534, 65534))
		must(t, syscall.Setreuid(65534, 65534))
	}
	v, _, err := New(path).Load(t.Context())
	say("load: %d actions, %v\n", len(v.Actions()), err)
	sayFault("new folder", New(filepath.Join(dir, "new", "state.jsonl")).Append(t.Context(), false, *at("1", 1, intent(""))))
	sayFault("append", New(path).Append(t.Context(), false, *at("1", 1, intent(""))))
	_, _, err = New(filepath.Join(dir, "secret.jsonl")).Load(t.Context())
	sayFault("unreadable", err)
}

// The disk is full in the middle of a line: the old file is whole afterwards,
// and what cannot be recorded is not sent.
func TestWriteThatFailsHalfwayIsTakenBack(t *testing.T) {
	path := place(t, sound(t))
	before := read(t, path)
	out := runChild(t, "full", path)
	if want := "intent: state state.unwritable cannot write the state file " + path + ": file too large\n"; !strings.Contains(out, want) {
		t.Errorf("got:\n%s\nwant: %s", out, want)
	}
	if after := read(t, path); !bytes.Equal(before, after) {
		t.Errorf("the file has %d bytes, had %d", len(after), len(before))
	}
	if left, _ := filepath.Glob(path + "*"); len(left) != 2 {
		t.Errorf("left %v", left)
	}
}

func childFull(t *testing.T, path string) {
	fi, err := os.Stat(path)
	must(t, err)
	signal.Ignore(syscall.SIGXFSZ)
	var old syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old))
	limit := old
	setBound(&limit.Cur, fi.Size()+100)
	must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit))
	f := New(path)
	sayFault("intent", f.RecordIntent(t.Context(), "act_1", Intent{Conversation: strings.Repeat("c", 200)}, false))
	must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old)) // the framework may have a report to write
}

// setBound hides that systems disagree on the type of a limit.
func setBound[T int64 | uint64](p *T, n int64) { *p = T(n) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func childUnix(t *testing.T, do, path string) bool {
	switch do {
	case "readonly":
		childReadonly(t, path)
	case "full":
		childFull(t, path)
	default:
		return false
	}
	return true
}
