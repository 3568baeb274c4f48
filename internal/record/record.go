// Package record holds the records of JSON Lines output that stand before the
// outcome. They are types only: the engine fills them, a renderer prints them,
// and neither needs to know the other.
//
// Invariants kept here:
//
//   - Every record has v and type first, and no field holds a token or a prompt.
//   - docs/schema describes every record, and is made from these types and the
//     comments of their fields.
package record

import (
	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/transcript"
	"github.com/go-json-experiment/json/jsontext"
)

// Version is the value of v in every record.
const Version = 1

// The types of records that several rooms know.
const (
	TypeIdentity = "identity"
	TypeState    = "state"
	TypeEvent    = "event"
	TypeChunk    = "chunk"
	TypeText     = "text"
	TypeTool     = "tool"
	TypeItem     = "item"
	TypeWarning  = "warning"
	TypeGap      = "gap"
	TypeOutcome  = "outcome"
	TypeError    = "error" // on stderr
	TypeStatus   = "status"
)

// Head opens every record.
type Head struct {
	V    int    `json:"v"`    // version of the form of records
	Type string `json:"type"` // what the record is
}

// NewHead returns the head of a record of the given type.
func NewHead(typ string) Head { return Head{V: Version, Type: typ} }

// Identity is the first record: what the action is called, how to come back
// to it, and how to cancel it.
type Identity struct {
	Head
	ActionID       string   `json:"action_id"`                 // the action's id at its daemon
	CapabilityID   string   `json:"capability_id,omitempty"`   // what is run, as cap:HOST:ENDPOINT:OPERATION
	URL            string   `json:"url,omitempty"`             // the daemon, a path prefix included
	IdempotencyKey string   `json:"idempotency_key,omitempty"` // sent with the submit; absent where none was
	StateFile      string   `json:"state_file,omitempty"`      // absent when no state is kept
	Resume         []string `json:"resume,omitempty"`          // argv of the command that comes back to the action
	Cancel         []string `json:"cancel,omitempty"`          // argv of the command that asks for its end
}

// The states of the client's own work, in the order in which they come.
const (
	StateConnecting   = "connecting"
	StateFollowing    = "following"
	StateSubmitted    = "submitted"
	StateReconnecting = "reconnecting"
	StateReplied      = "replied"   // the submit was answered
	StateUncertain    = "uncertain" // the submit's answer was lost
	StateDraining     = "draining"
	StateSettling     = "settling"
	StateWaiting      = "waiting"  // polling the durable state
	StateRetrying     = "retrying" // about to read once more, as a new action
	StateApproval     = "approval" // the action waits for a human
)

// State is a change of the client's own work. It is never an error.
type State struct {
	Head
	State   string `json:"state"`                  // what the client is about
	Attempt int    `json:"attempt,omitempty"`      // number of the connection, from 1
	Reason  string `json:"reason,omitempty"`       // why, in the client's own words
	WaitMS  int64  `json:"wait_ms,omitempty"`      // milliseconds until the next attempt
	Action  string `json:"action_state,omitempty"` // the daemon's lifecycle state, when it was read

	Approval *Approval `json:"approval,omitempty"` // what the action waits for
}

// Approval is an approval that an action waits for, as its submitter sees it.
type Approval struct {
	ApprovalID string   `json:"approval_id"`          // appr_…
	ExpiresAt  string   `json:"expires_at,omitempty"` // RFC 3339 as the daemon wrote it
	Approve    []string `json:"approve,omitempty"`    // argv for whoever may decide; words in capitals are theirs to fill in
}

// Event is a lifecycle event of the action.
type Event struct {
	Head
	ID         string         `json:"id"`                    // the daemon's id of the event
	Kind       string         `json:"kind"`                  // the daemon's name of what happened
	OccurredAt string         `json:"occurred_at,omitempty"` // RFC 3339, as the daemon wrote it
	Data       jsontext.Value `json:"data,omitempty"`        // the daemon's own data
}

// The places that a chunk can come from.
const (
	SourceFollow    = "follow"
	SourcePage      = "page"
	SourceAggregate = "aggregate" // frames that the result retains
	SourceResult    = "result"    // the output of an operation that does not stream
)

// Chunk is one chunk with the provider event by its own names.
type Chunk struct {
	Head
	Sequence uint64         `json:"sequence"`           // place on the stream, from 0
	Kind     string         `json:"kind"`               // the daemon's kind of the chunk
	Source   string         `json:"source"`             // what delivered it
	Event    string         `json:"event,omitempty"`    // name of the provider's event; absent where it has none
	ID       string         `json:"id,omitempty"`       // id of the provider's event
	Data     jsontext.Value `json:"data,omitempty"`     // data of the provider's event
	Terminal bool           `json:"terminal,omitempty"` // the provider's event ends its stream
	RawData  string         `json:"raw_data,omitempty"` // the provider's bytes; only with --include-raw
}

// Text is a delta of the answer.
type Text struct {
	Head
	Sequence     uint64 `json:"sequence"`          // of the chunk that brought it
	Choice       int    `json:"choice"`            // index of the choice; 0 is the answer that text output shows
	ItemID       string `json:"item_id,omitempty"` // output item that it belongs to; absent for a chat
	OutputIndex  int    `json:"output_index"`      // index of that item
	ContentIndex int    `json:"content_index"`     // index of the part within the item
	Text         string `json:"text"`              // the words; those of one item, joined, are its text
	Source       string `json:"source"`            // what delivered the chunk
}

// Tool is a change of one tool call.
type Tool struct {
	Head
	Sequence uint64 `json:"sequence"`          // of the chunk that says so
	Name     string `json:"name"`              // the tool
	CallID   string `json:"call_id,omitempty"` // the provider's id of the call
	Status   string `json:"status"`            // running, completed, failed, or another word of the provider
	Label    string `json:"label,omitempty"`   // what the call is about: a raw command, a file name
	MS       *int64 `json:"ms,omitempty"`      // milliseconds since the call was first seen
}

// Item is an output item that opened or closed.
type Item struct {
	Head
	Sequence    uint64         `json:"sequence"`          // of the chunk that says so
	ItemID      string         `json:"item_id,omitempty"` // the provider's id of the item
	OutputIndex int            `json:"output_index"`      // index of the item
	Kind        string         `json:"kind"`              // message, function_call, or another word of the provider
	CallID      string         `json:"call_id,omitempty"` // of a function call
	Name        string         `json:"name,omitempty"`    // of the function
	Status      string         `json:"status,omitempty"`  // the provider's word
	Open        bool           `json:"open"`              // true when the item opens, false when it is complete
	Item        jsontext.Value `json:"item,omitempty"`    // the item as the provider wrote it
}

// Warning is something a person should know that changes no verdict.
type Warning struct {
	Head
	Code    string `json:"code"`    // stable dotted code
	Message string `json:"message"` // for a person
}

// Gap is a run of sequences that no read delivered.
type Gap struct {
	Head
	From uint64 `json:"from"` // first sequence of the run
	To   uint64 `json:"to"`   // last sequence of the run
}

// Error is why a command ended. It is one object on stderr in JSON and JSON
// Lines.
type Error struct {
	Head
	Code     string   `json:"code"`                // stable dotted code, the daemon's own where there is one
	Class    string   `json:"class"`               // name in the table of exit codes
	ExitCode int      `json:"exit_code"`           // of the command
	Message  string   `json:"message"`             // what went wrong and why
	Hint     string   `json:"hint,omitempty"`      // what to do next
	ActionID string   `json:"action_id,omitempty"` // the action concerned
	Next     []string `json:"next,omitempty"`      // argv of the command to go on with
}

// Status is the durable view of an action as the daemon reports it.
type Status struct {
	Head
	aip.ActionStatus
	ErrorCode string `json:"error_code,omitempty"` // code of the error of the action's result
}

// Delivery is one chunk on its way to a person or a script: the record for
// JSON Lines and what the chunk means. Deliveries come in sequence order.
type Delivery struct {
	Chunk Chunk
	Ops   []transcript.Op
}
