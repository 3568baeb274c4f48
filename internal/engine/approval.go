package engine

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/follow"
	"github.com/aipctl/aipctl/internal/identity"
	"github.com/aipctl/aipctl/internal/record"
	"github.com/aipctl/aipctl/internal/state"
	"github.com/aipctl/aipctl/internal/verdict"
)

// Court is the daemon as somebody sees it who decides about approvals.
type Court interface {
	Approvals
	// Decide posts one envelope, once; granting runs the action inside it.
	Decide(ctx context.Context, envelope []byte) ([]aip.Event, error)
	Result(ctx context.Context, actionID string, d aip.ResultDecoding) (*aip.ActionResult, error)
}

// DecisionConfig is what a decision needs beside itself.
type DecisionConfig struct {
	Net       Court
	Journal   Journal // a decision is on disk before it leaves
	Now       func() time.Time
	MessageID func() string
	Commands  Commands
}

// DecisionPlan is one decision about one approval.
type DecisionPlan struct {
	ApprovalID string
	Decision   string // aip.ApprovalApproved or aip.ApprovalDenied
	As         identity.Principal
	Reason     string
	View       *state.View // what the state file knows
	// Show shows what is to be decided and asks; an error refuses.
	Show func(v *aip.ApprovalView, as aip.Principal) error
	// Wait bounds the waiting for the answer, and for the action's end; nil has
	// no bound while the answer is open.
	Wait *time.Duration
}

// decisionWords are what a decision is called in the state file.
var decisionWords = map[string]string{aip.ApprovalApproved: "approve", aip.ApprovalDenied: "deny"}

// Decide fetches the record, checks what can be checked here, asks, and posts
// the decision once, under an id that was recorded before. A lost reply is read
// back. A nil error says that the decision is recorded at the daemon, however
// the action ended; every other end is a *fault.Error.
func Decide(ctx context.Context, cfg DecisionConfig, p DecisionPlan) (*record.Decision, error) {
	d := &decider{cfg: cfg, plan: p}
	v, err := FetchApproval(ctx, cfg.Net, p.ApprovalID)
	if err != nil {
		return nil, readApprovalFault(ctx, err)
	}
	d.prepare(v)
	if d.recordedAlready(v) {
		return d.recorded(ctx, v, record.KnownEarlier), nil
	}
	if err := d.review().refuse(v); err != nil {
		return nil, err
	}
	if err := p.Show(v, d.as); err != nil {
		return nil, err
	}
	again, err := cfg.Net.Approval(ctx, p.ApprovalID, false)
	if err != nil {
		return nil, readApprovalFault(ctx, err)
	}
	if !sameRequest(v, again) {
		return nil, notPending("approval.changed", "the request is no longer the one that was shown").WithHint("look at it again before you decide")
	}
	if err := d.review().refuse(again); err != nil {
		return nil, err
	}
	if err := d.note(ctx); err != nil {
		return nil, err
	}
	return d.post(ctx)
}

// FetchApproval reads a record, with the action's input where the caller's
// scopes reveal it.
func FetchApproval(ctx context.Context, net Approvals, id string) (*aip.ApprovalView, error) {
	v, err := net.Approval(ctx, id, true)
	var remote *aip.RemoteError
	if errors.As(err, &remote) && (remote.Status == 401 || remote.Status == 403) {
		return net.Approval(ctx, id, false)
	}
	return v, err
}

// ReadApproval is FetchApproval for a person: errors are *fault.Error.
func ReadApproval(ctx context.Context, net Approvals, id string) (*aip.ApprovalView, error) {
	v, err := FetchApproval(ctx, net, id)
	if err != nil {
		return nil, readApprovalFault(ctx, err)
	}
	return v, nil
}

// ApprovalPages lists approvals page by page.
type ApprovalPages interface {
	Approvals(ctx context.Context, status, cursor string) ([]*aip.ApprovalView, string, error)
}

// mostApprovalPages is more than any list has that a person or a script reads.
const mostApprovalPages = 1000

// ListApprovals reads all pages. A list that changes meanwhile may repeat an
// entry, which is left out, or skip one. Errors are *fault.Error; one that never
// ends is of class fault.Unavailable.
func ListApprovals(ctx context.Context, net ApprovalPages, status string) ([]*aip.ApprovalView, error) {
	var all []*aip.ApprovalView
	seen := map[string]bool{}
	cursor := ""
	for range mostApprovalPages {
		views, next, err := net.Approvals(ctx, status, cursor)
		if err != nil {
			return nil, readApprovalFault(ctx, err)
		}
		fresh := 0
		for _, v := range views {
			if !seen[v.Request.ID] {
				seen[v.Request.ID] = true
				all = append(all, v)
				fresh++
			}
		}
		if next == "" || next == cursor || fresh == 0 {
			return all, nil
		}
		cursor = next
	}
	return nil, fault.New(fault.Unavailable, "approval.endless", "the list of approvals has more than %d pages", mostApprovalPages).
		WithHint("ask for fewer, as with --status pending; `aipctl doctor` looks at the daemon")
}

func readApprovalFault(ctx context.Context, err error) error {
	if signalOf(ctx) != 0 {
		return context.Cause(ctx)
	}
	f := ReadFault(err)
	if f.Class == fault.NotFound {
		return f.WithHint("check the id and the URL; an approval that this token may not see reads the same. `aipctl approval list` shows those it may")
	}
	return f
}

// decider is one decision on its way.
type decider struct {
	cfg    DecisionConfig
	plan   DecisionPlan
	view   *aip.ApprovalView // as it was shown
	as     aip.Principal
	known  state.Approval
	action *state.Action // of the state file; nil when it does not know it
	id     string        // of the decision
	before bool          // the id stands in the state file already
}

func (d *decider) now() time.Time {
	if d.cfg.Now == nil {
		return time.Now()
	}
	return d.cfg.Now()
}

// prepare names who decides, as this daemon spells ids, and the decision: by
// the id that an earlier run recorded for exactly this one, else by a new one.
func (d *decider) prepare(v *aip.ApprovalView) {
	d.view = v
	asks := v.Request.Requester
	d.as = aip.Principal{Kind: d.plan.As.Kind, ID: d.plan.As.ID(asks.Kind != "" && strings.HasPrefix(asks.ID, asks.Kind+":"))}
	d.action, d.known = d.plan.View.Approval(d.plan.ApprovalID)
	if d.action != nil {
		for _, x := range d.action.Decisions {
			if x.ApprovalID != d.plan.ApprovalID || x.Decision != decisionWords[d.plan.Decision] || x.Approver != d.as.ID {
				continue
			}
			d.id, d.before = x.DecisionID, true
			if v.Decision != nil && v.Decision.DecisionID == x.DecisionID {
				break // runs at one time record an id each, and the daemon takes one of them
			}
		}
	}
	if d.id == "" {
		d.id = identity.NewDecisionID()
	}
}

func (d *decider) review() review {
	return review{decision: d.plan.Decision, as: d.as, reason: d.plan.Reason, known: d.known, now: d.now()}
}

// note puts the decision on the disk before it leaves.
func (d *decider) note(ctx context.Context) error {
	if d.before {
		return nil
	}
	return d.cfg.Journal.Append(ctx, true, state.Record{Type: state.TypeDecision, ActionID: d.view.Request.ActionID, Decision: &state.Decision{
		ApprovalID: d.plan.ApprovalID, DecisionID: d.id, Decision: decisionWords[d.plan.Decision], Approver: d.as.ID,
	}})
}

func (d *decider) recordedAlready(v *aip.ApprovalView) bool {
	return d.before && v.Status == d.plan.Decision && v.Decision != nil && v.Decision.DecisionID == d.id
}

// post sends the decision and reads the answer.
func (d *decider) post(ctx context.Context) (*record.Decision, error) {
	envelope, err := aip.Decision{
		ApprovalID: d.plan.ApprovalID, Decision: d.plan.Decision, Approver: d.as, DecisionID: d.id,
		PolicyHash: d.view.Request.PolicyHash, Reason: d.plan.Reason,
	}.Envelope(d.cfg.MessageID(), d.now())
	if err != nil {
		return nil, fault.New(fault.Usage, "usage.reason", "the decision cannot be written as JSON").WithHint("give a reason of plain text")
	}
	pctx, stop := ctx, context.CancelFunc(func() {})
	if d.plan.Wait != nil {
		pctx, stop = context.WithTimeout(ctx, *d.plan.Wait)
	}
	events, err := d.cfg.Net.Decide(pctx, envelope)
	stop()
	if err == nil {
		return d.recorded(ctx, nil, knownBy(events)), nil
	}
	if signalOf(ctx) != 0 {
		return nil, d.stopped(ctx)
	}
	return d.refused(ctx, err)
}

// stopped is the end of a command that a signal took away from its decision.
func (d *decider) stopped(ctx context.Context) error {
	return fault.New(signalOf(ctx), "interrupted", "stopped waiting; the decision has left, and may be recorded and run the action").
		WithHint("read what became of it").WithNext(d.read()...)
}

// knownBy reads the events of an answer: a vote may leave the approval pending.
func knownBy(events []aip.Event) string {
	known := record.KnownReply
	for _, e := range events {
		switch e.Kind {
		case "aip.approval.vote_recorded":
			known = record.KnownVote
		case "aip.approval.granted", "aip.approval.denied":
			return record.KnownReply
		}
	}
	return known
}

// refused reads an answer that is no confirmation. Only what proves that nothing
// was recorded ends here; everything else is read back.
func (d *decider) refused(ctx context.Context, err error) (*record.Decision, error) {
	a := answerOf(err, d.now())
	remote, code := a.Remote, ""
	if remote != nil {
		code = remote.Code()
	}
	reading := verdict.ReadSubmit(a, verdict.CodeContext{})
	switch {
	case strings.HasPrefix(code, "connector."), !reading.Settled || !reading.NotSent:
		// The action may have run inside this call, and failed: that is no
		// answer to the decision.
		return d.readBack(ctx, err)
	case a.NoConnection:
		return nil, fault.New(fault.Unavailable, "daemon.unreachable", "the daemon was not reached, and nothing was decided: %s", err.Error()).Wrap(err).
			WithHint("check the URL and that the daemon runs, then decide again")
	case reading.Skew != 0:
		return nil, fault.New(fault.Rejected, code, "the daemon refused the time of the request, and nothing was decided: its clock is %s ours", skewText(reading.Skew)).
			WithHint("set this machine's clock")
	case reading.Reading == fault.Auth || strings.HasPrefix(code, "policy."):
		return d.forbidden(ctx, err, code)
	case code == "approval.not_found":
		return nil, fault.New(fault.NotFound, code, "the daemon does not know this approval").WithHint("check the id and the URL")
	}
	return nil, fault.New(reading.Reading, orElse(code, "daemon.answer"), "the daemon did not take the decision: %s", err.Error()).Wrap(err).
		WithHint("nothing was decided; look at the approval with `aipctl approval get`")
}

// forbidden finds out why a decision was refused: the daemon has one code for
// all reasons, so the record is looked at again.
func (d *decider) forbidden(ctx context.Context, cause error, code string) (*record.Decision, error) {
	v, err := d.cfg.Net.Approval(ctx, d.plan.ApprovalID, false)
	if err == nil {
		if d.holds(v) && v.Decision != nil && v.Decision.DecisionID == d.id {
			return d.recorded(ctx, v, record.KnownRead), nil
		}
		if refusal := d.review().refuse(v); refusal != nil {
			return nil, refusal
		}
	}
	if class := verdict.ReadCode(&aip.ProtocolError{Code: code}, verdict.CodeContext{}); class == fault.Rejected && !strings.HasPrefix(code, "policy.approver_") {
		return nil, notPending(code, "the daemon refused the decision: %s", code).WithHint("look at the approval with `aipctl approval get`")
	}
	return nil, fault.New(fault.Auth, orElse(code, "daemon.answer"), "the daemon does not take this decision from %s: %s", d.as.ID, cause.Error()).Wrap(cause).
		WithHint("the token has to be that of the principal given with --as, by id and kind, and the policy has to name it")
}

// readBackWaits are the pauses between two looks at the record after a reply
// was lost. The decision is in it before the action has ended.
var readBackWaits = []time.Duration{0, 250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second}

// readBack looks whether the decision is recorded. It never posts again.
func (d *decider) readBack(ctx context.Context, cause error) (*record.Decision, error) {
	for _, pause := range readBackWaits {
		if follow.Pause(ctx, pause) != nil {
			return nil, d.stopped(ctx)
		}
		v, err := d.cfg.Net.Approval(ctx, d.plan.ApprovalID, false)
		switch {
		case err != nil:
		case d.holds(v):
			return d.recorded(ctx, v, record.KnownRead), nil
		case v.Status != aip.ApprovalPending:
			return nil, d.review().refuse(v)
		}
	}
	return nil, fault.New(fault.Unknown, "approval.unanswered", "the answer to the decision is not known (%s), and the record does not hold it; it may still arrive, and was not sent again", cause.Error()).Wrap(cause).
		WithHint("read the record until it says more").WithNext(d.read()...)
}

// holds reports whether a record holds this decision, or shows it decided this
// way without saying by whom.
func (d *decider) holds(v *aip.ApprovalView) bool {
	return v.Status == d.plan.Decision && (v.Decision == nil || v.Decision.DecisionID == "" || v.Decision.DecisionID == d.id)
}

func (d *decider) read() []string {
	if d.cfg.Commands == nil {
		return nil
	}
	return d.cfg.Commands.Approval(d.plan.ApprovalID)
}
