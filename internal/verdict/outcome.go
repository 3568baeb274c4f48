package verdict

import (
	"github.com/go-json-experiment/json/jsontext"
)

// Outcome is the record that ends every run: the last line of JSON Lines, the
// document of JSON, the last line on stderr in text. Its field names are a
// contract with scripts. verdict speaks of the action, exit_code of the
// command.
type Outcome struct {
	V                int            `json:"v"`
	Type             string         `json:"type"`
	ActionID         string         `json:"action_id"`
	CapabilityID     string         `json:"capability_id,omitempty"`
	Operation        string         `json:"operation,omitempty"`
	Verdict          string         `json:"verdict"`
	ExitCode         int            `json:"exit_code"`
	Reason           string         `json:"reason,omitempty"` // in our own words; no provider text
	Checks           Checks         `json:"checks"`
	State            string         `json:"state,omitempty"` // last lifecycle state read
	AIPStatus        string         `json:"aip_status,omitempty"`
	ErrorCode        string         `json:"error_code,omitempty"`
	UncertainOutcome *bool          `json:"uncertain_outcome,omitempty"`
	FinishReason     string         `json:"finish_reason,omitempty"`
	ProviderStatus   string         `json:"provider_status,omitempty"`
	ProviderError    *ProviderError `json:"provider_error,omitempty"`
	Hermes           *Hermes        `json:"hermes,omitempty"`
	ApprovalID       string         `json:"approval_id,omitempty"`
	ResponseID       string         `json:"response_id,omitempty"`
	HermesSessionID  string         `json:"hermes_session_id,omitempty"`
	TextBytes        int            `json:"text_bytes"`
	Usage            jsontext.Value `json:"usage,omitempty"`
	Tools            []Tool         `json:"tools"`
	ToolEffects      string         `json:"tool_effects"` // none, unconfirmed, confirmed
	Warnings         []Warning      `json:"warnings"`
	Reconnects       int            `json:"reconnects"`
	Duplicates       int            `json:"duplicates"`
	Gaps             int            `json:"gaps"`
	Conflicts        int            `json:"conflicts,omitempty"`
	Cursor           string         `json:"cursor,omitempty"`
	ReplayOf         string         `json:"replay_of,omitempty"`
	Recorded         bool           `json:"recorded,omitempty"` // given back from the state file
	StartedAt        string         `json:"started_at,omitempty"`
	FirstTextMS      *int64         `json:"first_text_ms,omitempty"`
	TotalMS          int64          `json:"total_ms"`
	Next             [][]string     `json:"next,omitempty"` // argv arrays

	// The rest stands in the one document of -o json only.
	Text  string     `json:"text,omitempty"`
	Items []ItemText `json:"items,omitempty"`
}

// ProviderError is what scripts may see of a provider's error: never its
// message, which may repeat prompts and keys.
type ProviderError struct {
	Type string `json:"type,omitempty"`
	Code string `json:"code,omitempty"`
}

// Hermes is the provider's own state object.
type Hermes struct {
	Completed *bool  `json:"completed,omitempty"`
	Partial   *bool  `json:"partial,omitempty"`
	Failed    *bool  `json:"failed,omitempty"`
	ErrorCode string `json:"error_code,omitempty"`
}

// Tool is one tool call in the outcome.
type Tool struct {
	Name   string `json:"name"`
	CallID string `json:"call_id,omitempty"`
	Status string `json:"status"` // running when no end was seen
	MS     *int64 `json:"ms,omitempty"`
}

// Warning never changes a verdict.
type Warning struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// ItemText is one output item with its text.
type ItemText struct {
	ItemID       string         `json:"item_id,omitempty"`
	OutputIndex  int            `json:"output_index"`
	ContentIndex int            `json:"content_index"`
	Choice       int            `json:"choice"`
	Kind         string         `json:"kind"`
	CallID       string         `json:"call_id,omitempty"`
	Name         string         `json:"name,omitempty"`
	Status       string         `json:"status,omitempty"`
	Text         string         `json:"text,omitempty"`
	Item         jsontext.Value `json:"item,omitempty"`
}
