package record

import (
	"github.com/aipctl/aipctl/internal/aip"
	"github.com/go-json-experiment/json/jsontext"
)

// The types of records about approvals.
const (
	TypeApproval  = "approval"
	TypeApprovals = "approvals"
	TypeDecision  = "decision"
)

// ApprovalRecord is an approval as its daemon shows it, with what a clock adds.
// The daemon's times are RFC 3339 as it wrote them.
type ApprovalRecord struct {
	Head
	ApprovalID   string                `json:"approval_id"`             // appr_…
	ActionID     string                `json:"action_id"`               // the action that waits
	CapabilityID string                `json:"capability_id,omitempty"` // what it would run
	Status       string                `json:"status"`                  // pending, approved, denied, expired, revoked, or another word of the daemon
	Requester    aip.Principal         `json:"requester"`               // who asks
	Subject      aip.Principal         `json:"subject"`                 // for whom
	Operator     *aip.Principal        `json:"operator,omitempty"`      // who runs it
	Approvers    string                `json:"approvers,omitempty"`     // who may decide, by the form of the selector
	Reason       string                `json:"reason,omitempty"`        // why an approval is asked for
	Risk         string                `json:"risk,omitempty"`          // low, medium, high or critical
	CreatedAt    string                `json:"created_at,omitempty"`    // when it was asked for
	UpdatedAt    string                `json:"updated_at,omitempty"`    // when it changed last
	ExpiresAt    string                `json:"expires_at,omitempty"`    // until when it can be decided
	AgeMS        *int64                `json:"age_ms,omitempty"`        // milliseconds since it was asked for, by this machine's clock
	LeftMS       *int64                `json:"left_ms,omitempty"`       // milliseconds until it expires, while it is pending; negative when that has passed
	PolicyHash   string                `json:"policy_hash,omitempty"`   // of the policy that asks for it
	Policy       *aip.ApprovalPolicy   `json:"policy,omitempty"`        // that policy, where the record holds it
	Evidence     []aip.Evidence        `json:"evidence,omitempty"`      // what the request refers to, by hash
	Decision     *aip.ApprovalDecision `json:"decision,omitempty"`      // how it was decided
	ActionState  string                `json:"action_state,omitempty"`  // lifecycle state of the action
	Input        jsontext.Value        `json:"input,omitempty"`         // of the action, where the caller's scopes reveal it; with approval get only
	Events       []Event               `json:"events,omitempty"`        // of the action; with approval get only
}

// ApprovalDocument is the one document of approval list -o json.
type ApprovalDocument struct {
	Head
	Approvals []ApprovalRecord `json:"approvals"` // pending ones first, those first that have the least time left
}

// Decision is what became of a decision about an approval, and of the action
// that it was about.
type Decision struct {
	Head
	ApprovalID   string        `json:"approval_id"`                 // what was decided
	ActionID     string        `json:"action_id"`                   // the action that waited
	CapabilityID string        `json:"capability_id,omitempty"`     // what it runs
	Decision     string        `json:"decision"`                    // approved or denied
	DecisionID   string        `json:"decision_id"`                 // made here, and recorded before it was posted
	Approver     aip.Principal `json:"approver"`                    // who decided
	Known        string        `json:"known"`                       // how it is known to be recorded
	Status       string        `json:"status,omitempty"`            // of the approval, afterwards
	ExitCode     int           `json:"exit_code"`                   // of this command
	ActionState  string        `json:"action_state,omitempty"`      // lifecycle state of the action, as far as this caller may read it
	ActionStatus string        `json:"action_status,omitempty"`     // status of its result
	ActionError  string        `json:"action_error_code,omitempty"` // code of its error
	Verdict      string        `json:"action_verdict,omitempty"`    // of the action, where its result alone can tell
	Next         [][]string    `json:"next,omitempty"`              // argv of commands that read on
}

// How a decision is known to be recorded.
const (
	KnownReply   = "reply"     // the daemon answered so
	KnownRead    = "read_back" // the reply was lost, and the record holds it
	KnownEarlier = "earlier"   // it was recorded before, and was not posted again
	KnownVote    = "vote"      // recorded as one vote of several; the approval is still pending
)
