package devserver

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"
)

// principal names a party of the protocol.
type principal struct {
	ID   string `json:"id"`
	Kind string `json:"kind"`
}

// The parties every answer speaks of: the daemon itself, and the principals that
// its two static bearer tokens are bound to. Without a token, callers are the
// daemon's own agent.
var (
	daemonPrincipal   = principal{ID: "agent:getaip:server:local", Kind: "agent"}
	edgePrincipal     = principal{ID: "service:getaip:server:http-edge", Kind: "service"}
	approverPrincipal = principal{ID: "human:getaip:server:approver", Kind: "human"}
)

// protocolError is the ProtocolError object.
type protocolError struct {
	Code         string `json:"code"`
	Message      string `json:"message"`
	Category     string `json:"category"`
	Retryable    bool   `json:"retryable"`
	RetryAfterMS int64  `json:"retry_after_ms,omitempty"`
	Details      any    `json:"details,omitempty"`
	Source       any    `json:"source,omitempty"`
}

// Error categories.
const (
	temporary = "temporary"
	permanent = "permanent"
	auth      = "auth"
	policy    = "policy"
	connector = "connector"
	transport = "transport"
)

// httpStatus maps the category of an error that travels as an error. Errors
// inside an ActionResult never come here: those are HTTP 200.
func (e *protocolError) httpStatus() int {
	switch e.Category {
	case auth:
		return 401
	case policy:
		return 403
	case permanent:
		return 400
	case connector:
		return 502
	}
	return 503
}

func newError(component, category, code, message string) *protocolError {
	return &protocolError{
		Code: code, Message: message, Category: category,
		Source: map[string]string{"component": component},
	}
}

func (e *protocolError) with(details any) *protocolError {
	e.Details = details
	return e
}

// actionResult is the ActionResult object. Output is kept encoded, because the
// message part repeats it and a page of a large one is written many times.
type actionResult struct {
	ActionID string          `json:"action_id"`
	Status   string          `json:"status"`
	Output   json.RawMessage `json:"output,omitempty"`
	Message  []any           `json:"message,omitempty"`
	Error    *protocolError  `json:"error,omitempty"`
}

func failedResult(actionID string, e *protocolError) actionResult {
	return actionResult{ActionID: actionID, Status: "failed", Error: e}
}

// textPart and jsonPart are the message parts that occur here.
type textPart struct {
	Type   string `json:"type"`
	Text   string `json:"text"`
	Format string `json:"format"`
}

func newTextPart(text string) *textPart {
	return &textPart{Type: "text", Text: text, Format: "plain"}
}

type jsonPart struct {
	Type string          `json:"type"`
	Data json.RawMessage `json:"data"`
}

// messageOf is the message of a connector's result: the text, unless it is
// blank, and the output once more.
func messageOf(text string, output json.RawMessage) []any {
	var parts []any
	if strings.TrimSpace(text) != "" {
		parts = append(parts, newTextPart(text))
	}
	return append(parts, jsonPart{Type: "json", Data: output})
}

// chunk is the StreamChunk object.
type chunk struct {
	ActionID string          `json:"action_id"`
	Sequence uint64          `json:"sequence"`
	Kind     string          `json:"kind"`
	Data     json.RawMessage `json:"data,omitempty"`
	Part     *textPart       `json:"part,omitempty"`
}

// event is the Event object.
type event struct {
	ID            string     `json:"id"`
	Kind          string     `json:"kind"`
	OccurredAt    timestamp  `json:"occurred_at"`
	SessionID     string     `json:"session_id,omitempty"`
	ActionID      string     `json:"action_id,omitempty"`
	CorrelationID string     `json:"correlation_id,omitempty"`
	Actor         *principal `json:"actor,omitempty"`
	Data          any        `json:"data,omitempty"`
}

// timestamp is a typed time field: RFC 3339 in UTC with suffix Z.
type timestamp time.Time

func (t timestamp) time() time.Time { return time.Time(t) }

func (t timestamp) MarshalJSON() ([]byte, error) {
	return time.Time(t).UTC().AppendFormat(nil, `"`+time.RFC3339Nano+`"`), nil
}

// looseTime is a time inside free JSON. The daemon writes those as a list of
// nine integers: year, day of year, hour, minute, second, nanosecond, and the
// offset in hours, minutes, seconds.
func looseTime(t time.Time) []int {
	t = t.UTC()
	return []int{t.Year(), t.YearDay(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), 0, 0, 0}
}

// newID makes an id of the given prefix: a UUIDv7 without dashes, so that ids
// of one kind sort by time.
func newID(prefix string, now time.Time) string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	ms := uint64(now.UnixMilli())
	for i := range 6 {
		b[i] = byte(ms >> (40 - 8*i))
	}
	b[6] = b[6]&0x0f | 0x70
	b[8] = b[8]&0x3f | 0x80
	return prefix + hex.EncodeToString(b[:])
}

// validActionID is the rule for ids in paths: the prefix and something after it.
func validActionID(id string) bool {
	return len(id) > len("act_") && strings.HasPrefix(id, "act_")
}
