package userfile

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// SyncFolder does nothing: NTFS journals names, and a folder cannot be flushed
// without rights an ordinary user lacks.
func SyncFolder(string) error { return nil }

// Create makes a file that nobody but its owner can read or write, whatever the
// folder lets its files inherit. It is never an existing one; see [os.O_EXCL].
func Create(path string) (*os.File, error) {
	fail := func(err error) (*os.File, error) { return nil, &fs.PathError{Op: "open", Path: path, Err: err} }
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return fail(err)
	}
	user, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return fail(err)
	}
	// One entry, which is inherited from nowhere: everything to this user.
	sd, err := windows.SecurityDescriptorFromString("D:P(A;;FA;;;" + user.User.Sid.String() + ")")
	if err != nil {
		return fail(err)
	}
	sa := windows.SecurityAttributes{SecurityDescriptor: sd}
	sa.Length = uint32(unsafe.Sizeof(sa))
	h, err := windows.CreateFile(name, windows.GENERIC_WRITE, windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE, &sa, windows.CREATE_NEW, windows.FILE_ATTRIBUTE_NORMAL, 0)
	if err != nil {
		return fail(err)
	}
	return os.NewFile(uintptr(h), path), nil
}

// Rename gives a file the name of another one, which it takes the place of.
// Here a file that somebody has open, if only to read it or to look for
// viruses in it, keeps its name; that passes, so it is tried again for a
// second.
func Rename(from, to string) error {
	const pause, tries = 20 * time.Millisecond, 50
	for i := 0; ; i++ {
		err := os.Rename(from, to)
		const sharingViolation, lockViolation syscall.Errno = 32, 33
		passing := errors.Is(err, syscall.ERROR_ACCESS_DENIED) || errors.Is(err, sharingViolation) || errors.Is(err, lockViolation)
		if !passing || i == tries {
			return err
		}
		time.Sleep(pause)
	}
}

// LocksUnsupported says that the file system, not another process, refused.
func LocksUnsupported(err error) bool {
	const errorInvalidFunction, errorNotSupported syscall.Errno = 1, 50
	return errors.Is(err, errorInvalidFunction) || errors.Is(err, errorNotSupported)
}
