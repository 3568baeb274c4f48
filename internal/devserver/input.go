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
	fields := chatFields
	var bad []string
	if sc.Operation == "responses_stream" {
		fields = responsesFields
	} else if n := countPresent(in, "prompt", "query", "messages"); n != 1 {
		bad = append(bad, "exactly one of prompt, query and messages has to be present")
	}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if raw, ok := in[key]; ok && !fields[key](raw) {
			bad = append(bad, "/"+key+" has the wrong type or size")
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

var chatFields = map[string]func(json.RawMessage) bool{
	"prompt": isFilled, "query": isFilled, "messages": isFilledList,
	"model": isString, "session_id": isString, "session_key": isString,
	"user": isString, "idempotency_key": isString,
	"temperature": isNumber, "top_p": isNumber,
	"max_tokens": isInteger, "metadata": isObject, "max_events": isEventLimit,
}

var responsesFields = map[string]func(json.RawMessage) bool{
	"body": isObject, "model": isString, "instructions": isString,
	"session_key": isString, "idempotency_key": isString,
	"conversation_history": isList, "max_events": isEventLimit,
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

// outputViolations checks the output of a completed stream: the output schema
// requires these members.
func outputViolations(output json.RawMessage) []string {
	out := members(output)
	var bad []string
	for _, key := range []string{"endpoint_id", "operation", "http_status", "events", "text", "terminal"} {
		if _, ok := out[key]; !ok {
			bad = append(bad, "/"+key+" is missing")
		}
	}
	return bad
}
