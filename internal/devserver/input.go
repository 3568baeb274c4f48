package devserver

import (
	"encoding/json"
	"maps"
	"math/big"
	"slices"
	"strings"
)

// inputViolations checks an action input against the input schema of the
// operation and returns at most 16 violations. Extra members are allowed.
func inputViolations(sc *Scenario, input json.RawMessage) []string {
	if sc.play.rejectInput {
		return []string{"the schema of this endpoint accepts no input"}
	}
	in := members(input)
	if in == nil {
		return []string{"the input is not an object"}
	}
	c := sc.contract()
	var bad []string
	if c.oneOf != nil && countPresent(in, c.oneOf...) != 1 {
		bad = append(bad, "exactly one of "+strings.Join(c.oneOf, ", ")+" has to be present")
	}
	for _, key := range slices.Sorted(maps.Keys(c.fields)) {
		raw, ok := in[key]
		switch f := c.fields[key]; {
		case ok && !f.check(raw):
			bad = append(bad, "/"+key+" has the wrong type or size")
		case !ok && f.required:
			bad = append(bad, "/"+key+" is missing")
		}
	}
	return bad[:min(len(bad), 16)]
}

func countPresent(in map[string]json.RawMessage, keys ...string) (n int) {
	for _, key := range keys {
		if _, ok := in[key]; ok {
			n++
		}
	}
	return n
}

// field is a typed member of an input: the schema that says so and the check
// that holds it.
type field struct {
	schema   json.RawMessage
	check    func(json.RawMessage) bool
	required bool
}

var (
	textField   = field{schema: json.RawMessage(`{"type":"string"}`), check: isString}
	filledField = field{schema: json.RawMessage(`{"type":"string","minLength":1}`), check: isFilled}
	numberField = field{schema: json.RawMessage(`{"type":"number"}`), check: isNumber}
	wholeField  = field{schema: json.RawMessage(`{"type":"integer"}`), check: isInteger}
	objectField = field{schema: json.RawMessage(`{"type":"object"}`), check: isObject}
	listField   = field{schema: json.RawMessage(`{"type":"array"}`), check: isList}
	someField   = field{schema: json.RawMessage(`{"type":"array","minItems":1}`), check: isFilledList}
	limitField  = field{schema: json.RawMessage(`{"type":"integer","minimum":1,"maximum":100000}`), check: isEventLimit}
)

// chatSources are the three ways to ask a question.
var chatSources = []string{"prompt", "query", "messages"}

var chatFields = map[string]field{
	"prompt": filledField, "query": filledField, "messages": someField,
	"model": textField, "session_id": textField, "session_key": textField,
	"user": textField, "idempotency_key": textField,
	"temperature": numberField, "top_p": numberField,
	"max_tokens": wholeField, "metadata": objectField,
}

var responsesFields = map[string]field{
	"body": objectField, "model": textField, "instructions": textField,
	"session_key": textField, "idempotency_key": textField,
	"conversation_history": listField,
}

var operatorFields = map[string]field{
	"session_key": textField, "idempotency_key": textField, "resume": objectField,
}

// pathFields are those of an operation on one object: its id is in the path of
// the provider request.
func pathFields(id string) map[string]field {
	required := filledField
	required.required = true
	return map[string]field{id: required, "session_key": textField}
}

// limited adds the event limit that every stream takes.
func limited(fields map[string]field) map[string]field {
	out := map[string]field{"max_events": limitField}
	maps.Copy(out, fields)
	return out
}

func isString(raw json.RawMessage) bool { return raw[0] == '"' }
func isObject(raw json.RawMessage) bool { return raw[0] == '{' }
func isList(raw json.RawMessage) bool   { return raw[0] == '[' }
func isNumber(raw json.RawMessage) bool { return strings.ContainsRune("-0123456789", rune(raw[0])) }

func isFilled(raw json.RawMessage) bool {
	s, ok := stringValue(raw)
	return ok && s != ""
}

func isFilledList(raw json.RawMessage) bool {
	var list []json.RawMessage
	return isList(raw) && json.Unmarshal(raw, &list) == nil && len(list) > 0
}

// isInteger accepts every spelling of a whole number, as a JSON Schema does:
// 512.0 passes here and is refused later, by the connector.
func isInteger(raw json.RawMessage) bool {
	_, ok := wholeNumber(raw)
	return ok
}

func isEventLimit(raw json.RawMessage) bool {
	n, ok := wholeNumber(raw)
	return ok && n.Sign() > 0 && n.Cmp(big.NewInt(100000)) <= 0
}

func wholeNumber(raw json.RawMessage) (*big.Int, bool) {
	// A long exponent would make the exact value huge for a few bytes of input.
	if !isNumber(raw) || len(raw) > 64 || exponentTooLong(string(raw)) {
		return nil, false
	}
	r, ok := new(big.Rat).SetString(string(raw))
	if !ok || !r.IsInt() {
		return nil, false
	}
	return r.Num(), true
}

func exponentTooLong(s string) bool {
	_, exp, found := strings.Cut(strings.ToLower(s), "e")
	return found && len(strings.TrimLeft(exp, "+-0")) > 3
}

// outputViolations checks the output of a completed action.
func outputViolations(sc *Scenario, output json.RawMessage) []string {
	out := members(output)
	if out == nil {
		return []string{"the output is not an object"}
	}
	var bad []string
	if sc.contract().form == eventStream {
		for _, key := range aggregateMembers {
			if _, ok := out[key]; !ok {
				bad = append(bad, "/"+key+" is missing")
			}
		}
	}
	return bad
}
