// Package idle ends a read that has fallen silent.
//
// Invariant: any byte is a sign of life, a keep-alive comment included; only
// the time that a read waits for one counts, never the age of the stream and
// never the time that the reader takes: a terminal that is slow, or held with
// Ctrl-S, is no silence of the sender.
package idle

import (
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"time"
)

// ErrSilent says that no byte came for the whole limit.
var ErrSilent = errors.New("no byte came")

// Reader is a body under watch.
type Reader struct {
	body  io.ReadCloser
	limit time.Duration
	timer *time.Timer

	mu     sync.Mutex
	silent bool
}

// Watch returns a reader over body that is closed, and whose Read returns an
// error wrapping [ErrSilent], when a read had to wait for limit without a
// byte. A limit of 0 or less watches nothing. Close stops the watch.
func Watch(body io.ReadCloser, limit time.Duration) *Reader {
	r := &Reader{body: body, limit: limit}
	if limit > 0 {
		r.timer = time.AfterFunc(math.MaxInt64, r.expire) // each read sets it
	}
	return r
}

func (r *Reader) expire() {
	r.mu.Lock()
	r.silent = true
	r.mu.Unlock()
	r.body.Close()
}

// Read implements io.Reader.
func (r *Reader) Read(p []byte) (int, error) {
	if r.timer != nil {
		r.timer.Reset(r.limit)
	}
	n, err := r.body.Read(p)
	if r.timer != nil {
		r.timer.Stop()
	}
	if err != nil && n == 0 {
		r.mu.Lock()
		silent := r.silent
		r.mu.Unlock()
		if silent {
			return 0, fmt.Errorf("%w for %s", ErrSilent, r.limit)
		}
	}
	return n, err
}

// Close stops the watch and closes the body.
func (r *Reader) Close() error {
	if r.timer != nil {
		r.timer.Stop()
	}
	return r.body.Close()
}
