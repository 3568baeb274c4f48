//go:build unix

package state

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// syncFolder flushes the names in a folder. Some file systems cannot and say
// so; they keep names by other means.
func syncFolder(dir string) error {
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

// lockUnsupported says that the file system, not another process, refused.
func lockUnsupported(err error) bool {
	return errors.Is(err, syscall.ENOLCK) || errors.Is(err, syscall.ENOTSUP) ||
		errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.EINVAL)
}
