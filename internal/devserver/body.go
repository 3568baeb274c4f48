package devserver

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// body is the state of one provider answer that is no stream: a single JSON
// body, which becomes the output as it is.
type body struct {
	run  *run
	text []byte
}

func (b *body) read(data []byte) (outcome, bool) {
	b.text = append(b.text, data...)
	return outcome{}, false
}

func (b *body) close() outcome {
	out := bodyValue(string(b.text))
	res := actionResult{ActionID: b.run.action.ID, Status: "completed", Output: out}
	text := assistantText(out)
	if b.run.scenario.Operation == "health" {
		// The only failed result of the connector that has no error.
		if status, _ := stringValue(members(out)["status"]); status != "ok" {
			res.Status, text = "failed", "the endpoint's health is "+status
		}
	}
	res.Message = messageOf(text, out)
	return outcome{result: res}
}

// bodyValue is what the connector makes of a body: its JSON value, null when it
// is blank, and an object around the text when it is no JSON.
func bodyValue(text string) json.RawMessage {
	if strings.TrimSpace(text) == "" {
		return json.RawMessage("null")
	}
	if value, ok := readJSON(text); ok {
		return value
	}
	return encode(map[string]string{"text": strings.ToValidUTF8(text, string(utf8.RuneError))})
}

// assistantText is the text part of a result: the message of the first choice,
// else the message at the top. A Responses object has neither.
func assistantText(out json.RawMessage) string {
	in := members(out)
	var choices []json.RawMessage
	if raw, ok := in["choices"]; ok && json.Unmarshal(raw, &choices) == nil && len(choices) > 0 {
		if s, ok := stringValue(members(members(choices[0])["message"])["content"]); ok {
			return s
		}
	}
	s, _ := stringValue(members(in["message"])["content"])
	return s
}
