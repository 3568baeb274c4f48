package devserver

import (
	"encoding/json"
	"strings"
)

// hermesFrame is the hermes_sse object: one provider frame as chunks and the
// final aggregate carry it. Event and id are left out when the frame had none.
type hermesFrame struct {
	Event    *string         `json:"event,omitempty"`
	ID       *string         `json:"id,omitempty"`
	Data     json.RawMessage `json:"data"`
	RawData  string          `json:"raw_data"`
	Terminal bool            `json:"terminal"`

	fields map[string]json.RawMessage // members of data when it is an object
}

// newHermesFrame reads a provider frame: data is the parsed value, or the text
// itself as a JSON string when the connector's reader refuses it.
func newHermesFrame(f sseFrame) hermesFrame {
	h := hermesFrame{Event: f.event, ID: f.id, RawData: f.data}
	switch trimmed := strings.TrimSpace(f.data); {
	case trimmed == "":
		h.Data = json.RawMessage("null")
	case trimmed == "[DONE]":
		h.Data, h.Terminal = json.RawMessage(`"[DONE]"`), true
	default:
		value, ok := readJSON(f.data)
		if !ok {
			value = appendString(nil, f.data)
		}
		h.Data, h.fields = value, members(value)
	}
	if h.Event != nil && terminalName(*h.Event) {
		h.Terminal = true
	}
	// The key type is not asked here: a frame named only by it is not terminal.
	if name, ok := stringValue(h.fields["event"]); ok && terminalName(name) {
		h.Terminal = true
	}
	return h
}

// name is the provider's name of the frame: its event line, else the member
// event, else the member type. The first one present decides, even when it is
// not a string.
func (h hermesFrame) name() (string, bool) {
	if h.Event != nil {
		return *h.Event, true
	}
	for _, key := range []string{"event", "type"} {
		if raw, ok := h.fields[key]; ok {
			return stringValue(raw)
		}
	}
	return "", false
}

func terminalName(name string) bool {
	switch name {
	case "done", "run.completed", "run.failed", "run.cancelled",
		"response.completed", "response.failed", "response.incomplete", "error":
		return true
	}
	return false
}

// failureName reports the names that make a chunk an error, terminal or not.
func failureName(name string) bool {
	switch name {
	case "run.failed", "response.failed", "response.incomplete", "error":
		return true
	}
	return false
}

// kind is the StreamChunk kind of the frame.
func (h hermesFrame) kind() string {
	name, _ := h.name()
	if failureName(name) {
		return "error"
	}
	switch name {
	case "done", "run.completed", "run.cancelled", "response.completed":
		if h.Terminal {
			return "done"
		}
	case "tool.started", "tool.completed", "tool.failed":
		return "tool"
	case "approval.request":
		return "pending_approval"
	case "reasoning.available":
		return "thought"
	}
	if h.Terminal {
		return "done"
	}
	return "data"
}

// part is the text part of the chunk: the first of delta, text and output that
// is present, when it is a non-empty string.
func (h hermesFrame) part() *textPart {
	for _, key := range []string{"delta", "text", "output"} {
		raw, ok := h.fields[key]
		if !ok {
			continue
		}
		if s, ok := stringValue(raw); ok && s != "" {
			return newTextPart(s)
		}
		return nil
	}
	return nil
}

// appendText adds what the frame contributes to the aggregate's text. The rule
// is the connector's, leaks included: any top-level delta counts.
func (h hermesFrame) appendText(text string) string {
	if s, ok := h.chatDelta(); ok {
		return text + s
	}
	if s, ok := stringValue(h.fields["delta"]); ok {
		return text + s
	}
	if s, ok := stringValue(h.fields["text"]); ok && h.Event != nil && *h.Event == "response.output_text.delta" {
		return text + s
	}
	if text == "" {
		for _, key := range []string{"content", "output"} {
			if s, ok := stringValue(h.fields[key]); ok {
				return s
			}
		}
	}
	return text
}

// chatDelta is choices[0].delta.content.
func (h hermesFrame) chatDelta() (string, bool) {
	var choices []struct {
		Delta struct {
			Content json.RawMessage `json:"content"`
		} `json:"delta"`
	}
	raw, ok := h.fields["choices"]
	if !ok || json.Unmarshal(raw, &choices) != nil || len(choices) == 0 {
		return "", false
	}
	return stringValue(choices[0].Delta.Content)
}
