package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/follow"
	"github.com/aipctl/aipctl/internal/record"
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
		if c.replyDecides(w) {
			w.note("result") // the record must not depend on what came first
		}
	}
	// A reply that holds the outcome stands, though the wait ran out while more
	// of the stream was hoped for.
	if end == atWaitsEnd && !c.replyDecides(w) {
		open := c.reply == nil
		reading, why := c.waitedOut(ctx, open)
		if open || !aip.TerminalState(c.state) {
			if err := c.unstreamed(ctx, f, w.plan.Wait); err != nil {
				return c.interrupted(ctx)
			}
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
	if p := ev.ReplyError; p != nil {
		c.owner = c.keyOwner(p)
	}
	return c.finish(ctx, o, &finishing{closed: reading.Closed})
}

// replyOwner is the action that holds the idempotency key which an error reply
// says is in use; empty for any other error.
func replyOwner(err error) string {
	var remote *aip.RemoteError
	if !errors.As(err, &remote) {
		return ""
	}
	return remote.Proto.DetailString("owner_action_id")
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

// settle judges what was found and ends the run.
func (r *run) settle(ctx context.Context, f found) *verdict.Outcome {
	if signalOf(ctx) != 0 {
		return r.interrupted(ctx)
	}
	if f.result == nil && f.state == "" {
		return r.undecided(ctx, f.reading, f.why)
	}
	if r.foreign(f.result) {
		// Nothing of it is this action's: it is neither shown nor compared.
		r.integrity.ForeignResult = true
	} else if err := r.weigh(ctx, f); err != nil {
		return r.interrupted(ctx)
	}
	if _, stored := storedStem(r.cap); !stored {
		_ = r.noteResponse(ctx) // of an operation that has no stream to say it
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

// foreign reports whether a result is another action's. A replay is not: it is
// the first result of an idempotency key, says so, and needs a key.
func (r *run) foreign(res *aip.ActionResult) bool {
	if res == nil || res.ActionID == "" || res.ActionID == r.id {
		return false
	}
	return r.keyless || !replayed(res)
}

func replayed(res *aip.ActionResult) bool { return len(res.Output.Member("idempotent_replay")) > 0 }

// judgeEffects judges, and where everything else has passed lets the effect
// checks speak too.
func (r *run) judgeEffects(ctx context.Context, ev verdict.Evidence) verdict.Judgement {
	if r.cfg.EffectChecks == nil {
		ev.EffectChecks = r.cfg.RecordedChecks
		j := r.judge(ev)
		r.confirmed = j.Checks.EffectCheck == verdict.Pass
		return j
	}
	j := r.judge(ev)
	var sofar *verdict.Outcome
	if j.Verdict == fault.Accepted {
		sofar = r.outcome(j)
		sofar.Warnings = slices.Clone(r.warnings)
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
