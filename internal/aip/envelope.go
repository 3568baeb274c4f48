package aip

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Version is the protocol version that every envelope states.
const Version = "1.0"

// The execution modes of an action. Absent means sync.
const (
	ModeSync      = "sync"
	ModeAsync     = "async"
	ModeStreaming = "streaming"
)

// MaxEnvelopeBytes is the largest request body the native surface takes.
const MaxEnvelopeBytes = 2 << 20

// Action is what a client submits. Input is sent byte for byte: unknown
// fields, key order and number spelling survive.
type Action struct {
	ID             string
	CapabilityID   string
	Input          jsontext.Value
	Mode           string // empty is left out
	IdempotencyKey string // empty is left out
	TimeoutMS      *uint64
}

// Envelope wraps the action for one sending. Message ids are single use and
// the time must lie within the daemon's window, so each sending is a new
// envelope.
func (a Action) Envelope(messageID string, now time.Time) ([]byte, error) {
	// The input alone, and not the envelope around it: what is valid only
	// together with its surroundings could add members of the action.
	if !Valid(a.Input) {
		return nil, errors.New("the input is not valid JSON")
	}
	var b bytes.Buffer
	b.Grow(len(a.Input) + 512)
	field := func(name, value string) {
		q, _ := jsontext.AppendQuote(nil, value)
		fmt.Fprintf(&b, "%q:%s", name, q)
	}
	b.WriteByte('{')
	field("aip_version", Version)
	b.WriteByte(',')
	field("message_type", "aip.core.v1.action")
	b.WriteByte(',')
	field("message_id", messageID)
	b.WriteByte(',')
	field("sent_at", now.UTC().Format(time.RFC3339Nano))
	b.WriteString(`,"from":{"id":"agent:aipctl:cli","kind":"agent"},"body":{"action":{`)
	field("id", a.ID)
	b.WriteByte(',')
	field("capability_id", a.CapabilityID)
	b.WriteString(`,"input":`)
	b.Write(a.Input)
	if a.Mode != "" {
		b.WriteByte(',')
		field("mode", a.Mode)
	}
	if a.IdempotencyKey != "" {
		b.WriteByte(',')
		field("idempotency_key", a.IdempotencyKey)
	}
	if a.TimeoutMS != nil {
		fmt.Fprintf(&b, `,"timeout_ms":%d`, *a.TimeoutMS)
	}
	b.WriteString("}}}")
	return b.Bytes(), nil
}
