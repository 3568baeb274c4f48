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

// LocksUnsupported says that the file system, not another process, refused.
func LocksUnsupported(err error) bool {
	return errors.Is(err, syscall.ENOLCK) || errors.Is(err, syscall.ENOTSUP) ||
		errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.EINVAL)
}
