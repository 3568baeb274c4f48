//go:build unix

package userfile

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// SyncFolder flushes the names in a folder. Some file systems cannot and say
// so; they keep names by other means.
func SyncFolder(dir string) error {
	d, err := os.Open(dir)
	if errors.Is(err, fs.ErrPermission) {
		return nil // a folder that may be written and not read: nothing more can be done
	}
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }() // read only: nothing can be lost
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}

// Create makes a file that nobody but its owner can read or write. It is never
// an existing one; see [os.O_EXCL].
func Create(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// Rename gives a file the name of another one, which it takes the place of.
func Rename(from, to string) error { return os.Rename(from, to) }

// LocksUnsupported says that the file system, not another process, refused.
func LocksUnsupported(err error) bool {
	return errors.Is(err, syscall.ENOLCK) || errors.Is(err, syscall.ENOTSUP) ||
		errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.EINVAL)
}
