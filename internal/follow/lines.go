package follow

import (
	"bytes"
	"io"
)

// lineReader hands over whole lines where it can. The SSE scanner looks at an
// event again from its first byte after each read, so a line of a megabyte
// that arrives in packets would cost a pass for every packet; one read a line
// costs one.
//
// Nothing is held back longer than its line: a line that is complete is
// handed over at once, and one that grows past limit is handed over as it is,
// so that the scanner can refuse it.
type lineReader struct {
	src   io.Reader
	limit int
	buf   []byte // read, not yet handed over
	ready int    // bytes of buf that may be handed over
	err   error
	chunk []byte
}

func newLineReader(src io.Reader, limit int) *lineReader {
	return &lineReader{src: src, limit: limit, chunk: make([]byte, 32<<10)}
}

func (l *lineReader) Read(p []byte) (int, error) {
	for l.ready == 0 {
		if l.err != nil {
			if len(l.buf) == 0 {
				return 0, l.err
			}
			l.ready = len(l.buf)
			break
		}
		n, err := l.src.Read(l.chunk)
		l.err = err
		if i := bytes.LastIndexAny(l.chunk[:n], "\r\n"); i >= 0 {
			l.ready = len(l.buf) + i + 1
		} else if len(l.buf)+n > l.limit {
			l.ready = len(l.buf) + n
		}
		l.buf = append(l.buf, l.chunk[:n]...)
	}
	n := copy(p, l.buf[:l.ready])
	l.ready -= n
	l.buf = l.buf[n:]
	if len(l.buf) == 0 {
		l.buf = nil
	}
	return n, nil
}
