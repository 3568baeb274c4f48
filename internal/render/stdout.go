package render

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"time"

	"github.com/aipctl/aipctl/internal/fault"
)

// stdout is the only way to standard output. Its first error stays.
type stdout struct {
	w       io.Writer
	err     *fault.Error
	gone    context.Context // ends when stdout is abandoned
	abandon context.CancelFunc
}

func newStdout(w io.Writer) *stdout {
	s := &stdout{w: w}
	s.gone, s.abandon = context.WithCancel(context.Background())
	return s
}

// write hands p to the operating system in one Write. The call itself is made
// beside, for a pipe that nobody empties blocks for ever and a file of the
// standard streams cannot be given a deadline. p is not used afterwards.
func (s *stdout) write(p []byte) error {
	if s.err != nil || len(p) == 0 {
		return s.failure()
	}
	type result struct {
		n   int
		err error
	}
	done := make(chan result, 1)
	go func() {
		n, err := s.w.Write(p)
		done <- result{n, err}
	}()
	select {
	case r := <-done:
		s.err = writeFault(r.n, len(p), r.err)
	case <-s.gone.Done():
		last := time.NewTimer(lastPatience)
		defer last.Stop()
		select {
		case r := <-done:
			s.err = writeFault(r.n, len(p), r.err)
		case <-last.C:
			s.err = abandoned()
		}
	}
	return s.failure()
}

// lastPatience is how long a write is waited for once stdout was abandoned: a
// reader who reads takes it at once, also the outcome of a run that goes on.
const lastPatience = 250 * time.Millisecond

// failure returns the error that stays. A nil *fault.Error must not become an
// error that is not nil.
func (s *stdout) failure() error {
	if s.err == nil {
		return nil
	}
	return s.err
}

// fail keeps what went wrong before anything could be written.
func (s *stdout) fail(err error) error {
	if s.err == nil {
		if s.err = fault.As(err); s.err == nil {
			s.err = fault.New(fault.Output, "output.write", "stdout could not be written in full").Wrap(err)
		}
	}
	return s.failure()
}

func abandoned() *fault.Error {
	return fault.New(fault.Output, "output.abandoned", "stdout was given up while its reader did not read")
}

// writeFault reads the result of a Write of size bytes. Messages count bytes
// and never show them.
func writeFault(n, size int, err error) *fault.Error {
	if err == nil && n >= size {
		return nil
	}
	if err == nil {
		err = io.ErrShortWrite
	}
	if isBrokenPipe(err) {
		return fault.New(fault.BrokenPipe, "output.broken_pipe",
			"the reader of stdout went away after %d of %d bytes", n, size).Wrap(err)
	}
	cause := err
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		cause = pe.Err
	}
	return fault.New(fault.Output, "output.write",
		"stdout took %d of %d bytes: %v", n, size, cause).Wrap(err)
}
