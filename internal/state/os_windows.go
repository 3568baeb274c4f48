package state

import (
	"errors"
	"syscall"
)

// syncFolder does nothing: NTFS journals names, and a folder cannot be flushed
// without rights an ordinary user lacks.
func syncFolder(string) error { return nil }

// lockUnsupported says that the file system, not another process, refused.
func lockUnsupported(err error) bool {
	const errorInvalidFunction, errorNotSupported syscall.Errno = 1, 50
	return errors.Is(err, errorInvalidFunction) || errors.Is(err, errorNotSupported)
}
