package hermes

import (
	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/transcript"
	"github.com/go-json-experiment/json/jsontext"
)

// responses reads one Responses event. Text comes from output_text deltas
// alone; every later repeat of it only verifies.
func responses(name string, m fields) []transcript.Op {
	var ops []transcript.Op
	ref := itemRef(m)
	switch name {
	case "response.output_text.delta":
		if text := m.str("delta"); text != "" {
			ops = append(ops, transcript.Text{Item: ref, Text: text})
		}
	case "response.output_text.done":
		if _, ok := aip.Unquote(m["text"]); ok {
			ops = append(ops, transcript.TextDone{Item: ref, Text: m.str("text")})
		}
	case "response.output_item.added", "response.output_item.done":
		ops = append(ops, item(m, name == "response.output_item.added")...)
	case "response.created", "response.in_progress", "response.completed", "response.failed", "response.incomplete", "response.cancelled":
		r := members(m["response"])
		said := transcript.Response{Event: name, ID: r.str("id"), Status: r.str("status")}
		if name == "response.completed" {
			said.Messages = messageTexts(r["output"])
			for i, text := range said.Messages {
				ops = append(ops, transcript.FinalText{Item: transcript.ItemRef{OutputIndex: i}, Text: text})
			}
		}
		ops = append(ops, said)
		if u := r["usage"]; len(u) > 0 && u.Kind() == '{' {
			ops = append(ops, transcript.Usage{Value: u})
		}
	case "response.content_part.added", "response.content_part.done":
		// Repeats what the deltas said; nothing to add.
	default:
		ops = append(ops, transcript.Note{Name: name})
	}
	// Any event may be the first one that carries the id.
	if id := m.str("response_id"); id != "" {
		ops = append(ops, transcript.Response{Event: name, ID: id})
	}
	return ops
}

func itemRef(m fields) transcript.ItemRef {
	ref := transcript.ItemRef{ItemID: m.str("item_id")}
	ref.OutputIndex, _ = m.integer("output_index")
	ref.ContentIndex, _ = m.integer("content_index")
	return ref
}

func item(m fields, open bool) []transcript.Op {
	it := members(m["item"])
	index, _ := m.integer("output_index")
	op := transcript.Item{
		ItemID:      it.str("id"),
		OutputIndex: index,
		Kind:        it.str("type"),
		CallID:      it.str("call_id"),
		Name:        it.str("name"),
		Status:      it.str("status"),
		Open:        open,
	}
	if op.Kind != "message" {
		op.Payload = m["item"]
	}
	ops := []transcript.Op{op}
	// A call is a tool that runs until its output is there: an output item that
	// closes, or one that is complete when it opens.
	switch {
	case op.Kind == "function_call" && open:
		ops = append(ops, transcript.Tool{CallID: op.CallID, Name: op.Name, Status: transcript.ToolRunning})
	case op.Kind == "function_call_output" && (!open || op.Status == "completed"):
		ops = append(ops, transcript.Tool{CallID: op.CallID, Status: transcript.ToolCompleted})
	}
	return ops
}

// responseObject reads a stored or non-streamed response object: its texts
// are final, its items closed.
func responseObject(v jsontext.Value) []transcript.Op {
	r := members(v)
	ops := []transcript.Op{transcript.Response{ID: r.str("id"), Status: r.str("status")}}
	for i, out := range elements(r["output"]) {
		o := members(out)
		switch kind := o.str("type"); kind {
		case "message":
			ops = append(ops, transcript.FinalText{Item: transcript.ItemRef{ItemID: o.str("id"), OutputIndex: i}, Text: contentText(o["content"])})
		default:
			ops = append(ops, transcript.Item{ItemID: o.str("id"), OutputIndex: i, Kind: kind, CallID: o.str("call_id"), Name: o.str("name"), Status: "completed", Payload: out})
		}
	}
	if u := r["usage"]; len(u) > 0 && u.Kind() == '{' {
		ops = append(ops, transcript.Usage{Value: u})
	}
	if e, ok := providerError(r["error"]); ok {
		ops = append(ops, e)
	}
	return ops
}

// messageTexts are the texts of the message items of a final output.
func messageTexts(output jsontext.Value) []string {
	var out []string
	for _, v := range elements(output) {
		if o := members(v); o.str("type") == "message" {
			out = append(out, contentText(o["content"]))
		}
	}
	return out
}

// run reads the events of runs, of session chats and of the operator.
func run(name string, m fields, kind string) []transcript.Op {
	switch name {
	case "message.delta", "assistant.delta":
		if text := m.str("delta"); text != "" {
			return []transcript.Op{transcript.Text{Item: message(m), Text: text}}
		}
	case "assistant.completed":
		return []transcript.Op{transcript.FinalText{Item: message(m), Text: m.str("content")}}
	case "run.completed":
		var ops []transcript.Op
		if text := m.str("output"); text != "" {
			ops = append(ops, transcript.FinalText{Text: text})
		}
		if u := m["usage"]; len(u) > 0 && u.Kind() == '{' {
			ops = append(ops, transcript.Usage{Value: u})
		}
		return ops
	case "reasoning.available":
		return []transcript.Op{transcript.Thought{Text: m.str("text")}}
	case "tool.progress":
		return []transcript.Op{transcript.Thought{Text: m.str("delta")}}
	case "tool.started", "tool.completed", "tool.failed":
		return []transcript.Op{runTool(name, m)}
	case "approval.request":
		var choices []string
		for _, c := range elements(m["choices"]) {
			if s, ok := aip.Unquote(c); ok {
				choices = append(choices, s)
			}
		}
		return []transcript.Op{transcript.Approval{Choices: choices}}
	case "run.started", "run.failed", "run.cancelled", "message.started", "approval.responded", "done", "error":
		return nil
	}
	if name == "" && kind == aip.KindProgress {
		return nil
	}
	return []transcript.Op{transcript.Note{Name: name}}
}

// message names the message that a session's event speaks of; the events of runs
// and of the operator name none.
func message(m fields) transcript.ItemRef { return transcript.ItemRef{ItemID: m.str("message_id")} }

func runTool(name string, m fields) transcript.Tool {
	t := transcript.Tool{Name: m.str("tool"), Label: m.str("preview"), Status: transcript.ToolRunning}
	if t.Name == "" {
		t.Name = m.str("tool_name")
	}
	switch {
	case name == "tool.failed":
		t.Status = transcript.ToolFailed
	case name == "tool.completed":
		t.Status = transcript.ToolCompleted
		if e := m.boolean("error"); e != nil && *e {
			t.Status = transcript.ToolFailed
		}
	}
	return t
}
