package engine

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/follow"
	"github.com/aipctl/aipctl/internal/record"
	"github.com/aipctl/aipctl/internal/state"
	"github.com/aipctl/aipctl/internal/verdict"
)

// The tries of reading a stored response, which is the one operation that may
// be run again: it changes nothing but the order in which a store forgets.
const (
	getTries     = 3
	getBackoff   = 500 * time.Millisecond // before the second try; then twice that
	getPatience  = time.Minute            // the longest delay that a daemon may ask for
	getAfterLoss = 5 * time.Second        // reading on after a lost reply, before the next try
)

// ResponsePlan reads one stored response.
type ResponsePlan struct {
	// Call is the first try. Each further one is a new action with an intent of
	// its own, under an id of NewID.
	Call  CallPlan
	NewID func() string
	View  *state.View // what the state file knew before; nil for nothing
}

// GetResponse reads a stored response, and tries again where the typed error
// says that this may help. The verdict speaks of the last read; the exit code
// of the response, by its stored status. An error says that nothing was sent.
func GetResponse(ctx context.Context, cfg Config, p ResponsePlan) (*verdict.Outcome, error) {
	held := &heldSink{Sink: cfg.Sink}
	cfg.Sink = held
	var until time.Time
	if p.Call.Wait != nil {
		until = now(cfg).Add(*p.Call.Wait)
	}
	if created := p.View.Storing(p.Call.Intent.ResponseID); len(created) > 0 {
		p.Call.Probe = &state.Probe{ParentActionID: created[0].ID, Purpose: verdict.OpResponseGet}
	}
	p.Call.AfterLoss = getAfterLoss
	var o *verdict.Outcome
	for n := 1; ; n++ {
		cfg.Binding = BindingFor(cfg.Binding.URL, cfg.Binding.Principal, p.Call.Action.ID, true)
		c, err := prepare(ctx, cfg, p.Call)
		if err != nil {
			if o == nil {
				return nil, err
			}
			return held.release(ctx, o), nil // the state file took the first try and not this one
		}
		var read *aip.ActionResult
		c.amend = func(o *verdict.Outcome, res *aip.ActionResult) {
			read = res
			p.stored(c, o, res, n)
		}
		o = c.perform(ctx)
		delay, why := c.tryAgain(o, read, n)
		if delay < 0 || !until.IsZero() && now(cfg).Add(delay).After(until) {
			return held.release(ctx, o), nil
		}
		err = cfg.Sink.State(record.State{Head: record.NewHead(record.TypeState), State: record.StateRetrying, Attempt: n + 1, WaitMS: delay.Milliseconds(), Reason: why})
		if err != nil || follow.Pause(ctx, delay) != nil {
			if class := signalOf(ctx); class != 0 {
				o.ExitCode = class.Code()
			}
			return held.release(ctx, o), nil
		}
		p.Call.Action.ID = p.NewID()
		if !until.IsZero() {
			left := until.Sub(now(cfg))
			p.Call.Wait = &left
		}
	}
}

func now(cfg Config) time.Time {
	if cfg.Now == nil {
		return time.Now()
	}
	return cfg.Now()
}

// tryAgain says after which delay another try may be made, and why; negative
// for never.
func (c *call) tryAgain(o *verdict.Outcome, read *aip.ActionResult, n int) (time.Duration, string) {
	unread := read == nil || read.Status != aip.StatusCompleted
	if n >= getTries || c.stdout != nil || !unread || o.ExitCode != fault.Unknown.Code() {
		return -1, ""
	}
	e, code := c.typedError(read), ""
	if e != nil {
		if e.Retryable == nil || !*e.Retryable || e.Category != "temporary" && e.Category != "transport" || e.RetryAfter() > getPatience {
			return -1, ""
		}
		code = e.Code
	}
	return max(getBackoff<<(n-1), e.RetryAfter()), "the read failed with " + orElse(code, "no answer")
}

// typedError is what the daemon says of a read that failed; nil where it says
// nothing.
func (c *call) typedError(read *aip.ActionResult) *aip.ProtocolError {
	if read != nil {
		return read.Error
	}
	if c.reply == nil {
		return nil
	}
	var remote *aip.RemoteError
	if errors.As(c.reply.err, &remote) && remote.AIP() {
		return remote.Proto
	}
	return nil
}

// stored adds to the outcome of a read what was read, and takes the exit code
// from it.
func (p *ResponsePlan) stored(c *call, o *verdict.Outcome, res *aip.ActionResult, n int) {
	id := p.Call.Intent.ResponseID
	s := &verdict.Stored{ResponseID: id, Tries: n}
	o.Stored, o.ResponseID = s, id
	switch {
	case res != nil && res.Status == aip.StatusCompleted && !c.foreign(res):
		s.Status = res.Output.String("status")
		if c.cfg.Document {
			s.Object = res.Output.Object()
		}
		switch o.Verdict {
		case fault.Accepted.String(), fault.Failed.String(), fault.Partial.String():
			class, why := storedClass(s.Status)
			o.ExitCode, o.Reason = class.Code(), why
		}
	case o.Verdict == fault.NotFound.String() && strings.HasSuffix(o.ErrorCode, ".remote_rejected"):
		o.Reason = "the store has no such response"
		s.Absent = Absent(p.View, id, p.Call.Intent.Endpoint, p.Call.Intent.URL)
	case o.ExitCode == fault.Failed.Code():
		o.ExitCode = fault.Unknown.Code()
		o.Reason = "the stored response could not be read; " + o.Reason
	}
}

// storedClass reads the status of a stored response.
func storedClass(status string) (fault.Class, string) {
	switch status {
	case "completed":
		return fault.Accepted, ""
	case "failed":
		return fault.Failed, "the provider says that it failed"
	case "incomplete":
		return fault.Partial, "what is stored was cut off"
	case "in_progress":
		return fault.Pending, "it was not finished when it was stored, and may stay so for ever"
	}
	return fault.Unknown, "its status is not one that is known"
}

// heldSink keeps outcomes back until it is known which try was the last.
type heldSink struct{ Sink }

// Outcome implements Sink.
func (s *heldSink) Outcome(*verdict.Outcome) error { return nil }

// release shows the outcome of the last try.
func (s *heldSink) release(ctx context.Context, o *verdict.Outcome) *verdict.Outcome {
	if err := s.Sink.Outcome(o); err != nil && !left(o) {
		o.ExitCode = fault.ClassOf(err).Code()
	}
	return o
}
