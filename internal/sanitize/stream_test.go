package sanitize

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
	"unsafe"
)

// maxHeld is what Stream promises to hold back at most, in bytes.
const maxHeld = 64

// printed feeds the deltas to a Stream and returns what it printed. Between the
// deltas it checks that no more is held back than promised.
func printed(t *testing.T, deltas ...string) string {
	t.Helper()
	var s Stream
	var b strings.Builder
	for _, d := range deltas {
		b.WriteString(s.Write(d).String())
		if len(s.held) > maxHeld {
			t.Errorf("%d bytes held after %q", len(s.held), d)
		}
	}
	b.WriteString(s.Flush().String())
	return b.String()
}

func bytesOf(s string) []string {
	out := make([]string, len(s))
	for i := range out {
		out[i] = s[i : i+1]
	}
	return out
}

// clean checks the invariant of the package.
func clean(t *testing.T, s string, line bool) {
	t.Helper()
	if !utf8.ValidString(s) {
		t.Errorf("%q is not UTF-8", s)
	}
	for _, r := range s {
		if r == '\n' || r == '\t' {
			if line {
				t.Errorf("%q is not one line", s)
			}
			continue
		}
		switch {
		case r < 0x20, r >= 0x7f && r < 0xa0:
			t.Errorf("%q holds the control %U", s, r)
		case r >= 0x2028 && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
			t.Errorf("%q holds the bidirectional control or separator %U", s, r)
		}
	}
}

// unescape undoes the visible forms, to prove that nothing was lost.
func unescape(t *testing.T, s string) string {
	t.Helper()
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, `\`)
		b.WriteString(before)
		if !found {
			return b.String()
		}
		var digits string
		switch {
		case strings.HasPrefix(after, "u{"):
			digits, s, _ = strings.Cut(after[2:], "}")
		case after[0] == 'u':
			digits, s = after[1:5], after[5:]
		case after[0] == 'x':
			digits, s = after[1:3], after[3:]
		default:
			b.WriteByte(map[byte]byte{'n': '\n', 'r': '\r', 't': '\t'}[after[0]])
			s = after[1:]
			continue
		}
		n, err := strconv.ParseUint(digits, 16, 32)
		switch {
		case err != nil:
			t.Errorf("bad visible form: %v", err)
		case after[0] == 'x':
			b.WriteByte(byte(n))
		case n >= 0xd800 && n < 0xe000:
			b.Write([]byte{0xed, 0x80 | byte(n>>6)&0x3f, 0x80 | byte(n)&0x3f})
		default:
			b.WriteRune(rune(n))
		}
	}
}

func TestRulesHoldInEveryCut(t *testing.T) {
	for _, tc := range rules {
		t.Run(tc.rule, func(t *testing.T) {
			if got := printed(t, bytesOf(tc.in)...); got != tc.block {
				t.Errorf("byte by byte\n got %q\nwant %q", got, tc.block)
			}
			for i := range len(tc.in) + 1 {
				for j := i; j <= len(tc.in); j++ {
					if got := printed(t, tc.in[:i], tc.in[i:j], tc.in[j:]); got != tc.block {
						t.Errorf("cut at %d and %d\n got %q\nwant %q", i, j, got, tc.block)
					}
				}
			}
		})
	}
}

// Every text of up to four pieces out of those that look at their neighbours.
func TestNeighboursHoldInEveryCut(t *testing.T) {
	pieces := []string{
		"a", "\r", "\n", "\x1b", "\u009b", "\U0001F3F4", "\xed\xa0\xbc\xed\xbf\xb4",
		"\U000E0067\U000E0062", "\U000E0065", "\U000E007F", "\ufe0f", highHalf, lowHalf, "\xed\xa0", "\xed", "\xf3\xa0", "\x81",
	}
	var texts func(text string, depth int)
	texts = func(text string, depth int) {
		whole := Block(text).String()
		clean(t, whole, false)
		if got := printed(t, bytesOf(text)...); got != whole {
			t.Errorf("%q\nwhole        %q\nbyte by byte %q", text, whole, got)
		}
		if depth == 0 {
			return
		}
		for _, p := range pieces {
			texts(text+p, depth-1)
		}
	}
	texts("", 4)
}

// The answers are recorded ones; the .txt files say what has to be printed.
func TestRecordedAnswers(t *testing.T) {
	for _, name := range []string{"unicode", "terminal_escapes"} {
		t.Run(name, func(t *testing.T) {
			raw, err := os.ReadFile("testdata/" + name + ".json")
			if err != nil {
				t.Fatal(err)
			}
			var deltas []string
			if err := json.Unmarshal(raw, &deltas); err != nil {
				t.Fatal(err)
			}
			golden, err := os.ReadFile("testdata/" + name + ".txt")
			if err != nil {
				t.Fatal(err)
			}
			want, whole := string(golden), strings.Join(deltas, "")
			for how, cut := range map[string][]string{
				"as it came": deltas, "whole": {whole},
				"by character": strings.Split(whole, ""), "by byte": bytesOf(whole),
			} {
				got := printed(t, cut...)
				if got != want {
					t.Errorf("%s\n got %q\nwant %q", how, got, want)
				}
				clean(t, got, false)
			}
			clean(t, Line(whole).String(), true)
		})
	}
}

func TestWhatIsHeldBack(t *testing.T) {
	for _, tc := range []struct {
		rule, in, atOnce string
	}{
		{"plain text is not", "PASSED", "PASSED"},
		{"a newline is not", "a\n", "a\n"},
		{"whole characters are not", "水位 👩\u200d", "水位 👩\u200d"},
		{"an escape is not", "a\x1b", `a\x1b`},
		{"a lone low half is not", lowHalf, `\ude00`},
		{"a black flag is not", "\U0001F3F4", "\U0001F3F4"},
		{"a broken tag sequence is not", "\U0001F3F4\U000E0041", "\U0001F3F4" + `\u{e0041}`},
		{"a CR is", "a\r", "a"},
		{"the start of a character is", "a\xf0\x9f\x98", "a"},
		{"a high half is", "a" + highHalf, "a"},
		{"the start of a half is", "a\xed\xa0", "a"},
		{"a high half with the start of a low one is", "a" + highHalf + "\xed\xb8", "a"},
		{"the tags of a flag are", scotland[:len(scotland)-1], "\U0001F3F4"},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			var s Stream
			if got := s.Write(tc.in).String(); got != tc.atOnce {
				t.Errorf("Write(%q) = %q, want %q", tc.in, got, tc.atOnce)
			}
		})
	}
}

// The longest that can be held is a flag of the longest code, sent in halves.
func TestHeldBackIsBounded(t *testing.T) {
	tag := func(r rune) string {
		r -= 0x10000
		high, low := 0xd800+r>>10, 0xdc00+r&0x3ff
		return string([]byte{
			0xed, 0x80 | byte(high>>6)&0x3f, 0x80 | byte(high)&0x3f,
			0xed, 0x80 | byte(low>>6)&0x3f, 0x80 | byte(low)&0x3f,
		})
	}
	text := "\U0001F3F4"
	for _, c := range "840abcd" {
		text += tag(0xe0000 + c)
	}
	text += tag(0xe007f)
	most := 0
	var s Stream
	for _, b := range bytesOf(text) {
		s.Write(b)
		most = max(most, len(s.held))
	}
	if most != 47 || most > maxHeld {
		t.Errorf("held up to %d bytes, want 47", most)
	}
	if got := printed(t, text); got != numericID {
		t.Errorf("got %q, want %q", got, numericID)
	}
}

func TestFlushEndsTheItem(t *testing.T) {
	var s Stream
	s.Write("a\r")
	if got := s.Flush().String(); got != `\r` {
		t.Errorf("Flush() = %q", got)
	}
	if got := s.Flush(); !got.IsEmpty() {
		t.Errorf("a second Flush() = %q", got)
	}
	if got := s.Write("\nb").String(); got != "\nb" {
		t.Errorf("the next item begins with %q", got)
	}
	s.Write("\U0001F3F4")
	s.Flush()
	if got := s.Write(scotland[4:]).String(); strings.Contains(got, "\U000E0067") {
		t.Errorf("tags of the next item pass: %q", got)
	}
}

func TestCleanTextIsNotCopied(t *testing.T) {
	for _, tc := range []struct{ rule, in string }{
		{"ASCII", strings.Repeat("plain text, no more\n", 50)},
		{"other scripts", strings.Repeat("Größe 水位正常 🚰", 50)},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			var s Stream
			got := s.Write(tc.in).String()
			if got != tc.in || unsafe.StringData(got) != unsafe.StringData(tc.in) {
				t.Error("the delta was copied")
			}
			if n := testing.AllocsPerRun(100, func() { s.Write(tc.in) }); n != 0 {
				t.Errorf("%v allocations", n)
			}
		})
	}
}
