//go:build unix

package config

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/aipctl/aipctl/internal/fault"
)

func TestWhatIsMadeIsForTheOwnerAlone(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	dir := t.TempDir()
	f := New(filepath.Join(dir, "config", "aipctl", "config.toml"))
	check := func() {
		t.Helper()
		for name, want := range map[string]fs.FileMode{
			"config": fs.ModeDir | 0o700, "config/aipctl": fs.ModeDir | 0o700, "config/aipctl/config.toml": 0o600,
		} {
			if fi, err := os.Stat(filepath.Join(dir, name)); err != nil || fi.Mode() != want {
				t.Errorf("%s: %v, %v, want mode %v", name, fi, err, want)
			}
		}
	}
	if _, err := f.Set(t.Context(), "a", map[string]string{"url": "u"}); err != nil {
		t.Fatal(err)
	}
	check()
	if err := os.Chmod(f.path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Set(t.Context(), "a", map[string]string{"url": "v"}); err != nil {
		t.Fatal(err)
	}
	check()
}

func TestOnlyTheOwnerMayHaveWrittenIt(t *testing.T) {
	for mode, fine := range map[fs.FileMode]bool{0o600: true, 0o400: true, 0o644: true, 0o664: false, 0o646: false, 0o666: false} {
		f := fileWith(t, good)
		if err := os.Chmod(f.path, mode); err != nil {
			t.Fatal(err)
		}
		_, err := f.Load()
		if fine != (err == nil) {
			t.Errorf("mode %04o: %v", mode, err)
		}
		if err != nil {
			wantFault(t, err, fault.Usage, "config.too_open")
			e := fault.As(err)
			if e.Hint != "chmod go-w "+f.path {
				t.Errorf("hint %q", e.Hint)
			}
		}
	}
	if os.Geteuid() != 0 {
		return // only root can give a file away
	}
	f := fileWith(t, good)
	if err := os.Chown(f.path, 12345, -1); err != nil {
		t.Fatal(err)
	}
	_, err := f.Load()
	wantFault(t, err, fault.Usage, "config.too_open")
	if e := fault.As(err); !strings.Contains(e.Message, "belongs to user 12345") {
		t.Errorf("message %q", e.Message)
	}
}

// Opening a pipe would wait for a writer.
func TestAPipeIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := New(path).Load()
	wantFault(t, err, fault.Usage, "config.unreadable")
	_, err = New(path).Set(t.Context(), "a", map[string]string{"url": "u"})
	wantFault(t, err, fault.State, "config.unwritable")
}
