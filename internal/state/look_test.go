package state

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/userfile"
)

// TestLookMakesNothing: neither the file, nor its folder, nor its lock.
func TestLookMakesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "below", "state.jsonl")
	if p, err := New(path).Look(t.Context()); err != nil || p.Exists {
		t.Errorf("%+v %v", p, err)
	}
	path = filepath.Join(dir, "state.jsonl")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if p, err := New(path).Look(t.Context()); err != nil || !p.Exists {
		t.Errorf("%+v %v", p, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("%v %v", entries, err)
	}
}

// TestLookSeesALockThatIsKept, and none that is free again.
func TestLookSeesALockThatIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.jsonl")
	f := New(path, WithLockTimeout(20*time.Millisecond))
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	unlock, err := userfile.Lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Look(t.Context()); fault.ClassOf(err) != fault.State || fault.As(err).Code != "state.locked" {
		t.Errorf("a lock that is kept: %v", err)
	}
	unlock()
	if _, err := f.Look(t.Context()); err != nil {
		t.Errorf("a lock that is free: %v", err)
	}
}

// TestLookRefusesWhatIsNoFile: a folder, and nothing named.
func TestLookRefusesWhatIsNoFile(t *testing.T) {
	if _, err := New(t.TempDir()).Look(t.Context()); fault.ClassOf(err) != fault.State {
		t.Errorf("%v", err)
	}
	if _, err := New("").Look(t.Context()); fault.ClassOf(err) != fault.State {
		t.Errorf("%v", err)
	}
}
