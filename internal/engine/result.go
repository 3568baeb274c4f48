package engine

import (
	"context"
	"errors"
	"time"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/client"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/follow"
	"github.com/aipctl/aipctl/internal/record"
	"github.com/aipctl/aipctl/internal/verdict"
)

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
		over := c.terminal || aip.TerminalState(c.state)
		if !w.followOn(res) && !(pending && over) {
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
		res, err := r.cfg.Net.Result(ctx, r.id, r.collect(&frames))
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
		now := r.cfg.Now()
		if passing >= resultTries && !now.Before(deadline) || !r.until.IsZero() && !now.Before(r.until) {
			return f
		}
		if !r.until.IsZero() {
			delay = min(delay, r.until.Sub(now))
		}
		if follow.Pause(ctx, delay) != nil {
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
	case !refusal(err):
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
