package faults

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"
)

// writer is the response as the handler writes it, and the place where a
// response breaks. Its Write returns when the client has read the bytes.
type writer struct {
	x      *exchange
	head   http.Header
	status int
	header chan *http.Response
	read   *io.PipeReader
	pipe   *io.PipeWriter
	stream bool // an event stream, counted in blocks
	left   int  // blocks or bytes until the break
	broken bool // the break has happened
	tail   byte // last byte let through, to see a block end across two writes
}

func newWriter(x *exchange) *writer {
	w := &writer{x: x, head: http.Header{}, header: make(chan *http.Response, 1), left: x.brk.After}
	w.read, w.pipe = io.Pipe()
	context.AfterFunc(x.over, func() { w.pipe.CloseWithError(context.Cause(x.over)) })
	return w
}

// Header implements http.ResponseWriter.
func (w *writer) Header() http.Header { return w.head }

// WriteHeader implements http.ResponseWriter.
func (w *writer) WriteHeader(status int) {
	if w.status != 0 {
		return
	}
	w.status = status
	w.stream = strings.HasPrefix(w.head.Get("Content-Type"), "text/event-stream") && !w.x.brk.Bytes
	switch w.x.brk.Kind {
	case HoldHeader:
		w.x.brk.hit()
		<-w.x.over.Done()
		return
	case LoseReply:
		return
	}
	resp := &http.Response{
		Status: http.StatusText(status), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: maps.Clone(w.head), ContentLength: -1,
	}
	if w.x.brk.Kind == Old {
		w.x.brk.hit()
		resp.Proto, resp.ProtoMinor, resp.Close = "HTTP/1.0", 0, true
	}
	w.header <- resp
}

// Flush implements http.Flusher; every write is handed over at once.
func (w *writer) Flush() {}

// Write implements http.ResponseWriter.
func (w *writer) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	switch w.x.brk.Kind {
	case LoseReply, ResetDuring, ResetAfter:
		return len(p), nil // nobody is told
	case Slow:
		return w.slowly(p)
	case EndBody, CutBody, ResetBody, HalfOpen, Stall:
		return w.until(p)
	}
	return w.pipe.Write(p)
}

// until lets bytes pass until the break is due.
func (w *writer) until(p []byte) (int, error) {
	if w.broken {
		return w.pipe.Write(p)
	}
	pass := min(w.left, len(p))
	if w.stream {
		pass = w.blocks(p)
	} else {
		w.left -= pass
	}
	if _, err := w.pipe.Write(p[:pass]); err != nil {
		return 0, err
	}
	if w.left > 0 {
		return len(p), nil
	}
	w.broken = true
	w.x.brk.hit()
	if err := w.strike(); err != nil {
		return pass, err
	}
	_, err := w.pipe.Write(p[pass:])
	return len(p), err
}

// blocks returns where the last block that may pass ends in p.
func (w *writer) blocks(p []byte) int {
	for i, b := range p {
		if w.left == 0 {
			return i
		}
		if b == '\n' && w.tail == '\n' {
			w.left--
			b = 0 // a third newline opens no further block
		}
		w.tail = b
	}
	return len(p)
}

// strike does what the break is; nil lets the rest of the body pass.
func (w *writer) strike() error {
	switch w.x.brk.Kind {
	case EndBody:
		_ = w.pipe.Close()
		return errBroken
	case CutBody:
		w.pipe.CloseWithError(io.ErrUnexpectedEOF)
		return errBroken
	case ResetBody:
		w.pipe.CloseWithError(ErrReset)
		return errBroken
	case HalfOpen:
		<-w.x.over.Done()
		return errBroken
	}
	for left := w.x.brk.For; left > 0; left -= keepAliveEvery {
		select {
		case <-time.After(min(left, keepAliveEvery)):
		case <-w.x.over.Done():
			return errBroken
		}
		if w.stream && left > keepAliveEvery {
			if _, err := io.WriteString(w.pipe, ": keep-alive\n\n"); err != nil {
				return err
			}
		}
	}
	return nil
}

const keepAliveEvery = 15 * time.Second

var errBroken = errors.New("the connection is broken")

func (w *writer) slowly(p []byte) (int, error) {
	if !w.broken {
		w.broken = true
		w.x.brk.hit()
	}
	step := max(w.x.brk.Step, 1)
	for rest := p; len(rest) > 0; {
		n := min(step, len(rest))
		if _, err := w.pipe.Write(rest[:n]); err != nil {
			return 0, err
		}
		if rest = rest[n:]; len(rest) == 0 {
			break
		}
		select {
		case <-time.After(w.x.brk.Every):
		case <-w.x.over.Done():
			return 0, errBroken
		}
	}
	return len(p), nil
}

// finish ends the response when the handler has returned.
func (w *writer) finish() {
	switch w.x.brk.Kind {
	case LoseReply:
		w.x.brk.hit()
		w.x.end(io.EOF)
		return
	case HoldHeader:
		if w.status == 0 {
			w.WriteHeader(http.StatusOK)
		}
		return
	}
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	// Where the exchange has ended already, the handler ends because of that.
	_ = w.pipe.CloseWithError(context.Cause(w.x.over))
}

// answer runs a handler to its end and returns what it said.
func answer(h http.Handler, req *http.Request) *http.Response {
	rec := httptest.NewRecorder()
	in := req.Clone(context.WithoutCancel(req.Context()))
	in.Body = http.NoBody
	h.ServeHTTP(rec, in)
	resp := rec.Result()
	resp.Body = io.NopCloser(bytes.NewReader(rec.Body.Bytes()))
	resp.Request = req
	return resp
}
