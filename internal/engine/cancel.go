package engine

import (
	"context"
	"errors"
	"time"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/follow"
	"github.com/aipctl/aipctl/internal/state"
	"github.com/aipctl/aipctl/internal/verdict"
)

// CancelPlan asks for the end of an action.
type CancelPlan struct {
	ActionID string
	Reason   string
	Known    *state.Action
	Wait     time.Duration // 0 does not wait for the end
}

// Cancel requests a cancellation and then reads what became of the action:
// the daemon's answer is an acknowledgement and no outcome, for a finished
// action is acknowledged just the same.
//
// The verdict speaks of the action, the exit code of the cancellation: 0 when
// it is cancelled, or acknowledged and not waited for.
func Cancel(ctx context.Context, cfg Config, p CancelPlan) (*verdict.Outcome, error) {
	if err := RefuseNotSent(p.Known, p.ActionID); err != nil {
		return nil, err
	}
	r := comeback(cfg, p.ActionID, p.Known, true)
	r.silent = true
	r.listen("", follow.Begin{})
	r.keeper, r.unkept = nil, false
	if err := cfg.Net.Cancel(ctx, p.ActionID, p.Reason); err != nil {
		return r.cancelRefused(ctx, err)
	}
	end := r.awaitEnd(ctx, p.Wait)
	if end == atSignal {
		return r.interrupted(ctx), nil
	}
	if end != atTerminal {
		o := r.outcome(r.judge(verdict.Evidence{Unsettled: fault.Pending}))
		o.Reason = "the cancel was acknowledged; the action's state reads " + stateWord(r.state)
		o.ExitCode = fault.Accepted.Code()
		if p.Wait > 0 {
			o.ExitCode = fault.Pending.Code()
			o.Reason += " after the wait"
		}
		return r.finish(ctx, o, nil), nil
	}
	return r.cancelled(ctx), nil
}

func stateWord(s string) string {
	if s == "" {
		return "nothing readable"
	}
	return s
}

// awaitEnd polls the state until it is terminal or wait has run out.
func (r *run) awaitEnd(ctx context.Context, wait time.Duration) ending {
	until := r.cfg.Now().Add(wait)
	delay := pollFirst / 4
	for {
		if r.readState(ctx) == atTerminal {
			return atTerminal
		}
		left := until.Sub(r.cfg.Now())
		if left <= 0 {
			return atWaitsEnd
		}
		if follow.Pause(ctx, min(delay, left)) != nil {
			return atSignal
		}
		delay = min(delay*2, pollMost)
	}
}

// cancelled judges the action after its end.
func (r *run) cancelled(ctx context.Context) *verdict.Outcome {
	seen := r.state
	f := found{state: seen}
	if seen != aip.StateExpired {
		f = r.readResult(ctx, 0)
		if f.result == nil && seen == aip.StateCancelled {
			f.state = seen
		}
	}
	if f.result != nil && f.result.Status != aip.StatusCancelled {
		if err := r.pages(ctx, r.fol.Drain, "the stream could not be read: "); err != nil {
			return r.interrupted(ctx)
		}
	}
	if err := r.weigh(ctx, f); err != nil {
		return r.interrupted(ctx)
	}
	o := r.outcome(r.judge(verdict.Evidence{Result: f.result, State: f.state, Unsettled: f.reading}))
	if o.Verdict == fault.Cancelled.String() {
		o.ExitCode = fault.Accepted.Code()
		o.Reason = "the action is cancelled"
		_ = r.warn("cancel.effects", "cancelling undoes nothing: model calls, messages and memory writes that were made stay")
		return r.finish(ctx, o, &finishing{result: f.result})
	}
	o.ExitCode = fault.Rejected.Code()
	o.Reason = "the action had ended before the cancel took hold"
	return r.finish(ctx, o, &finishing{result: f.result})
}

// cancelRefused classifies a cancel that was not acknowledged.
func (r *run) cancelRefused(ctx context.Context, err error) (*verdict.Outcome, error) {
	if signalOf(ctx) != 0 {
		return r.interrupted(ctx), nil
	}
	var remote *aip.RemoteError
	if errors.As(err, &remote) {
		switch {
		case remote.Code() == "auth.identity_resolution_failed":
			return nil, ReadFault(err).WithAction(r.id).WithHint("this daemon resolves no identities, so it refuses every cancel; ask its operator")
		case remote.Status == 401 || remote.Status == 403:
			return nil, ReadFault(err).WithAction(r.id)
		case remote.Code() == "resource.not_found" || remote.Code() == "action.not_found":
			return nil, fault.New(fault.NotFound, remote.Code(), "the daemon does not know this action").WithAction(r.id).
				WithHint("check the URL and the token; an action that runs on another node looks the same")
		}
	}
	why := "the cancel was not acknowledged: " + err.Error()
	return nil, fault.New(fault.Unknown, "cancel.unanswered", "%s; the action may stop all the same", why).WithAction(r.id).Wrap(err).
		WithHint("look at it with `aipctl action status %s`; cancelling again is safe", r.id)
}
