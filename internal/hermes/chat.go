package hermes

import (
	"strconv"
	"strings"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/transcript"
	"github.com/go-json-experiment/json/jsontext"
)

// chat reads a chat completion chunk, or a whole chat completion. Order
// inside the frame: text before finish, because a finish chunk may carry the
// last words.
func chat(name string, m fields) []transcript.Op {
	var ops []transcript.Op
	if name != "" {
		ops = append(ops, transcript.Named{Name: name})
	}
	known := false
	isLength := false
	for i, choice := range elements(m["choices"]) {
		known = true
		c := members(choice)
		index := i
		if n, ok := c.integer("index"); ok {
			index = n
		}
		for _, holder := range []string{"delta", "message"} {
			d := members(c[holder])
			if text := contentText(d["content"]); text != "" {
				ops = append(ops, transcript.Text{Item: transcript.ItemRef{Choice: index}, Text: text})
			}
		}
		reason := c.str("finish_reason")
		if reason == "length" {
			isLength = true
		}
		ops = append(ops, transcript.Finish{Choice: index, Reason: reason})
	}
	// A session's answer that does not stream is one message without choices.
	if text := contentText(members(m["message"])["content"]); text != "" && !m.has("choices") {
		known = true
		ops = append(ops, transcript.Text{Text: text})
	}
	h, hasHermes := hermesState(m)
	if hasHermes {
		known = true
		ops = append(ops, h)
	}
	if u := m["usage"]; len(u) > 0 && u.Kind() == '{' {
		known = true
		ops = append(ops, transcript.Usage{Value: u})
	}
	explains := isLength && !(h.Failed != nil && *h.Failed)
	errs := providerErrors(m, explains)
	ops = append(ops, errs...)
	if !known && len(errs) == 0 && !m.has("choices") {
		ops = append(ops, transcript.Note{Name: name})
	}
	return ops
}

// contentText reads a content that is a string, or a list of text parts;
// anything else is no text.
func contentText(v jsontext.Value) string {
	if s, ok := aip.Unquote(v); ok {
		return s
	}
	var b strings.Builder
	for _, part := range elements(v) {
		b.WriteString(members(part).str("text"))
	}
	return b.String()
}

func hermesState(m fields) (transcript.Hermes, bool) {
	v := m["hermes"]
	if len(v) == 0 || v.Kind() != '{' {
		return transcript.Hermes{}, false
	}
	h := members(v)
	return transcript.Hermes{
		Completed: h.boolean("completed"),
		Partial:   h.boolean("partial"),
		Failed:    h.boolean("failed"),
		ErrorCode: h.str("error_code"),
	}, true
}

// providerErrors looks for an error at the top of a frame and of its
// response, and nowhere else: an object, or a string that is not empty.
func providerErrors(m fields, explains bool) []transcript.Op {
	var ops []transcript.Op
	for _, v := range []jsontext.Value{m["error"], aip.Member(m["response"], "error")} {
		if e, ok := providerError(v); ok {
			e.Explains = explains
			ops = append(ops, e)
		}
	}
	return ops
}

func providerError(v jsontext.Value) (transcript.ProviderError, bool) {
	if s, ok := aip.Unquote(v); ok {
		return transcript.ProviderError{Message: s}, s != ""
	}
	if len(v) == 0 || v.Kind() != '{' {
		return transcript.ProviderError{}, false
	}
	m := members(v)
	code := m.str("code")
	if code == "" && m["code"].Kind() == '0' {
		code = string(m["code"]) // some providers put an HTTP status there
	}
	return transcript.ProviderError{Type: m.str("type"), Code: code, Message: m.str("message")}, true
}

// fields are the members of one JSON object, undecoded.
type fields map[string]jsontext.Value

func members(v jsontext.Value) fields { return aip.Members(v) }

func elements(v jsontext.Value) []jsontext.Value {
	list, _ := aip.Elements(v)
	return list
}

func (m fields) has(name string) bool { _, ok := m[name]; return ok }

// str returns a string member; anything else is empty.
func (m fields) str(name string) string {
	s, _ := aip.Unquote(m[name])
	return s
}

func (m fields) boolean(name string) *bool { return aip.Bool(m[name]) }

func (m fields) integer(name string) (int, bool) {
	n, err := strconv.Atoi(string(m[name]))
	return n, err == nil
}

func trimmed(s string) string { return strings.TrimSpace(s) }
