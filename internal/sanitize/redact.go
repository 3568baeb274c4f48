package sanitize

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	redacted  = "[redacted]"
	minSecret = 4 // bytes; a shorter secret would blot out ordinary words
)

// Redactor takes known secrets out of texts that may echo them, such as the
// error text of a proxy. It works on raw strings: redact first, then clean. A
// nil or zero Redactor changes nothing. It is safe for concurrent use, and
// printing one does not print what it knows.
type Redactor struct{ forms []string }

// NewRedactor makes a Redactor for the secrets, taken without the white space
// around them. Of each it knows the text itself and its forms in JSON (with and
// without HTML escapes, all ASCII, with \/), in a URL (path and query, either
// case) and in base64 (both alphabets, with or without padding, alone or within
// a longer value such as user:token). Secrets of fewer than 4 bytes are left
// out.
func NewRedactor(secrets ...string) *Redactor {
	r := &Redactor{}
	add := func(forms ...string) {
		for _, form := range forms {
			if len(form) >= minSecret && !slices.Contains(r.forms, form) {
				r.forms = append(r.forms, form)
			}
		}
	}
	for _, secret := range secrets {
		secret = strings.TrimSpace(secret)
		if len(secret) < minSecret {
			continue
		}
		add(secret)
		add(jsonForms(secret)...)
		add(urlForms(secret)...)
		add(base64Forms(secret)...)
	}
	return r
}

// String returns s with [redacted] in place of every form of every secret.
// Occurrences that overlap or touch are replaced as one, so no end of the
// second is left over.
func (r *Redactor) String(s string) string {
	if r == nil {
		return s
	}
	type span struct{ start, end int }
	var spans []span
	for _, form := range r.forms {
		for at := 0; ; at++ {
			i := strings.Index(s[at:], form)
			if i < 0 {
				break
			}
			at += i
			spans = append(spans, span{at, at + len(form)})
		}
	}
	if len(spans) == 0 {
		return s
	}
	slices.SortFunc(spans, func(a, b span) int { return a.start - b.start })
	var b strings.Builder
	done := 0 // s[:done] is written or replaced
	for i, sp := range spans {
		if i == 0 || sp.start > done {
			b.WriteString(s[done:sp.start])
			b.WriteString(redacted)
		}
		done = max(done, sp.end)
	}
	b.WriteString(s[done:])
	return b.String()
}

// JSON is [Redactor.String] for a text of JSON, which stays JSON whatever the
// secrets are: they are looked for in the strings that are values. Names and
// numbers are as they were. A text that is no JSON is taken as any other.
func (r *Redactor) JSON(text string) string {
	if clean := r.String(text); clean == text || !json.Valid([]byte(text)) {
		return clean
	}
	var b strings.Builder
	for {
		start := strings.IndexByte(text, '"')
		if start < 0 {
			b.WriteString(text)
			return b.String()
		}
		b.WriteString(text[:start])
		n := stringLength(text[start:])
		word, rest := text[start:start+n], text[start+n:]
		var s string
		if name := strings.HasPrefix(strings.TrimLeft(rest, " \t\r\n"), ":"); !name && json.Unmarshal([]byte(word), &s) == nil {
			if clean := r.String(s); clean != s {
				word = quoteJSON(clean)
			}
		}
		b.WriteString(word)
		text = rest
	}
}

// stringLength is the length of the JSON string at the start of text.
func stringLength(text string) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

// quoteJSON writes a JSON string in which nothing is hidden.
func quoteJSON(s string) string {
	b := []byte{'"'}
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', byte(c))
		case hidden(c) || isVariationSelector(c) || c == 0x200e || c == 0x200f:
			for _, half := range utf16.AppendRune(nil, c) {
				b = fmt.Appendf(b, `\u%04x`, half)
			}
		default:
			b = utf8.AppendRune(b, c)
		}
	}
	return string(append(b, '"'))
}

// Format keeps the secrets out of %v, %+v and %#v.
func (Redactor) Format(w fmt.State, _ rune) { io.WriteString(w, "redactor") }

func jsonForms(secret string) []string {
	var forms []string
	for _, html := range []bool{true, false} {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(html)
		if err := e.Encode(secret); err != nil {
			continue // a string always encodes
		}
		quoted := strings.TrimSuffix(b.String(), "\n")
		form := quoted[1 : len(quoted)-1]
		for _, form := range []string{form, strings.ReplaceAll(form, "/", `\/`)} {
			forms = append(forms, form, asciiOnly(form, `\u%04x`), asciiOnly(form, `\u%04X`))
		}
	}
	return forms
}

// asciiOnly writes every other character of s as UTF-16 escapes.
func asciiOnly(s, verb string) string {
	var b strings.Builder
	for _, r := range s {
		if r < utf8.RuneSelf {
			b.WriteRune(r)
			continue
		}
		for _, half := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, verb, half)
		}
	}
	return b.String()
}

func urlForms(secret string) []string {
	query, path := url.QueryEscape(secret), url.PathEscape(secret)
	forms := []string{query, path, strings.ReplaceAll(query, "+", "%20")}
	for _, form := range slices.Clone(forms) {
		forms = append(forms, lowerPercent(form))
	}
	return forms
}

// lowerPercent turns the hex digits of percent escapes to lower case.
func lowerPercent(s string) string {
	parts := strings.Split(s, "%")
	for i, p := range parts {
		if i > 0 {
			parts[i] = strings.ToLower(p[:2]) + p[2:]
		}
	}
	return strings.Join(parts, "%")
}

// base64Forms gives the encodings of the secret alone, and those characters of
// it that stay the same when up to two bytes stand before it and any after.
func base64Forms(secret string) []string {
	var forms []string
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		alone := enc.EncodeToString([]byte(secret))
		forms = append(forms, alone, strings.TrimRight(alone, "="))
		for before := range 3 {
			within := enc.EncodeToString([]byte(strings.Repeat("\x00", before) + secret))
			bits := 8 * (before + len(secret))
			forms = append(forms, within[(8*before+5)/6:bits/6])
		}
	}
	return forms
}
