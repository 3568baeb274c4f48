package follow

import (
	"sort"

	"github.com/aipctl/aipctl/internal/aip"
)

// Place says what the order makes of one chunk.
type Place int

// The places of a chunk.
const (
	// Next is delivered now; so is everything that was held behind it.
	Next Place = iota
	// Held waits for a lower sequence.
	Held
	// Repeat has the content that was already seen; it is silent.
	Repeat
	// Past lies below what was delivered: evidence, but no longer text.
	Past
	// Conflict has another content than the one first seen, which stays.
	Conflict
	// Stray belongs to another action and is never shown.
	Stray
	// AboveTerminal lies above a chunk that closed the log.
	AboveTerminal
)

// Order puts the chunks of one action into sequence order. It is a pure value
// with a method per input: no clock, no network.
//
// Invariant: each sequence is delivered at most once, in rising order, and the
// content first seen of a sequence is never replaced.
type Order struct {
	action   string
	seen     map[uint64]aip.Digest
	held     map[uint64]*aip.Chunk
	started  bool
	anywhere bool   // the first chunk begins the delivery, whatever its sequence
	last     uint64 // highest sequence delivered or passed over, when started
	terminal *uint64
	highest  uint64
}

// Begin says where the delivery begins.
type Begin struct {
	// Written is the last sequence that an earlier run has written out; it and
	// all below are past. nil when there is none.
	Written *uint64
	// Anywhere begins with whatever comes first, for a cursor that a person
	// gave by hand: what lies before it was not asked for.
	Anywhere bool
}

// NewOrder returns an order for one action.
func NewOrder(action string, b Begin) *Order {
	o := &Order{action: action, anywhere: b.Anywhere, seen: map[uint64]aip.Digest{}, held: map[uint64]*aip.Chunk{}}
	if b.Written != nil {
		o.started, o.last = true, *b.Written
	}
	return o
}

// Add takes one chunk as it came. out are the chunks to deliver now, in
// order: none unless the place is Next.
func (o *Order) Add(c *aip.Chunk) (place Place, out []*aip.Chunk) {
	if c.ActionID != "" && c.ActionID != o.action {
		return Stray, nil
	}
	d := c.Digest()
	if old, ok := o.seen[c.Sequence]; ok {
		if old == d {
			return Repeat, nil
		}
		return Conflict, nil
	}
	if o.terminal != nil && c.Sequence > *o.terminal {
		return AboveTerminal, nil
	}
	above := c.Terminal() && len(o.seen) > 0 && o.highest > c.Sequence
	o.seen[c.Sequence] = d
	o.highest = max(o.highest, c.Sequence)
	if c.Terminal() {
		s := c.Sequence
		o.terminal = &s
	}
	switch {
	case above:
		// What stands above was delivered before the mark came: the log
		// contradicts itself all the same.
		return AboveTerminal, nil
	case o.started && c.Sequence <= o.last:
		return Past, nil
	case o.started && c.Sequence != o.last+1, !o.started && c.Sequence != 0 && !o.anywhere:
		o.held[c.Sequence] = c
		return Held, nil
	}
	o.started, o.last = true, c.Sequence
	return Next, append([]*aip.Chunk{c}, o.release()...)
}

// release takes the held chunks that now follow without a hole.
func (o *Order) release() []*aip.Chunk {
	var out []*aip.Chunk
	for {
		c, ok := o.held[o.last+1]
		if !ok {
			return out
		}
		delete(o.held, c.Sequence)
		o.last = c.Sequence
		out = append(out, c)
	}
}

// Range is a run of sequences, both ends included.
type Range struct{ From, To uint64 }

// Hole is the run of sequences that holds chunks back; ok is false when none
// does. Before the first delivery it begins at 0, because a stream may begin
// higher, and only a read from the start can tell.
func (o *Order) Hole() (r Range, ok bool) {
	if len(o.held) == 0 {
		return Range{}, false
	}
	low := o.lowestHeld()
	if !o.started {
		return Range{0, low - 1}, true
	}
	return Range{o.last + 1, low - 1}, true
}

// PassHole gives the hole up and delivers what it held back, up to the next
// hole. begin is true when the hole lay before the first chunk ever seen: the
// stream simply begins there, and nothing is missing.
func (o *Order) PassHole() (out []*aip.Chunk, hole Range, begin bool) {
	hole, ok := o.Hole()
	if !ok {
		return nil, Range{}, false
	}
	begin = !o.started
	o.started, o.last = true, hole.To
	return o.release(), hole, begin
}

func (o *Order) lowestHeld() uint64 {
	low, first := uint64(0), true
	for s := range o.held {
		if first || s < low {
			low, first = s, false
		}
	}
	return low
}

// Last is the highest sequence delivered or passed over; nil before the first.
func (o *Order) Last() *uint64 {
	if !o.started {
		return nil
	}
	l := o.last
	return &l
}

// Holding reports whether some chunk waits for a lower one.
func (o *Order) Holding() bool { return len(o.held) > 0 }

// Seen returns the digest of a sequence's first content.
func (o *Order) Seen(seq uint64) (aip.Digest, bool) {
	d, ok := o.seen[seq]
	return d, ok
}

// Sequences returns all sequences seen, ascending.
func (o *Order) Sequences() []uint64 {
	out := make([]uint64, 0, len(o.seen))
	for s := range o.seen {
		out = append(out, s)
	}
	sort.Slice(out, func(i, j int) bool { return out[i] < out[j] })
	return out
}

// Count is the number of sequences seen.
func (o *Order) Count() int { return len(o.seen) }

// Terminal is the sequence of the terminal chunk; nil when none was seen.
func (o *Order) Terminal() *uint64 { return o.terminal }
