package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/follow"
	"github.com/aipctl/aipctl/internal/hermes"
	"github.com/aipctl/aipctl/internal/transcript"
)

// said knows where the stream has said words of the answer. A final event that
// repeats the whole text is text only where nothing said it before, and that may
// have been written by an earlier process.
type said struct {
	deltas bool
	delta  uint64                        // lowest sequence of a delta
	finals map[transcript.ItemRef]uint64 // lowest sequence of each final text
	looked bool                          // the chunks before this run's begin were looked at
}

// note takes what the chunk of a sequence means.
func (s *said) note(seq uint64, ops []transcript.Op) {
	for _, op := range ops {
		switch o := op.(type) {
		case transcript.Text:
			if o.Text != "" && (!s.deltas || seq < s.delta) {
				s.deltas, s.delta = true, seq
			}
		case transcript.FinalText:
			if s.finals == nil {
				s.finals = map[transcript.ItemRef]uint64{}
			}
			if at, known := s.finals[o.Item]; o.Text != "" && (!known || seq < at) {
				s.finals[o.Item] = seq
			}
		}
	}
}

// before reports whether the words of an item were said before a sequence.
func (s *said) before(seq uint64, ref transcript.ItemRef) bool {
	at, known := s.finals[ref]
	return s.deltas && s.delta < seq || known && at < seq
}

// unsaid leaves out of operations the final texts that were said before their
// chunk.
func (s *said) unsaid(seq uint64, ops []transcript.Op) []transcript.Op {
	return slices.DeleteFunc(slices.Clone(ops), func(op transcript.Op) bool {
		f, ok := op.(transcript.FinalText)
		return ok && s.before(seq, f.Item)
	})
}

// unsaid is what of a chunk is still to be shown. A run that began behind
// chunks which it has not seen looks at them first, once, where a final text
// depends on it. Where they cannot be read the text is shown: twice is better
// than never. An error is the context's.
func (r *run) unsaid(ctx context.Context, seq uint64, ops []transcript.Op) ([]transcript.Op, error) {
	final := slices.ContainsFunc(ops, func(op transcript.Op) bool {
		f, ok := op.(transcript.FinalText)
		return ok && f.Text != "" && !r.said.before(seq, f.Item)
	})
	if final && !r.said.looked && !r.silent && !r.fol.FromStart() {
		if err := r.lookBefore(ctx, seq); err != nil {
			return nil, err
		}
	}
	return r.said.unsaid(seq, ops), nil
}

// errFarEnough ends a look at earlier chunks.
var errFarEnough = errors.New("the chunks before were seen")

// lookBefore reads the stream up to a sequence by plain pages. The follower of
// the run is busy beside and is not touched; nor is what is read here evidence.
func (r *run) lookBefore(ctx context.Context, seq uint64) error {
	r.said.looked = true
	look := follow.New(r.cfg.Net, follow.Options{
		ActionID: r.id, IncludeChunks: true, Kinds: aip.LifecycleKinds,
		Idle: r.cfg.Idle, MaxEventBytes: r.cfg.MaxEventBytes, Jitter: r.cfg.Jitter, Echoes: r.cfg.Echoes,
	})
	err := look.Reread(ctx, func(it follow.Item) error {
		c, ok := it.(follow.Chunk)
		if !ok {
			return nil
		}
		if c.Chunk.Sequence >= seq {
			return errFarEnough
		}
		r.said.note(c.Chunk.Sequence, hermes.Chunk(c.Chunk))
		return nil
	})
	if err == nil || errors.Is(err, errFarEnough) {
		return nil
	}
	if ctx.Err() != nil {
		return err
	}
	return r.warn("page.unreadable", "whether the text of the last event was shown before cannot be read: "+err.Error())
}
