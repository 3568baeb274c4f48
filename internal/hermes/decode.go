// Package hermes turns the frames that Hermes writes, as the connector passes
// them on, into transcript operations.
//
// Invariants kept here:
//
//   - Pure, and without memory between frames: what a frame means does not
//     depend on the frames before it, so a chunk that came late or from the
//     final aggregate is read by the same rules.
//   - Nothing fails. A frame that is not understood becomes a note, never an
//     error and never text.
//   - raw_data and the outer message part are never read for display.
package hermes

import (
	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/transcript"
	"github.com/go-json-experiment/json/jsontext"
)

// UpstreamClosed is the reason in the connector's own last chunk when the
// provider closed without a terminal frame.
const UpstreamClosed = "upstream_stream_closed_without_terminal_event"

// Chunk reads one AIP chunk.
func Chunk(c *aip.Chunk) []transcript.Op {
	if c.Frame != nil {
		return Frame(c.Frame)
	}
	if op := aip.Member(c.Data, "hermes_operator"); op != nil {
		return named("", op, c.Kind)
	}
	if reason, ok := aip.Unquote(aip.Member(c.Data, "reason")); ok && c.Kind == aip.KindError {
		return []transcript.Op{transcript.Closed{Reason: reason}}
	}
	return []transcript.Op{transcript.Note{}}
}

// Frame reads one provider frame, from a chunk or from the aggregate.
func Frame(f *aip.Frame) []transcript.Op {
	data := decodeAgain(f.Data)
	if s, ok := aip.Unquote(data); ok {
		if trimmed(s) == "[DONE]" {
			return []transcript.Op{transcript.Done{}}
		}
		return withName(f.Event, transcript.Note{Name: f.Event})
	}
	if data.Kind() != '{' {
		return withName(f.Event, transcript.Note{Name: f.Event})
	}
	m := members(data)
	name := frameName(f.Event, m)
	if name == "" || isChat(name, m) {
		return chat(name, m)
	}
	return named(name, data, "")
}

// Object reads the result of an operation that does not stream: a chat
// completion or a response object, by the rules of their frames.
func Object(operation string, output jsontext.Value) []transcript.Op {
	switch operation {
	case "responses", "response_get":
		return responseObject(output)
	case "response_delete":
		return nil // a receipt has nothing to show
	default:
		return chat("", members(output))
	}
}

// decodeAgain opens a data string that holds a JSON object: the connector
// hands over so what its JSON reader refuses, such as half characters.
func decodeAgain(data jsontext.Value) jsontext.Value {
	s, ok := aip.Unquote(data)
	if !ok || len(s) == 0 || trimmed(s)[:min(1, len(trimmed(s)))] != "{" {
		return data
	}
	v := jsontext.Value(s)
	if !aip.Valid(v) {
		return data
	}
	return v
}

// frameName is the name a frame goes by: the SSE event, else data.event, else
// data.type.
func frameName(event string, m fields) string {
	if event != "" {
		return event
	}
	if v, ok := m["event"]; ok {
		s, _ := aip.Unquote(v)
		return s
	}
	s, _ := aip.Unquote(m["type"])
	return s
}

func isResponses(name string) bool {
	return len(name) > 9 && name[:9] == "response."
}

// isChat reports whether a frame that has a name is a chat chunk all the same.
// What an approval lets a human choose from is called choices, too.
func isChat(name string, m fields) bool {
	return m.has("choices") && !isResponses(name) && name != "approval.request"
}

func withName(name string, ops ...transcript.Op) []transcript.Op {
	if name == "" {
		return ops
	}
	return append([]transcript.Op{transcript.Named{Name: name}}, ops...)
}

// named reads a frame that has a name: Responses, tool progress, runs,
// sessions and operator events.
func named(name string, data jsontext.Value, kind string) []transcript.Op {
	m := members(data)
	if name == "" {
		name = frameName("", m)
	}
	ops := []transcript.Op{}
	if name != "" {
		ops = append(ops, transcript.Named{Name: name})
	}
	switch {
	case name == "hermes.tool.progress":
		ops = append(ops, toolProgress(m)...)
	case isResponses(name):
		ops = append(ops, responses(name, m)...)
	default:
		ops = append(ops, run(name, m, kind)...)
		if id := m.str("session_id"); id != "" {
			ops = append(ops, transcript.Session{ID: id})
		}
	}
	if h, ok := hermesState(m); ok {
		ops = append(ops, h)
	}
	return append(ops, providerErrors(m, false)...)
}

// toolProgress reads hermes.tool.progress. A frame without a status is the
// older form and means that the tool started; one without data means nothing.
func toolProgress(m fields) []transcript.Op {
	if len(m) == 0 {
		return []transcript.Op{transcript.Note{Name: "hermes.tool.progress"}}
	}
	status := m.str("status")
	switch status {
	case "":
		status = transcript.ToolRunning
	case "error":
		status = transcript.ToolFailed
	}
	return []transcript.Op{transcript.Tool{
		CallID: m.str("toolCallId"),
		Name:   m.str("tool"),
		Label:  m.str("label"),
		Emoji:  m.str("emoji"),
		Status: status,
	}}
}
