package engine

import (
	"context"
	"slices"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/follow"
	"github.com/aipctl/aipctl/internal/hermes"
	"github.com/aipctl/aipctl/internal/record"
	"github.com/aipctl/aipctl/internal/transcript"
	"github.com/aipctl/aipctl/internal/verdict"
)

// weigh compares what was streamed with what the aggregate retains, and adds
// from the aggregate what no stream delivered.
func (r *run) weigh(ctx context.Context, f found) error {
	if r.operation == "" {
		r.learnCapability(ctx, f)
	}
	res := f.result
	if res == nil || res.Output == nil || !res.Output.HasEvents {
		// The chunks are all the evidence there is, also of how a failure is
		// read: by its last named frame.
		needed := res != nil && r.publishes() && (res.Status == aip.StatusCompleted || !r.fol.FromStart())
		if err := r.reread(ctx, needed); err != nil {
			return err
		}
		r.holes(nil)
		return r.plainOutput(res)
	}
	m := r.match(f.frames)
	// Accepted is a statement about every chunk, so a come-back looks at those
	// that an earlier run has seen.
	unseen := res.Status == aip.StatusCompleted && !r.fol.FromStart()
	if len(m.differ) > 0 || m.countsDiffer || unseen {
		if err := r.reread(ctx, true); err != nil {
			return err
		}
		m = r.match(f.frames)
	}
	r.integrity.FrameDiffers, r.integrity.CountsDiffer = len(m.differ), m.countsDiffer
	for _, seq := range m.differ {
		if err := r.warn("integrity.frame", differText(seq)); err != nil {
			return err
		}
	}
	if m.byOrder {
		return nil
	}
	r.holes(f.frames)
	return r.fromAggregate(f.frames)
}

// reread reads the stream from its start, once, when the evidence needs it.
func (r *run) reread(ctx context.Context, needed bool) error {
	if !needed || r.fol == nil || r.fol.FromStart() && r.fol.Order().Count() > 0 {
		return nil
	}
	return r.pages(ctx, r.fol.Reread, "the stream could not be read from its start: ")
}

// match says how chunks and frames stand to each other.
type matching struct {
	byOrder      bool
	countsDiffer bool
	differ       []uint64
}

func (r *run) match(frames []aip.Frame) matching {
	var m matching
	seqs := make([]uint64, 0, len(r.frameDigest))
	for _, s := range r.fol.Order().Sequences() {
		if !r.synthetic[s] {
			seqs = append(seqs, s)
		}
	}
	n := uint64(len(frames))
	if len(seqs) == 0 || seqs[len(seqs)-1] < n {
		for _, s := range seqs {
			if d, ok := r.frameDigest[s]; ok && d != frames[s].Digest() {
				m.differ = append(m.differ, s)
			}
		}
		return m
	}
	m.byOrder = true
	if uint64(len(seqs)) != n {
		m.countsDiffer = true
		return m
	}
	for i, s := range seqs {
		if d, ok := r.frameDigest[s]; ok && d != frames[i].Digest() {
			m.differ = append(m.differ, s)
		}
	}
	return m
}

// holes counts the sequences between the lowest and the highest seen that
// neither a chunk nor a frame fills.
func (r *run) holes(frames []aip.Frame) {
	r.integrity.Holes = 0
	seqs := r.fol.Order().Sequences()
	for i := 1; i < len(seqs); i++ {
		for s := seqs[i-1] + 1; s < seqs[i]; s++ {
			if s >= uint64(len(frames)) {
				r.integrity.Holes++
				break // a hole of any size counts once
			}
		}
	}
}

// fromAggregate takes frames that no stream delivered as evidence, and shows
// those above the last sequence written. What lies below was passed with a
// gap, and its text is not put in later.
func (r *run) fromAggregate(frames []aip.Frame) error {
	if err := r.untold(len(frames)); err != nil {
		return err
	}
	last := r.fol.Order().Last()
	shown := 0
	for i := range frames {
		seq := uint64(i)
		if _, seen := r.fol.Order().Seen(seq); seen {
			continue
		}
		ops := hermes.Frame(&frames[i])
		r.evidence(seq, ops)
		if !r.chunks || last != nil && seq <= *last {
			continue
		}
		c := aip.Chunk{ActionID: r.id, Sequence: seq, Kind: frameKind(frames[i]), Frame: &frames[i]}
		if err := r.deliver(chunkRecord(&c, record.SourceAggregate), r.said.unsaid(seq, ops)); err != nil {
			return err
		}
		if hasText(ops) {
			shown++
		}
	}
	if shown > 0 {
		return r.warn("text.from_result", "text that no stream delivered was taken from the result")
	}
	return nil
}

// untold tells the gaps that only the result shows, which has so many frames:
// a stream may begin above its first sequence, and nothing but the frame says
// that something stood there.
func (r *run) untold(frames int) error {
	last := r.fol.Order().Last()
	if last == nil || !r.chunks || !r.fol.FromStart() {
		return nil
	}
	var passed []follow.Range
	for seq := uint64(0); seq < min(*last+1, uint64(frames)); seq++ {
		_, seen := r.fol.Order().Seen(seq)
		told := slices.ContainsFunc(r.passed, func(g follow.Range) bool { return g.From <= seq && seq <= g.To })
		switch n := len(passed); {
		case seen || told:
		case n > 0 && passed[n-1].To+1 == seq:
			passed[n-1].To = seq
		default:
			passed = append(passed, follow.Range{From: seq, To: seq})
		}
	}
	for _, g := range passed {
		if err := r.gap(g); err != nil {
			return err
		}
	}
	return nil
}

func hasText(ops []transcript.Op) bool {
	return slices.ContainsFunc(ops, func(op transcript.Op) bool { _, ok := op.(transcript.Text); return ok })
}

// frameKind is the chunk kind of a frame that only the aggregate shows.
func frameKind(f aip.Frame) string {
	if f.Terminal {
		return aip.KindDone
	}
	return aip.KindData
}

// publishes reports whether the operation publishes chunks: the streams do,
// and so does the operator, whose result retains none of them.
func (r *run) publishes() bool {
	return verdict.Streams(r.operation) || r.operation == "operator"
}

// plainOutput shows the result of an operation that does not stream.
func (r *run) plainOutput(res *aip.ActionResult) error {
	if res == nil || res.Output == nil || res.Output.Aggregate() || verdict.Streams(r.operation) {
		return nil
	}
	if res.Status == aip.StatusPendingApproval || res.Status == aip.StatusRequiresHuman {
		return nil // what a human is asked is no output of the action
	}
	object := res.Output.Object()
	ops := hermes.Object(r.operation, object)
	r.evidence(0, ops)
	if !r.chunks || r.fol.Order().Last() != nil {
		return nil // not asked for, or written by an earlier run
	}
	rec := record.Chunk{Head: record.NewHead(record.TypeChunk), Kind: aip.KindDone, Source: record.SourceResult, Data: object, Terminal: true}
	written := r.written
	err := r.deliver(rec, ops)
	if r.publishes() {
		// It publishes chunks beside its result, so no sequence was written.
		r.written = written
	}
	return err
}

// learnCapability finds out what an action is that no record names. The rules
// of the finish and of the codes depend on it, so where neither the state read
// so far nor the result tells, the state is asked for it.
func (r *run) learnCapability(ctx context.Context, f found) {
	r.operation = guessOperation(r.cap, f)
	if r.operation != "" || r.cap != "" {
		return
	}
	if st, err := r.cfg.Net.Status(ctx, r.id); err == nil {
		r.cap = st.CapabilityID
		r.operation = guessOperation(r.cap, f)
	}
}

// guessOperation is for actions that no record and no status names.
func guessOperation(capability string, f found) string {
	if _, op := capabilityParts(capability); op != "" {
		return op
	}
	if f.result != nil && f.result.Output != nil && f.result.Output.Operation != "" {
		return f.result.Output.Operation
	}
	for i := range f.frames {
		if op := hermes.FrameOperation(&f.frames[i]); op != "" {
			return op
		}
	}
	return ""
}
