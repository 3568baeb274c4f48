//go:build unix

package render

import (
	"errors"
	"io"
	"syscall"
)

// isBrokenPipe reports whether a write failed because its reader went away.
func isBrokenPipe(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe)
}
