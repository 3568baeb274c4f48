package state

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/userfile"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// writer is the data file while the lock is held, and until what was added is
// flushed.
type writer struct {
	file   *os.File
	size   int64 // where the next line goes
	begin  int64 // where what was added last begins
	flush  bool  // what was added has to be durable
	closed bool
}

func (w *writer) close() error {
	if w.closed {
		return nil
	}
	w.closed = true
	return w.file.Close()
}

// locked runs do with the lock held and the data file open, and then flushes
// what do has added, if it has to be durable. The lock is taken on a file of its
// own that is never renamed or removed, and the data file is opened only then, so
// a file put in its place meanwhile is the one written.
func (f *File) locked(ctx context.Context, do func(*writer) error) (err error) {
	bounded, cancel := context.WithTimeout(ctx, f.lockTimeout)
	defer cancel()
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-bounded.Done():
		return f.lockFault(ctx, bounded.Err())
	}
	path, err := userfile.Resolve(f.path)
	if err != nil {
		return f.fault(ctx, "state.unwritable", "write", err)
	}
	// Before anything is made beside it: the folder of a device is no place for
	// a lock.
	if fi, err := os.Stat(path); err == nil {
		if err := userfile.Regular(fi); err != nil {
			return f.fault(ctx, "state.unwritable", "write", err)
		}
	}
	if err := userfile.MakeFolder(filepath.Dir(path), f.syncFolder); err != nil {
		return f.fault(ctx, "state.unwritable", "write", err)
	}
	var w *writer
	defer func() {
		if w == nil {
			return
		}
		if cerr := w.close(); cerr != nil && err == nil {
			err = f.fault(ctx, "state.unwritable", "write", cerr)
		}
	}()
	err = f.holding(ctx, bounded, path, func() (err error) {
		if w, err = f.openWrite(path); err != nil {
			return f.fault(ctx, "state.unwritable", "write", err)
		}
		return do(w)
	})
	if err != nil || !w.flush {
		return err
	}
	return f.flush(ctx, w, path)
}

// holding runs do with the lock held. bounded is ctx with a time for the
// waiting.
func (f *File) holding(ctx, bounded context.Context, path string, do func() error) error {
	unlock, err := userfile.Lock(bounded, path)
	if err != nil {
		return f.lockFault(ctx, err)
	}
	defer unlock()
	return do()
}

// flush makes what was added outlive a power cut. The lock is free meanwhile: a
// disk that takes its time would keep a crowd of writers waiting one behind the
// other. What cannot be flushed is taken back.
func (f *File) flush(ctx context.Context, w *writer, path string) error {
	err := f.syncFile(w.file)
	if err == nil {
		return nil
	}
	last := context.WithoutCancel(ctx)
	bounded, cancel := context.WithTimeout(last, f.lockTimeout)
	defer cancel()
	// Without the lock, or behind what somebody else has written by now, it
	// stays: an intent too many keeps an id from being used, and lets none be
	// used twice.
	_ = f.holding(last, bounded, path, func() error {
		if w.atEnd(path) {
			w.cut()
		}
		return nil
	})
	return f.fault(context.Background(), "state.unwritable", "write", err)
}

// write encodes records and appends them.
func (f *File) write(w *writer, durable bool, recs []Record) error {
	var buf bytes.Buffer
	for _, r := range recs {
		r.V = Version
		if r.ID == "" {
			r.ID = newRecordID()
		}
		if r.At.IsZero() {
			r.At = f.stamp()
		}
		r.At = r.At.UTC().Round(0)
		line, err := json.Marshal(&r, jsontext.AllowInvalidUTF8(true), json.Deterministic(true))
		if err != nil {
			return fault.New(fault.Internal, "state.bad_record", "a state record of type %s cannot be encoded", r.Type).Wrap(err)
		}
		if len(line) > maxRecord {
			return fault.New(fault.State, "state.record_too_large", "%s: a record of type %s has %d bytes, more than the %d a line may have", f.path, r.Type, len(line), maxRecord)
		}
		buf.Write(line)
		buf.WriteByte('\n')
	}
	return f.writeLines(w, buf.Bytes(), durable)
}

func (f *File) writeLines(w *writer, lines []byte, durable bool) error {
	w.flush = durable
	if err := w.append(lines); err != nil {
		return f.fault(context.Background(), "state.unwritable", "write", err)
	}
	return nil
}

// stamp gives the time of the next record: the clock's, or one nanosecond after
// the one before where the clock stands still or was set back.
func (f *File) stamp() time.Time {
	now := f.now().UTC().Round(0)
	if !now.After(f.lastAt) {
		now = f.lastAt.Add(1)
	}
	f.lastAt = now
	return now
}

// append writes whole lines behind everything else, in one write, or cuts the
// file back to what it was. A torn last line gets an end first.
func (w *writer) append(lines []byte) error {
	if w.size > 0 {
		var last [1]byte
		if _, err := w.file.ReadAt(last[:], w.size-1); err != nil {
			return err
		}
		if last[0] != '\n' {
			lines = append([]byte{'\n'}, lines...)
		}
	}
	w.begin = w.size
	if _, err := w.file.Write(lines); err != nil {
		w.cut()
		return err
	}
	w.size += int64(len(lines))
	return nil
}

// cut takes back what was added last; the lock is held.
func (w *writer) cut() {
	// A file opened for appending cannot be cut on every system. Where neither
	// works, readers and writers cope with the torn line.
	if w.file.Truncate(w.begin) != nil {
		_ = os.Truncate(w.file.Name(), w.begin)
	}
}

// atEnd reports whether what was added last is still the end of the file of
// that path.
func (w *writer) atEnd(path string) bool {
	now, err := os.Stat(path)
	if err != nil || now.Size() != w.size {
		return false
	}
	mine, err := w.file.Stat()
	return err == nil && os.SameFile(now, mine)
}

func (w *writer) scan(ctx context.Context, skip func([]byte) bool, visit func(kind, *Record, []byte)) (Report, error) {
	return scan(ctx, io.NewSectionReader(w.file, 0, w.size), maxRecord, skip, visit)
}

// mentions says whether a line may name an action id. An id has no character
// that JSON has to escape, but a \u escape may spell any.
func mentions(line, actionID []byte) bool {
	return bytes.Contains(line, actionID) || bytes.Contains(line, unicodeEscape)
}

var unicodeEscape = []byte(`\u`)

// openRead opens a regular file for reading and gives its size.
func openRead(path string) (*os.File, int64, error) {
	// Opening a pipe would wait for a writer, so look before.
	if fi, err := os.Stat(path); err != nil {
		return nil, 0, err
	} else if err := userfile.Regular(fi); err != nil {
		return nil, 0, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	fi, err := file.Stat()
	if err == nil {
		err = userfile.Regular(fi)
	}
	if err != nil {
		_ = file.Close()
		return nil, 0, err
	}
	return file, fi.Size(), nil
}

// openWrite opens the data file, and makes it where there is none.
func (f *File) openWrite(path string) (*writer, error) {
	created := false
	fi, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		created = true
	case err != nil:
		return nil, err
	default:
		if err := userfile.Regular(fi); err != nil {
			return nil, err
		}
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	fi, err = file.Stat()
	if err == nil {
		err = userfile.Regular(fi)
	}
	if err == nil && created {
		// Once, whatever is written: the name has to outlive a power cut before
		// the first durable record does.
		err = f.syncFolder(filepath.Dir(path))
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return &writer{file: file, size: fi.Size()}, nil
}

func (f *File) lockFault(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return f.fault(ctx, "state.interrupted", "lock", context.Cause(ctx))
	case errors.Is(err, context.DeadlineExceeded):
		return fault.New(fault.State, "state.locked", "%s: another process has held the lock for %s", f.path, f.lockTimeout).
			WithHint("try again, or give another file with --state FILE").Wrap(err)
	case errors.Is(err, errors.ErrUnsupported), userfile.LocksUnsupported(err):
		return fault.New(fault.State, "state.no_locks", "%s: its file system has no locks", f.path).
			WithHint("give a file on a local disk with --state FILE").Wrap(err)
	}
	return f.fault(ctx, "state.unwritable", "lock", err)
}

// fault says which file, what was tried, why it failed, and what to do next.
func (f *File) fault(ctx context.Context, code, verb string, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return fault.New(fault.State, "state.interrupted", "the state file %s was not used: %s", f.path, userfile.Reason(err)).Wrap(err)
	}
	return fault.New(fault.State, code, "cannot %s the state file %s: %s", verb, f.path, userfile.Reason(err)).
		WithHint("give another file with --state FILE").Wrap(err)
}
