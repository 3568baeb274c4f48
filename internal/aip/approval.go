package aip

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// The states of an approval record. Text that is none of these is possible.
const (
	ApprovalPending  = "pending"
	ApprovalApproved = "approved"
	ApprovalDenied   = "denied"
	ApprovalExpired  = "expired"
	ApprovalRevoked  = "revoked"
)

// Principal is who asks or decides. Id and kind together name it.
type Principal struct {
	ID   string `json:"id"`   // as the daemon spells it
	Kind string `json:"kind"` // human, agent, service, tenant, customer, contact or system
}

// Evidence is one thing that a request for approval refers to by its hash.
type Evidence struct {
	ID       string `json:"id,omitempty"`       // its name in the record
	Kind     string `json:"kind"`               // input_snapshot, policy_decision, reason, or another word
	Hash     string `json:"hash,omitempty"`     // of what it stands for, made by the daemon
	Redacted bool   `json:"redacted,omitempty"` // what it stands for is not shown
}

// The kinds of evidence that are decided by.
const (
	EvidenceReason = "reason"
	EvidenceInput  = "input_snapshot"
)

// ApprovalPolicy is the policy that asks for an approval, as far as a client
// has to know it.
type ApprovalPolicy struct {
	Requires            []string `json:"evidence_requirements,omitempty"` // evidence that a decision needs
	RequesterMustDiffer bool     `json:"requester_must_differ"`           // the requester may not approve
	OperatorMustDiffer  bool     `json:"operator_must_differ"`            // the operator may not approve
	AllowSelfApproval   bool     `json:"allow_self_approval"`             // the requester may approve, unless it must differ
}

// ApprovalRequest is what is to be decided. Times are RFC 3339 as written.
type ApprovalRequest struct {
	ID           string
	ActionID     string
	CapabilityID string
	Requester    Principal
	Subject      Principal
	Operator     *Principal
	Selector     string // the form of the approver selector, and whom it names
	Reason       string
	Risk         string
	ExpiresAt    string
	PolicyHash   string
	Evidence     []Evidence
	Policy       *ApprovalPolicy // nil where the record does not hold it
}

// EvidenceHash returns the hash of the first evidence of a kind; empty when
// there is none.
func (r *ApprovalRequest) EvidenceHash(kind string) string {
	for _, e := range r.Evidence {
		if e.Kind == kind {
			return e.Hash
		}
	}
	return ""
}

// ApprovalDecision is how an approval was decided.
type ApprovalDecision struct {
	DecisionID string    `json:"decision_id,omitempty"` // as who decided named it
	Decision   string    `json:"decision"`              // approved, denied, expired or revoked
	Approver   Principal `json:"approver"`              // who decided
	DecidedAt  string    `json:"decided_at,omitempty"`  // RFC 3339 as the daemon wrote it
}

// ApprovalView is the record of an approval as a daemon shows it.
type ApprovalView struct {
	Request   ApprovalRequest
	Status    string // one of the words above, or another
	CreatedAt string
	UpdatedAt string
	Decision  *ApprovalDecision // nil while there is none
	// Action and Result are the action's, where the read asked for them.
	Action *ActionStatus
	Result *ActionResult
	// Input is the action's input, which only some scopes reveal; nil otherwise.
	Input jsontext.Value
}

// DecodeApproval reads the answer of the approval route.
func DecodeApproval(r io.Reader) (*ApprovalView, error) {
	body, err := wholeValue(r)
	if err != nil {
		return nil, fmt.Errorf("approval: %w", err)
	}
	v := approvalView(Member(body, "approval_record_view"))
	if v.Request.ID == "" || v.Status == "" {
		return nil, errors.New("approval: the answer has no approval_record_view")
	}
	return v, nil
}

// DecodeApprovals reads one page of the list of approvals. The cursor is empty
// on the last page.
func DecodeApprovals(r io.Reader) (views []*ApprovalView, cursor string, err error) {
	body, err := wholeValue(r)
	if err != nil {
		return nil, "", fmt.Errorf("approvals: %w", err)
	}
	list := Member(body, "approval_list")
	entries, ok := Elements(Member(list, "approvals"))
	if !ok {
		return nil, "", errors.New("approvals: the answer has no approval_list")
	}
	for _, e := range entries {
		if v := approvalView(e); v.Request.ID != "" {
			views = append(views, v)
		}
	}
	cursor, _ = Unquote(Member(list, "cursor"))
	return views, cursor, nil
}

// RequestedApproval reads the request that comes with a result which waits for
// an approval; nil where there is none.
func RequestedApproval(res *ActionResult) *ApprovalRequest {
	if res == nil {
		return nil
	}
	v := res.Output.Member("approval_request")
	if v.Kind() != '{' {
		return nil
	}
	req := approvalRequest(v)
	return &req
}

// wholeValue reads one JSON value and keeps it, by the lenient rules.
func wholeValue(r io.Reader) (jsontext.Value, error) {
	v, err := jsontext.NewDecoder(r, lenient...).ReadValue()
	if err != nil {
		return nil, err
	}
	return v.Clone(), nil
}

func approvalView(v jsontext.Value) *ApprovalView {
	m := texts(Members(v))
	out := &ApprovalView{Status: m.text("status"), CreatedAt: m.text("created_at"), UpdatedAt: m.text("updated_at"), Request: approvalRequest(m["request"])}
	if d := m["decision"]; d.Kind() == '{' {
		dm := texts(Members(d))
		out.Decision = &ApprovalDecision{DecisionID: dm.text("decision_id"), Decision: dm.text("decision"), Approver: principal(dm["approver"]), DecidedAt: dm.text("decided_at")}
	}
	if st := m["action_status"]; st.Kind() == '{' {
		out.Action, out.Result = statusWithResult(st)
	}
	out.Input = Member(m["evidence_payload"], "input")
	return out
}

// statusWithResult reads a status and the result inside it. What cannot be read
// of either is absent.
func statusWithResult(v jsontext.Value) (*ActionStatus, *ActionResult) {
	st := new(ActionStatus)
	var res *ActionResult
	dec := jsontext.NewDecoder(bytes.NewBuffer(v), lenient...)
	_ = object(dec, func(name string) (err error) {
		if name == "result" {
			res, err = ResultDecoding{}.result(dec)
			return err
		}
		return st.field(dec, name)
	})
	return st, res
}

func approvalRequest(v jsontext.Value) ApprovalRequest {
	m := texts(Members(v))
	r := ApprovalRequest{
		ID: m.text("id"), ActionID: m.text("action_id"), CapabilityID: m.text("capability_id"),
		Requester: principal(m["requester"]), Subject: principal(m["subject"]), Selector: selector(m["approver_selector"]),
		Reason: m.text("reason"), Risk: m.text("risk"), ExpiresAt: m.text("expires_at"), PolicyHash: m.text("policy_hash"),
		Policy: approvalPolicy(m["policy_snapshot"]),
	}
	if p := principal(m["operator"]); p != (Principal{}) {
		r.Operator = &p
	}
	entries, _ := Elements(m["evidence"])
	for _, e := range entries {
		em := texts(Members(e))
		redacted := Bool(em["redacted"])
		r.Evidence = append(r.Evidence, Evidence{ID: em.text("id"), Kind: em.text("kind"), Hash: em.text("hash"), Redacted: redacted != nil && *redacted})
	}
	return r
}

func approvalPolicy(v jsontext.Value) *ApprovalPolicy {
	if v.Kind() != '{' {
		return nil
	}
	p := &ApprovalPolicy{}
	required, _ := Elements(Member(v, "evidence_requirements"))
	for _, e := range required {
		if s, ok := Unquote(e); ok {
			p.Requires = append(p.Requires, s)
		}
	}
	duties := Member(v, "separation_of_duties")
	set := func(name string) bool { b := Bool(Member(duties, name)); return b != nil && *b }
	p.RequesterMustDiffer, p.OperatorMustDiffer, p.AllowSelfApproval = set("requester_must_differ"), set("operator_must_differ"), set("allow_self_approval")
	return p
}

func principal(v jsontext.Value) Principal {
	m := texts(Members(v))
	return Principal{ID: m.text("id"), Kind: m.text("kind")}
}

// selector says in one line who may decide.
func selector(v jsontext.Value) string {
	m := texts(Members(v))
	form := m.text("type")
	for _, name := range []string{"id", "name", "system"} {
		if who := m.text(name); who != "" {
			return form + " " + who
		}
	}
	return form
}

// texts is a JSON object of which mostly strings are wanted.
type texts map[string]jsontext.Value

func (m texts) text(name string) string {
	s, _ := Unquote(m[name])
	return s
}

// Decision is what an approver posts. The reason is optional; everything else
// a daemon refuses to do without.
type Decision struct {
	ApprovalID string
	Decision   string // ApprovalApproved or ApprovalDenied
	Approver   Principal
	DecisionID string // stable for one decision, so that a lost answer can be looked up by it
	PolicyHash string // of the request, repeated; empty where it has none
	Reason     string
}

// Envelope wraps the decision for one sending, as [Action.Envelope] does.
func (d Decision) Envelope(messageID string, now time.Time) ([]byte, error) {
	at := now.UTC().Format(time.RFC3339Nano)
	from := jsonObject("id", d.Approver.ID, "kind", d.Approver.Kind)
	body := jsonObject("approval_id", d.ApprovalID, "decision", d.Decision, "decided_at", at, "decision_id", d.DecisionID,
		"policy_hash", d.PolicyHash, "reason", d.Reason)
	body = append(append(append(body[:len(body)-1], `,"approver":`...), from...), '}')
	env := jsonObject("aip_version", Version, "message_type", "aip.policy.v1.approval_decision", "message_id", messageID, "sent_at", at)
	env = append(append(append(env[:len(env)-1], `,"from":`...), from...), `,"body":{"approval_decision":`...)
	env = append(append(env, body...), "}}"...)
	if !jsontext.Value(env).IsValid() {
		return nil, errors.New("the decision cannot be written as JSON")
	}
	return env, nil
}

// jsonObject writes string members in their order, leaving out empty ones.
func jsonObject(pairs ...string) []byte {
	b := []byte{'{'}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b, _ = jsontext.AppendQuote(b, pairs[i]) // names are ours
		b = append(b, ':')
		b, _ = jsontext.AppendQuote(b, pairs[i+1]) // what is no UTF-8 is replaced
	}
	return append(b, '}')
}
