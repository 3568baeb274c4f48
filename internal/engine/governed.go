package engine

import (
	"context"
	"slices"
	"strings"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/identity"
	"github.com/aipctl/aipctl/internal/record"
	"github.com/aipctl/aipctl/internal/state"
	"github.com/aipctl/aipctl/internal/verdict"
	"github.com/go-json-experiment/json"
)

func approvalID(res *aip.ActionResult) string {
	if res == nil {
		return ""
	}
	if id := res.Output.String("approval_id"); id != "" {
		return id
	}
	return res.Error.DetailString("approval_id")
}

// approvalAsked records and shows the approval that an answer says the action
// waits for. The status of the action will not give its id back.
func (r *run) approvalAsked(ctx context.Context, res *aip.ActionResult) {
	id := approvalID(res)
	if id == "" {
		return
	}
	rec := &state.Approval{ApprovalID: id}
	if req := aip.RequestedApproval(res); req != nil {
		rec.PolicyHash, rec.InputHash, rec.ExpiresAt = req.PolicyHash, req.EvidenceHash(aip.EvidenceInput), req.ExpiresAt
		r.reason = req.Policy != nil && slices.Contains(req.Policy.Requires, aip.EvidenceReason)
	}
	r.approval = id
	_ = r.append(ctx, true, state.Record{Type: state.TypeApproval, ActionID: r.id, Approval: rec})
	shown := &record.Approval{ApprovalID: id, ExpiresAt: rec.ExpiresAt}
	if r.cfg.Commands != nil {
		shown.Approve = r.cfg.Commands.Approve(id, r.reason)
	}
	_ = r.show(r.cfg.Sink.State(record.State{Head: record.NewHead(record.TypeState), State: record.StateApproval, Approval: shown}))
}

// approvalEvent keeps the id of the approval that an event asks for: it is all
// there is where the answer was lost.
func (r *run) approvalEvent(e aip.Event) {
	if e.Kind != "aip.approval.requested" || e.ActionID != "" && e.ActionID != r.id {
		return
	}
	var id string
	if json.Unmarshal(aip.Member(e.Data, "approval_id"), &id) == nil && identity.ParseApprovalID(id) == nil {
		r.asking = id
	}
}

// governed adds what an outcome says of an approval and of a deletion.
func (r *run) governed(ctx context.Context, o *verdict.Outcome, res *aip.ActionResult) {
	if r.approval == "" && r.asking != "" {
		r.approval = r.asking
		_ = r.append(ctx, true, state.Record{Type: state.TypeApproval, ActionID: r.id, Approval: &state.Approval{ApprovalID: r.approval}})
	}
	if o.Verdict == fault.Pending.String() && r.approval != "" {
		o.ApprovalID = orElse(o.ApprovalID, r.approval)
		if r.cfg.Commands != nil {
			o.Approve = r.cfg.Commands.Approve(o.ApprovalID, r.reason)
		}
	}
	if r.operation != verdict.OpResponseDelete {
		return
	}
	o.ResponseID = orElse(o.ResponseID, r.asked)
	switch {
	case o.Verdict == fault.NotFound.String():
		o.Reason = "the store has no such response; that is no proof that this action deleted it"
	case res != nil && res.Status == aip.StatusCompleted && !r.foreign(res):
		r.receipt(ctx, o, res)
	}
}

// receipt makes the audit record of a deletion: what the store answered, and
// the decision that let it run. The receipt stands without the decision.
func (r *run) receipt(ctx context.Context, o *verdict.Outcome, res *aip.ActionResult) {
	o.Receipt = verdict.ReadReceipt(res.Output)
	o.Receipt.ApprovalID = r.approval
	if r.approval == "" || r.cfg.Approvals == nil || signalOf(ctx) != 0 {
		return
	}
	o.ApprovalID = orElse(o.ApprovalID, r.approval)
	v, err := r.cfg.Approvals.Approval(ctx, r.approval, false)
	switch {
	case err != nil:
		_ = r.warn("receipt.decision", "the decision that let this run could not be read: "+err.Error())
	case v.Decision != nil:
		o.Receipt.DecisionID = v.Decision.DecisionID
	}
}

// plainID reports whether s is a provider's id that the state file may hold.
func plainID(s string) bool { return identity.MadeOf(s, 200, "_.:-") }

// recordedReceipt is a receipt as the state file may keep it: ids and no other
// words of a provider.
func recordedReceipt(r *verdict.Receipt) *state.Receipt {
	if r == nil {
		return nil
	}
	plain := func(s string) string {
		if s == "" || plainID(s) {
			return s
		}
		return "other"
	}
	return &state.Receipt{
		ResponseID: plain(r.ResponseID), Object: plain(r.Object), Deleted: r.Deleted,
		ApprovalID: plain(r.ApprovalID), DecisionID: plain(r.DecisionID),
	}
}

// readStored adds the reading of a stored response to the ways on of a deletion
// or a read that is in doubt. Reading is all that may be done about a deletion.
func (r *run) readStored(o *verdict.Outcome) {
	if stem, ok := storedStem(r.cap); ok && r.asked != "" {
		o.Next = append(o.Next, r.cfg.Commands.Response(r.asked, stem+verdict.OpResponseGet))
	}
}

// storedStem is what the capabilities on stored responses of one endpoint have
// in common.
func storedStem(capability string) (string, bool) {
	for _, op := range []string{verdict.OpResponseGet, verdict.OpResponseDelete} {
		if stem, ok := strings.CutSuffix(capability, ":"+op); ok {
			return stem + ":", true
		}
	}
	return "", false
}
