package devserver

import (
	"context"
	"net/http"
	"slices"
	"strings"
)

// approvalDecision is the ApprovalDecision object.
type approvalDecision struct {
	ApprovalID       string    `json:"approval_id"`
	Decision         string    `json:"decision"`
	Approver         principal `json:"approver"`
	DecidedAt        string    `json:"decided_at"`
	Reason           string    `json:"reason,omitempty"`
	Constraints      []any     `json:"constraints,omitempty"`
	Evidence         []any     `json:"evidence,omitempty"`
	DecisionID       string    `json:"decision_id,omitempty"`
	PolicyHash       string    `json:"policy_hash,omitempty"`
	AuthorityPath    []string  `json:"authority_path,omitempty"`
	TargetDecisionID string    `json:"target_decision_id,omitempty"`
}

// decided is the answer to a decision: the events it caused.
type decided struct {
	Events []event `json:"events"`
}

// decide takes an approval decision, which has no route of its own: it comes as
// an envelope. A refusal changes nothing. Granting runs the action inside this
// request; when ctx ends first, the action goes on.
func (s *Server) decide(ctx context.Context, env *envelope) answer {
	d := *env.Body.Decision
	a, events, err := s.store.decide(d, env.caller)
	if err != nil {
		return answer{err: s.refused(err)}
	}
	return s.detached(ctx, func() answer {
		if d.Decision == approved {
			events = append(events, s.resume(a)...)
		}
		return answer{key: "event_stream", body: decided{events}, lost: s.loses(a)}
	})
}

// refused is a decision that was not taken. The rule it broke stays inside: only
// the words leave, as a refusal of authority, unless the options say that this
// daemon tells the code.
func (s *Server) refused(e *protocolError) *protocolError {
	if e.Category != policy || s.opts.PolicyCodes {
		return e
	}
	return newError(e.Source.(map[string]string)["component"], auth, "auth.not_authorized", e.Message)
}

// decide checks a decision by the rules, in order, and records it. It returns
// the events that tell of it.
func (st *store) decide(d approvalDecision, by caller) (*approval, []event, *protocolError) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.decisions = append(st.decisions, d.DecisionID)
	a := st.approval(d.ApprovalID)
	if a == nil {
		e := newError("aip-runtime", temporary, "runtime.handler_failed", "no such approval is on record")
		e.Retryable = true
		return nil, nil, e
	}
	if err := a.takes(d, by, st); err != nil {
		return nil, nil, err
	}
	now, from := st.now(), len(st.events)
	d.AuthorityPath = []string{by.ID}
	a.status, a.decision, a.updatedAt = d.Decision, &d, now
	kind := map[string]string{approved: "aip.approval.granted", denied: "aip.approval.denied"}[d.Decision]
	st.append(a.run, kind, map[string]any{
		"approval_id": d.ApprovalID, "decision": d.Decision, "approver": d.Approver,
		"decided_at": looseTime(now), "reason": d.Reason,
	})
	if d.Decision == denied {
		st.endBlocked(a, "failed", newError("aip-runtime", policy, "policy.approval_denied", "the approval was denied"))
	}
	return a, slices.Clone(st.events[from:]), nil
}

// takes says which rule a decision breaks, nil when none. A decision that was
// recorded ends the request, so the same one once more is refused like any other
// that comes late; the requester decides nothing about its own action.
func (a *approval) takes(d approvalDecision, by caller, st *store) *protocolError {
	refuse := func(code, message string) *protocolError {
		return newError("aip-runtime", policy, "policy."+code, message)
	}
	switch {
	case d.Approver != by.principal:
		return refuse("approver_identity_mismatch", "the approver is not the authenticated caller")
	case a.status == expired || a.status == pending && !st.now().Before(a.request.ExpiresAt.time()):
		return refuse("approval_expired", "the approval request expired")
	case a.status != pending:
		return refuse("approval_not_pending", "the approval was decided before")
	case strings.TrimSpace(d.DecisionID) == "":
		return refuse("approval_decision_id_required", "the decision has no id")
	case d.Decision == "revoked" && d.TargetDecisionID == "":
		return refuse("approval_revocation_target_required", "a revocation names the decision it revokes")
	case d.Decision == "revoked":
		return refuse("approval_revocation_target_missing", "no such decision is on record")
	case d.Decision == expired:
		return refuse("approver_unauthorized", "only the daemon lets an approval expire")
	case d.PolicyHash != a.request.PolicyHash:
		return refuse("approval_hash_mismatch", "the decision is about another request")
	case a.policy.asksReason() && strings.TrimSpace(d.Reason) == "":
		return refuse("approval_evidence_missing", "the policy asks for a reason")
	case a.request.Requester == by.principal:
		return refuse("separation_of_duties.requester", "the requester cannot decide about its own action")
	case !by.decides:
		return refuse("approver_unauthorized", "the caller has no authority over this approval")
	case len(d.Constraints) > 0:
		return refuse("approval_constraint_failed", "this daemon holds an action to no constraint")
	}
	return nil
}

// resume runs an approved action and returns the events that tell of it. It is
// no submission: the key, the mode and the input are those of the stored action,
// and it ends as a queued one does, so a failure is dead-lettered. An action
// that was cancelled before is not run.
func (s *Server) resume(a *approval) []event {
	r := a.run
	if !s.store.unblock(a) {
		return nil
	}
	res, ended := s.attempted(r)
	if !ended {
		s.store.abandon(r)
		return nil
	}
	told := resumedEvent{a.request.ID, r.action.ID, res.Status}
	if !s.store.settleQueued(r, res, "aip.action.resumed_result", told) {
		return nil
	}
	s.store.settleKey(r, &res)
	return s.store.toldOf(r.action.ID, "aip.action.resumed_result")
}

// unblock makes the action of a granted approval run; false when it no longer
// waits for it.
func (st *store) unblock(a *approval) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.waits(a) {
		return false
	}
	rec, now := st.records[a.run.action.ID], st.now()
	rec.status, rec.updatedAt, rec.startedAt = running, now, now
	rec.attempts++
	return true
}

// toldOf returns the last event of that kind about an action.
func (st *store) toldOf(actionID, kind string) []event {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, ev := range slices.Backward(st.events) {
		if ev.ActionID == actionID && ev.Kind == kind {
			return []event{ev}
		}
	}
	return nil
}

// loses takes one reply that is to be lost, when there is one.
func (s *Server) loses(a *approval) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.losing > 0 {
		s.losing--
		return true
	}
	return a.run.scenario.play.loseDecision
}

// LoseDecisionReplies cuts the connection instead of answering the next
// decisions that are recorded, after the action has run.
func (s *Server) LoseDecisionReplies(times int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.losing += times
}

// Decisions returns the decision id of every approval decision that passed the
// checks of its form, its token and the replay window, in order, refused ones
// included. A decision without an id is an empty string.
func (s *Server) Decisions() []string {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	return slices.Clone(s.store.decisions)
}

// abort cuts the connection: the client gets no answer at all.
func abort() { panic(http.ErrAbortHandler) }
