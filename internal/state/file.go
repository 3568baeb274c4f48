package state

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/userfile"
)

const (
	defaultLockTimeout = 2 * time.Second
	// How long a reader waits for the rest of a last line that has no end:
	// a writer may be in the middle of it.
	tornPause = 10 * time.Millisecond
)

// File is one state file. Its methods may be called from several goroutines,
// and other processes may use the same file at the same time.
type File struct {
	path        string
	lockTimeout time.Duration
	now         func() time.Time

	// What makes a write outlive a power cut; replaced in tests, which cannot
	// see whether it happened otherwise.
	syncFile   func(*os.File) error
	syncFolder func(dir string) error

	turn   chan struct{} // holds a token while a goroutine writes; a mutex that a context can end
	lastAt time.Time     // of the last record written; guarded by turn
}

// Option changes how a [File] works.
type Option func(*File)

// WithLockTimeout bounds the waiting for the lock. The default is 2 s.
func WithLockTimeout(d time.Duration) Option { return func(f *File) { f.lockTimeout = d } }

// WithNow replaces the clock that gives records their time.
func WithNow(now func() time.Time) Option { return func(f *File) { f.now = now } }

// New names a state file. It touches nothing: the first write makes what is
// missing, the folder as 0700 and the file as 0600.
func New(path string, opts ...Option) *File {
	f := &File{
		path: path, lockTimeout: defaultLockTimeout, now: time.Now,
		syncFile: (*os.File).Sync, syncFolder: userfile.SyncFolder,
		turn: make(chan struct{}, 1),
	}
	for _, o := range opts {
		o(f)
	}
	return f
}

// Path returns the path as it was given to [New].
func (f *File) Path() string { return f.path }

// RecordIntent writes the intent of an action and flushes it to the disk; when
// it returns nil, the request may leave.
//
// It refuses an action id that has an intent in this file already, whatever
// the daemon, with class [fault.Usage] and code "state.duplicate_intent": an
// intent is submitted at most once. The exception is an id whose last record
// is not_sent with the same input hash. explicit says that a person chose the
// id; then a damaged line, or a line of a newer version that names the id, is
// class [fault.State], since it may hide an intent. A minted id cannot be
// there. What an idempotency key and the deletion of a stored response claim for
// themselves is refused by the rules of [View.Claimed], under the same lock.
// Every other error is of class [fault.State] too, and leaves nothing
// behind, save an intent that could not be flushed and that somebody wrote
// behind at that moment.
func (f *File) RecordIntent(ctx context.Context, actionID string, in Intent, explicit bool) error {
	rec := Record{Type: TypeIntent, ActionID: actionID, Intent: &in}
	if err := rec.writable(); err != nil {
		return err
	}
	return f.locked(ctx, func(w *writer) error {
		past, err := f.past(ctx, w, actionID, in.InputHash, explicit)
		if err != nil {
			return err
		}
		if err := f.claimed(ctx, w, actionID, &in); err != nil {
			return err
		}
		// A clock that was set back must not put the intent before what it
		// comes after.
		if past != nil && !f.lastAt.After(past.Last.At) {
			f.lastAt = past.Last.At
		}
		return f.write(w, true, []Record{rec})
	})
}

// past gives what the file says of an action id, nil for nothing, or refuses
// a new intent for it.
func (f *File) past(ctx context.Context, w *writer, actionID, inputHash string, explicit bool) (*Action, error) {
	var recs []*Record
	hidden, id := false, []byte(actionID)
	// What a damaged line held matters to an explicit id alone, so for a minted
	// one only the lines that may name it are read.
	skip := func(line []byte) bool { return !explicit && !mentions(line, id) }
	rep, err := w.scan(ctx, skip, func(k kind, rec *Record, raw []byte) {
		switch {
		case k == newer:
			hidden = hidden || mentions(raw, id)
		case rec.ActionID == actionID:
			recs = append(recs, rec)
		}
	})
	if err != nil {
		return nil, f.fault(ctx, "state.unreadable", "read", err)
	}
	var a *Action
	if len(recs) > 0 {
		v, _ := newView(recs)
		a = v.Action(actionID)
	}
	if a != nil && a.Intent == nil && (a.Submitted || len(a.ResponseIDs) > 0 || a.Settled != nil && a.Settled.AIPStatus != "") {
		return nil, fault.New(fault.Usage, "state.duplicate_intent", "%s is known to %s as an action that ran, though its intent is not there", actionID, f.path).
			WithHint("read it with `aipctl action result %s`; a new submission needs a new action id", actionID).WithAction(actionID)
	}
	if a != nil && a.Intent != nil && (a.NotSent == nil || a.NotSent.InputHash != inputHash) {
		why := "an action is submitted at most once"
		if a.NotSent != nil {
			why = "it was not sent, but its input was another one"
		}
		return nil, fault.New(fault.Usage, "state.duplicate_intent", "%s has an intent in %s already, and %s; read it with `aipctl action result %s`", actionID, f.path, why, actionID).
			WithHint("read it with `aipctl action result %s`; a new submission needs a new action id", actionID).WithAction(actionID)
	}
	switch {
	case explicit && hidden:
		return nil, fault.New(fault.State, "state.newer_version", "%s: a newer aipctl wrote of %s, and this version cannot tell what", f.path, actionID).
			WithHint("read it with `aipctl action result %s`, or use the newer aipctl", actionID).WithAction(actionID)
	case explicit && len(rep.Damaged) > 0:
		d := rep.Damaged[0]
		return nil, fault.New(fault.State, "state.damaged", "%s: line %d is damaged (%s), and it may hide an intent of %s", f.path, d.Line, d.Why, actionID).
			WithHint("see `aipctl state check`, or leave out --action-id, or give another file with --state FILE").WithAction(actionID)
	}
	return a, nil
}

// Append adds records, all of them or, but for the exception of
// [File.RecordIntent], none. It fills V, and ID and At where
// they are empty; the times of one File never repeat and never go back. durable
// flushes them to the disk before it returns. Errors are of class
// [fault.State], or [fault.Internal] for a record that is none.
//
// A not_sent record counts only as the last word on its action: whatever else
// is to be said of the action has to be appended before it.
func (f *File) Append(ctx context.Context, durable bool, recs ...Record) error {
	if len(recs) == 0 {
		return nil
	}
	for i := range recs {
		if err := recs[i].writable(); err != nil {
			return err
		}
	}
	return f.locked(ctx, func(w *writer) error { return f.write(w, durable, recs) })
}

// Load reads the whole file. A file that does not exist is an empty view. With
// an error, of class [fault.State], the view is empty and not nil, so that a
// command which needs no state can go on.
func (f *File) Load(ctx context.Context) (*View, Report, error) {
	for try := 0; ; try++ {
		v, rep, size, err := f.load(ctx)
		if err != nil {
			return &View{}, Report{Path: f.path}, err
		}
		if !rep.Torn || try == 3 {
			return v, rep, nil
		}
		select {
		case <-time.After(tornPause):
		case <-ctx.Done():
			return &View{}, Report{Path: f.path}, f.fault(ctx, "state.unreadable", "read", context.Cause(ctx))
		}
		if fi, err := os.Stat(f.path); err != nil || fi.Size() == size {
			return v, rep, nil
		}
	}
}

func (f *File) load(ctx context.Context) (*View, Report, int64, error) {
	file, size, err := openRead(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return &View{}, Report{Path: f.path}, 0, nil
	}
	if err != nil {
		return nil, Report{}, 0, f.fault(ctx, "state.unreadable", "read", err)
	}
	defer func() { _ = file.Close() }() // read only: nothing can be lost
	var recs []*Record
	rep, err := scan(ctx, io.NewSectionReader(file, 0, size), maxRecord, nil, func(k kind, rec *Record, _ []byte) {
		if k == good {
			recs = append(recs, rec)
		}
	})
	if err != nil {
		return nil, Report{}, 0, f.fault(ctx, "state.unreadable", "read", err)
	}
	v, n := newView(recs)
	rep.Path, rep.Records, rep.Empty = f.path, n, size == 0
	return v, rep, size, nil
}

// newRecordID returns 128 random bits as 32 hex digits.
func newRecordID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails, by its contract
	return hex.EncodeToString(b[:])
}
