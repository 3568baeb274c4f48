package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/cursor"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/follow"
	"github.com/aipctl/aipctl/internal/hermes"
	"github.com/aipctl/aipctl/internal/record"
	"github.com/aipctl/aipctl/internal/state"
	"github.com/aipctl/aipctl/internal/transcript"
	"github.com/aipctl/aipctl/internal/verdict"
)

// run is one action on its way. All of it belongs to the goroutine that
// called the engine; the follower and the submit work beside it and send.
type run struct {
	cfg       Config
	id        string
	cap       string
	key       string // idempotency key of the submit, as far as it is known
	keyless   bool   // the submit is known to have had none, so nothing can be replayed
	operation string
	chunks    bool // chunks were asked for
	started   time.Time

	fol    *follow.Follower
	keeper *cursor.Keeper
	script *transcript.Transcript

	written     *uint64 // last sequence that the sink has written
	frameDigest map[uint64]aip.Digest
	synthetic   map[uint64]bool // the connector's own close chunk: it has no frame
	toolStart   map[string]time.Time
	toolMS      map[string]int64
	said        said
	integrity   verdict.Integrity
	conflicts   map[uint64]bool
	lastNew     time.Time
	news        int           // chunks and events that were new
	sent        chan struct{} // closed once the submit was written in full; nil without one
	firstText   *time.Time
	terminal    bool
	reconnects  int
	duplicates  int
	gaps        int
	passed      []follow.Range // the gaps, as they were told
	cursorAt    string         // last cursor that a frame gave
	confirmed   bool           // effect checks have passed
	owner       string         // the action that holds this one's idempotency key, when another does
	over        bool           // no later read will say more
	until       time.Time      // when --wait ends; zero without a bound
	responseID  string
	asked       string // the stored response that the action reads or deletes
	approval    string // the approval that the action waits or waited for
	asking      string // the approval that an event of the action asked for
	reason      bool   // the policy of that approval wants a reason

	// amend adds to the outcome what only the command knows, before it is
	// recorded. It may change the exit code, and never the verdict.
	amend func(o *verdict.Outcome, res *aip.ActionResult)

	state    string // last lifecycle state read
	refused  bool   // the last read of the state was refused
	warnings []verdict.Warning

	// silent takes chunks as evidence and shows none of them.
	silent bool
	// stdout is the first error of the sink; nothing is delivered after it.
	stdout error
	// opened says that the daemon answered with a stream once, and lost why it
	// did not when last asked.
	opened bool
	lost   error
	// unkept says that no cursor is kept, for want of a state file.
	unkept bool
	// saveFailed says that the state file could not take a record.
	saveFailed bool
}

func newRun(cfg Config, id, capability, operation string, chunks bool) *run {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &run{
		cfg: cfg, id: id, cap: capability, operation: operation, chunks: chunks,
		started: cfg.Now(), script: transcript.New(),
		frameDigest: map[uint64]aip.Digest{}, synthetic: map[uint64]bool{}, conflicts: map[uint64]bool{},
		toolStart: map[string]time.Time{}, toolMS: map[string]int64{},
	}
}

// listen prepares the follower and the cursor of this run.
func (r *run) listen(at string, begin follow.Begin) {
	kinds := aip.LifecycleKinds
	if !r.chunks {
		kinds = nil
	}
	r.written = begin.Written
	r.cursorAt = at
	r.fol = follow.New(r.cfg.Net, follow.Options{
		ActionID: r.id, Cursor: at, Begin: begin, IncludeChunks: r.chunks, Kinds: kinds,
		Idle: r.cfg.Idle, MaxEventBytes: r.cfg.MaxEventBytes, Decoding: aip.Decoding{Raw: r.cfg.Raw}, Jitter: r.cfg.Jitter, Echoes: r.cfg.Echoes,
	})
	if r.cfg.Journal != nil {
		var opts []cursor.Option
		if at != "" || begin.Written != nil {
			opts = append(opts, cursor.From(at, begin.Written))
		}
		r.keeper = cursor.NewKeeper(r.cfg.Binding, r.cfg.Journal, opts...)
	}
	r.unkept = r.keeper == nil
}

// sayCursor prints the last cursor where it could not be kept, so that it can
// be given by hand.
func (r *run) sayCursor() {
	if r.cursorAt != "" && (r.unkept || r.saveFailed) {
		_ = r.warn("cursor.unkept", "the position is not kept; go on from here with --from "+r.cursorAt)
	}
}

// announce shows what the action is called, and what was known to be amiss
// before the run.
func (r *run) announce() error {
	if err := r.show(r.cfg.Sink.Identity(r.identity())); err != nil {
		return err
	}
	for _, w := range r.cfg.Warnings {
		if err := r.warn(w.Code, w.Message); err != nil {
			return err
		}
	}
	return nil
}

// item takes one item of the follower. An error is the sink's or the
// context's, and ends the reading.
func (r *run) item(ctx context.Context, it follow.Item) error {
	switch x := it.(type) {
	case follow.Opened:
		r.opened = true
		return r.show(r.cfg.Sink.State(record.State{Head: record.NewHead(record.TypeState), State: record.StateFollowing, Attempt: x.Attempt}))
	case follow.Lost:
		r.reconnects++
		r.lost = x.Err
		return r.show(r.cfg.Sink.State(record.State{
			Head: record.NewHead(record.TypeState), State: record.StateReconnecting, Attempt: x.Attempt, Reason: x.Reason, WaitMS: x.Wait.Milliseconds(),
		}))
	case follow.Chunk:
		r.fresh()
		return r.chunk(ctx, x)
	case follow.Event:
		r.fresh()
		e := x.Event
		r.approvalEvent(e)
		return r.show(r.cfg.Sink.Event(record.Event{Head: record.NewHead(record.TypeEvent), ID: e.ID, Kind: e.Kind, OccurredAt: e.OccurredAt, Data: e.Data}))
	case follow.Cursor:
		if r.stdout != nil {
			return nil // what stood before it was not written
		}
		r.cursorAt = x.Value
		return r.moved(ctx)
	case follow.Terminal:
		r.terminal = true
		return nil
	case follow.Gap:
		return r.gap(x.Range)
	case follow.Contradiction:
		return r.contradiction(x)
	case follow.Duplicate:
		r.duplicates++
	case follow.Restarted:
		return r.warn("cursor.refused", "the saved position was not taken ("+x.Code+"); reading from the start")
	case follow.Trouble:
		return r.warn("follow.error", "the stream reported "+orElse(x.Err.Code, "an error without a code")+"; this is about the delivery, not about the action")
	case follow.Stuck:
		return r.warn("page.stuck", "a page repeats itself; the rest of the stream cannot be read by paging")
	case follow.Unread:
		return r.warn("frame.unread", "a stream frame could not be read and was passed over")
	}
	return nil
}

func (r *run) fresh() {
	r.lastNew = r.cfg.Now()
	r.news++
}

// chunk shows one chunk and takes it as evidence.
func (r *run) chunk(ctx context.Context, x follow.Chunk) error {
	c := x.Chunk
	ops := hermes.Chunk(c)
	if c.Frame != nil {
		r.frameDigest[c.Sequence] = c.Frame.Digest()
	} else if slices.ContainsFunc(ops, func(op transcript.Op) bool { _, ok := op.(transcript.Closed); return ok }) {
		r.synthetic[c.Sequence] = true
	}
	r.evidence(c.Sequence, ops)
	if err := r.noteResponse(ctx); err != nil {
		return err
	}
	if x.Past {
		return nil
	}
	shown, err := r.unsaid(ctx, c.Sequence, ops)
	if err != nil {
		return err
	}
	return r.deliver(chunkRecord(c, x.Source), shown)
}

func chunkRecord(c *aip.Chunk, source string) record.Chunk {
	rec := record.Chunk{Head: record.NewHead(record.TypeChunk), Sequence: c.Sequence, Kind: c.Kind, Source: source, Data: c.Data}
	if f := c.Frame; f != nil {
		rec.Event, rec.ID, rec.Data, rec.Terminal, rec.RawData = f.Event, f.ID, f.Data, f.Terminal, f.Raw
	}
	return rec
}

// evidence applies what a chunk means to the transcript.
func (r *run) evidence(seq uint64, ops []transcript.Op) {
	r.script.Apply(seq, ops)
	r.said.note(seq, ops)
	now := r.cfg.Now()
	for _, op := range ops {
		if t, ok := op.(transcript.Tool); ok && t.CallID != "" {
			if t.Status == transcript.ToolRunning {
				if _, known := r.toolStart[t.CallID]; !known {
					r.toolStart[t.CallID] = now
				}
			} else if at, known := r.toolStart[t.CallID]; known {
				r.toolMS[t.CallID] = now.Sub(at).Milliseconds()
			}
		}
	}
}

// gap tells that a run of sequences was passed.
func (r *run) gap(passed follow.Range) error {
	r.gaps++
	r.passed = append(r.passed, passed)
	return r.show(r.cfg.Sink.Gap(record.Gap{Head: record.NewHead(record.TypeGap), From: passed.From, To: passed.To}))
}

// deliver shows a chunk; the cursor may pass it only after this.
func (r *run) deliver(rec record.Chunk, ops []transcript.Op) error {
	if r.stdout != nil || r.silent {
		return nil
	}
	if err := r.show(r.cfg.Sink.Deliver(record.Delivery{Chunk: rec, Ops: ops})); err != nil || r.stdout != nil {
		return err
	}
	seq := rec.Sequence
	r.written = &seq
	if r.firstText == nil {
		for _, op := range ops {
			if t, ok := op.(transcript.Text); ok && t.Text != "" {
				now := r.cfg.Now()
				r.firstText = &now
				break
			}
		}
	}
	return nil
}

// moved keeps the cursor, when everything before it was written.
func (r *run) moved(ctx context.Context) error {
	if r.keeper == nil || r.stdout != nil || r.cfg.CursorAtEnd {
		return nil
	}
	if err := r.keeper.Move(ctx, r.cursorAt, r.written); err != nil {
		return r.stateTrouble(err)
	}
	return nil
}

// noteResponse puts the response id into the state file as soon as it is
// known, before the next item is shown: it is the key to reconciling.
func (r *run) noteResponse(ctx context.Context) error {
	if r.responseID != "" {
		return nil
	}
	id := r.script.ResponseID()
	if id == "" {
		return nil
	}
	r.responseID = id
	return r.append(ctx, true, state.Record{Type: state.TypeResponse, ActionID: r.id, Response: &state.Response{ResponseID: id, Endpoint: endpointOf(r.cap)}})
}

func (r *run) contradiction(x follow.Contradiction) error {
	what := ""
	switch x.Place {
	case follow.Conflict:
		if !r.conflicts[x.Sequence] {
			r.conflicts[x.Sequence] = true
			r.integrity.Conflicts++
		}
		what = fmt.Sprintf("chunk %d came again with another content (%s, then %s); the first is kept", x.Sequence, x.Old, x.New)
	case follow.Stray:
		r.integrity.Strays++
		what = fmt.Sprintf("a chunk of another action (sequence %d) was delivered; it is not shown", x.Sequence)
	case follow.AboveTerminal:
		r.integrity.AboveTerminal++
		what = fmt.Sprintf("chunk %d contradicts the terminal chunk; it is not shown", x.Sequence)
	}
	if !x.FirstTime {
		return nil
	}
	return r.warn("integrity.conflict", what)
}

// warn shows a warning, once for each text, and keeps it for the outcome.
func (r *run) warn(code, message string) error {
	w := verdict.Warning{Code: code, Message: message}
	if slices.Contains(r.warnings, w) {
		return nil
	}
	r.warnings = append(r.warnings, w)
	return r.show(r.cfg.Sink.Warning(record.Warning{Head: record.NewHead(record.TypeWarning), Code: code, Message: message}))
}

// show takes the sink's answer. A stdout that cannot take everything does not
// end the run, for the action's verdict is still wanted; a reader that has
// gone ends it.
func (r *run) show(err error) error {
	if err == nil {
		return nil
	}
	if r.stdout == nil {
		r.stdout = err
	}
	if fault.ClassOf(err) == fault.Output {
		return nil
	}
	return err
}

// append writes records; failing to is a warning once the submit has left. What
// a signal cuts short is written after it.
func (r *run) append(ctx context.Context, durable bool, recs ...state.Record) error {
	if r.cfg.Journal == nil {
		return nil
	}
	err := r.cfg.Journal.Append(ctx, durable, recs...)
	if signal := fault.As(context.Cause(ctx)); err != nil && signal != nil {
		last, done := lastly(ctx)
		defer done()
		err = r.cfg.Journal.Append(last, durable, recs...)
	}
	if err != nil {
		return r.stateTrouble(err)
	}
	return nil
}

func (r *run) stateTrouble(err error) error {
	r.saveFailed = true
	msg := "the state file cannot take a record"
	if f := fault.As(err); f != nil {
		msg = f.Message
	}
	return r.warn("state.write", msg+"; the run goes on, and the last cursor is printed at its end")
}

// lastly gives what is written after a signal its own short time.
func lastly(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), lastWords)
}

// flush saves the cursor exactly: everything written is behind it.
func (r *run) flush(ctx context.Context) {
	if r.keeper == nil {
		return
	}
	c, done := lastly(ctx)
	defer done()
	// Errors are warnings, and the sink may be gone: the outcome tells.
	if err := r.keeper.Move(c, r.cursorAt, r.written); err != nil {
		_ = r.stateTrouble(err)
		return
	}
	if err := r.keeper.Flush(c); err != nil {
		_ = r.stateTrouble(err)
	}
}

// signalOf is the class of the signal that ended ctx; 0 when it ended
// otherwise or goes on.
func signalOf(ctx context.Context) fault.Class {
	if ctx.Err() == nil {
		return 0
	}
	var f *fault.Error
	if errors.As(context.Cause(ctx), &f) {
		return f.Class
	}
	return fault.Interrupt
}

func endpointOf(capability string) string {
	e, _ := capabilityParts(capability)
	return e
}

// orElse is s, or what to say instead where it is empty.
func orElse(s, instead string) string {
	if s == "" {
		return instead
	}
	return s
}
