package sanitize

import (
	"testing"
	"unicode"
	"unicode/utf8"
)

// The halves of U+1F600 as a provider that cuts its text in UTF-16 sends them.
const (
	highHalf = "\xed\xa0\xbd"
	lowHalf  = "\xed\xb8\x80"
)

const (
	scotland  = "\U0001F3F4\U000E0067\U000E0062\U000E0073\U000E0063\U000E0074\U000E007F"
	usTexas   = "\U0001F3F4\U000E0075\U000E0073\U000E0074\U000E0078\U000E007F"
	numericID = "\U0001F3F4\U000E0038\U000E0034\U000E0030\U000E0061\U000E0062\U000E0063\U000E0064\U000E007F"
)

// rules are checked whole and in every cut by the tests below and in
// stream_test.go. An empty line field means that Line gives the same as Block.
var rules = []struct {
	rule, in, block, line string
}{
	{"nothing stays nothing", "", "", ""},
	{"ordinary text passes", "a b ~ é 水位 🚰", "a b ~ é 水位 🚰", ""},
	{"newline and tab pass in a block only", "a\n\tb", "a\n\tb", `a\n\tb`},
	{"the CR of a CRLF is dropped in a block", "a\r\nb", "a\nb", `a\r\nb`},
	{"only the CR next to the LF is dropped", "a\r\r\nb", "a\\r\nb", `a\r\r\nb`},
	{"a lone CR is shown", "FAILED\rPASSED", `FAILED\rPASSED`, ""},
	{"a CR at the end is shown", "a\r", `a\r`, ""},
	{"LF before CR is no CRLF", "a\n\rb", "a\n\\rb", `a\n\rb`},
	{"C0 is shown", "\x00\a\b\v\f\x1b\x1f", `\x00\x07\x08\x0b\x0c\x1b\x1f`, ""},
	{"DEL is shown", "\x7f", `\x7f`, ""},
	{"C1 is shown as a code point", "\u0080\u0085\u009b31m\u009d\u009f", `\u0080\u0085\u009b31m\u009d\u009f`, ""},
	{"C1 as a bare byte is not UTF-8", "\x9b31m", `\x9b31m`, ""},
	{"a backslash is left alone", `C:\new \x1b`, `C:\new \x1b`, ""},

	{"embeddings, overrides and isolates are shown", "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069",
		`\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069`, ""},
	{"the Arabic letter mark is shown", "\u061c", `\u061c`, ""},
	{"LRM and RLM pass", "\u200e\u200f", "\u200e\u200f", ""},
	{"joiners pass", "می\u200cخواهم 👩\u200d👩\u200d👧", "می\u200cخواهم 👩\u200d👩\u200d👧", ""},
	{"combining marks pass and are not composed", "e\u0301 é", "e\u0301 é", ""},
	{"Hebrew and Arabic pass", "קו מים العربية", "קו מים العربية", ""},
	{"line and paragraph separators are shown", "a\u2028b\u2029", `a\u2028b\u2029`, ""},
	{"zero width space, word joiner and BOM are shown", "a\u200bb\u2060c\ufeff", `a\u200bb\u2060c\ufeff`, ""},
	{"a soft hyphen is shown", "r\u00adm", `r\u00adm`, ""},
	{"blank letters are shown", "\u3164\uffa0\u17b4", `\u3164\uffa0\u17b4`, ""},
	{"noncharacters are shown", "\ufdd0\uffff\U0001FFFE\U0010FFFF", `\ufdd0\uffff\u{1fffe}\u{10ffff}`, ""},
	{"private use and unassigned pass", "\ue0b0\U000F0001\U0001FAFF", "\ue0b0\U000F0001\U0001FAFF", ""},
	{"the replacement character passes", "\ufffd", "\ufffd", ""},

	{"a variation selector passes", "☺\ufe0f 葛\U000E0100 ᠠ\u180b", "☺\ufe0f 葛\U000E0100 ᠠ\u180b", ""},
	{"every character may have one", "1\ufe0f\u20e3a\ufe0fb\ufe0f", "1\ufe0f\u20e3a\ufe0fb\ufe0f", ""},
	{"a run of variation selectors is shown", "a\ufe0f\ufe01\U000E0142b", "a\ufe0f\\ufe01\\u{e0142}b", ""},

	{"a subdivision flag passes", scotland + usTexas + numericID, scotland + usTexas + numericID, ""},
	{"a black flag passes", "\U0001F3F4.", "\U0001F3F4.", ""},
	{"tags on their own are shown", "\U000E0041\U000E007F", `\u{e0041}\u{e007f}`, ""},
	{"tags after another emoji are shown", "👋\U000E0067\U000E0062\U000E0065\U000E007F", `👋\u{e0067}\u{e0062}\u{e0065}\u{e007f}`, ""},
	{"tags without a cancel tag are shown", "\U0001F3F4\U000E0067\U000E0062\U000E0065 x", "\U0001F3F4" + `\u{e0067}\u{e0062}\u{e0065} x`, ""},
	{"tags that end the text are shown", "\U0001F3F4\U000E0067\U000E0062", "\U0001F3F4" + `\u{e0067}\u{e0062}`, ""},
	{"tags that spell no subdivision are shown", "\U0001F3F4\U000E0067\U000E0031\U000E0065\U000E007F", "\U0001F3F4" + `\u{e0067}\u{e0031}\u{e0065}\u{e007f}`, ""},
	{"capital tags are shown", "\U0001F3F4\U000E0047\U000E0042\U000E0045\U000E007F", "\U0001F3F4" + `\u{e0047}\u{e0042}\u{e0045}\u{e007f}`, ""},
	{"a region without subdivision is shown", "\U0001F3F4\U000E0067\U000E0062\U000E007F", "\U0001F3F4" + `\u{e0067}\u{e0062}\u{e007f}`, ""},
	{"a numeric region without subdivision is shown", "\U0001F3F4\U000E0038\U000E0034\U000E0030\U000E007F", "\U0001F3F4" + `\u{e0038}\u{e0034}\u{e0030}\u{e007f}`, ""},
	{"more digits than a subdivision has are shown",
		"\U0001F3F4\U000E0038\U000E0034\U000E0030\U000E0031\U000E0031\U000E0031\U000E0031\U000E0031\U000E007F",
		"\U0001F3F4" + `\u{e0038}\u{e0034}\u{e0030}\u{e0031}\u{e0031}\u{e0031}\u{e0031}\u{e0031}\u{e007f}`, ""},
	{"tags apart from their flag are shown", "\U0001F3F4 \U000E0067\U000E0062\U000E0065\U000E007F", "\U0001F3F4" + ` \u{e0067}\u{e0062}\u{e0065}\u{e007f}`, ""},
	{"more tags than a subdivision has are shown",
		"\U0001F3F4\U000E0067\U000E0062\U000E0061\U000E0061\U000E0061\U000E0061\U000E0061\U000E007F",
		"\U0001F3F4" + `\u{e0067}\u{e0062}\u{e0061}\u{e0061}\u{e0061}\u{e0061}\u{e0061}\u{e007f}`, ""},
	{"a second tag sequence needs its own flag", scotland + "\U000E0067\U000E0062\U000E0065\U000E007F", scotland + `\u{e0067}\u{e0062}\u{e0065}\u{e007f}`, ""},

	{"bytes that are no UTF-8 are shown", "a\xff\xc0\x80b", `a\xff\xc0\x80b`, ""},
	{"an overlong form is shown", "\xe0\x80\xaf\xc1\x9b", `\xe0\x80\xaf\xc1\x9b`, ""},
	{"a character above U+10FFFF is shown", "\xf4\x90\x80\x80", `\xf4\x90\x80\x80`, ""},
	{"a cut character is shown", "a\xf0\x9f\x98 b\xe6\xb0", `a\xf0\x9f\x98 b\xe6\xb0`, ""},
	{"a cut character does not take the next along", "\xe6\xb0\x1b", `\xe6\xb0\x1b`, ""},

	{"surrogate halves that meet are joined", highHalf + lowHalf, "😀", ""},
	{"a lone high half is shown", "a" + highHalf + "b", `a\ud83db`, ""},
	{"a lone low half is shown", "a" + lowHalf + "b", `a\ude00b`, ""},
	{"halves in the wrong order are shown", lowHalf + highHalf, `\ude00\ud83d`, ""},
	{"the later of two high halves is joined", highHalf + highHalf + lowHalf, `\ud83d😀`, ""},
	{"a high half before a cut low half is shown", highHalf + "\xed\xb8", `\ud83d\xed\xb8`, ""},
	{"a joined character is judged like any other", "\xed\xad\x80\xed\xb1\x81", `\u{e0041}`, ""},
	{"a flag sent in halves passes", "\xed\xa0\xbc\xed\xbf\xb4" +
		"\xed\xad\x80\xed\xb1\xa7\U000E0062\xed\xad\x80\xed\xb1\xa5\U000E006E\U000E0067\xed\xad\x80\xed\xb1\xbf",
		"\U0001F3F4\U000E0067\U000E0062\U000E0065\U000E006E\U000E0067\U000E007F", ""},
}

func TestRules(t *testing.T) {
	for _, tc := range rules {
		t.Run(tc.rule, func(t *testing.T) {
			if got := Block(tc.in).String(); got != tc.block {
				t.Errorf("Block(%q)\n got %q\nwant %q", tc.in, got, tc.block)
			}
			want := tc.line
			if want == "" {
				want = tc.block
			}
			if got := Line(tc.in).String(); got != want {
				t.Errorf("Line(%q)\n got %q\nwant %q", tc.in, got, want)
			}
		})
	}
}

// Every code point, against the standard library's tables: whatever Unicode
// calls a control, a format character, ignorable by default, a separator of
// lines or a noncharacter is shown, but for the ones that are let through here
// by name. A newer Unicode that adds a format character fails this test, so
// that someone decides about it.
func TestEveryCodePoint(t *testing.T) {
	passes := &unicode.RangeTable{
		R16: []unicode.Range16{
			{0x034f, 0x034f, 1}, // combining grapheme joiner
			{0x0600, 0x0605, 1}, // Arabic signs, drawn
			{0x06dd, 0x06dd, 1},
			{0x070f, 0x070f, 1}, // Syriac abbreviation mark, drawn
			{0x0890, 0x0891, 1},
			{0x08e2, 0x08e2, 1},
			{0x115f, 0x1160, 1}, // jamo fillers
			{0x200c, 0x200f, 1}, // ZWNJ, ZWJ, LRM, RLM
		},
		R32: []unicode.Range32{
			{0x110bd, 0x110bd, 1}, // Kaithi signs, drawn
			{0x110cd, 0x110cd, 1},
			{0x13430, 0x1343f, 1}, // arrange hieroglyphs
		},
	}
	suspects := []*unicode.RangeTable{
		unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp,
		unicode.Other_Default_Ignorable_Code_Point, unicode.Noncharacter_Code_Point,
	}
	shown := 0
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if !utf8.ValidRune(r) {
			continue
		}
		want := unicode.In(r, suspects...) && !unicode.Is(passes, r)
		out := Line(string(r)).String()
		if got := out != string(r); got != want {
			t.Errorf("U+%04X: shown is %v, want %v", r, got, want)
		}
		if want {
			shown++
			if back := unescape(t, out); back != string(r) {
				t.Errorf("U+%04X is shown as %s", r, out)
			}
		}
	}
	if shown < 4000 {
		t.Errorf("only %d code points are shown", shown)
	}
}

func TestVariationSelectorsMatchUnicode(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if got, want := isVariationSelector(r), unicode.Is(unicode.Variation_Selector, r); got != want {
			t.Errorf("U+%04X: %v, want %v", r, got, want)
		}
	}
}
