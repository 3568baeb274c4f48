package engine

import (
	"slices"
	"time"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/state"
)

// review is what is looked at before a decision is posted. The daemon checks all
// of it again, but answers most of its refusals with one code for all.
type review struct {
	decision string        // aip.ApprovalApproved or aip.ApprovalDenied
	as       aip.Principal // who decides
	reason   string
	known    state.Approval // what the submitter was told, as far as the state file knows
	now      time.Time
}

func notPending(code, format string, args ...any) *fault.Error {
	return fault.New(fault.Rejected, code, format, args...)
}

// refuse says why the decision cannot be posted; nil when it can. Classes are
// those of the exit table: rejected for what the record rules out, usage for a
// reason that is missing.
func (r review) refuse(v *aip.ApprovalView) error {
	req := &v.Request
	switch {
	case v.Status == aip.ApprovalExpired:
		return notPending("approval.expired", "the approval has expired; nothing can be decided any more").
			WithHint("the action has ended as rejected; its requester can submit it again")
	case v.Status != aip.ApprovalPending:
		return notPending("approval.not_pending", "the approval is no longer pending: it is %s%s", v.Status, decidedBy(v)).
			WithHint("nothing is left to decide")
	case expired(req.ExpiresAt, r.now):
		return notPending("approval.expired", "the approval expired at %s, by this machine's clock", req.ExpiresAt).
			WithHint("check the clock; if it is right, the requester has to submit again")
	case r.decision == aip.ApprovalApproved && req.Requester == r.as && !selfApproval(req.Policy):
		return notPending("approval.own_request", "%s is who asks for this approval, and may not give it", r.as.ID).
			WithHint("somebody else has to decide, with a token and --as of their own")
	case r.decision == aip.ApprovalApproved && req.Operator != nil && *req.Operator == r.as && req.Policy != nil && req.Policy.OperatorMustDiffer:
		return notPending("approval.own_request", "%s runs this action, and the policy wants another one to approve it", r.as.ID).
			WithHint("somebody else has to decide, with a token and --as of their own")
	}
	if what := r.changed(req); what != "" {
		return notPending("approval.changed", "the %s of this request is not the one that its submitter was told", what).
			WithHint("do not decide about it; ask the submitter, and the operator of the daemon")
	}
	if r.reason == "" && req.Policy != nil && slices.Contains(req.Policy.Requires, aip.EvidenceReason) {
		return fault.New(fault.Usage, "usage.reason", "the policy asks for a reason, and none was given").
			WithHint("say why with --reason TEXT")
	}
	return nil
}

// selfApproval reports whether a policy lets who asks decide. Without a policy
// nothing says so.
func selfApproval(p *aip.ApprovalPolicy) bool {
	return p != nil && p.AllowSelfApproval && !p.RequesterMustDiffer
}

// changed names the hash that is not the one the submitter recorded.
func (r review) changed(req *aip.ApprovalRequest) string {
	switch {
	case r.known.PolicyHash != "" && r.known.PolicyHash != req.PolicyHash:
		return "policy hash"
	case r.known.InputHash != "" && r.known.InputHash != req.EvidenceHash(aip.EvidenceInput):
		return "hash of the input"
	}
	return ""
}

// sameRequest reports whether two views show the same thing to decide about.
func sameRequest(a, b *aip.ApprovalView) bool {
	return a.Request.ActionID == b.Request.ActionID && a.Request.CapabilityID == b.Request.CapabilityID &&
		a.Request.PolicyHash == b.Request.PolicyHash && slices.Equal(a.Request.Evidence, b.Request.Evidence)
}

func expired(at string, now time.Time) bool {
	t, err := time.Parse(time.RFC3339Nano, at)
	return err == nil && now.After(t)
}

// decidedBy says who decided, as far as a record shows it.
func decidedBy(v *aip.ApprovalView) string {
	if v.Decision == nil || v.Decision.Approver.ID == "" {
		return ""
	}
	by := " by " + v.Decision.Approver.ID
	if v.Decision.DecidedAt != "" {
		by += " at " + v.Decision.DecidedAt
	}
	return by
}
