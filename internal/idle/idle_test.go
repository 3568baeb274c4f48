package idle

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const limit = 45 * time.Second

// body is a pipe that counts how often its reading end was closed.
type body struct {
	*io.PipeReader
	closed int
}

func (b *body) Close() error {
	b.closed++
	return b.PipeReader.Close()
}

func pipe() (*body, *io.PipeWriter) {
	r, w := io.Pipe()
	return &body{PipeReader: r}, w
}

func TestSilenceEndsARead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := pipe()
		r := Watch(b, limit)
		start := time.Now()
		n, err := r.Read(make([]byte, 8))
		if n != 0 || !errors.Is(err, ErrSilent) || !strings.Contains(err.Error(), "45s") {
			t.Errorf("%d bytes and %v", n, err)
		}
		if waited := time.Since(start); waited != limit {
			t.Errorf("waited %s", waited)
		}
		if b.closed != 1 {
			t.Errorf("the body was closed %d times", b.closed)
		}
		if _, err := r.Read(make([]byte, 8)); !errors.Is(err, ErrSilent) {
			t.Errorf("a second read says %v", err)
		}
	})
}

func TestAnyByteIsASignOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, w := pipe()
		go func() {
			for _, c := range []byte(": keep-alive\n\n") {
				time.Sleep(limit - 1)
				_, _ = w.Write([]byte{c})
			}
			w.Close()
		}()
		got, err := io.ReadAll(Watch(b, limit))
		if string(got) != ": keep-alive\n\n" || err != nil {
			t.Errorf("%q and %v", got, err)
		}
	})
}

func TestTheAgeOfAStreamDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, w := pipe()
		go func() {
			for range 1000 {
				time.Sleep(limit / 2)
				_, _ = w.Write([]byte("x"))
			}
			w.Close()
		}()
		got, err := io.ReadAll(Watch(b, limit))
		if len(got) != 1000 || err != nil {
			t.Errorf("%d bytes and %v", len(got), err)
		}
	})
}

// TestASlowReaderIsNoSilence: bytes that wait for whoever prints them have
// come.
func TestASlowReaderIsNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &memory{Reader: strings.NewReader("two words")}
		r := Watch(b, limit)
		time.Sleep(10 * limit)
		first := make([]byte, 4)
		if n, err := r.Read(first); n != 4 || err != nil {
			t.Fatalf("%d bytes and %v", n, err)
		}
		time.Sleep(10 * limit) // the terminal is held with Ctrl-S
		rest, err := io.ReadAll(r)
		if string(rest) != "words" || err != nil || b.closed {
			t.Errorf("%q and %v; closed %v", rest, err, b.closed)
		}
	})
}

type memory struct {
	io.Reader
	closed bool
}

func (m *memory) Close() error {
	m.closed = true
	return nil
}

func TestAnEndBeforeTheLimitIsTheBodysOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reset := errors.New("reset by the peer")
		for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, reset} {
			b, w := pipe()
			go func() {
				time.Sleep(limit - 1)
				w.CloseWithError(end)
			}()
			if _, err := Watch(b, limit).Read(make([]byte, 8)); !errors.Is(err, end) || errors.Is(err, ErrSilent) {
				t.Errorf("%v is told as %v", end, err)
			}
		}
	})
}

func TestCloseStopsTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := pipe()
		r := Watch(b, limit)
		done := make(chan error)
		go func() {
			_, err := r.Read(make([]byte, 8))
			done <- err
		}()
		time.Sleep(limit / 2)
		r.Close()
		if err := <-done; err == nil || errors.Is(err, ErrSilent) {
			t.Errorf("a read that was given up says %v", err)
		}
		time.Sleep(10 * limit)
		if b.closed != 1 {
			t.Errorf("the body was closed %d times", b.closed)
		}
	})
}

func TestNoLimitWatchesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, none := range []time.Duration{0, -1} {
			b, w := pipe()
			go func() {
				time.Sleep(1000 * limit)
				_, _ = w.Write([]byte("late"))
				w.Close()
			}()
			r := Watch(b, none)
			if got, err := io.ReadAll(r); string(got) != "late" || err != nil {
				t.Errorf("limit %d: %q and %v", none, got, err)
			}
			r.Close()
		}
	})
}
