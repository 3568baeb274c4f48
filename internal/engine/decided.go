package engine

import (
	"context"
	"errors"
	"time"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/follow"
	"github.com/aipctl/aipctl/internal/record"
	"github.com/aipctl/aipctl/internal/state"
	"github.com/aipctl/aipctl/internal/verdict"
)

// endWait is how long the end of an approved action is waited for when the
// answer to the decision did not bring it.
const endWait = 10 * time.Second

// recorded makes the record of a decision that the daemon holds, and reads what
// became of the action. v is the record as it was read last; nil reads it.
func (d *decider) recorded(ctx context.Context, v *aip.ApprovalView, known string) *record.Decision {
	req := &d.view.Request
	rec := &record.Decision{
		Head: record.NewHead(record.TypeDecision), ApprovalID: d.plan.ApprovalID, ActionID: req.ActionID, CapabilityID: req.CapabilityID,
		Decision: d.plan.Decision, DecisionID: d.id, Approver: d.as, Known: known, Status: d.plan.Decision,
	}
	if known == record.KnownVote {
		rec.Status = aip.ApprovalPending
		rec.Next = [][]string{d.read()}
		return rec
	}
	res := d.ended(ctx, rec, v)
	if res == nil {
		if d.cfg.Commands != nil {
			rec.Next = [][]string{d.cfg.Commands.Result(req.ActionID)}
		}
		return rec
	}
	rec.ActionStatus = res.Status
	if res.Error != nil {
		rec.ActionError = res.Error.Spelled()
	}
	d.judge(ctx, rec, res)
	return rec
}

// ended reads the action's result: from its own route, or where that is refused
// to who decides, from the record of the approval. nil is no result.
func (d *decider) ended(ctx context.Context, rec *record.Decision, v *aip.ApprovalView) *aip.ActionResult {
	until := d.now().Add(endWait)
	if d.plan.Wait != nil {
		until = d.now().Add(*d.plan.Wait)
	}
	for delay := pollFirst / 4; ; delay = min(delay*2, pollMost) {
		res, err := d.cfg.Net.Result(ctx, d.view.Request.ActionID, aip.ResultDecoding{})
		if err == nil {
			return res
		}
		if v == nil {
			v, _ = d.cfg.Net.Approval(ctx, d.plan.ApprovalID, false)
		}
		if v != nil {
			rec.Status = v.Status
			if v.Action != nil {
				rec.ActionState = v.Action.State
			}
			if v.Result != nil {
				return v.Result
			}
		}
		var remote *aip.RemoteError
		refused := errors.As(err, &remote) && (remote.Status == 401 || remote.Status == 403)
		switch {
		case refused && rec.ActionState == "", // neither route shows anything to who decides
			rec.ActionState == aip.StateCancelled, rec.ActionState == aip.StateExpired, // there will be none
			!d.now().Before(until), follow.Pause(ctx, delay) != nil:
			return nil
		}
		v = nil
	}
}

// judge names the action's verdict where its result alone can tell, and keeps it
// when the state file has the action's intent.
func (d *decider) judge(ctx context.Context, rec *record.Decision, res *aip.ActionResult) {
	_, operation := capabilityParts(rec.CapabilityID)
	if !verdict.JudgedByResult(operation) {
		if d.cfg.Commands != nil {
			rec.Next = [][]string{d.cfg.Commands.Result(rec.ActionID)}
		}
		return
	}
	asked := ""
	if d.action != nil && d.action.Intent != nil {
		asked = d.action.Intent.ResponseID
	}
	j := verdict.Judge(verdict.Evidence{Operation: operation, Result: res, ResponseID: asked})
	rec.Verdict = j.Verdict.String()
	if d.action == nil || d.action.Intent == nil || j.Verdict == fault.Pending {
		return
	}
	s := &state.Settled{Verdict: rec.Verdict, ExitCode: j.Verdict.Code(), Checks: j.Checks.Map(), AIPStatus: res.Status, Missing: j.Checks.MissingCount()}
	if res.Error != nil {
		s.ErrorCode = res.Error.Code // what only stands in its place is text, and none is kept
	}
	if operation == verdict.OpResponseDelete && res.Status == aip.StatusCompleted {
		receipt := verdict.ReadReceipt(res.Output)
		receipt.ApprovalID, receipt.DecisionID = rec.ApprovalID, rec.DecisionID
		s.Receipt = recordedReceipt(receipt)
	}
	// The decision is made; a state file that cannot take the verdict changes
	// nothing about it.
	_ = d.cfg.Journal.Append(ctx, false, state.Record{Type: state.TypeSettled, ActionID: rec.ActionID, Settled: s})
}
