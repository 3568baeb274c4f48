package state

import (
	"time"

	"github.com/aipctl/aipctl/internal/fault"
)

// Version is the format version in the "v" of every line this package writes.
// Lines of a higher version are kept and reported, and never interpreted.
const Version = 1

// Type names what a record says. The object that carries it has the same name.
type Type string

// The record types of format version 1.
const (
	TypeIntent    Type = "intent"
	TypeSubmitted Type = "submitted"
	TypeNotSent   Type = "not_sent"
	TypeCursor    Type = "cursor"
	TypeResponse  Type = "response"
	TypeApproval  Type = "approval"
	TypeDecision  Type = "decision"
	TypeProbe     Type = "probe"
	TypeSettled   Type = "settled"
)

// Record is one line of the state file. Exactly one of the pointers is set,
// the one that [Record.Type] names. Fields this version does not know are
// ignored on reading.
type Record struct {
	V        int       `json:"v"`         // format version; 0 is filled in as [Version]
	ID       string    `json:"id"`        // random, 128 bits as 32 hex digits; makes repeated lines count once
	Type     Type      `json:"type"`      // which of the objects below is set
	At       time.Time `json:"at"`        // UTC, to the nanosecond, RFC 3339
	ActionID string    `json:"action_id"` // the action the record speaks of

	Intent    *Intent    `json:"intent,omitzero"`
	Submitted *Submitted `json:"submitted,omitzero"`
	NotSent   *NotSent   `json:"not_sent,omitzero"`
	Cursor    *Cursor    `json:"cursor,omitzero"`
	Response  *Response  `json:"response,omitzero"`
	Approval  *Approval  `json:"approval,omitzero"`
	Decision  *Decision  `json:"decision,omitzero"`
	Probe     *Probe     `json:"probe,omitzero"`
	Settled   *Settled   `json:"settled,omitzero"`
}

// Intent is what is about to be submitted. It is written before the request
// leaves, so that a lost reply can be reconciled by its ids.
type Intent struct {
	CapabilityID       string   `json:"capability_id"`                 // what is to be run
	Endpoint           string   `json:"endpoint,omitzero"`             // the endpoint part of the capability id
	Operation          string   `json:"operation,omitzero"`            // the operation part of the capability id
	IdempotencyKey     string   `json:"idempotency_key,omitzero"`      // as sent; empty when none was
	Mode               string   `json:"mode,omitzero"`                 // execution mode as sent: sync, async or streaming
	TimeoutMS          *uint64  `json:"timeout_ms,omitzero"`           // the action's own timeout in milliseconds; nil when none was sent
	URL                string   `json:"url,omitzero"`                  // the daemon with its path prefix
	Principal          string   `json:"principal,omitzero"`            // fingerprint of the caller's token, never the token
	Tenant             string   `json:"tenant,omitzero"`               // as the context names it; never sent
	ContextPrincipal   string   `json:"context_principal,omitzero"`    // as the context names it; never sent
	InputHash          string   `json:"input_hash,omitzero"`           // "sha256:" and hex, over the compacted input
	SessionID          string   `json:"session_id,omitzero"`           // Hermes session of the input
	SessionKey         string   `json:"session_key,omitzero"`          // Hermes session key of the input
	Conversation       string   `json:"conversation,omitzero"`         // name of the Responses conversation
	PreviousResponseID string   `json:"previous_response_id,omitzero"` // the response this one continues
	Store              *bool    `json:"store,omitzero"`                // nil when the input does not say
	ResponseID         string   `json:"response_id,omitzero"`          // the stored response that the action reads or deletes
	MaxEvents          *uint64  `json:"max_events,omitzero"`           // events the connector may retain; nil when the input does not say
	RequiredTools      []string `json:"required_tools,omitzero"`       // tools without which the action is not accepted
	EffectChecks       int      `json:"effect_checks,omitzero"`        // how many effect checks were asked for; their commands are not kept
}

// Submitted says that the request left and something came back for it.
type Submitted struct {
	Mode  string `json:"mode,omitzero"`  // execution mode as sent
	Reply string `json:"reply,omitzero"` // one word for the answer: ack, result, error, lost
}

// NotSent says that the last intent of the action provably ran nothing.
type NotSent struct {
	Class     int    `json:"class"`               // the exit code the command ended with
	Code      string `json:"code,omitzero"`       // stable code of the cause
	Reason    string `json:"reason,omitzero"`     // one sentence, free of payload
	InputHash string `json:"input_hash,omitzero"` // of the input that was not sent
}

// Cursor is a position on the durable stream of an action, and the four things
// it is bound to: a daemon hands out the same cursor values for every action,
// and takes a foreign one without a word.
type Cursor struct {
	URL          string  `json:"url"`                    // the daemon with its path prefix
	Principal    string  `json:"principal"`              // fingerprint of the caller's token
	Route        string  `json:"route"`                  // the route that gave the cursor
	Filter       string  `json:"filter"`                 // the query filter it was given under; empty for none
	Cursor       string  `json:"cursor"`                 // as the daemon wrote it
	LastSequence *uint64 `json:"last_sequence,omitzero"` // last chunk sequence written out; nil before the first
}

// Response is a stored provider response that the action created or used.
type Response struct {
	ResponseID string `json:"response_id"`       // the id in its store
	Endpoint   string `json:"endpoint,omitzero"` // the endpoint that stores it
}

// Approval is an approval the action waits or waited for. The hashes are those
// of the request that was answered to the submitter, so that whoever decides
// can be told when they have changed.
type Approval struct {
	ApprovalID string `json:"approval_id"`          // the daemon's id of it
	PolicyHash string `json:"policy_hash,omitzero"` // of the policy that asks for it
	InputHash  string `json:"input_hash,omitzero"`  // the daemon's hash of the input snapshot; not comparable with an intent's
	ExpiresAt  string `json:"expires_at,omitzero"`  // as the daemon wrote it
}

// Decision is an approval decision that this client made.
type Decision struct {
	ApprovalID string `json:"approval_id"`       // what was decided
	DecisionID string `json:"decision_id"`       // made here, and recorded before the decision is posted
	Approver   string `json:"approver,omitzero"` // id of the principal that decided
	Decision   string `json:"decision"`          // approve or deny
}

// Probe marks an action that this client ran only to learn about another one.
type Probe struct {
	ParentActionID string `json:"parent_action_id"` // the action that it asks about
	Purpose        string `json:"purpose,omitzero"` // what it is to find out
}

// Settled is a verdict and the evidence for it, without any payload.
type Settled struct {
	Verdict          string            `json:"verdict"`                    // a name of the exit table
	ExitCode         int               `json:"exit_code"`                  // the code the command ended with
	Checks           map[string]string `json:"checks,omitzero"`            // check name to pass, fail, missing or not_applicable
	AIPStatus        string            `json:"aip_status,omitzero"`        // status of the final ActionResult
	ErrorCode        string            `json:"error_code,omitzero"`        // code of its error
	FinishReason     string            `json:"finish_reason,omitzero"`     // the provider's
	ReplayOf         string            `json:"replay_of,omitzero"`         // the action whose result was replayed
	Missing          int               `json:"missing,omitzero"`           // how many checks are missing
	Closed           bool              `json:"closed,omitzero"`            // no later read can say more
	UncertainOutcome bool              `json:"uncertain_outcome,omitzero"` // the daemon said that it does not know
	Receipt          *Receipt          `json:"receipt,omitzero"`           // of a deletion, the audit record
}

// Receipt is what a store answered to a deletion, and who had allowed it.
type Receipt struct {
	ResponseID string `json:"response_id,omitzero"` // as the receipt names it
	Object     string `json:"object,omitzero"`      // the store's word for what was deleted
	Deleted    bool   `json:"deleted"`              // whether the store says that it is gone
	ApprovalID string `json:"approval_id,omitzero"` // the approval that let it run
	DecisionID string `json:"decision_id,omitzero"` // of the decision that let it run, where it could be read
}

// known says whether this version knows what a record of the type means.
func (t Type) known() bool { return rank(t) < rankUnknown }

const rankUnknown = 9

// rank orders records of the same instant the way they follow one another in
// the life of an action. not_sent stands right behind intent: where nothing
// else tells the order, whatever speaks for a submission is the last word.
func rank(t Type) int {
	switch t {
	case TypeIntent:
		return 0
	case TypeNotSent:
		return 1
	case TypeProbe:
		return 2
	case TypeSubmitted:
		return 3
	case TypeResponse:
		return 4
	case TypeApproval:
		return 5
	case TypeDecision:
		return 6
	case TypeCursor:
		return 7
	case TypeSettled:
		return 8
	}
	return rankUnknown
}

// objects says which objects are set: how many, and whether the one named
// after the type is among them.
func (r *Record) objects() (n int, own bool) {
	for _, o := range [...]struct {
		t   Type
		set bool
	}{
		{TypeIntent, r.Intent != nil},
		{TypeSubmitted, r.Submitted != nil},
		{TypeNotSent, r.NotSent != nil},
		{TypeCursor, r.Cursor != nil},
		{TypeResponse, r.Response != nil},
		{TypeApproval, r.Approval != nil},
		{TypeDecision, r.Decision != nil},
		{TypeProbe, r.Probe != nil},
		{TypeSettled, r.Settled != nil},
	} {
		if o.set {
			n++
			own = own || o.t == r.Type
		}
	}
	return n, own
}

// writable refuses a record that readers would call damaged. That is a mistake
// of the caller, not of the user.
func (r *Record) writable() error {
	n, own := r.objects()
	switch {
	case !r.Type.known():
		return fault.New(fault.Internal, "state.bad_record", "a state record has no known type")
	case n != 1 || !own:
		return fault.New(fault.Internal, "state.bad_record", "a state record of type %s does not hold exactly the object of that name", r.Type)
	case r.ActionID == "":
		return fault.New(fault.Internal, "state.bad_record", "a state record of type %s names no action", r.Type)
	case r.V != 0 && r.V != Version:
		return fault.New(fault.Internal, "state.bad_record", "a state record of type %s has format version %d", r.Type, r.V)
	}
	return nil
}
