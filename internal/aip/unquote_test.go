package aip

import (
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	highHalf = "\xed\xa0\xbd" // U+D83D in generalized UTF-8
	lowHalf  = "\xed\xba\x80" // U+DE80
)

func TestUnquote(t *testing.T) {
	for _, tc := range []struct {
		rule, in, want string
	}{
		{"plain", `"abc"`, "abc"},
		{"empty", `""`, ""},
		{"every short escape", `"\"\\\/\b\f\n\r\t"`, "\"\\/\b\f\n\r\t"},
		{"a hex escape in either case", `"\u00e9\u00E9\u0041"`, "ééA"},
		{"NUL", `"\u0000"`, "\x00"},
		{"a pair of halves", `"\ud83d\ude80"`, "🚀"},
		{"the first and the last pair", `"\ud800\udc00\udbff\udfff"`, "\U00010000\U0010ffff"},
		{"a high half alone", `"\ud83d"`, highHalf},
		{"a low half alone", `"\ude80"`, lowHalf},
		{"two high halves", `"\ud83d\ud83d\ude80"`, highHalf + "🚀"},
		{"a high half before a letter", `"\ud83dx"`, highHalf + "x"},
		{"a high half before another escape", `"\ud83d\n"`, highHalf + "\n"},
		{"the halves swapped", `"\ude80\ud83d"`, lowHalf + highHalf},
		{"next to the halves", `"\ud7ff\ue000"`, "\ud7ff\ue000"},
		{"characters as they are", `"é🚀"`, "é🚀"},
		{"bytes that are no UTF-8", "\"\xff\"", "\xff"},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			if got, ok := Unquote(raw(tc.in)); !ok || got != tc.want {
				t.Errorf("%s is read as %q (%v), want %q", tc.in, got, ok, tc.want)
			}
		})
	}
	for _, in := range []string{``, `"`, `null`, `5`, `{}`, `["a"]`, `"abc`, `abc"`, `"\"`, `"\u12"`, `"\u12g4"`, `"\ud83`, `"\ud83d\"`, `"\ud83d\u"`, `'a'`} {
		if got, ok := Unquote(raw(in)); ok || got != "" {
			t.Errorf("%s is read as the string %q", in, got)
		}
	}
}

// TestHalvesOverDeltas cuts a text at every place, between the halves of its
// characters too, and joins it again.
func TestHalvesOverDeltas(t *testing.T) {
	// The text in code units, so that it can be cut anywhere.
	units := []string{"a", `\ud83d`, `\ude80`, "é", `\ud83d`, `\udc69`, `\u200d`, `\ud83d`, `\udcbb`, "z"}
	const want = "a🚀é👩\u200d💻z"
	for mask := range 1 << (len(units) - 1) {
		var s Surrogates
		var got, delta strings.Builder
		flush := func() {
			text, ok := Unquote(raw(`"` + delta.String() + `"`))
			if !ok {
				t.Fatalf("%s is no string", delta.String())
			}
			got.WriteString(s.Join(text))
			delta.Reset()
		}
		for i, u := range units {
			delta.WriteString(u)
			if mask>>i&1 == 1 {
				flush()
			}
		}
		flush()
		got.WriteString(s.Flush())
		if got.String() != want {
			t.Fatalf("cut by %b the text is %q, want %q", mask, got.String(), want)
		}
	}
}

func TestJoin(t *testing.T) {
	for _, tc := range []struct {
		rule   string
		deltas []string
		want   string
	}{
		{"nothing to join", []string{"a", "é", ""}, "aé"},
		{"halves in two deltas", []string{"a" + highHalf, lowHalf + "b"}, "a🚀b"},
		{"an empty delta between them", []string{highHalf, "", "", lowHalf}, "🚀"},
		{"halves in one delta", []string{highHalf + lowHalf}, "🚀"},
		{"a high half before a letter", []string{highHalf, "a"}, "\ufffda"},
		{"a high half before another", []string{highHalf, highHalf, lowHalf}, "\ufffd🚀"},
		{"a low half alone", []string{lowHalf}, "\ufffd"},
		{"a high half at the end", []string{"a", highHalf}, "a\ufffd"},
		{"a letter that begins with the same byte", []string{highHalf, "\ud7ff"}, "\ufffd\ud7ff"},
		{"bytes that are no UTF-8 pass", []string{"\xff", "\xed", "\xed\xa0"}, "\xff\xed\xed\xa0"},
		{"so does what only begins like a half", []string{"\xed\xa0x", "\xed\xc0\x80", "\xed\x9f\xbf"}, "\xed\xa0x\xed\xc0\x80\ud7ff"},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			var s Surrogates
			got := ""
			for _, d := range tc.deltas {
				got += s.Join(d)
			}
			got += s.Flush()
			if got != tc.want {
				t.Errorf("joined to %q, want %q", got, tc.want)
			}
			if again := s.Flush(); again != "" {
				t.Errorf("a second flush gives %q", again)
			}
		})
	}
}

// TestNothingHalfIsGivenOut: what Join returns is valid at every moment, for
// it is written before the next delta comes.
func TestNothingHalfIsGivenOut(t *testing.T) {
	var s Surrogates
	for _, d := range []string{"a" + highHalf, highHalf, lowHalf + highHalf, "b", lowHalf} {
		if got := s.Join(d); !utf8.ValidString(got) {
			t.Errorf("%q was given out", got)
		}
	}
	if got := s.Flush(); got != "" {
		t.Errorf("a half is held back: %q", got)
	}
}
