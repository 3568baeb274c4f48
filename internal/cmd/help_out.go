package cmd

import (
	"errors"
	"io"
	"syscall"

	"github.com/aipctl/aipctl/internal/fault"
)

// helpOut is stdout as cobra writes help to it, which looks at no error.
type helpOut struct {
	w   io.Writer
	err error
}

// Write implements io.Writer. After its first error it writes nothing more.
func (h *helpOut) Write(p []byte) (int, error) {
	if h.err != nil {
		return 0, h.err
	}
	n, err := h.w.Write(p)
	switch {
	case err == nil:
	case errors.Is(err, syscall.EPIPE):
		h.err = fault.New(fault.BrokenPipe, "output.broken_pipe", "the reader of stdout went away").Wrap(err)
	default:
		h.err = fault.New(fault.Output, "output.write", "stdout could not be written in full").Wrap(err)
	}
	return n, h.err
}
