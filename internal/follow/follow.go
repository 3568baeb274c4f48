// Package follow reads one action's durable stream: it connects, watches,
// reconnects, orders, de-duplicates and drains, and hands out typed items.
//
// Invariants kept here:
//
//   - A cursor is the value of a cursor frame or of a terminal frame, and
//     nothing else. No other id is ever asked for.
//   - A cursor item is handed out only after every chunk that stood before it
//     was handed out; whoever handles items in order may keep it then.
//   - The end of bytes is never the end of the action. Only a terminal frame
//     ends the waiting, and it does not end the reading.
//   - Nothing is ever posted.
package follow

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/idle"
	"github.com/tmaxmax/go-sse"
)

// Source is what a follower needs of the network.
type Source interface {
	Follow(ctx context.Context, q aip.EventsQuery) (io.ReadCloser, error)
	Page(ctx context.Context, q aip.EventsQuery, d aip.Decoding) (*aip.EventsPage, error)
}

// PageLimit is how many entries a page may hold to begin with. It is halved
// whenever a connection ends before its page's cursor, so that a line that
// never lives long enough for a page gets smaller pages.
const (
	PageLimit    = 1000
	minPageLimit = 16
)

// lateWait is how long a body is read on behind its terminal frame. A daemon
// ends it there, so the end is as good as always there already.
const lateWait = 200 * time.Millisecond

// Options configure a [Follower].
type Options struct {
	ActionID      string
	Cursor        string // where to resume; empty is the start
	Begin         Begin
	IncludeChunks bool
	Kinds         []string      // events to ask for
	Idle          time.Duration // longest silence of a stream; 0 watches nothing
	MaxEventBytes int           // largest SSE event; 0 is 8 MiB
	Decoding      aip.Decoding
	Jitter        func() float64 // in [0,1); nil is random
	// Echoes reports whether a word repeats a token that was sent; such a code
	// is none. nil reports that none does.
	Echoes func(word string) bool
}

// The items, in the words of the protocol.
type (
	// Opened says that the daemon answered with an event stream.
	Opened struct{ Attempt int }
	// Lost says that a connection ended without a terminal frame and that the
	// next one is tried after Wait.
	Lost struct {
		Attempt int
		Reason  string
		Wait    time.Duration
		Err     error // set when no stream was opened at all
	}
	// Chunk is delivered in sequence order, each sequence once.
	Chunk struct {
		Chunk  *aip.Chunk
		Source string // follow or page
		Past   bool   // below what was delivered before: evidence, not text
	}
	// Event is a lifecycle event, each id once.
	Event struct{ Event aip.Event }
	// Cursor may be kept once all items before it are dealt with.
	Cursor struct {
		Value string
		Last  *uint64 // highest sequence delivered; nil before the first
	}
	// Terminal says that the action is terminal, and nothing about the backlog.
	Terminal struct{}
	// Gap is a run of sequences that a read from the start did not bring.
	Gap struct{ Range }
	// Contradiction is a chunk that cannot be: Place is Conflict, Stray or
	// AboveTerminal. Its content is not handed out.
	Contradiction struct {
		Place     Place
		Sequence  uint64
		ActionID  string // of a stray
		Old, New  aip.Digest
		FirstTime bool // this sequence had not been reported so before
	}
	// Duplicate is an equal repeat that was dropped.
	Duplicate struct{}
	// Restarted says that the cursor was refused or has expired and that the
	// stream is read from its start.
	Restarted struct{ Code string }
	// Trouble is an aip.error frame that is no matter of the cursor.
	Trouble struct{ Err *aip.ProtocolError }
	// Stuck says that a page after the terminal mark repeats itself.
	Stuck struct{}
	// Unread is an SSE frame that could not be understood.
	Unread struct{ Name string }
)

// Item is one of the types above.
type Item = any

// Emit takes one item; an error of it ends the reading and is returned.
type Emit func(Item) error

// ErrEventTooLarge says that an SSE event passed --max-event-bytes.
type ErrEventTooLarge struct{ Limit int }

// Error implements error.
func (e *ErrEventTooLarge) Error() string {
	return fmt.Sprintf("a stream event is larger than the %d bytes of --max-event-bytes", e.Limit)
}

// Follower reads one stream. Its methods are called one at a time.
type Follower struct {
	src       Source
	o         Options
	order     *Order
	events    map[string]bool
	reported  map[string]bool
	cursor    string
	limit     int
	fromStart bool // everything from the start has been read by this follower
	backoff   *backoff
	attempt   int
	open      *uint64 // begin of a hole that was read for in vain, and may still be filled
}

// New returns a follower; nothing is sent yet.
func New(src Source, o Options) *Follower {
	if o.MaxEventBytes <= 0 {
		o.MaxEventBytes = 8 << 20
	}
	return &Follower{
		src: src, o: o, order: NewOrder(o.ActionID, o.Begin),
		events: map[string]bool{}, reported: map[string]bool{},
		cursor: o.Cursor, limit: PageLimit, fromStart: o.Cursor == "",
		backoff: newBackoff(o.Jitter),
	}
}

// Order gives read access to what was seen; not while a method runs.
func (f *Follower) Order() *Order { return f.order }

// FromStart reports whether the stream was read from its start.
func (f *Follower) FromStart() bool { return f.fromStart }

// Cursor is the last cursor that a frame gave.
func (f *Follower) Cursor() string { return f.cursor }

func (f *Follower) query(cursor string) aip.EventsQuery {
	return aip.EventsQuery{ActionID: f.o.ActionID, Cursor: cursor, Limit: f.limit, IncludeChunks: f.o.IncludeChunks, Kinds: f.o.Kinds}
}

// Permanent reports whether a failed attempt to open the stream will fail the
// same way again.
func Permanent(err error) bool {
	var large *ErrEventTooLarge
	if errors.As(err, &large) {
		return true
	}
	var remote *aip.RemoteError
	if !errors.As(err, &remote) {
		return false
	}
	switch {
	case remote.Redirect != "", remote.NotStream:
		return true
	case remote.Status == 408, remote.Status == 425, remote.Status == 429:
		return false
	case remote.Status >= 500:
		return false
	}
	return true
}

// errTerminal ends the loop after a terminal frame.
var errTerminal = errors.New("the action is terminal")

// Run follows until the terminal frame (nil), a permanent refusal, an error of
// emit, or the end of ctx. Passing failures are waited out for as long as ctx
// lives.
func (f *Follower) Run(ctx context.Context, emit Emit) error {
	for {
		f.attempt++
		opened, err := f.connection(ctx, emit)
		switch {
		case errors.Is(err, errTerminal):
			return nil
		case ctx.Err() != nil, isEmit(err):
			return f.ended(ctx, err)
		case Permanent(err):
			return err
		}
		wait := f.backoff.next(asked(err))
		lost := Lost{Attempt: f.attempt, Reason: lostReason(err), Wait: wait}
		if !opened {
			lost.Err = err
		}
		if err := emit(lost); err != nil {
			return err
		}
		if err := Pause(ctx, wait); err != nil {
			return err
		}
	}
}

// emitError marks errors of emit, so that they are not taken for the
// network's.
type emitError struct{ error }

func (e emitError) Unwrap() error { return e.error }

func isEmit(err error) bool {
	var e emitError
	return errors.As(err, &e)
}

func (f *Follower) give(emit Emit, it Item) error {
	if err := emit(it); err != nil {
		return emitError{err}
	}
	return nil
}

// connection is one attempt, from request to the end of its bytes.
func (f *Follower) connection(ctx context.Context, emit Emit) (opened bool, err error) {
	body, err := f.src.Follow(ctx, f.query(f.cursor))
	if err != nil {
		return false, err
	}
	if err := f.give(emit, Opened{f.attempt}); err != nil {
		body.Close()
		return true, err
	}
	watched := idle.Watch(body, f.o.Idle)
	defer watched.Close()
	stop := context.AfterFunc(ctx, func() { watched.Close() })
	defer stop()
	broken := &failing{r: watched}
	// The event bound counts field names too; leave room for them.
	lines := newLineReader(broken, f.o.MaxEventBytes)
	var last string // the sticky id before this event
	var lastWasCursor bool
	pending := false // something came since the last cursor
	ended := false   // the terminal frame came
	for ev, err := range sse.Read(lines, &sse.ReadConfig{MaxEventSize: f.o.MaxEventBytes + 64}) {
		if err != nil && ended {
			break // whatever ends the body now, the action has ended before it
		}
		if err != nil {
			if errors.Is(err, bufio.ErrTooLong) {
				return true, &ErrEventTooLarge{Limit: f.o.MaxEventBytes}
			}
			if pending {
				f.limit = max(f.limit/2, minPageLimit)
			}
			return true, err
		}
		own := ev.LastEventID != last || lastWasCursor
		last, lastWasCursor = ev.LastEventID, ev.Type == aip.FrameCursor
		if ev.Data == "" {
			continue
		}
		if len(ev.Data) > f.o.MaxEventBytes {
			return true, &ErrEventTooLarge{Limit: f.o.MaxEventBytes}
		}
		if ended {
			if err := f.late(ev, emit); err != nil {
				return true, err
			}
			continue
		}
		was := f.cursor
		err := f.frame(ctx, ev, own, emit)
		if errors.Is(err, errTerminal) {
			ended = true
			timer := time.AfterFunc(lateWait, func() { watched.Close() })
			defer timer.Stop()
			continue
		}
		if err != nil {
			return true, err
		}
		pending = f.cursor == was
	}
	if ended {
		return true, errTerminal
	}
	if pending {
		f.limit = max(f.limit/2, minPageLimit)
	}
	if broken.err != nil {
		return true, broken.err
	}
	return true, io.EOF
}

// failing remembers why its reader ended: sse.Read tells a clean end and the
// end of a broken body apart, but not an end inside an event.
type failing struct {
	r   io.Reader
	err error
}

func (f *failing) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		f.err = err
	}
	return n, err
}

// frame handles one SSE event. ownID says that the id is this event's own and
// not the sticky one of an event before it.
func (f *Follower) frame(ctx context.Context, ev sse.Event, ownID bool, emit Emit) error {
	item, err := aip.DecodeFollowItem([]byte(ev.Data), f.o.Decoding)
	if err != nil {
		return f.give(emit, Unread{ev.Type})
	}
	switch ev.Type {
	case aip.FrameCursor:
		value := item.NextCursor
		if value == "" && ownID {
			value = ev.LastEventID
		}
		return f.moved(ctx, value, emit)
	case aip.FrameTerminal:
		if ownID && ev.LastEventID != "" {
			if err := f.moved(ctx, ev.LastEventID, emit); err != nil {
				return err
			}
		}
		if err := f.give(emit, Terminal{}); err != nil {
			return err
		}
		return errTerminal
	case aip.FrameError:
		return f.trouble(item.Error, emit)
	}
	switch {
	case item.Chunk != nil:
		return f.chunk(ctx, item.Chunk, sourceFollow, emit)
	case item.Event != nil:
		return f.event(*item.Event, emit)
	default:
		return f.give(emit, Unread{ev.Type})
	}
}

// late takes a frame behind the terminal one. A chunk there is handed out like
// any other, or contradicts; nothing else counts any more.
func (f *Follower) late(ev sse.Event, emit Emit) error {
	item, err := aip.DecodeFollowItem([]byte(ev.Data), f.o.Decoding)
	if err != nil || item.Chunk == nil {
		return nil
	}
	return f.place(item.Chunk, sourceFollow, emit)
}

// The names of the places that chunks come from, as records spell them.
const (
	sourceFollow = "follow"
	sourcePage   = "page"
)

func (f *Follower) moved(ctx context.Context, value string, emit Emit) error {
	if value == "" {
		return nil
	}
	// A cursor must not pass a chunk that waits for a lower one.
	if f.order.Holding() {
		if err := f.fill(ctx, emit, true); err != nil {
			return err
		}
	}
	if value != f.cursor {
		f.backoff.reset()
	}
	f.cursor = value
	return f.give(emit, Cursor{Value: value, Last: f.order.Last()})
}

func (f *Follower) trouble(e *aip.ProtocolError, emit Emit) error {
	if e == nil {
		return nil
	}
	if f.o.Echoes != nil && f.o.Echoes(e.Code) {
		e.Code = ""
	}
	if cursorRefused(e.Code) && f.cursor != "" {
		f.cursor, f.fromStart = "", true
		if err := f.give(emit, Restarted{e.Code}); err != nil {
			return err
		}
		return &troubleError{e}
	}
	if err := f.give(emit, Trouble{e}); err != nil {
		return err
	}
	return &troubleError{e}
}

func cursorRefused(code string) bool {
	return code == "query.invalid_cursor" || code == "stream.cursor_expired"
}

// troubleError ends a connection after an aip.error frame. The frame speaks
// of this delivery, never of the action.
type troubleError struct{ e *aip.ProtocolError }

func (t *troubleError) Error() string {
	if t.e.Code == "" {
		return "the daemon sent an error without a code"
	}
	return "the daemon sent " + t.e.Code
}

func asked(err error) time.Duration {
	var t *troubleError
	if errors.As(err, &t) {
		return t.e.RetryAfter()
	}
	var remote *aip.RemoteError
	if errors.As(err, &remote) {
		return remote.Retry
	}
	return 0
}

func lostReason(err error) string {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection was cut"
	case errors.Is(err, io.EOF):
		return "the stream ended without a terminal mark"
	case errors.Is(err, idle.ErrSilent):
		return err.Error()
	}
	var t *troubleError
	var remote *aip.RemoteError
	if errors.As(err, &t) || errors.As(err, &remote) {
		return err.Error()
	}
	var w interface{ Reason() string }
	if errors.As(err, &w) {
		return w.Reason()
	}
	return "the connection failed"
}

// Pause waits for d, or ends early with the cause of ctx.
func Pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
