// Package cursor decides when a position on a durable stream may be kept and
// when a kept one may be used again.
//
// Invariants:
//
//   - A cursor is used only for the binding it was kept under: daemon, caller,
//     action, route and filter. The daemon itself cannot tell a foreign cursor.
//   - A cursor moves only over what has been written out, as the caller says,
//     so that a crash can repeat output and never lose it. The last sequence
//     written never goes back.
//   - Keeping a cursor is never in the way of the stream: trouble is reported
//     once, and the next attempts are spaced out.
package cursor

import (
	"context"
	"sync"
	"time"

	"github.com/aipctl/aipctl/internal/state"
)

// Binding is all that a cursor belongs to. Two bindings are equal only if every
// field is.
type Binding struct {
	URL       string // the daemon with its path prefix
	Principal string // fingerprint of the caller's token
	ActionID  string
	Route     string // the route that gave the cursor
	Filter    string // the query filter it was given under; empty for none
}

// Store is where cursors are kept; [state.File] is one.
type Store interface {
	Append(ctx context.Context, durable bool, recs ...state.Record) error
}

const (
	saveInterval  = 250 * time.Millisecond
	retryInterval = 10 * time.Second // after a failed save, which may have waited for a lock
)

// Keeper keeps the cursor of one stream. It is safe for use from several
// goroutines.
type Keeper struct {
	binding Binding
	store   Store
	every   time.Duration

	mu       sync.Mutex
	latest   state.Cursor
	known    bool // latest holds a cursor
	dirty    bool // latest is not saved
	tried    bool // a save was attempted at lastTry
	lastTry  time.Time
	err      error // of the last save
	reported bool  // err was returned
}

// Option changes how a [Keeper] works.
type Option func(*Keeper)

// Every changes the shortest time between two saves. The default is 250 ms.
func Every(d time.Duration) Option { return func(k *Keeper) { k.every = d } }

// From starts at a cursor that is saved already, so that nothing behind it is.
func From(cursor string, lastWritten *uint64) Option {
	return func(k *Keeper) { k.advance(cursor, lastWritten) }
}

// NewKeeper makes a keeper that saves the cursors of one binding to a store.
func NewKeeper(b Binding, store Store, opts ...Option) *Keeper {
	k := &Keeper{binding: b, store: store, every: saveInterval}
	for _, o := range opts {
		o(k)
	}
	k.dirty = false
	return k
}

// Move says that everything up to the cursor has been written out, and what
// the last chunk sequence written is, nil where there is none or none new. It
// saves at once, or leaves that to a later call when the last save is less than
// 250 ms ago or the context has ended, before the save or during it;
// [Keeper.Flush] has to be called at the end. A cursor that is not further than the latest is ignored.
//
// An error is returned for the first of a row of failed saves only; the caller
// warns and goes on, and [Keeper.Err] remembers it. After a failure Move tries
// again when 10 s have passed.
func (k *Keeper) Move(ctx context.Context, cursor string, lastWritten *uint64) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.advance(cursor, lastWritten)
	wait := k.every
	if k.err != nil {
		wait = max(wait, retryInterval)
	}
	if !k.dirty || k.tried && time.Since(k.lastTry) < wait || ctx.Err() != nil {
		return nil
	}
	err, reported := k.err, k.reported
	told := k.save(ctx)
	if k.err != nil && ctx.Err() != nil {
		k.err, k.reported = err, reported // it was cut short, which is no trouble with the file
		return nil
	}
	return told
}

// Flush saves the latest cursor if that has not been done, whatever the time
// of the last save. It is for signals, closed pipes, timeouts and the end, with
// a context that has not ended. Errors are treated as by [Keeper.Move].
func (k *Keeper) Flush(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.dirty {
		return nil
	}
	return k.save(ctx)
}

// Latest returns the latest cursor, saved or not, and the last sequence written
// out; empty and nil before the first. It is what to print when saving fails.
func (k *Keeper) Latest() (cursor string, lastWritten *uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.latest.Cursor, clone(k.latest.LastSequence)
}

// Err returns the error of the last save; nil when it went well, or there was
// none.
func (k *Keeper) Err() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.err
}

// advance takes a further cursor. What was written out stays written, so a
// call without a sequence keeps the last one. Before the first cursor there
// may be a sequence alone: the stream is then read from its start, and nothing
// is written twice.
func (k *Keeper) advance(cursor string, lastWritten *uint64) {
	if cursor == "" && (lastWritten == nil || k.known && k.latest.Cursor != "") {
		return
	}
	next := state.Cursor{
		URL: k.binding.URL, Principal: k.binding.Principal, Route: k.binding.Route, Filter: k.binding.Filter,
		Cursor: cursor, LastSequence: clone(lastWritten),
	}
	if next.LastSequence == nil {
		next.LastSequence = k.latest.LastSequence
	}
	if k.known && (next.Compare(&k.latest) < 0 || cursor == k.latest.Cursor && same(next.LastSequence, k.latest.LastSequence)) {
		return
	}
	k.latest, k.known, k.dirty = next, true, true
}

func (k *Keeper) save(ctx context.Context) error {
	c := k.latest
	err := k.store.Append(ctx, false, state.Record{Type: state.TypeCursor, ActionID: k.binding.ActionID, Cursor: &c})
	k.tried, k.lastTry, k.err = true, time.Now(), err
	if err == nil {
		k.dirty, k.reported = false, false
		return nil
	}
	if k.reported {
		return nil
	}
	k.reported = true
	return err
}

// Saved returns the furthest cursor a state file holds for exactly that
// binding, and the last chunk sequence that was written out under it.
func Saved(view *state.View, b Binding) (cursor string, lastWritten *uint64, ok bool) {
	c, ok := view.Action(b.ActionID).Cursor(b.URL, b.Principal, b.Route, b.Filter)
	return c.Cursor, clone(c.LastSequence), ok
}

func clone(n *uint64) *uint64 {
	if n == nil {
		return nil
	}
	c := *n
	return &c
}

func same(a, b *uint64) bool { return a == b || a != nil && b != nil && *a == *b }
