package engine

import (
	"context"
	"errors"

	"github.com/aipctl/aipctl/internal/follow"
)

// feed runs the follower beside the run. Every item it emits is taken by the
// run: a chunk that the order has counted must not get lost on the way.
type feed struct {
	items chan follow.Item
	done  chan error
	stop  context.CancelFunc
	ended bool
	err   error // why the follower ended; nil after a terminal mark
}

func (r *run) startFeed(ctx context.Context) *feed {
	fctx, cancel := context.WithCancelCause(ctx)
	f := &feed{items: make(chan follow.Item), done: make(chan error, 1), stop: func() { cancel(errFeedStopped) }}
	go func() {
		f.done <- r.fol.Run(fctx, func(it follow.Item) error {
			f.items <- it
			return nil
		})
		close(f.items)
	}()
	return f
}

var errFeedStopped = errors.New("the stream is no longer followed")

// finish notes the follower's end.
func (f *feed) finish() {
	if !f.ended {
		f.ended = true
		f.err = <-f.done
	}
}

// halt stops the follower and takes what it had still in hand. take may be
// nil to drop it: nothing dropped counts as written.
func (f *feed) halt(take func(follow.Item) error) error {
	f.stop()
	var first error
	for it := range f.items {
		if take != nil && first == nil {
			first = take(it)
		}
	}
	f.finish()
	return first
}

// closedItems is the feed of a run that does not follow.
func closedItems() chan follow.Item {
	c := make(chan follow.Item)
	close(c)
	return c
}
