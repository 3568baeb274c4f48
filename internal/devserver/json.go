package devserver

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// encode writes v as one line of JSON without HTML escapes. It panics on a
// value that cannot be encoded: every value passed here is built by this
// package from parts that were checked on the way in.
func encode(v any) json.RawMessage {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("devserver: encode: " + err.Error())
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}

// readJSON reads text the way the connector does: strict JSON, key order and
// number spelling kept, escapes turned into the characters they stand for. It
// reports false for text that is no JSON, and for JSON whose strings hold half
// of a surrogate pair: the connector's reader refuses those, so such a frame is
// forwarded as plain text.
func readJSON(text string) (json.RawMessage, bool) {
	if !utf8.ValidString(text) || !json.Valid([]byte(text)) {
		return nil, false
	}
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); {
		switch c := text[i]; c {
		case ' ', '\t', '\r', '\n':
			i++
		case '"':
			end := stringEnd(text, i)
			s, ok := unquote(text[i+1 : end-1])
			if !ok {
				return nil, false
			}
			out = appendString(out, s)
			i = end
		default:
			out = append(out, c)
			i++
		}
	}
	return out, true
}

// stringEnd returns the offset just past the closing quote of the string that
// opens at start. The text must be valid JSON.
func stringEnd(text string, start int) int {
	for i := start + 1; ; i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
}

// unquote resolves the escapes of a valid JSON string body. It reports false
// for a surrogate escape without its other half.
func unquote(body string) (string, bool) {
	out := make([]byte, 0, len(body))
	for i := 0; i < len(body); i++ {
		if body[i] != '\\' {
			out = append(out, body[i])
			continue
		}
		i++
		switch body[i] {
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r := hex4(body[i+1:])
			i += 4
			if utf16.IsSurrogate(r) {
				if len(body) < i+7 || body[i+1] != '\\' || body[i+2] != 'u' {
					return "", false
				}
				r = utf16.DecodeRune(r, hex4(body[i+3:]))
				if r == utf8.RuneError {
					return "", false
				}
				i += 6
			}
			out = utf8.AppendRune(out, r)
		default: // quote, backslash, slash
			out = append(out, body[i])
		}
	}
	return string(out), true
}

// hex4 reads the four hex digits of a \u escape; validity was checked before.
func hex4(s string) rune {
	n, err := strconv.ParseUint(s[:4], 16, 16)
	if err != nil {
		return utf8.RuneError
	}
	return rune(n)
}

// appendString quotes s with the fewest escapes JSON allows, as the daemon's
// serializer does.
func appendString(out []byte, s string) []byte {
	const digits = "0123456789abcdef"
	out = append(out, '"')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			out = append(out, '\\', c)
		case c == '\n':
			out = append(out, '\\', 'n')
		case c == '\r':
			out = append(out, '\\', 'r')
		case c == '\t':
			out = append(out, '\\', 't')
		case c == '\b':
			out = append(out, '\\', 'b')
		case c == '\f':
			out = append(out, '\\', 'f')
		case c < 0x20:
			out = append(out, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		default:
			out = append(out, c)
		}
	}
	return append(out, '"')
}

// members returns the top-level members of a JSON object, or nil for any other
// value.
func members(raw json.RawMessage) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	if len(raw) == 0 || raw[0] != '{' || json.Unmarshal(raw, &m) != nil {
		return nil
	}
	return m
}

// stringValue returns the text of a JSON string; false for any other value.
func stringValue(raw json.RawMessage) (string, bool) {
	var s string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return "", false
	}
	return s, true
}
