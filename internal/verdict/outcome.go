package verdict

import (
	"github.com/go-json-experiment/json/jsontext"
)

// Outcome is the record that ends every run: the last line of JSON Lines, the
// document of JSON, the last line on stderr in text. Its field names are a
// contract with scripts. verdict speaks of the action, exit_code of the
// command.
type Outcome struct {
	V                int            `json:"v"`                           // version of the form of records
	Type             string         `json:"type"`                        // what the record is
	ActionID         string         `json:"action_id"`                   // the action's id at its daemon
	CapabilityID     string         `json:"capability_id,omitempty"`     // what was run, as far as it is known
	Operation        string         `json:"operation,omitempty"`         // the last part of the capability id
	Verdict          string         `json:"verdict"`                     // how the action ended, by a name of the table of exit codes
	ExitCode         int            `json:"exit_code"`                   // of the command; not that of the verdict where the command was cut short
	Reason           string         `json:"reason,omitempty"`            // in our own words; no provider text
	Checks           Checks         `json:"checks"`                      // each check and what it came to
	State            string         `json:"state,omitempty"`             // last lifecycle state read
	AIPStatus        string         `json:"aip_status,omitempty"`        // status of the action's result
	ErrorCode        string         `json:"error_code,omitempty"`        // code of the result's error as the daemon wrote it, or of why nothing was sent
	UncertainOutcome *bool          `json:"uncertain_outcome,omitempty"` // whether the daemon says that it does not know what happened
	FinishReason     string         `json:"finish_reason,omitempty"`     // the provider's word for the end of a chat
	ProviderStatus   string         `json:"provider_status,omitempty"`   // the provider's status of a stored response
	ProviderError    *ProviderError `json:"provider_error,omitempty"`    // the last error that the provider reported
	Hermes           *Hermes        `json:"hermes,omitempty"`            // the provider's own state object
	ApprovalID       string         `json:"approval_id,omitempty"`       // the approval that the action waits for
	Approve          []string       `json:"approve,omitempty"`           // argv for whoever may decide; words in capitals are theirs to fill in
	ResponseID       string         `json:"response_id,omitempty"`       // the stored response that the action made, read or deleted
	Stored           *Stored        `json:"stored,omitempty"`            // what reading a stored response came to
	Receipt          *Receipt       `json:"receipt,omitempty"`           // what the store answered to a deletion
	HermesSessionID  string         `json:"hermes_session_id,omitempty"` // the provider's session
	TextBytes        int            `json:"text_bytes"`                  // length of the answer in bytes of UTF-8
	Usage            jsontext.Value `json:"usage,omitempty"`             // the provider's counts, digit for digit
	Tools            []Tool         `json:"tools"`                       // tool calls in the order in which they were seen
	ToolEffects      string         `json:"tool_effects"`                // whether the effects of tools were confirmed by an effect check
	Warnings         []Warning      `json:"warnings"`                    // what a person should know, in order
	Reconnects       int            `json:"reconnects"`                  // connections that were lost and opened again
	Duplicates       int            `json:"duplicates"`                  // equal repeats that were dropped
	Gaps             int            `json:"gaps"`                        // runs of sequences that nothing delivered
	Conflicts        int            `json:"conflicts,omitempty"`         // contradictions of the daemon
	Cursor           string         `json:"cursor,omitempty"`            // last position on the stream
	ReplayOf         string         `json:"replay_of,omitempty"`         // the action whose result this is, by an idempotency key
	Recorded         bool           `json:"recorded,omitempty"`          // given back from the state file
	StartedAt        string         `json:"started_at,omitempty"`        // RFC 3339, of this command
	FirstTextMS      *int64         `json:"first_text_ms,omitempty"`     // milliseconds from the start to the first text
	TotalMS          int64          `json:"total_ms"`                    // milliseconds that the command took
	Next             [][]string     `json:"next,omitempty"`              // argv of each command to go on with; none submits anything

	// The rest stands in the one document of -o json only.
	Text  string     `json:"text,omitempty"`  // the answer; only in the document of -o json
	Items []ItemText `json:"items,omitempty"` // output items in order; only in the document of -o json
}

// ProviderError is what scripts may see of a provider's error: never its
// message, which may repeat prompts and keys.
type ProviderError struct {
	Type string `json:"type,omitempty"` // the provider's type of error
	Code string `json:"code,omitempty"` // the provider's code of it
}

// Hermes is the provider's own state object.
type Hermes struct {
	Completed *bool  `json:"completed,omitempty"`  // as the provider says; proves nothing
	Partial   *bool  `json:"partial,omitempty"`    // as the provider says
	Failed    *bool  `json:"failed,omitempty"`     // as the provider says
	ErrorCode string `json:"error_code,omitempty"` // the provider's code
}

// Tool is one tool call in the outcome.
type Tool struct {
	Name   string `json:"name"`              // the tool
	CallID string `json:"call_id,omitempty"` // the provider's id of the call
	Status string `json:"status"`            // running when no end was seen
	MS     *int64 `json:"ms,omitempty"`      // milliseconds from its first to its last sign
}

// Warning never changes a verdict.
type Warning struct {
	Code    string `json:"code"`    // stable dotted code
	Message string `json:"message"` // for a person
}

// ItemText is one output item with its text.
type ItemText struct {
	ItemID       string         `json:"item_id,omitempty"` // the provider's id of the item
	OutputIndex  int            `json:"output_index"`      // index of the item
	ContentIndex int            `json:"content_index"`     // index of the part within the item
	Choice       int            `json:"choice"`            // index of the choice of a chat
	Kind         string         `json:"kind"`              // message, function_call, or another word of the provider
	CallID       string         `json:"call_id,omitempty"` // of a function call
	Name         string         `json:"name,omitempty"`    // of the function
	Status       string         `json:"status,omitempty"`  // the provider's word
	Text         string         `json:"text,omitempty"`    // the words of a message
	Item         jsontext.Value `json:"item,omitempty"`    // the item as the provider wrote it
}

// Stored is what reading a stored response came to. It never speaks of the
// action that created the response.
type Stored struct {
	ResponseID string         `json:"response_id"`                // as it was asked for
	Status     string         `json:"status,omitempty"`           // as stored; absent when it was not read
	Tries      int            `json:"tries"`                      // actions that were run for it
	Absent     []Cause        `json:"possible_reasons,omitempty"` // why the store may not have it, those first that the state file knows something of
	Object     jsontext.Value `json:"object,omitempty"`           // as the provider wrote it; only in the document of -o json
}

// Cause is one possible reason.
type Cause struct {
	Code    string `json:"code"`    // stable word
	Message string `json:"message"` // for a person
}
