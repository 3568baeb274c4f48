package userfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestCreateMakesNewFilesOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	f, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("first"); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if _, err := Create(path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("made again: %v", err)
	}
	if b, err := os.ReadFile(path); string(b) != "first" {
		t.Errorf("holds %q, %v", b, err)
	}
	if _, err := Create(filepath.Join(path, "below", "a file")); err == nil {
		t.Error("a file below a file was made")
	}
}

// What takes a name over is there at once, and the old one is gone, also while
// somebody reads it for a moment.
func TestRenameTakesThePlace(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "new"), filepath.Join(dir, "old")
	for path, text := range map[string]string{from: "new", to: "old"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	reader, err := os.Open(to)
	if err != nil {
		t.Fatal(err)
	}
	release := make(chan struct{})
	go func() { <-release; _ = reader.Close() }()
	close(release)
	if err := Rename(from, to); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(to); string(b) != "new" {
		t.Errorf("holds %q, %v", b, err)
	}
	if _, err := os.Stat(from); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the other name is still there: %v", err)
	}
}
