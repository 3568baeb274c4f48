package sanitize

import (
	"unicode/utf16"
	"unicode/utf8"
)

// A filter cuts text into units and says of each whether it may be printed. Its
// answer depends on the text alone and not on how the text was cut into pieces:
// while a unit could still turn out either way, and more text may come, next
// asks for more.
type filter struct {
	line bool // newline, CR and tab are shown as well
	flag bool // the last unit was the base of a flag tag sequence
	vs   bool // the last unit was a variation selector
}

type kind uint8

const (
	needMore kind = iota // undecided until more text comes
	keep                 // these bytes pass as they are
	recode               // these characters pass, joined from surrogate halves
	drop                 // the CR of a CRLF
	show                 // the character is shown in a visible form
	showByte             // a byte that is not UTF-8
)

// unit is the start of the text: what is to be done with its first size bytes.
type unit struct {
	kind kind
	size int
	r    rune // the character, or the last one of a tag sequence
}

// next classifies the unit at the start of s, which is not empty. With final
// set no more text will come and the answer is never needMore.
func (f *filter) next(s string, final bool) unit {
	u := f.classify(s, final)
	if u.kind != needMore {
		f.flag = u.r == blackFlag
		f.vs = isVariationSelector(u.r)
	}
	return u
}

func (f *filter) classify(s string, final bool) unit {
	if c := s[0]; c < utf8.RuneSelf {
		return f.ascii(s, final)
	}
	r, size := decode(s, final)
	pass := keep
	if size > utf8.UTFMax {
		pass = recode
	}
	switch {
	case size == 0:
		return unit{kind: needMore}
	case r == invalid:
		return unit{showByte, 1, r}
	case f.flag && isTag(r):
		return tagSequence(s, final)
	case f.vs && isVariationSelector(r):
		return unit{show, size, r}
	case hidden(r):
		return unit{show, size, r}
	default:
		return unit{pass, size, r}
	}
}

func (f *filter) ascii(s string, final bool) unit {
	switch c := s[0]; {
	case c == '\r' && !f.line:
		switch {
		case len(s) == 1 && !final:
			return unit{kind: needMore}
		case len(s) > 1 && s[1] == '\n':
			return unit{drop, 1, '\r'}
		default:
			return unit{show, 1, '\r'}
		}
	case f.plain(c):
		return unit{keep, 1, rune(c)}
	default:
		return unit{show, 1, rune(c)}
	}
}

// plain reports whether the byte passes whatever stands around it.
func (f *filter) plain(c byte) bool {
	return c >= 0x20 && c < 0x7f || (c == '\n' || c == '\t') && !f.line
}

// skipPlain returns the index of the first byte of s, from i on, that is not
// plain.
func (f *filter) skipPlain(s string, i int) int {
	start := i
	for i < len(s) && f.plain(s[i]) {
		i++
	}
	if i > start {
		f.flag, f.vs = false, false
	}
	return i
}

// run filters s and returns the printable text and how much of s it stands for.
// The rest, which is empty when final is set, is to be put before the text that
// comes next. Text in which nothing is to be shown is returned without a copy.
func (f *filter) run(s string, final bool) (out string, used int) {
	var buf []byte
	copied, i := 0, 0
	for {
		if i = f.skipPlain(s, i); i == len(s) {
			break
		}
		u := f.next(s[i:], final)
		if u.kind == needMore {
			break
		}
		if u.kind != keep {
			if buf == nil {
				buf = make([]byte, 0, len(s)+len(s)/4+16)
			}
			buf = append(buf, s[copied:i]...)
			buf = u.append(buf, s[i:])
			copied = i + u.size
		}
		i += u.size
	}
	if buf == nil {
		return s[:i], i
	}
	return string(append(buf, s[copied:i]...)), i
}

// append adds what is printed for the unit u at the start of s.
func (u unit) append(dst []byte, s string) []byte {
	s = s[:u.size]
	switch u.kind {
	case keep:
		return append(dst, s...)
	case recode:
		for s != "" {
			r, size := decode(s, true)
			dst = utf8.AppendRune(dst, r)
			s = s[size:]
		}
		return dst
	case show:
		return appendVisible(dst, u.r)
	case showByte:
		return append(dst, '\\', 'x', hexDigits[s[0]>>4], hexDigits[s[0]&15])
	default:
		return dst
	}
}

const hexDigits = "0123456789abcdef"

// appendVisible adds the visible form of a character that is not printed.
func appendVisible(dst []byte, r rune) []byte {
	dst = append(dst, '\\')
	digits := func(n int) {
		for n--; n >= 0; n-- {
			dst = append(dst, hexDigits[r>>(4*n)&15])
		}
	}
	switch {
	case r == '\n':
		dst = append(dst, 'n')
	case r == '\r':
		dst = append(dst, 'r')
	case r == '\t':
		dst = append(dst, 't')
	case r < utf8.RuneSelf:
		dst = append(dst, 'x')
		digits(2)
	case r <= 0xffff:
		dst = append(dst, 'u')
		digits(4)
	case r <= 0xfffff:
		dst = append(dst, 'u', '{')
		digits(5)
		dst = append(dst, '}')
	default:
		dst = append(dst, 'u', '{')
		digits(6)
		dst = append(dst, '}')
	}
	return dst
}

// invalid is what decode returns for a byte that is not part of a character.
const invalid rune = -1

// decode reads the character at the start of s, which is not empty, and its
// size in bytes. A provider that cuts its text in UTF-16 may send the halves of
// a surrogate pair in two deltas; each arrives as three bytes (the generalised
// UTF-8 called WTF-8) and two that meet are read as one character of six bytes.
// A half on its own is returned as it is. A size of 0 asks for more text.
func decode(s string, final bool) (r rune, size int) {
	r, size = utf8.DecodeRuneInString(s)
	if r != utf8.RuneError || size > 1 {
		return r, size
	}
	if half := surrogate(s); half != invalid {
		if joined := utf16.DecodeRune(half, surrogate(s[3:])); joined != utf8.RuneError {
			return joined, 6
		}
		if !final && half < 0xdc00 && surrogateBegun(s[3:]) {
			return 0, 0
		}
		return half, 3
	}
	if !final && (!utf8.FullRuneInString(s) || surrogateBegun(s)) {
		return 0, 0
	}
	return invalid, 1
}

// surrogate reads a surrogate half in three bytes at the start of s.
func surrogate(s string) rune {
	if len(s) < 3 || s[0] != 0xed || s[1]&0xe0 != 0xa0 || s[2]&0xc0 != 0x80 {
		return invalid
	}
	return 0xd000 | rune(s[1]&0x3f)<<6 | rune(s[2]&0x3f)
}

// surrogateBegun reports whether s is too short to tell whether it starts with
// a surrogate half.
func surrogateBegun(s string) bool {
	switch len(s) {
	case 0:
		return true
	case 1:
		return s[0] == 0xed
	case 2:
		return s[0] == 0xed && s[1]&0xe0 == 0xa0
	default:
		return false
	}
}

// Tag characters repeat ASCII invisibly, which makes them a way to hide words
// in plain sight. Their one use in practice is the flag of a subdivision such as
// Scotland: a black flag, the subdivision's code in lower case letters and
// digits, a cancel tag (emoji tag sequences, UTS #51). No other base has a
// sequence that anyone draws, so only that one passes, and only whole.
const (
	blackFlag  = 0x1f3f4
	tagOffset  = 0xe0000 // a tag character less this is the ASCII it repeats
	cancelTag  = 0xe007f
	maxTagSpec = 7 // three digits of region and four of subdivision
)

func isTag(r rune) bool { return r >= 0xe0020 && r <= cancelTag }

// tagSequence classifies the tag characters after a black flag. It looks at no
// more than maxTagSpec of them and the one after, which bounds what is held.
func tagSequence(s string, final bool) unit {
	first, size := decode(s, final)
	malformed := unit{show, size, first}
	var spec [maxTagSpec]rune
	n, i := 0, 0
	for {
		if i == len(s) {
			if final {
				return malformed
			}
			return unit{kind: needMore}
		}
		r, size := decode(s[i:], final)
		if size == 0 {
			return unit{kind: needMore}
		}
		i += size
		if r == cancelTag && isSubdivision(spec[:n]) {
			if i > (n+1)*utf8.UTFMax {
				return unit{recode, i, r}
			}
			return unit{keep, i, r}
		}
		c := r - tagOffset
		if n == maxTagSpec || !isLower(c) && !isDigit(c) {
			return malformed
		}
		spec[n] = c
		n++
	}
}

// isSubdivision reports whether code, of small letters and digits, has the form
// of a subdivision identifier: a region of two letters or three digits, then one
// to four of either.
func isSubdivision(code []rune) bool {
	switch {
	case len(code) < 3 || len(code) > maxTagSpec:
		return false
	case isLower(code[0]) && isLower(code[1]):
		return len(code) <= 2+4
	default:
		return len(code) > 3 && isDigit(code[0]) && isDigit(code[1]) && isDigit(code[2])
	}
}

func isLower(r rune) bool { return r >= 'a' && r <= 'z' }
func isDigit(r rune) bool { return r >= '0' && r <= '9' }

// isVariationSelector covers the Mongolian ones and both blocks. One selector
// after a character picks its form and passes. A second one has no meaning, and
// a run of them is a known way to carry hidden bytes, so it is shown.
func isVariationSelector(r rune) bool {
	return r >= 0xfe00 && r <= 0xfe0f ||
		r >= 0xe0100 && r <= 0xe01ef ||
		r >= 0x180b && r <= 0x180d || r == 0x180f
}

// hidden reports whether r is shown instead of printed, on its own account.
// These are:
//
//   - the controls: C0, DEL, C1 (a terminal may take U+009B for a CSI);
//   - what ends a line or turns the reading order: U+2028, U+2029, the
//     embeddings, overrides and isolates, U+061C;
//   - format characters that take no room: U+00AD (terminals differ on whether
//     they draw it), U+180E, U+200B, U+2060 to U+206F, U+FEFF, the interlinear
//     marks, the shorthand and musical controls, the tags;
//   - letters and vowels that are blank: U+17B4, U+17B5, U+3164, U+FFA0;
//   - code points kept for such characters in the future, and noncharacters;
//   - surrogate halves, which are no characters.
//
// What scripts and emoji need passes: ZWJ, ZWNJ, LRM, RLM, the combining
// grapheme joiner, the conjoining jamo fillers. So do the format characters that
// are drawn (Arabic, Syriac and Kaithi signs) or that only arrange hieroglyphs.
// Private use and unassigned code points pass, for tomorrow's emoji are among
// them.
func hidden(r rune) bool {
	switch {
	case r < 0xa0:
		return r < 0x20 || r >= 0x7f
	case r < 0x2000:
		return r == 0xad || r == 0x61c || r == 0x17b4 || r == 0x17b5 || r == 0x180e
	case r < 0x2070:
		return r == 0x200b || r >= 0x2028 && r <= 0x202e || r >= 0x2060
	case r < 0xd800:
		return r == 0x3164
	case r < 0xe000:
		return true
	case r <= 0xffff:
		return r >= 0xfdd0 && r <= 0xfdef || r == 0xfeff || r == 0xffa0 ||
			r >= 0xfff0 && r <= 0xfffb || r >= 0xfffe
	default:
		return r&0xfffe == 0xfffe ||
			r >= 0x1bca0 && r <= 0x1bca3 ||
			r >= 0x1d173 && r <= 0x1d17a ||
			r >= 0xe0000 && r <= 0xe0fff && !isVariationSelector(r)
	}
}
