// Package record holds the records of JSON Lines output that stand before the
// outcome. They are types only: the engine fills them, a renderer prints them,
// and neither needs to know the other.
//
// Invariant: every record has v and type first, and no field holds a token or
// a prompt.
package record

import (
	"github.com/aipctl/aipctl/internal/transcript"
	"github.com/go-json-experiment/json/jsontext"
)

// Version is the value of v in every record.
const Version = 1

// The types of records, outcome included.
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
)

// Head opens every record.
type Head struct {
	V    int    `json:"v"`
	Type string `json:"type"`
}

// NewHead returns the head of a record of the given type.
func NewHead(typ string) Head { return Head{V: Version, Type: typ} }

// Identity is the first record: what the action is called, how to come back
// to it, and how to cancel it.
type Identity struct {
	Head
	ActionID       string   `json:"action_id"`
	CapabilityID   string   `json:"capability_id,omitempty"`
	URL            string   `json:"url,omitempty"`
	IdempotencyKey string   `json:"idempotency_key,omitempty"`
	StateFile      string   `json:"state_file,omitempty"` // empty when no state is kept
	Resume         []string `json:"resume,omitempty"`     // argv
	Cancel         []string `json:"cancel,omitempty"`     // argv
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
	StateWaiting      = "waiting" // polling the durable state
)

// State is a change of the client's own work. It is never an error.
type State struct {
	Head
	State   string `json:"state"`
	Attempt int    `json:"attempt,omitempty"`
	Reason  string `json:"reason,omitempty"` // our own words
	WaitMS  int64  `json:"wait_ms,omitempty"`
	Action  string `json:"action_state,omitempty"` // the daemon's lifecycle state, when it was read
}

// Event is a lifecycle event of the action.
type Event struct {
	Head
	ID         string         `json:"id"`
	Kind       string         `json:"kind"`
	OccurredAt string         `json:"occurred_at,omitempty"`
	Data       jsontext.Value `json:"data,omitempty"`
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
	Sequence uint64         `json:"sequence"`
	Kind     string         `json:"kind"`
	Source   string         `json:"source"`
	Event    string         `json:"event,omitempty"`
	ID       string         `json:"id,omitempty"`
	Data     jsontext.Value `json:"data,omitempty"`
	Terminal bool           `json:"terminal,omitempty"`
	RawData  string         `json:"raw_data,omitempty"` // only with --include-raw
}

// Text is a delta of the answer.
type Text struct {
	Head
	Sequence     uint64 `json:"sequence"`
	Choice       int    `json:"choice"`
	ItemID       string `json:"item_id,omitempty"`
	OutputIndex  int    `json:"output_index"`
	ContentIndex int    `json:"content_index"`
	Text         string `json:"text"`
	Source       string `json:"source"`
}

// Tool is a change of one tool call.
type Tool struct {
	Head
	Sequence uint64 `json:"sequence"`
	Name     string `json:"name"`
	CallID   string `json:"call_id,omitempty"`
	Status   string `json:"status"`
	Label    string `json:"label,omitempty"`
	MS       *int64 `json:"ms,omitempty"` // since the call was first seen
}

// Item is an output item that opened or closed.
type Item struct {
	Head
	Sequence    uint64         `json:"sequence"`
	ItemID      string         `json:"item_id,omitempty"`
	OutputIndex int            `json:"output_index"`
	Kind        string         `json:"kind"`
	CallID      string         `json:"call_id,omitempty"`
	Name        string         `json:"name,omitempty"`
	Status      string         `json:"status,omitempty"`
	Open        bool           `json:"open"`
	Item        jsontext.Value `json:"item,omitempty"`
}

// Warning is something a person should know that changes no verdict.
type Warning struct {
	Head
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Gap is a run of sequences that no read delivered.
type Gap struct {
	Head
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
}

// Delivery is one chunk on its way to a person or a script: the record for
// JSON Lines and what the chunk means. Deliveries come in sequence order.
type Delivery struct {
	Chunk Chunk
	Ops   []transcript.Op
}
