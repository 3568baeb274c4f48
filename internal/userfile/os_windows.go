package userfile

import (
	"errors"
	"syscall"
)

// SyncFolder does nothing: NTFS journals names, and a folder cannot be flushed
// without rights an ordinary user lacks.
func SyncFolder(string) error { return nil }

// LocksUnsupported says that the file system, not another process, refused.
func LocksUnsupported(err error) bool {
	const errorInvalidFunction, errorNotSupported syscall.Errno = 1, 50
	return errors.Is(err, errorInvalidFunction) || errors.Is(err, errorNotSupported)
}
