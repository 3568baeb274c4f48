package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/record"
	"github.com/aipctl/aipctl/internal/state"
	"github.com/aipctl/aipctl/internal/verdict"
)

// ending says why the waiting is over.
type ending int

const (
	going        ending = iota
	atTerminal          // the stream's terminal mark, or a terminal state
	atReply             // the reply holds the result, and nothing new came
	atClosed            // the reply is an error that no later read adds to
	atWaitsEnd          // --wait ran out
	atSignal            // a signal, or the reader of stdout went away
	atFollowDone        // nothing is left to wait for
)

// watch posts and waits for the end. All channels of the call meet here.
func (c *call) watch(ctx context.Context) *verdict.Outcome {
	// What runs beside the call outlives a first signal that asks for a cancel.
	base, release := ctx, context.CancelFunc(func() {})
	if c.plan.CancelOnInterrupt {
		base, release = context.WithCancel(context.WithoutCancel(ctx))
	}
	defer release()
	f := c.startFeed(base)
	refused := c.open(ctx, f)
	if refused == nil && ctx.Err() != nil {
		refused = context.Cause(ctx) // the signal ended the follow first
	}
	if refused != nil {
		_ = f.halt(nil)
		return c.refused(ctx, refused)
	}
	if err := c.post(base); err != nil {
		_ = f.halt(nil)
		if c.stdout == nil {
			return c.notSent(ctx, fault.Usage, "envelope.invalid", err.Error())
		}
		// The submit has left; only its display failed.
		return c.interrupted(ctx)
	}
	defer c.abort()
	w := &wait{call: c, feed: f, ctx: ctx}
	w.bound()
	end := w.loop()
	return c.settleCall(f, w, end)
}

// refused ends a call before its post.
func (c *call) refused(ctx context.Context, err error) *verdict.Outcome {
	if class := signalOf(ctx); class != 0 {
		return c.notSent(ctx, class, "interrupted", "stopped before anything was sent")
	}
	if class := fault.ClassOf(err); class == fault.BrokenPipe {
		return c.notSent(ctx, class, "output.closed", "the reader of stdout went away before anything was sent")
	}
	var remote *aip.RemoteError
	class, code := fault.Unavailable, "daemon.answer"
	if errors.As(err, &remote) {
		if remote.Status == 401 || remote.Status == 403 {
			class = fault.Auth
		}
		if remote.Code() != "" {
			code = remote.Code()
		}
	}
	return c.notSent(ctx, class, code, "the event stream was refused before anything was sent: "+err.Error())
}

// wait is the loop's own state: timers and what they are for.
type wait struct {
	*call
	feed *feed
	ctx  context.Context

	bounded  bool
	deadline *time.Timer // --wait, or its default once there is one
	quiet    *time.Timer // after the reply holds the result
	poll     *time.Timer // reads of the status while the answer is uncertain
	pollWait time.Duration
	extended bool                   // the bound was moved once, for the request to leave
	reading  *verdict.SubmitReading // of an error reply
}

// bound starts the bound that holds while the submit is open.
func (w *wait) bound() {
	if w.plan.Wait != nil {
		w.bounded = true
		w.deadline = time.NewTimer(*w.plan.Wait)
		w.until = w.cfg.Now().Add(*w.plan.Wait)
	}
}

// boundAfterReply starts the default bound: the action may run on without us.
func (w *wait) boundAfterReply() {
	if w.bounded {
		return
	}
	w.bounded = true
	left := w.plan.RunsAtMost + afterExpiry - w.cfg.Now().Sub(w.started)
	if w.plan.AfterLoss > 0 {
		left = min(left, w.plan.AfterLoss)
	}
	w.deadline = time.NewTimer(max(left, 0))
}

func timerC(t *time.Timer) <-chan time.Time {
	if t == nil {
		return nil
	}
	return t.C
}

func (w *wait) stopTimers() {
	for _, t := range []*time.Timer{w.deadline, w.quiet, w.poll} {
		if t != nil {
			t.Stop()
		}
	}
}

// loop waits until one of the endings is reached.
func (w *wait) loop() ending {
	defer w.stopTimers()
	done := w.ctx.Done()
	feedc := w.feed.items
	for {
		select {
		case <-done:
			if end := w.interrupt(); end != going {
				return end
			}
			done = nil
		case it, more := <-feedc:
			if !more {
				w.feed.finish()
				feedc = nil
				if end := w.followEnded(); end != going {
					return end
				}
				continue
			}
			before := w.news
			if err := w.item(w.ctx, it); err != nil {
				return atSignal
			}
			if w.quiet != nil && w.news > before {
				w.quiet.Reset(quietWait)
			}
		case rep := <-w.replyc:
			if w.cutBySignal(rep.err) {
				continue // the signal is handled by its own case
			}
			w.call.reply = &rep
			if end := w.replied(); end != going {
				return end
			}
		case <-timerC(w.quiet):
			if w.reading != nil {
				return atClosed
			}
			return atReply
		case <-timerC(w.poll):
			if end := w.readStatus(); end != going {
				return end
			}
		case <-w.leaving():
			return atWaitsEnd
		case <-timerC(w.deadline):
			if !w.hasLeft() && !w.extended {
				// Giving up a half-sent request would leave its fate open.
				w.extended = true
				w.deadline.Reset(sendGrace)
				continue
			}
			return atWaitsEnd
		}
	}
}

// cutBySignal tells that the submit has no answer because a signal ended this
// run, which says nothing of the way to the daemon.
func (w *wait) cutBySignal(err error) bool {
	return err != nil && w.ctx.Err() != nil && !w.plan.CancelOnInterrupt && errors.Is(err, context.Cause(w.ctx))
}

// leaving tells, once the bound was moved for it, that the request has left.
func (w *wait) leaving() <-chan struct{} {
	if !w.extended {
		return nil
	}
	return w.sent
}

// followEnded handles the follower's end while the call goes on.
func (w *wait) followEnded() ending {
	err := w.feed.err
	switch {
	case err == nil:
		return atTerminal
	case w.ctx.Err() != nil:
		return going // the signal is handled by its own case
	}
	_ = w.warn("follow.refused", "the stream can no longer be followed: "+err.Error()+"; the outcome is read without it")
	switch {
	case w.reading != nil:
		return atClosed
	case w.replyDecides(w):
		return atReply
	case w.call.reply != nil:
		w.startPolling()
	}
	return going
}

// replied reads the answer to the submit.
func (w *wait) replied() ending {
	rep := w.call.reply
	if rep.err != nil {
		return w.repliedError(rep.err)
	}
	b := rep.body
	if b.Ack != nil {
		w.note("ack")
		_ = w.show(w.cfg.Sink.State(record.State{Head: record.NewHead(record.TypeState), State: record.StateReplied, Action: b.Ack.Status}))
		w.boundAfterReply()
		if w.feed.ended {
			w.startPolling()
		}
		return going
	}
	res := b.Result
	if w.followOn(res) {
		w.note("in_progress")
		w.boundAfterReply()
		w.startPolling()
		return going
	}
	w.note("result")
	_ = w.show(w.cfg.Sink.State(record.State{Head: record.NewHead(record.TypeState), State: record.StateReplied, Action: res.Status}))
	if res.Status == aip.StatusPendingApproval || res.Status == aip.StatusRequiresHuman {
		return w.pendingReply()
	}
	if w.terminal || w.feed.ended {
		return atReply
	}
	w.quiet = time.NewTimer(quietWait)
	return going
}

// followOn reports whether a result says that this very action is still
// running elsewhere: not its outcome.
func (w *wait) followOn(res *aip.ActionResult) bool {
	return res.Error != nil && res.Error.Code == "idempotency.in_progress" && res.Error.DetailString("owner_action_id") == w.id
}

// pendingReply handles an answer that waits for a human. By default the call
// ends there; a given --wait is waited out.
func (w *wait) pendingReply() ending {
	w.approvalAsked(w.ctx, w.call.reply.body.Result)
	if w.plan.Wait == nil || *w.plan.Wait <= 0 {
		return atReply
	}
	w.startPolling()
	return going
}

func (w *wait) repliedError(err error) ending {
	reading := w.answer(err)
	if reading.Reading == fault.Pending && replyOwner(err) == w.id {
		reading = verdict.SubmitReading{Reading: fault.Unknown} // this very action runs: follow on
	}
	switch {
	case reading.Settled && reading.NotSent:
		w.reading = &reading
		return atClosed
	case reading.Settled:
		w.note("error")
		w.reading = &reading
		if w.feed.ended {
			return atClosed
		}
		// Chunks that were published before the failure may still be on
		// their way.
		w.quiet = time.NewTimer(quietWait)
		return going
	}
	w.note("lost")
	_ = w.show(w.cfg.Sink.State(record.State{Head: record.NewHead(record.TypeState), State: record.StateUncertain, Reason: err.Error()}))
	_ = w.warn("submit.uncertain", "the answer to the submit is not known ("+err.Error()+"); it is not sent again, only read")
	w.boundAfterReply()
	w.startPolling()
	return going
}

// note records that the submit left and what came back.
func (w *wait) note(word string) {
	_ = w.append(w.ctx, false, state.Record{Type: state.TypeSubmitted, ActionID: w.id, Submitted: &state.Submitted{Mode: w.plan.Action.Mode, Reply: word}})
}

func (w *wait) startPolling() {
	if w.poll == nil {
		w.pollWait = pollFirst
		w.poll = time.NewTimer(w.pollWait)
	}
}

// readStatus reads the durable view, never with chunks.
func (w *wait) readStatus() ending {
	end := w.run.readState(w.ctx)
	if end != going {
		return end
	}
	w.pollWait = min(w.pollWait*2, pollMost)
	w.poll.Reset(w.pollWait)
	return going
}

// readState reads the lifecycle state once; a failed read says nothing of the
// action.
func (r *run) readState(ctx context.Context) ending {
	st, err := r.cfg.Net.Status(ctx, r.id)
	r.refused = refusal(err)
	if err != nil {
		return going
	}
	if st.State != r.state {
		r.state = st.State
		_ = r.show(r.cfg.Sink.State(record.State{Head: record.NewHead(record.TypeState), State: record.StateWaiting, Action: st.State}))
	}
	if r.cap == "" {
		r.cap = st.CapabilityID
	}
	if aip.TerminalState(st.State) {
		return atTerminal
	}
	return going
}

// refusal reports whether err is an answer of the daemon that will not change
// by itself, and no trouble on the way.
func refusal(err error) bool {
	var remote *aip.RemoteError
	return errors.As(err, &remote) && remote.Status < 500 && remote.Status != 408 && remote.Status != 429
}

// interrupt handles the first signal.
func (w *wait) interrupt() ending {
	if !w.plan.CancelOnInterrupt || fault.ClassOf(context.Cause(w.ctx)) == fault.BrokenPipe || w.stdout != nil {
		return atSignal
	}
	// The run goes on under a context of its own: the first signal asks for
	// the cancel, and only a second one, which ends the process, overrides.
	old := w.ctx
	w.ctx = context.WithoutCancel(old)
	if !w.cfg.CursorAtEnd {
		w.flush(w.ctx)
	}
	cctx, done := context.WithTimeout(w.ctx, cancelWait)
	defer done()
	if err := w.cfg.Net.Cancel(cctx, w.id, "interrupted by the user"); err != nil {
		_ = w.warn("cancel.failed", "the cancel was not acknowledged: "+err.Error())
		w.ctx = old
		return atSignal
	}
	if w.deadline != nil {
		w.deadline.Stop()
	}
	w.bounded = true
	w.deadline = time.NewTimer(cancelWait)
	w.startPolling()
	return going
}

// interrupted ends a run whose display is gone or that a signal ended; the
// action goes on, unless it had ended by then.
func (r *run) interrupted(ctx context.Context) *verdict.Outcome {
	class := signalOf(ctx)
	if class == 0 {
		class = fault.ClassOf(r.stdout)
	}
	o := r.outcome(r.judge(verdict.Evidence{Unsettled: r.unsettled()}))
	o.ExitCode = class.Code()
	o.Reason = "detached; the action goes on"
	if r.unseen() {
		o.Reason = "detached; the daemon has shown nothing of the action"
	}
	if r.terminal {
		o.Reason = "detached; the action has ended, and how it ended was not judged to the end"
	}
	if r.cfg.Commands == nil || r.over {
		o.Reason = "detached; how the action ends is not watched any more"
	}
	return r.finish(ctx, o, nil)
}

// unsettled is the reading of a run that ended before the action did.
func (r *run) unsettled() verdict.Reading {
	if r.sent != nil && !r.hasLeft() && r.lastNew.IsZero() {
		return fault.Unknown // the request was cut while it left
	}
	if r.unseen() {
		return fault.Unknown
	}
	return fault.Pending
}

// unseen reports a come-back to an action of which the daemon has shown nothing
// yet: it may run, and it may never have been.
func (r *run) unseen() bool {
	return r.sent == nil && r.lastNew.IsZero() && r.state == aip.StateUnknown
}

// hasLeft reports whether the submit was written in full.
func (r *run) hasLeft() bool {
	select {
	case <-r.sent:
		return true
	default:
		return false
	}
}

// waitedOut says what is known when --wait ran out: pending only while there
// is a sign that the action runs. Where the last state read is terminal, it has
// ended after all, and the caller settles it.
func (r *run) waitedOut(ctx context.Context, submitOpen bool) (verdict.Reading, string) {
	if submitOpen && !r.hasLeft() {
		return fault.Unknown, "the request could not be sent in full within the wait"
	}
	if submitOpen {
		return fault.Pending, "the submit is still open; the action runs on"
	}
	r.state = ""
	_ = r.readState(ctx)
	switch r.state {
	case aip.StateQueued, aip.StateRunning, aip.StateStreaming, aip.StateAccepted, aip.StateCancelling:
		return fault.Pending, "the action's state is " + r.state
	case aip.StatePendingApproval:
		return fault.Pending, "the action waits for an approval"
	}
	if r.refused { // what the chunks say is older than this answer
		return fault.Unknown, "the daemon does not answer for this action"
	}
	if age := r.cfg.Now().Sub(r.lastNew); !r.lastNew.IsZero() && r.cfg.Idle > 0 && age <= r.cfg.Idle {
		return fault.Pending, fmt.Sprintf("a chunk came %s ago, so the action runs", age.Round(time.Second))
	}
	if r.state == "" {
		return fault.Unknown, "the daemon does not answer for this action"
	}
	return fault.Unknown, "the daemon's state reads " + r.state + ", which is no proof that nothing ran or runs"
}
