//go:build unix

package identity

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// openNoFollow opens a file for reading unless it is a symbolic link. It does
// not wait for the writer of a named pipe.
func openNoFollow(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err == nil {
		return f, nil
	}
	// FreeBSD says EMLINK and NetBSD EFTYPE where the others say ELOOP, which
	// may also mean a loop of links above the file: look at the name itself.
	if fi, lerr := os.Lstat(path); lerr == nil && fi.Mode()&fs.ModeSymlink != 0 {
		return nil, errors.Join(errSymlink, err)
	}
	return nil, err
}

// notOwned says in a clause why the owner of an opened file is wrong.
func notOwned(fi fs.FileInfo) string {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok || int(st.Uid) == os.Geteuid() {
		return ""
	}
	return fmt.Sprintf("it belongs to user %d, and this runs as user %d", st.Uid, os.Geteuid())
}

// closeHint is how the owner takes a file away from the others; it takes the
// path.
const closeHint = "chmod 600 %s"

// tooOpen says in a clause why the mode of an opened file is wrong.
func tooOpen(_ *os.File, fi fs.FileInfo) string {
	if perm := fi.Mode().Perm(); perm&0o077 != 0 {
		return fmt.Sprintf("its mode %04o lets other users at it", perm)
	}
	return ""
}
