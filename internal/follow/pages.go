package follow

import (
	"context"
	"errors"
	"fmt"

	"github.com/aipctl/aipctl/internal/aip"
)

func (f *Follower) event(e aip.Event, emit Emit) error {
	if e.Kind == aip.KindStreamChunk {
		return nil // stands beside its chunk and says nothing of its own
	}
	if e.ID != "" {
		if f.events[e.ID] {
			return nil
		}
		f.events[e.ID] = true
	}
	f.backoff.reset()
	return f.give(emit, Event{e})
}

// chunk puts one chunk in its place and hands out what can be handed out.
func (f *Follower) chunk(ctx context.Context, c *aip.Chunk, source string, emit Emit) error {
	if err := f.place(c, source, emit); err != nil {
		return err
	}
	if f.order.Holding() && source == sourceFollow {
		return f.fill(ctx, emit, false)
	}
	return nil
}

func (f *Follower) place(c *aip.Chunk, source string, emit Emit) error {
	place, out := f.order.Add(c)
	switch place {
	case Repeat:
		return f.give(emit, Duplicate{})
	case Past:
		f.backoff.reset()
		return f.give(emit, Chunk{Chunk: c, Source: source, Past: true})
	case Conflict, Stray, AboveTerminal:
		key := fmt.Sprintf("%d %s %d", place, c.ActionID, c.Sequence)
		old, _ := f.order.Seen(c.Sequence)
		first := !f.reported[key]
		f.reported[key] = true
		return f.give(emit, Contradiction{Place: place, Sequence: c.Sequence, ActionID: c.ActionID, Old: old, New: c.Digest(), FirstTime: first})
	case Held:
		f.backoff.reset()
		return nil
	}
	f.backoff.reset()
	return f.hand(out, source, emit)
}

func (f *Follower) hand(out []*aip.Chunk, source string, emit Emit) error {
	for _, c := range out {
		if err := f.give(emit, Chunk{Chunk: c, Source: source}); err != nil {
			return err
		}
	}
	return nil
}

// fill answers a hole at once with one read from the start, and passes over
// what that does not bring. A read that failed in passing has not shown what is
// missing: its error is returned and the hole stays, for the next connection
// to read again. Neither has a read that was refused, or that did not get as far
// as the chunk behind the hole: what is missing may still stand further down in
// this very page, so the hole stays open until its end, and last is set there.
func (f *Follower) fill(ctx context.Context, emit Emit, last bool) error {
	hole, _ := f.order.Hole()
	if !last && f.open != nil && *f.open == hole.From {
		return nil
	}
	f.open = nil
	seen := newProgress()
	err := f.pages(ctx, "", emit, reading{enough: func() bool { return !f.order.Holding() }, seen: seen})
	if err != nil && (isEmit(err) || ctx.Err() != nil || !Permanent(err)) {
		return err
	}
	if hole, holds := f.order.Hole(); holds && !last && (err != nil || !seen.reached(hole.To+1)) {
		f.open = &hole.From
		return nil
	}
	return f.pass(emit, err == nil)
}

// pass gives all holes up, lowest first. read says that the stream was read
// from its start: only then is what lies before its first chunk no hole.
func (f *Follower) pass(emit Emit, read bool) error {
	for f.order.Holding() {
		out, hole, begin := f.order.PassHole()
		if !begin || !read {
			if err := f.give(emit, Gap{hole}); err != nil {
				return err
			}
		}
		if err := f.hand(out, sourcePage, emit); err != nil {
			return err
		}
	}
	return nil
}

// reading says what a run over pages is for.
type reading struct {
	// enough ends the run early; nil reads to the end.
	enough func() bool
	// keep moves the follower's cursor along, page by page.
	keep bool
	// seen is filled with what the run brought; nil keeps that inside.
	seen *progress
}

// pages reads page after page from cursor until one is empty or brings
// nothing that this run has not seen.
func (f *Follower) pages(ctx context.Context, cursor string, emit Emit, r reading) error {
	const mostStale = 2
	seen := r.seen
	if seen == nil {
		seen = newProgress()
	}
	stale := 0
	for {
		page, err := f.page(ctx, cursor)
		var remote *aip.RemoteError
		if errors.As(err, &remote) && cursorRefused(remote.Code()) && cursor != "" {
			if err := f.give(emit, Restarted{remote.Code()}); err != nil {
				return err
			}
			cursor, f.fromStart = "", true
			continue
		}
		if err != nil {
			return err
		}
		if err := f.take(page, emit); err != nil {
			return err
		}
		if r.enough != nil && r.enough() {
			return nil
		}
		moved := page.Cursor != "" && page.Cursor != cursor
		if r.keep {
			if f.order.Holding() {
				if err := f.fill(ctx, emit, true); err != nil {
					return err
				}
			}
			if moved {
				f.cursor = page.Cursor
				if err := f.give(emit, Cursor{Value: page.Cursor, Last: f.order.Last()}); err != nil {
					return err
				}
			}
		}
		if len(page.Events) == 0 && len(page.Chunks) == 0 {
			return nil
		}
		if seen.advance(page) {
			stale = 0
		} else if stale++; !moved || stale == mostStale {
			return f.give(emit, Stuck{})
		}
		if moved {
			cursor = page.Cursor
		}
	}
}

// take hands out what a page brings.
func (f *Follower) take(page *aip.EventsPage, emit Emit) error {
	for i := range page.Events {
		if err := f.event(page.Events[i], emit); err != nil {
			return err
		}
	}
	for i := range page.Chunks {
		if err := f.place(&page.Chunks[i], sourcePage, emit); err != nil {
			return err
		}
	}
	return nil
}

// progress tells a page that moves on from one that repeats itself.
type progress struct {
	events map[string]bool
	any    bool
	high   uint64
}

func newProgress() *progress { return &progress{events: map[string]bool{}} }

// reached reports whether a chunk as high as seq was among what came.
func (p *progress) reached(seq uint64) bool { return p.any && p.high >= seq }

func (p *progress) advance(page *aip.EventsPage) bool {
	moved := false
	for _, e := range page.Events {
		if !p.events[e.ID] {
			p.events[e.ID] = true
			moved = true
		}
	}
	for _, c := range page.Chunks {
		if !p.any || c.Sequence > p.high {
			p.any, p.high = true, c.Sequence
			moved = true
		}
	}
	return moved
}

// page reads one page, and tries passing failures again a few times.
func (f *Follower) page(ctx context.Context, cursor string) (*aip.EventsPage, error) {
	const tries = 4
	wait := newBackoff(f.o.Jitter)
	for try := 1; ; try++ {
		page, err := f.src.Page(ctx, f.query(cursor), f.o.Decoding)
		if err == nil {
			return page, nil
		}
		if ctx.Err() != nil || try == tries || Permanent(err) {
			return nil, err
		}
		if err := Pause(ctx, wait.next(asked(err))); err != nil {
			return nil, err
		}
	}
}

// Drain reads on from the last cursor until a page brings nothing new. What
// waits behind a hole is handed out in the end. An error says that the rest
// could not be read; what was read before it stands.
func (f *Follower) Drain(ctx context.Context, emit Emit) error {
	return f.ended(ctx, f.last(ctx, f.pages(ctx, f.cursor, emit, reading{keep: true}), emit))
}

// last passes what still waits behind a hole when no further read is to come:
// better shown with a gap than not at all.
func (f *Follower) last(ctx context.Context, err error, emit Emit) error {
	if isEmit(err) || ctx.Err() != nil {
		return err
	}
	if perr := f.pass(emit, err == nil); perr != nil {
		return perr
	}
	return err
}

// Reread reads the whole stream from its start with plain pages, for evidence
// that a resumed follow has not seen. What was delivered before comes as
// Past, or not at all when it was seen.
func (f *Follower) Reread(ctx context.Context, emit Emit) error {
	err := f.pages(ctx, "", emit, reading{})
	if err == nil {
		f.fromStart = true
	}
	return f.ended(ctx, f.last(ctx, err, emit))
}

func (f *Follower) ended(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case isEmit(err):
		var e emitError
		errors.As(err, &e)
		return e.error
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return err
}
