package fault

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// codes is the contract's table, written down once more.
var codes = []struct {
	code int
	name string
}{
	{0, "accepted"}, {1, "internal"}, {2, "usage"}, {3, "unavailable"}, {4, "auth"}, {5, "failed"}, {6, "cancelled"}, {7, "partial"},
	{8, "pending"}, {9, "unknown"}, {10, "conflict"}, {11, "incomplete"}, {12, "rejected"}, {13, "not_found"}, {14, "state"}, {15, "output"},
	{129, "detached"}, {130, "detached"}, {141, "detached"}, {143, "detached"},
}

func TestTheExitTable(t *testing.T) {
	exits := Exits()
	if len(exits) != len(codes) {
		t.Fatalf("the table has %d rows, the contract %d", len(exits), len(codes))
	}
	for i, e := range exits {
		want := codes[i]
		if e.Class.Code() != want.code || e.Name != want.name || e.Class.String() != want.name {
			t.Errorf("row %d is %s (%d), want %s (%d)", i, e.Name, e.Class.Code(), want.name, want.code)
		}
		if e.When == "" || strings.HasSuffix(e.When, ".") || strings.Contains(e.When, "\n") {
			t.Errorf("%s is explained as %q", e.Name, e.When)
		}
	}
	for _, none := range []Class{-1, 16, 99, 128, 255} {
		if none.String() != "internal" {
			t.Errorf("%d, which is not in the table, is called %s", none, none)
		}
	}
}

func TestTheTableIsTheReaders(t *testing.T) {
	Exits()[0].Name = "forged"
	if Accepted.String() != "accepted" {
		t.Error("who changes the table changes what classes are called")
	}
}

// TestNoOtherPlaceStatesAnExitCode: a number that is written twice is wrong
// once.
func TestNoOtherPlaceStatesAnExitCode(t *testing.T) {
	literal := regexp.MustCompile(`os\.Exit\([0-9]|Class\([0-9]|ExitCode\s*=\s*[0-9]|ExitCode:\s*[0-9]`)
	for _, bad := range []string{"os.Exit(1)", "fault.Class(9)", "o.ExitCode = 12", "Outcome{ExitCode: 0}"} {
		if !literal.MatchString(bad) {
			t.Errorf("%s would not be found", bad)
		}
	}
	sources := 0
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		sources++
		for n, line := range strings.Split(string(src), "\n") {
			if literal.MatchString(line) {
				t.Errorf("%s:%d: %s", path, n+1, strings.TrimSpace(line))
			}
		}
		return nil
	})
	if err != nil || sources < 20 {
		t.Errorf("%d sources were read (%v)", sources, err)
	}
}

func TestAnErrorSaysItsMessage(t *testing.T) {
	if got := New(Usage, "url.invalid", "the URL %q is empty", "x").Error(); got != `the URL "x" is empty` {
		t.Errorf("%q", got)
	}
	if got := (&Error{Code: "url.invalid"}).Error(); got != "url.invalid" {
		t.Errorf("without a message: %q", got)
	}
	// A cause is for programs; its text may repeat what must not be said.
	if got := New(Usage, "c", "m").Wrap(errors.New("canary")).Error(); got != "m" {
		t.Errorf("with a cause: %q", got)
	}
}

// TestAdditionsAreCopies: errors are kept in variables and shared.
func TestAdditionsAreCopies(t *testing.T) {
	base := New(Auth, "auth.refused", "refused")
	before := fmt.Sprintf("%#v", base)
	full := base.WithHint("give %s", "--token-file").WithAction("act_1").WithNext("aipctl", "action", "status").Wrap(io.EOF)
	if got := fmt.Sprintf("%#v", base); got != before {
		t.Errorf("the first error became %s", got)
	}
	if full.Hint != "give --token-file" || full.ActionID != "act_1" || strings.Join(full.Next, " ") != "aipctl action status" || !errors.Is(full, io.EOF) ||
		full.Class != Auth || full.Code != "auth.refused" || full.Message != "refused" {
		t.Errorf("%+v", full)
	}
}

func TestTheFirstOfAChainClassifies(t *testing.T) {
	inner := New(State, "state.locked", "locked")
	outer := New(Usage, "input.invalid", "invalid").Wrap(inner)
	for _, tc := range []struct {
		rule  string
		err   error
		class Class
		as    *Error
	}{
		{"nothing", nil, Accepted, nil},
		{"an error that no room has classified", io.EOF, Internal, nil},
		{"an error", inner, State, inner},
		{"wrapped by another text", fmt.Errorf("while reading: %w", inner), State, inner},
		{"wrapped by a classified one", outer, Usage, outer},
		{"joined", errors.Join(io.EOF, inner), State, inner},
	} {
		if got := ClassOf(tc.err); got != tc.class {
			t.Errorf("%s is of class %s, want %s", tc.rule, got, tc.class)
		}
		if got := As(tc.err); got != tc.as {
			t.Errorf("%s: found %v", tc.rule, got)
		}
	}
}
