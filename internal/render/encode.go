package render

import (
	"bytes"
	"errors"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/sanitize"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// encoding keeps provider values as they are: numbers digit for digit, names
// that occur twice, half characters in escapes. The tags of records speak of
// empty values in the sense of encoding/json, where an empty object is one
// that a reader must see.
var encoding = json.JoinOptions(
	jsontext.AllowInvalidUTF8(true),
	jsontext.AllowDuplicateNames(true),
	jsontext.PreserveRawStrings(true),
	jsonv1.OmitEmptyWithLegacySemantics(true),
	json.Deterministic(true),
)

// joining is encoding for a value that may hold halves of characters. It looks
// into every string, which few values need.
var joining = json.JoinOptions(encoding, json.WithMarshalers(json.MarshalToFunc(wholeString)))

// wholeString writes a string in which halves of characters stand by themselves
// as they do where a character was cut: joined where two meet, else U+FFFD.
// Half an escape would be an error for many readers of JSON.
func wholeString(enc *jsontext.Encoder, s string) error {
	if !strings.Contains(s, "\xed") { // how each half begins
		return errors.ErrUnsupported // as any other
	}
	return enc.WriteToken(jsontext.String(whole(s)))
}

// encode writes v as one line of JSON that is safe on a terminal, its line end
// included. An error is a *fault.Error of class fault.Internal.
func encode(v any) ([]byte, error) {
	b, err := json.Marshal(v, encoding)
	if err == nil && bytes.Contains(b, []byte("\ufffd")) { // which halves become, one by one
		b, err = json.Marshal(v, joining)
	}
	if err != nil {
		return nil, fault.New(fault.Internal, "output.encode", "a record of type %T could not be written as JSON", v).Wrap(err)
	}
	return append(escape(b), '\n'), nil
}

// escape writes as \u escapes what a person must not meet raw: DEL, the C1
// controls and every other character that is not printed in text. Such
// characters stand only within strings, where an escape means the same. A byte
// that is no UTF-8 becomes U+FFFD. b is JSON on one line.
func escape(b []byte) []byte {
	if s := string(b); sanitize.Line(s).String() == s && !strings.ContainsAny(s, marks) {
		return b
	}
	out := make([]byte, 0, len(b)+len(b)/8)
	var last []byte // the character before, where it stands raw
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		switch {
		case r == utf8.RuneError && n == 1:
			out = append(out, "\ufffd"...)
			last = nil
		case risky(last, b[:n], r):
			out = appendEscape(out, r)
			last = nil
		default:
			out = append(out, b[:n]...)
			last = b[:n]
		}
		b = b[n:]
	}
	return out
}

// marks pass in text, where scripts need them; an escape costs JSON nothing.
const marks = "\u200e\u200f"

// risky reports whether the character c, which is r, is not printed in text
// after the one before it.
func risky(before, c []byte, r rune) bool {
	if r < utf8.RuneSelf {
		return r == 0x7f
	}
	s := string(before) + string(c)
	return sanitize.Line(s).String() != s || strings.ContainsRune(marks, r)
}

func appendEscape(dst []byte, r rune) []byte {
	const digits = "0123456789abcdef"
	for _, u := range utf16.AppendRune(nil, r) {
		dst = append(dst, '\\', 'u', digits[u>>12], digits[u>>8&15], digits[u>>4&15], digits[u&15])
	}
	return dst
}

// whole joins the halves of characters in a string that is complete.
func whole(s string) string {
	var h aip.Surrogates
	return h.Join(s) + h.Flush()
}

// Marshal writes v as the line of JSON that records are made of, for whoever
// hands a record to another program. Errors are those of a record on stdout.
func Marshal(v any) ([]byte, error) { return encode(v) }
