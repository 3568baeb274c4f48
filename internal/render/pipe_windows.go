package render

import (
	"errors"
	"io"
	"syscall"
)

// What Windows says of a pipe whose reader is closing or was never there;
// package syscall has no names for them.
const (
	errorNoData           = syscall.Errno(232)
	errorPipeNotConnected = syscall.Errno(233)
)

// isBrokenPipe reports whether a write failed because its reader went away.
func isBrokenPipe(err error) bool {
	for _, e := range []error{syscall.ERROR_BROKEN_PIPE, errorNoData, errorPipeNotConnected, syscall.EPIPE, io.ErrClosedPipe} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
