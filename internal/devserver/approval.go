package devserver

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// defaultApprovalTTL is how long an approval waits for a decision.
const defaultApprovalTTL = 900 * time.Second

// approvalPolicy is the approval part of a contract, and the snapshot of it in
// each request.
type approvalPolicy struct {
	Required             bool              `json:"required"`
	ApproverSelector     map[string]string `json:"approver_selector"`
	TTLMS                int64             `json:"ttl_ms"`
	EvidenceRequirements []string          `json:"evidence_requirements"`
	MinimumPrincipals    int               `json:"minimum_distinct_principals"`
	Separation           separation        `json:"separation_of_duties"`
}

// separation says who may not decide. The requester must be another one here,
// always.
type separation struct {
	RequesterMustDiffer bool `json:"requester_must_differ"`
	OperatorMustDiffer  bool `json:"operator_must_differ"`
	AllowSelfApproval   bool `json:"allow_self_approval"`
}

// approvalPolicy returns the policy of the scenario, nil where nobody has to
// approve. A deletion asks for the reason of the decision, a chat does not.
func (sc *Scenario) approvalPolicy(ttl time.Duration) *approvalPolicy {
	if !sc.needsApproval() {
		return nil
	}
	p := &approvalPolicy{
		Required: true, ApproverSelector: map[string]string{"type": "tenant_policy"}, TTLMS: ttl.Milliseconds(),
		EvidenceRequirements: []string{"input_snapshot", "policy_decision"}, MinimumPrincipals: 1,
		Separation: separation{RequesterMustDiffer: true},
	}
	if sc.contract().approval {
		p.EvidenceRequirements = slices.Insert(p.EvidenceRequirements, 0, "reason")
	}
	return p
}

// asksReason reports whether a decision without a reason is refused.
func (p *approvalPolicy) asksReason() bool { return slices.Contains(p.EvidenceRequirements, "reason") }

// approvalRequest is the ApprovalRequest object. The input is not in it, only
// its hash.
type approvalRequest struct {
	ID               string            `json:"id"`
	ActionID         string            `json:"action_id"`
	CapabilityID     string            `json:"capability_id"`
	Requester        principal         `json:"requester"`
	Subject          principal         `json:"subject"`
	ApproverSelector map[string]string `json:"approver_selector"`
	Reason           string            `json:"reason"`
	Evidence         []evidence        `json:"evidence"`
	ExpiresAt        timestamp         `json:"expires_at"`
	PolicyDecisionID string            `json:"policy_decision_id"`
	PolicySnapshot   *approvalPolicy   `json:"policy_snapshot"`
	PolicyHash       string            `json:"policy_hash"`
	Operator         principal         `json:"operator"`
	Risk             string            `json:"risk"`
}

type evidence struct {
	ID       string `json:"id"`
	Kind     string `json:"kind"`
	Hash     string `json:"hash"`
	Redacted bool   `json:"redacted"`
}

// approval is the record of one request.
type approval struct {
	request   approvalRequest
	policy    *approvalPolicy
	run       *run
	status    string
	decision  *approvalDecision
	createdAt time.Time
	updatedAt time.Time
}

// Approval statuses. Nothing is ever revoked here: that would take a decision
// that was recorded and has not ended the request.
const (
	pending  = "pending"
	approved = "approved"
	denied   = "denied"
)

// askHuman answers an action that needs an approval: a result that is not stored
// as one, in every mode. The status of the action will not name the approval;
// this answer, the event and the list of approvals do.
func (s *Server) askHuman(r *run) actionResult {
	now, a, sc := s.now(), r.action, r.scenario
	policyOf := sc.approvalPolicy(s.opts.ApprovalTTL)
	request := approvalRequest{
		ID: newID("appr_", now), ActionID: a.ID, CapabilityID: a.CapabilityID,
		Requester: r.caller, Subject: r.caller, Operator: r.caller,
		ApproverSelector: policyOf.ApproverSelector, Reason: "the endpoint asks for a human decision",
		Evidence: []evidence{
			{"evidence:input:" + a.ID, "input_snapshot", digest(a.Input), true},
			{"evidence:policy:" + a.ID, "policy_decision", digest([]byte(a.CapabilityID)), false},
		},
		ExpiresAt: timestamp(now.Add(s.opts.ApprovalTTL)), PolicyDecisionID: "policy:" + a.ID,
		PolicySnapshot: policyOf, PolicyHash: digest(encode(policyOf)), Risk: "high",
	}
	e := newError("aip-runtime", policy, "policy.human_approval_required", "a human approval is needed")
	res := actionResult{
		ActionID: a.ID, Status: "pending_approval",
		Output: encode(map[string]any{
			"requires_human_approval": true, "approval_id": request.ID, "capability_id": a.CapabilityID,
			"reason": "allowed", "approval_request": request,
		}),
		Error: e.with(map[string]any{
			"capability_id": a.CapabilityID, "risk": "high", "requires_human_approval": true,
			"approval_id": request.ID, "approval_policy": policyOf,
		}),
	}
	if sc.play.otherHashes {
		request = request.changed()
	}
	s.store.waitForHuman(&approval{request: request, policy: policyOf, run: r, status: pending, createdAt: now, updatedAt: now})
	s.after(s.opts.ApprovalTTL, func() { s.store.expireApproval(request.ID) })
	s.store.settleKey(r, &res)
	return res
}

// changed is the request as if its input and policy had become others.
func (q approvalRequest) changed() approvalRequest {
	q.PolicyHash = digest([]byte(q.PolicyHash))
	q.Evidence = slices.Clone(q.Evidence)
	for i := range q.Evidence {
		q.Evidence[i].Hash = digest([]byte(q.Evidence[i].Hash))
	}
	return q
}

// waitForHuman records an action that needs an approval, and the request.
func (st *store) waitForHuman(a *approval) {
	st.mu.Lock()
	defer st.mu.Unlock()
	r, q := a.run, a.request
	st.approvals = append(st.approvals, a)
	st.records[r.action.ID] = &record{run: r, status: requiresHuman, createdAt: a.createdAt, updatedAt: a.createdAt}
	st.append(r, "aip.approval.requested", map[string]any{
		"approval_id": q.ID, "action_id": q.ActionID, "capability_id": q.CapabilityID,
		"requester": q.Requester, "subject": q.Subject, "reason": q.Reason,
		"expires_at": looseTime(time.Time(q.ExpiresAt)),
	})
}

// approval finds a record; it needs mu.
func (st *store) approval(id string) *approval {
	for _, a := range st.approvals {
		if a.request.ID == id {
			return a
		}
	}
	return nil
}

// waits reports whether the action still waits for this approval. After a cancel
// request it does not, although the approval stays pending; it needs mu.
func (st *store) waits(a *approval) bool {
	rec := st.records[a.run.action.ID]
	return rec != nil && rec.run == a.run && rec.status == requiresHuman
}

// expireApproval is the daemon's own decision when nobody decided in time: the
// action ends with a stored failure, and its queue record says expired.
func (st *store) expireApproval(id string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	a := st.approval(id)
	if a == nil || a.status != pending {
		return
	}
	now := st.now()
	a.status, a.updatedAt = expired, now
	st.append(a.run, "aip.approval.expired", map[string]any{"approval_id": id, "decision": expired, "decided_at": looseTime(now)})
	st.endBlocked(a, expired, newError("aip-runtime", policy, "policy.approval_expired", "the approval request expired"))
}

// endBlocked ends an action whose approval will not come; it needs mu. A key
// then brings back this end. It does nothing to one that was cancelled.
func (st *store) endBlocked(a *approval, status string, e *protocolError) {
	if !st.waits(a) {
		return
	}
	id, actionID := a.request.ID, a.run.action.ID
	rec := st.records[actionID]
	rec.status, rec.updatedAt, rec.lastError = status, st.now(), e.with(map[string]string{"approval_id": id})
	res := failedResult(actionID, e)
	st.storeResult(a.run, res)
	st.settleClaim(a.run, &res)
	st.append(a.run, "aip.action.approval_terminal", resumedEvent{id, actionID, "failed"})
}

// resumedEvent is the data of the events that tell how a decision went on.
type resumedEvent struct {
	ApprovalID string `json:"approval_id"`
	ActionID   string `json:"action_id"`
	Status     string `json:"status"`
}

// approvalView is the ApprovalRecordView object.
type approvalView struct {
	Request      approvalRequest   `json:"request"`
	Decision     *approvalDecision `json:"decision,omitempty"`
	Status       string            `json:"status"`
	ActionStatus *actionStatus     `json:"action_status,omitempty"`
	Payload      *evidencePayload  `json:"evidence_payload,omitempty"`
	CreatedAt    timestamp         `json:"created_at"`
	UpdatedAt    timestamp         `json:"updated_at"`
}

// evidencePayload is what will run, in the clear.
type evidencePayload struct {
	ActionID     string `json:"action_id"`
	CapabilityID string `json:"capability_id"`
	InputHash    string `json:"input_hash"`
	Input        any    `json:"input"`
}

// view builds the view of a record; it needs mu.
func (st *store) view(a *approval, withStatus bool) approvalView {
	v := approvalView{
		Request: a.request, Decision: copied(a.decision), Status: a.status,
		CreatedAt: timestamp(a.createdAt), UpdatedAt: timestamp(a.updatedAt),
	}
	if withStatus {
		status := st.statusOf(a.run.action.ID, true, false)
		v.ActionStatus = &status
	}
	return v
}

// sees reports whether the caller may read the record: the requester, who has
// authority over it, who decided it, and who may read them all.
func (c caller) sees(a *approval) bool {
	return a.request.Requester == c.principal || a.request.Subject == c.principal || c.decides ||
		a.decision != nil && a.decision.Approver == c.principal || c.hasAny("approval", "read")
}

// The typed parameters of the approval routes.
var (
	approvalsParams = []string{"limit", "include_action_status", "include_receipts"}
	approvalParams  = []string{"include_action_status", "include_receipts", "include_evidence_payload"}
)

// approvals is the list of the approvals that the caller may see, oldest first.
// A filter is compared as text; one that nothing matches is no mistake.
func (s *Server) approvals(w http.ResponseWriter, r *request) {
	if err := r.caller.lacks("approval", "read"); err != nil {
		s.fail(w, err)
		return
	}
	offset, err := r.query.offset()
	if err != nil {
		s.fail(w, err)
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"approval_list": s.store.approvalList(r.caller, r.query, offset)})
}

// approvalList is the ApprovalList object.
type approvalList struct {
	Approvals []approvalView `json:"approvals"`
	Cursor    string         `json:"cursor,omitempty"`
}

func (st *store) approvalList(by caller, q params, offset int) approvalList {
	st.mu.Lock()
	defer st.mu.Unlock()
	found := slices.DeleteFunc(slices.Clone(st.approvals), func(a *approval) bool {
		status, requester, approver := q.Get("status"), q.Get("requester"), q.Get("approver")
		return !by.sees(a) || status != "" && status != a.status || requester != "" && requester != a.request.Requester.ID ||
			approver != "" && (a.decision == nil || approver != a.decision.Approver.ID)
	})
	list := approvalList{Approvals: []approvalView{}}
	from := min(offset, len(found))
	to := min(from+q.limit(), len(found))
	for _, a := range found[from:to] {
		list.Approvals = append(list.Approvals, st.view(a, q.isTrue("include_action_status")))
	}
	if to < len(found) {
		list.Cursor = fmt.Sprintf("offset:%d", to)
	}
	return list
}

// approval is one record. What will run is shown by its hash; in the clear only
// to who asks for it and has both scopes that reveal it.
func (s *Server) approval(w http.ResponseWriter, r *request) {
	v, err := s.approvalView(r)
	if err != nil {
		s.fail(w, err)
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"approval_record_view": v})
}

func (s *Server) approvalView(r *request) (approvalView, *protocolError) {
	needed := []string{"read"}
	revealing := r.query.isTrue("include_evidence_payload")
	if revealing {
		needed = append(needed, "export", "sensitive")
	}
	for _, operation := range needed {
		if err := r.caller.lacks("approval", operation); err != nil {
			return approvalView{}, err
		}
	}
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	a := s.store.approval(r.id)
	if a == nil {
		e := newError("aip-runtime", permanent, "approval.not_found", "no such approval is on record")
		return approvalView{}, e.with(map[string]string{"approval_id": r.id})
	}
	if !r.caller.sees(a) {
		e := newError("aip-runtime.query-authorization", auth, "auth.not_authorized", "the approval is another principal's")
		return approvalView{}, e.with(map[string]string{"approval_id": r.id, "required_scope": "approval:read:any"})
	}
	v := s.store.view(a, r.query.isTrue("include_action_status"))
	if revealing {
		act := a.run.action
		v.Payload = &evidencePayload{act.ID, act.CapabilityID, digest(act.Input), act.Input}
	}
	return v, nil
}

// ChangeApproval gives the request of an approval other hashes, as if its input
// and its policy had been changed behind the back of whoever has read it. It
// does nothing when there is no such approval.
func (s *Server) ChangeApproval(approvalID string) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	if a := s.store.approval(approvalID); a != nil {
		a.request, a.updatedAt = a.request.changed(), s.now()
	}
}

// validApprovalID is the rule for approval ids in paths.
func validApprovalID(id string) bool {
	return len(id) > len("appr_") && strings.HasPrefix(id, "appr_")
}
