// Package transcript keeps what a provider stream has said, in terms that no
// provider owns: text by item, tools by call, how each choice finished.
//
// Invariants kept here:
//
//   - Pure: no clock, no network, no terminal.
//   - Operations are added up in the order of their AIP sequences, so the order
//     in which chunks are applied does not change what [Transcript.Facts] says.
//   - Items are never merged: text belongs to the item, the part and the
//     choice that its delta names.
package transcript

import "github.com/go-json-experiment/json/jsontext"

// Op is one thing that a chunk means. A chunk may mean several.
type Op interface{ op() }

// ItemRef names a piece of text. For chat the item id is empty and Choice
// counts; for Responses the three provider keys do.
type ItemRef struct {
	Choice       int
	ItemID       string
	OutputIndex  int
	ContentIndex int
}

// SameItem reports whether two pieces of text belong to one item, whatever
// content part of it they are.
func (r ItemRef) SameItem(o ItemRef) bool {
	return r.Choice == o.Choice && r.ItemID == o.ItemID && r.OutputIndex == o.OutputIndex
}

// Text appends a delta to an item. The text may hold one half of a character
// that was cut over two deltas, in generalized UTF-8.
type Text struct {
	Item ItemRef
	Text string
}

// TextDone states the whole text of an item; it verifies, and prints nothing.
type TextDone struct {
	Item ItemRef
	Text string
}

// FinalText is a whole answer in a final event. It is text only when no delta
// was seen.
type FinalText struct {
	Item ItemRef
	Text string
}

// Thought is reasoning. It is never part of the answer.
type Thought struct{ Text string }

// Item opens or closes an output item that is not plain text.
type Item struct {
	ItemID      string
	OutputIndex int
	Kind        string // message, function_call, function_call_output, …
	CallID      string
	Name        string
	Status      string
	Open        bool
	Payload     jsontext.Value // the item as it came; arguments and outputs included
}

// The states of a tool.
const (
	ToolRunning   = "running"
	ToolCompleted = "completed"
	ToolFailed    = "failed"
)

// Tool updates one tool call.
type Tool struct {
	CallID string // provider correlation id; empty for old servers and for runs
	Name   string
	Label  string // a raw command or file name: shown only when asked for
	Emoji  string
	Status string
}

// Finish states how a choice ended. Reason is the provider's own word.
type Finish struct {
	Choice int
	Reason string
}

// Usage is the provider's token count, as it came.
type Usage struct{ Value jsontext.Value }

// ProviderError is an error object or string that a frame carried.
type ProviderError struct {
	Type    string
	Code    string
	Message string // provider text: shown only when asked for, sanitised
	// Explains is set on the finish chunk of a `length` without failed:true,
	// where the error only says why the text was cut.
	Explains bool
}

// Hermes is the state object that Hermes puts on a finish chunk.
type Hermes struct {
	Completed, Partial, Failed *bool
	ErrorCode                  string
}

// Response is what an event says of the stored response object.
type Response struct {
	Event  string // provider event name
	ID     string
	Status string // empty when the event does not carry one
	// Messages are the texts of the message items in the final object, in its
	// order. They verify the deltas, and print nothing beside them.
	Messages []string
}

// Session is the provider's session id.
type Session struct{ ID string }

// Named records that a frame had a name; the last one decides how runs end.
type Named struct{ Name string }

// Done is the chat stream's own end mark, [DONE].
type Done struct{}

// Closed is the connector's mark for an upstream that closed without a
// terminal frame.
type Closed struct{ Reason string }

// Approval asks a human for a decision inside a provider run.
type Approval struct{ Choices []string }

// Note is a frame that this client does not know; Name may be empty.
type Note struct{ Name string }

func (Text) op()          {}
func (TextDone) op()      {}
func (FinalText) op()     {}
func (Thought) op()       {}
func (Item) op()          {}
func (Tool) op()          {}
func (Finish) op()        {}
func (Usage) op()         {}
func (ProviderError) op() {}
func (Hermes) op()        {}
func (Response) op()      {}
func (Session) op()       {}
func (Named) op()         {}
func (Done) op()          {}
func (Closed) op()        {}
func (Approval) op()      {}
func (Note) op()          {}
