package devserver

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"
)

// envelope is a decoded request envelope: exactly one of action, cancel
// and decision is set, or none for a body this daemon does not work on.
type envelope struct {
	MessageID     string          `json:"message_id"`
	SentAt        string          `json:"sent_at"`
	SessionID     string          `json:"session_id"`
	CorrelationID string          `json:"correlation_id"`
	From          json.RawMessage `json:"from"`
	Security      json.RawMessage `json:"security"`
	Body          messageBody     `json:"body"`

	sentAt time.Time
	caller caller // set by the gateway
}

// messageBody is the externally tagged body.
type messageBody struct {
	Action   *action           `json:"action"`
	Cancel   *cancelRequest    `json:"cancel"`
	Decision *approvalDecision `json:"approval_decision"`
}

// action is a submitted Action, reduced to what the daemon reads. The rest of
// it only counts for the comparison of two actions with one id.
type action struct {
	ID             string          `json:"id"`
	CapabilityID   string          `json:"capability_id"`
	Input          json.RawMessage `json:"input"`
	Mode           string          `json:"mode"`
	IdempotencyKey string          `json:"idempotency_key"`
	TimeoutMS      *uint64         `json:"timeout_ms"`

	contract any // everything but approval and transaction id, for comparison
}

type cancelRequest struct {
	Target struct {
		Action  string `json:"action"`
		Session string `json:"session"`
	} `json:"target"`
	Reason string `json:"reason"`
}

// key is the idempotency key; blank counts as absent. It is used as sent.
func (a action) key() (string, bool) {
	return a.IdempotencyKey, strings.TrimSpace(a.IdempotencyKey) != ""
}

// parseEnvelope checks valid JSON against the envelope schema and decodes it.
func parseEnvelope(body []byte) (*envelope, *protocolError) {
	var v any
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		return nil, schemaError(" is not JSON")
	}
	if bad := envelopeShape.check(v); bad != "" {
		return nil, schemaError(bad)
	}
	var env envelope
	if err := json.Unmarshal(body, &env); err != nil {
		return nil, decodeError()
	}
	at, err := time.Parse(time.RFC3339Nano, env.SentAt)
	if err != nil {
		return nil, decodeError()
	}
	if d := env.Body.Decision; d != nil {
		if _, err := time.Parse(time.RFC3339Nano, d.DecidedAt); err != nil {
			return nil, decodeError()
		}
	}
	env.sentAt = at
	if string(env.From) == "null" {
		env.From = nil
	}
	if a := env.Body.Action; a != nil {
		a.contract = contractOf(v.(map[string]any)["body"].(map[string]any)["action"].(map[string]any))
	}
	return &env, nil
}

func schemaError(bad string) *protocolError {
	return newError("aip.server.http", permanent, "schema.envelope.invalid",
		"the envelope does not fit its schema: "+bad)
}

func decodeError() *protocolError {
	return newError("aip.server.http", permanent, "envelope.decode.invalid",
		"the envelope fits its schema but not its types")
}

// contractOf is the part of an action that two submissions of one id must have
// in common.
func contractOf(a map[string]any) any {
	out := map[string]any{}
	for k, v := range a {
		if v != nil && k != "approval" {
			out[k] = v
		}
	}
	if t, ok := out["transaction"].(map[string]any); ok {
		kept := map[string]any{}
		for k, v := range t {
			if v != nil && k != "transaction_id" {
				kept[k] = v
			}
		}
		out["transaction"] = kept
	}
	return out
}

// reply builds the envelope around an answer to a POST. The sender of the
// request comes back as the receiver.
func (s *Server) reply(env *envelope, messageType string, body any) any {
	now := s.now()
	return struct {
		AIPVersion    string          `json:"aip_version"`
		MessageType   string          `json:"message_type"`
		MessageID     string          `json:"message_id"`
		SentAt        timestamp       `json:"sent_at"`
		SessionID     string          `json:"session_id,omitempty"`
		CorrelationID string          `json:"correlation_id,omitempty"`
		InResponseTo  string          `json:"in_response_to,omitempty"`
		From          principal       `json:"from"`
		To            json.RawMessage `json:"to,omitempty"`
		Body          any             `json:"body"`
	}{"1.0", messageType, newID("msg_", now), timestamp(now), env.SessionID, env.CorrelationID,
		env.MessageID, daemonPrincipal, env.From, body}
}

// errorEnvelope is the form of every native error: an envelope whose body key
// error holds an object with the member error.
func (s *Server) errorEnvelope(e *protocolError) any {
	now := s.now()
	return struct {
		AIPVersion  string    `json:"aip_version"`
		MessageType string    `json:"message_type"`
		MessageID   string    `json:"message_id"`
		SentAt      timestamp `json:"sent_at"`
		Body        any       `json:"body"`
	}{"1.0", "aip.core.v1.error", newID("msg_", now), timestamp(now),
		map[string]any{"error": map[string]any{"error": e}}}
}
