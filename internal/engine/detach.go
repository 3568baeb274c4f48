package engine

import (
	"context"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/verdict"
)

// detach submits and returns on the acknowledgement, which promises "queued"
// and no more. An answer that is a result is judged as usual.
func (c *call) detach(ctx context.Context) *verdict.Outcome {
	if err := c.post(ctx); err != nil && c.stdout == nil {
		return c.notSent(ctx, fault.Usage, "envelope.invalid", err.Error())
	}
	defer c.abort()
	f := &feed{ended: true, stop: func() {}, items: closedItems()}
	w := &wait{call: c, feed: f, ctx: ctx}
	w.bound()
	w.terminal = false
	for {
		end := w.detachStep()
		if end == going {
			continue
		}
		if end != atFollowDone {
			return c.settleCall(f, w, end)
		}
		o := c.outcome(c.judge(verdict.Evidence{Unsettled: fault.Pending}))
		o.Reason = "queued; the action runs on without this command"
		o.ExitCode = fault.Accepted.Code()
		return c.finish(ctx, o, nil)
	}
}

// detachStep waits for the next thing that matters to a detached submit:
// atFollowDone means that the action is known to be on its way.
func (w *wait) detachStep() ending {
	select {
	case <-w.ctx.Done():
		return atSignal
	case rep := <-w.replyc:
		w.call.reply = &rep
		if rep.err == nil && rep.body.Ack != nil {
			w.note("ack")
			return atFollowDone
		}
		return w.replied()
	case <-timerC(w.quiet):
		return atReply
	case <-timerC(w.poll):
		if end := w.readStatus(); end != going {
			return end
		}
		switch w.state {
		case aip.StateQueued, aip.StateRunning, aip.StateStreaming, aip.StatePendingApproval:
			return atFollowDone
		}
		return going
	case <-timerC(w.deadline):
		return atWaitsEnd
	}
}
