//go:build unix

package identity

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// keepToOwner takes a file away from the others.
func keepToOwner(t *testing.T, path string) {
	t.Helper()
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTokenFileIsTheOwnersAlone(t *testing.T) {
	for _, tt := range []struct {
		mode fs.FileMode
		why  string // empty for a good one
	}{
		{0o600, ""},
		{0o400, ""},
		{0o700, ""},
		{0o644, "its mode 0644 lets other users at it"},
		{0o640, "its mode 0640 lets other users at it"},
		{0o604, "its mode 0604 lets other users at it"},
		{0o620, "its mode 0620 lets other users at it"},
		{0o610, "its mode 0610 lets other users at it"},
	} {
		t.Run(fmt.Sprintf("mode %04o", tt.mode), func(t *testing.T) {
			path := tokenFile(t, "token-newline.txt")
			if err := os.Chmod(path, tt.mode); err != nil {
				t.Fatal(err)
			}
			_, err := TokenSource{File: path}.Load()
			if tt.why == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wantRefused(t, err, "token.file_mode", path, tt.why, []byte(secret))
		})
	}
}

// fakeInfo is an opened file of another user; making a real one takes the
// rights of the superuser.
type fakeInfo struct {
	fs.FileInfo
	uid uint32
}

func (f fakeInfo) Sys() any { return &syscall.Stat_t{Uid: f.uid} }

func TestTokenFileOfAnotherUserIsRefused(t *testing.T) {
	me := uint32(os.Geteuid())
	if why := notOwned(fakeInfo{uid: me}); why != "" {
		t.Errorf("my own file: %s", why)
	}
	if why, want := notOwned(fakeInfo{uid: me + 1}), fmt.Sprintf("it belongs to user %d, and this runs as user %d", me+1, me); why != want {
		t.Errorf("got %q, want %q", why, want)
	}
	path := tokenFile(t, "token-newline.txt")
	if err := os.Chown(path, int(me)+1, -1); err != nil {
		if os.Geteuid() == 0 {
			t.Fatal(err)
		}
		return // an ordinary user gives no file away; the rule itself is tested above
	}
	_, err := TokenSource{File: path}.Load()
	wantRefused(t, err, "token.file_owner", path, "it belongs to user", []byte(secret))
}

func TestTokenFileThatIsAPipeIsRefusedAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := TokenSource{File: path}.Load()
	wantRefused(t, err, "token.file_kind", path, "it is not a regular file", nil)
}

func TestLinkToNowhereIsALink(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("nowhere", link); err != nil {
		t.Fatal(err)
	}
	_, err := TokenSource{File: link}.Load()
	wantRefused(t, err, "token.file_kind", link, "it is a symbolic link", nil)
}
