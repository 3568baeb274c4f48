package aip

import (
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Unquote decodes a JSON string value without losing half characters: a
// surrogate escape that stands alone becomes its three-byte generalized UTF-8
// form, so that the other half, arriving in a later delta, can still be joined
// to it. ok is false when v is no JSON string.
func Unquote(v jsontext.Value) (s string, ok bool) {
	if len(v) < 2 || v[0] != '"' || v[len(v)-1] != '"' {
		return "", false
	}
	body := v[1 : len(v)-1]
	plain := true
	for _, c := range body {
		if c == '\\' {
			plain = false
			break
		}
	}
	if plain {
		return string(body), true
	}
	var b strings.Builder
	b.Grow(len(body))
	for i := 0; i < len(body); {
		c := body[i]
		if c != '\\' {
			b.WriteByte(c)
			i++
			continue
		}
		if i+1 >= len(body) {
			return "", false
		}
		switch e := body[i+1]; e {
		case 'b':
			b.WriteByte('\b')
		case 'f':
			b.WriteByte('\f')
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 't':
			b.WriteByte('\t')
		case 'u':
			r, valid := hex4(body[i+2:])
			if !valid {
				return "", false
			}
			i += 6
			if r >= 0xd800 && r < 0xdc00 && i+1 < len(body) && body[i] == '\\' && body[i+1] == 'u' {
				if lo, valid := hex4(body[i+2:]); valid && lo >= 0xdc00 && lo < 0xe000 {
					b.WriteRune((r-0xd800)<<10 + (lo - 0xdc00) + 0x10000)
					i += 6
					continue
				}
			}
			writeGeneralized(&b, r)
			continue
		default:
			b.WriteByte(e)
		}
		i += 2
	}
	return b.String(), true
}

func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range b[:4] {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 + rune(c-'0')
		case c >= 'a' && c <= 'f':
			r = r<<4 + rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			r = r<<4 + rune(c-'A'+10)
		default:
			return 0, false
		}
	}
	return r, true
}

// writeGeneralized writes r as UTF-8, a surrogate included: utf8 itself would
// put the replacement character there.
func writeGeneralized(b *strings.Builder, r rune) {
	if r >= 0xd800 && r <= 0xdfff {
		b.WriteByte(0xe0 | byte(r>>12))
		b.WriteByte(0x80 | byte(r>>6)&0x3f)
		b.WriteByte(0x80 | byte(r)&0x3f)
		return
	}
	b.WriteRune(r)
}

// Surrogates joins the halves of characters that were cut over two deltas.
// The zero value is ready; one Surrogates serves one run of text.
type Surrogates struct{ high rune }

// Join returns delta with a held-back high half joined to a leading low half.
// A high half at the end of delta is held back for the next call; a half that
// finds no partner becomes U+FFFD. The result is valid UTF-8 wherever delta
// was valid but for its halves.
func (s *Surrogates) Join(delta string) string {
	if s.high == 0 && !strings.Contains(delta, "\xed") {
		return delta
	}
	var b strings.Builder
	b.Grow(len(delta) + 4)
	for i := 0; i < len(delta); {
		r, n := generalizedAt(delta[i:])
		if n == 0 {
			s.drop(&b)
			size := 1
			if rr, w := utf8.DecodeRuneInString(delta[i:]); rr != utf8.RuneError {
				size = w
			}
			b.WriteString(delta[i : i+size])
			i += size
			continue
		}
		i += n
		switch {
		case r < 0xdc00:
			s.drop(&b)
			s.high = r
		case s.high != 0:
			b.WriteRune((s.high-0xd800)<<10 + (r - 0xdc00) + 0x10000)
			s.high = 0
		default:
			b.WriteRune(utf8.RuneError)
		}
	}
	return b.String()
}

// Flush returns U+FFFD for a half that was held back and never joined.
func (s *Surrogates) Flush() string {
	if s.high == 0 {
		return ""
	}
	s.high = 0
	return "\ufffd"
}

func (s *Surrogates) drop(b *strings.Builder) {
	if s.high != 0 {
		b.WriteRune(utf8.RuneError)
		s.high = 0
	}
}

// generalizedAt reads a three-byte surrogate at the start of s; n is 0 when
// there is none.
func generalizedAt(s string) (r rune, n int) {
	if len(s) < 3 || s[0] != 0xed || s[1] < 0xa0 || s[1] > 0xbf || s[2]&0xc0 != 0x80 {
		return 0, 0
	}
	return 0xd000 | rune(s[1]&0x3f)<<6 | rune(s[2]&0x3f), 3
}
