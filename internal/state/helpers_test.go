package state

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/aipctl/aipctl/internal/fault"
)

// t0 is the time of the test clock, which stands still unless a test moves it.
var t0 = time.Date(2030, 1, 15, 12, 0, 0, 0, time.UTC)

func still() Option { return WithNow(func() time.Time { return t0 }) }

func tempFile(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "aipctl", "state.jsonl")
}

// place writes content to a new state file and returns its path.
func place(t *testing.T, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state.jsonl")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// sound is a file with three actions and every type of record.
func sound(t *testing.T) []byte { t.Helper(); return read(t, "testdata/sound.jsonl") }

const (
	actSettled = "act_0198f2b0000070008000000000000001"
	actPending = "act_nightly-report.7"
	actNotSent = "act_0198f2b0000070008000000000000003"
)

func load(t *testing.T, path string) (*View, Report) {
	t.Helper()
	v, rep, err := New(path).Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return v, rep
}

func wantFault(t *testing.T, err error, class fault.Class, code string) {
	t.Helper()
	_ = faultOf(t, err, class, code)
}

// faultOf checks class and code of an error and gives it back.
func faultOf(t *testing.T, err error, class fault.Class, code string) *fault.Error {
	t.Helper()
	e := fault.As(err)
	if e == nil {
		t.Fatalf("got %v, want a fault %s", err, code)
	}
	if e.Class != class || e.Code != code {
		t.Fatalf("got %s %s (%s), want %s %s", e.Class, e.Code, e.Message, class, code)
	}
	return e
}

func num(n uint64) *uint64 { return &n }

func ids(v *View) []string {
	var out []string
	for _, a := range v.Actions() {
		out = append(out, a.ID)
	}
	return out
}
