package engine

import (
	"context"
	"time"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/follow"
)

// WaitStatus reads the durable view: once, or with wait until the state is
// terminal or the wait has run out. Errors are *fault.Error.
func WaitStatus(ctx context.Context, net Network, actionID string, wait *time.Duration, now func() time.Time) (*aip.ActionStatus, error) {
	var until time.Time
	if wait != nil {
		until = now().Add(*wait)
	}
	delay := pollFirst
	for {
		st, err := net.Status(ctx, actionID)
		if err != nil {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			return nil, ReadFault(err).WithAction(actionID)
		}
		left := until.Sub(now())
		if wait == nil || aip.TerminalState(st.State) || left <= 0 {
			return st, nil
		}
		if err := follow.Pause(ctx, min(delay, left)); err != nil {
			return nil, err
		}
		delay = min(delay*2, pollMost)
	}
}
