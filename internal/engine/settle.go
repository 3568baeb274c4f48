package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/client"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/follow"
	"github.com/aipctl/aipctl/internal/hermes"
	"github.com/aipctl/aipctl/internal/record"
	"github.com/aipctl/aipctl/internal/transcript"
	"github.com/aipctl/aipctl/internal/verdict"
)

// settleCall turns the end of the waiting into the outcome.
func (c *call) settleCall(f *feed, w *wait, end ending) *verdict.Outcome {
	ctx := w.ctx
	if end == atSignal {
		_ = f.halt(nil)
		return c.interrupted(ctx)
	}
	take := func(it any) error { return c.item(ctx, it) }
	if err := f.halt(take); err != nil {
		return c.interrupted(ctx)
	}
	if w.reading != nil && w.reading.NotSent && end == atClosed {
		return c.rejected(ctx, w.reading)
	}
	// Where the stream has ended before the reply came, the reply may still say
	// that the action is not this call's: the id was taken by another one.
	if end == atTerminal && c.reply == nil {
		c.awaitReply(ctx)
		if reading := c.refusal(); reading != nil {
			return c.rejected(ctx, reading)
		}
	}
	// A reply that holds the outcome stands, though the wait ran out while more
	// of the stream was hoped for.
	if end == atWaitsEnd && !c.replyDecides(w) {
		open := c.reply == nil
		reading, why := c.waitedOut(ctx, open)
		if open || !aip.TerminalState(c.state) {
			return c.undecided(ctx, reading, why)
		}
	}
	if err := c.drain(ctx); err != nil {
		return c.interrupted(ctx)
	}
	if w.reading != nil {
		return c.closed(ctx, w.reading)
	}
	return c.settle(ctx, c.findResult(ctx, w))
}

// replyDecides reports whether the reply alone says how the action ended.
func (c *call) replyDecides(w *wait) bool {
	if w.reading != nil {
		return true
	}
	if c.reply == nil || c.reply.err != nil || c.reply.body.Result == nil {
		return false
	}
	switch c.reply.body.Result.Status {
	case aip.StatusPendingApproval, aip.StatusRequiresHuman:
		return false
	}
	return !w.followOn(c.reply.body.Result)
}

// refusal is the reading of a reply that says that nothing ran because of this
// call; nil for any other.
func (c *call) refusal() *verdict.SubmitReading {
	if c.reply == nil || c.reply.err == nil {
		return nil
	}
	reading := c.answer(c.reply.err)
	if !reading.Settled || !reading.NotSent {
		return nil
	}
	return &reading
}

// rejected ends a call whose answer says that nothing ran.
func (c *call) rejected(ctx context.Context, reading *verdict.SubmitReading) *verdict.Outcome {
	code, why := "submit.refused", c.reply.err.Error()
	var remote *aip.RemoteError
	if errors.As(c.reply.err, &remote) && remote.Code() != "" {
		code = remote.Code()
	}
	switch {
	case reading.Skew != 0:
		why = "the daemon refused the time of the request: its clock is " + skewText(reading.Skew) + " ours; set this machine's clock"
	case verdict.EndpointCredential(code):
		why = "the endpoint's own credential was refused or is missing; this is not the caller's token"
	}
	return c.notSent(ctx, reading.Reading, code, why)
}

func skewText(d time.Duration) string {
	if d < 0 {
		return (-d).Round(time.Second).String() + " behind"
	}
	return d.Round(time.Second).String() + " ahead of"
}

// closed settles from an error reply: no later read will ever say more.
func (c *call) closed(ctx context.Context, reading *verdict.SubmitReading) *verdict.Outcome {
	ev := verdict.Evidence{Reply: reading}
	var remote *aip.RemoteError
	if errors.As(c.reply.err, &remote) {
		ev.ReplyError = remote.Proto
	}
	c.holes(nil)
	o := c.outcome(c.judge(ev))
	if p := ev.ReplyError; p != nil {
		o.ErrorCode, o.UncertainOutcome = p.Code, p.Uncertain()
	}
	return c.finish(ctx, o, &finishing{closed: true})
}

// undecided ends a run without a result.
func (r *run) undecided(ctx context.Context, reading verdict.Reading, why string) *verdict.Outcome {
	o := r.outcome(r.judge(verdict.Evidence{Unsettled: reading}))
	o.Reason = why
	return r.finish(ctx, o, nil)
}

// drain reads on after the terminal mark. Only a signal or a lost reader is
// an error: pages that cannot be read are a warning.
func (r *run) drain(ctx context.Context) error {
	_ = r.show(r.cfg.Sink.State(record.State{Head: record.NewHead(record.TypeState), State: record.StateDraining}))
	return r.pages(ctx, r.fol.Drain, "the end of the stream could not be read by paging: ")
}

func (r *run) pages(ctx context.Context, read func(context.Context, follow.Emit) error, what string) error {
	var own error
	err := read(ctx, func(it any) error {
		own = r.item(ctx, it)
		return own
	})
	switch {
	case err == nil:
		return nil
	case own != nil, ctx.Err() != nil:
		return err
	}
	_ = r.warn("page.unreadable", what+err.Error())
	return nil
}

// found is what reading the result came to.
type found struct {
	result *aip.ActionResult
	frames []aip.Frame
	state  string // a terminal state without a readable result
	// reading and why are set when there is neither.
	reading verdict.Reading
	why     string
	refused bool // the daemon refused to let us read
}

// findResult takes the result from the reply, or reads it.
func (c *call) findResult(ctx context.Context, w *wait) found {
	if c.reply != nil && c.reply.err == nil && c.reply.body.Result != nil {
		res := c.reply.body.Result
		pending := res.Status == aip.StatusPendingApproval || res.Status == aip.StatusRequiresHuman
		if !w.followOn(res) && !(pending && aip.TerminalState(c.state)) {
			return found{result: res, frames: c.reply.frames}
		}
	}
	return c.readResult(ctx, 0)
}

// awaitReply gives the reply a moment: the action is terminal, so it is on
// its way, and it spares a second reading of a result that may be large.
func (c *call) awaitReply(ctx context.Context) {
	limit := time.NewTimer(replyGrace)
	defer limit.Stop()
	select {
	case rep := <-c.replyc:
		c.reply = &rep
	case <-limit.C:
	case <-ctx.Done():
	}
}

// resultTries bounds the reads of a result that should be there.
const resultTries = 6

// readResult reads the stored result. A state that is terminal without a
// result settles from the state; patience is how long a result that is not
// ready is waited for.
func (r *run) readResult(ctx context.Context, patience time.Duration) found {
	_ = r.show(r.cfg.Sink.State(record.State{Head: record.NewHead(record.TypeState), State: record.StateSettling}))
	deadline := r.cfg.Now().Add(patience)
	delay := pollFirst / 2
	passing := 0
	for {
		var frames []aip.Frame
		res, err := r.cfg.Net.Result(ctx, r.id, collect(&frames))
		if err == nil {
			return found{result: res, frames: frames}
		}
		if ctx.Err() != nil {
			return found{reading: fault.Unknown, why: "stopped before the result was read"}
		}
		f, again := r.noResult(ctx, err)
		if !again {
			return f
		}
		passing++
		if passing >= resultTries && !r.cfg.Now().Before(deadline) {
			return f
		}
		if pause(ctx, delay) != nil {
			return f
		}
		delay = min(delay*2, pollMost)
	}
}

// noResult reads the answer of a result route that gave none. again asks for
// another try.
func (r *run) noResult(ctx context.Context, err error) (f found, again bool) {
	var large *client.TooLargeError
	var remote *aip.RemoteError
	switch {
	case errors.As(err, &large):
		_ = r.warn("result.too_large", large.Error()+"; the action is judged by what else can be read")
		return r.byState(ctx, "the result is too large to be read", true), false
	case !errors.As(err, &remote):
		return r.byState(ctx, "the result could not be read: "+err.Error(), true), true
	}
	switch code := remote.Code(); {
	case remote.Status == 401 || remote.Status == 403:
		return found{reading: fault.Unknown, why: "reading the result was refused: " + remote.Error(), refused: true}, false
	case code == "action.gone" || code == "action.dead_lettered":
		return r.byState(ctx, "no result is stored: "+code, false), false
	case code == "action.result_not_ready", code == "action.not_found":
		f := r.byState(ctx, "no result is stored: "+code, true)
		// Cancelled while queued: no result will ever come. Any other
		// terminal state has one on its way.
		again := f.state != aip.StateCancelled && f.state != aip.StateExpired && (r.terminal || aip.TerminalState(r.state))
		return f, again
	case remote.Status >= 500 || remote.Status == 408 || remote.Status == 429:
		return r.byState(ctx, "the result could not be read: "+remote.Error(), true), true
	}
	return r.byState(ctx, "the result could not be read: "+remote.Error(), true), false
}

// byState looks whether the lifecycle state settles what the result does not.
// A failure whose result may be stored and was not read is not settled: its
// code, which decides, stands there.
func (r *run) byState(ctx context.Context, why string, maybeStored bool) found {
	r.state = ""
	_ = r.readState(ctx)
	f := found{why: why}
	switch r.state {
	case aip.StateDeadLettered, aip.StateFailed:
		if maybeStored {
			f.reading = fault.Unknown
			f.why += "; the state is " + r.state + ", and how it failed is not known"
			break
		}
		f.state = r.state
	case aip.StateCancelled, aip.StateExpired, aip.StateCompleted:
		f.state = r.state
	case aip.StateQueued, aip.StateRunning, aip.StateStreaming, aip.StatePendingApproval, aip.StateAccepted, aip.StateCancelling:
		f.reading = fault.Pending
		f.why = "the action's state is " + r.state
	default:
		f.reading = fault.Unknown
	}
	return f
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// settle judges what was found and ends the run.
func (r *run) settle(ctx context.Context, f found) *verdict.Outcome {
	if signalOf(ctx) != 0 {
		return r.interrupted(ctx)
	}
	if f.result == nil && f.state == "" {
		return r.undecided(ctx, f.reading, f.why)
	}
	if err := r.weigh(ctx, f); err != nil {
		return r.interrupted(ctx)
	}
	for _, t := range r.script.Facts().Texts {
		if t.Differs {
			_ = r.warn("text.differs", "an item's deltas do not add up to the text that the provider gave for it")
		}
	}
	ev := verdict.Evidence{Result: f.result, State: f.state}
	o := r.outcome(r.judgeEffects(ctx, ev))
	if signalOf(ctx) != 0 {
		return r.interrupted(ctx)
	}
	if f.result == nil {
		o.Reason = f.why
	}
	return r.finish(ctx, o, &finishing{result: f.result})
}

// judgeEffects judges, and where everything else has passed lets the effect
// checks speak too.
func (r *run) judgeEffects(ctx context.Context, ev verdict.Evidence) verdict.Judgement {
	ev.EffectChecks = r.cfg.RecordedChecks
	j := r.judge(ev)
	if r.cfg.EffectChecks == nil {
		r.confirmed = j.Checks.EffectCheck == verdict.Pass
		return j
	}
	var sofar *verdict.Outcome
	if j.Verdict == fault.Accepted {
		sofar = r.outcome(j)
		if ev.Result != nil {
			r.describe(sofar, ev.Result)
		}
	}
	// Without an outcome so far, they are asked only how many they are.
	ev.EffectChecks = r.cfg.EffectChecks(ctx, sofar)
	j = r.judge(ev)
	r.confirmed = j.Checks.EffectCheck == verdict.Pass
	return j
}

// weigh compares what was streamed with what the aggregate retains, and adds
// from the aggregate what no stream delivered.
func (r *run) weigh(ctx context.Context, f found) error {
	if r.operation == "" {
		r.learnCapability(ctx, f)
	}
	res := f.result
	if res == nil || res.Output == nil || !res.Output.HasEvents {
		if err := r.reread(ctx, res != nil && res.Status == aip.StatusCompleted && verdict.Streams(r.operation)); err != nil {
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
		if err := r.deliver(chunkRecord(&c, record.SourceAggregate), ops); err != nil {
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

// plainOutput shows the result of an operation that does not stream.
func (r *run) plainOutput(res *aip.ActionResult) error {
	if res == nil || res.Output == nil || res.Output.Aggregate() || verdict.Streams(r.operation) {
		return nil
	}
	object := res.Output.Object()
	ops := hermes.Object(r.operation, object)
	r.evidence(0, ops)
	if !r.chunks || r.fol.Order().Last() != nil {
		return nil // not asked for, or written by an earlier run
	}
	rec := record.Chunk{Head: record.NewHead(record.TypeChunk), Kind: aip.KindDone, Source: record.SourceResult, Data: object, Terminal: true}
	return r.deliver(rec, ops)
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
		for _, op := range hermes.Frame(&f.frames[i]) {
			switch op.(type) {
			case transcript.Response:
				return "responses_stream"
			case transcript.Finish:
				return "chat_stream"
			}
		}
	}
	return ""
}
