package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/state"
)

// interruptedJournal keeps nothing under a context that has ended, and ends the
// first one itself, as a signal does while an append waits for the lock.
type interruptedJournal struct {
	kept
	signal func()
}

func (j *interruptedJournal) Append(ctx context.Context, durable bool, recs ...state.Record) error {
	j.signal()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return j.kept.Append(ctx, durable, recs...)
}

// The id of a response is the key to reconciling: a signal that comes while it
// is written down may not lose it.
func TestSignalDuringAnAppendLosesNothing(t *testing.T) {
	ctx, end := context.WithCancelCause(t.Context())
	j := &interruptedJournal{signal: func() { end(fault.New(fault.Interrupt, "signal", "interrupted")) }}
	r := &run{cfg: Config{Journal: j}}
	if err := r.append(ctx, true, state.Record{Type: state.TypeResponse, ActionID: "act_1"}); err != nil || r.saveFailed {
		t.Errorf("the append is reported as failed: %v", err)
	}
	if len(j.recs) != 1 {
		t.Errorf("%d records were kept, want 1", len(j.recs))
	}
}

// Only the end of this run makes a cut submit no matter of the daemon's.
func TestSubmitCutBySignal(t *testing.T) {
	stopped := fault.New(fault.Interrupt, "signal", "interrupted")
	ended, end := context.WithCancelCause(t.Context())
	end(stopped)
	cut := fmt.Errorf("post: %w", stopped)
	for name, tt := range map[string]struct {
		ctx     context.Context
		cancels bool
		err     error
		want    bool
	}{
		"the signal cut it":             {ended, false, cut, true},
		"the daemon answered in time":   {ended, false, nil, false},
		"the connection broke as well":  {ended, false, errors.New("reset"), false},
		"the signal asks for a cancel":  {ended, true, cut, false},
		"no signal, and another reason": {t.Context(), false, cut, false},
	} {
		w := &wait{call: &call{plan: CallPlan{CancelOnInterrupt: tt.cancels}}, ctx: tt.ctx}
		if got := w.cutBySignal(tt.err); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
