package sanitize

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// A tool's name, emoji, label and id, the model and the finish value, as they
// come in hostile streams.
func TestLineOfHostileFields(t *testing.T) {
	for in, want := range map[string]string{
		"terminal\x1b[2K":      `terminal\x1b[2K`,
		"\x1bc":                `\x1bc`,
		"ls\r\x1b[1A forged":   `ls\r\x1b[1A forged`,
		"call\x1b[5n":          `call\x1b[5n`,
		"m\x1b]0;x\a":          `m\x1b]0;x\x07`,
		"stop\x1b[0m":          `stop\x1b[0m`,
		"one\ntwo\r\nthree\t4": `one\ntwo\r\nthree\t4`,
	} {
		got := Line(in).String()
		if got != want {
			t.Errorf("Line(%q) = %q, want %q", in, got, want)
		}
		clean(t, got, true)
	}
}

func TestLineOfABlockIsOneLine(t *testing.T) {
	if got := Line(Block("a\x1b\nb").String()).String(); got != `a\x1b\nb` {
		t.Errorf("got %q", got)
	}
}

func TestLineMax(t *testing.T) {
	family := "👩\u200d👩\u200d👧"
	for _, tc := range []struct {
		rule, in string
		runes    int
		want     string
	}{
		{"what fits is not cut", "terminal", 8, "terminal"},
		{"the ellipsis counts", "terminal", 7, "termin…"},
		{"one rune is the ellipsis", "terminal", 1, "…"},
		{"one rune may be enough", "t", 1, "t"},
		{"no room gives nothing", "terminal", 0, ""},
		{"less than no room gives nothing", "terminal", -3, ""},
		{"nothing stays nothing", "", 5, ""},
		{"runes count, not bytes", "水位正常", 4, "水位正常"},
		{"a combining mark stays with its letter", "ae\u0301bc", 3, "a…"},
		{"a letter with its mark fits", "ae\u0301bc", 4, "ae\u0301…"},
		{"an emoji is not cut", "a" + family + "b", 6, "a…"},
		{"an emoji fits", "a" + family + "bc", 7, "a" + family + "…"},
		{"a flag is not cut", "🇯🇵🇩🇪", 2, "…"},
		{"a flag fits", "🇯🇵🇩🇪", 3, "🇯🇵…"},
		{"a subdivision flag is not cut", "a" + scotland + "b", 5, "a…"},
		{"a visible form is not cut", "a\x1b[2K", 5, "a…"},
		{"a visible form fits", "a\x1b[2K", 6, `a\x1b…`},
		{"a visible form counts as it is printed", "\x1b", 4, `\x1b`},
		{"a mark after a visible form is not cut off it", "ab\n\u0301cd", 5, "ab…"},
		{"a cluster longer than the room leaves the ellipsis", "a" + strings.Repeat("\u0301", 50), 10, "…"},
		{"halves are joined before they are counted", highHalf + lowHalf, 1, "😀"},
		{"a newline is shown", "a\nb", 4, `a\nb`},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			got := LineMax(tc.in, tc.runes).String()
			if got != tc.want {
				t.Errorf("LineMax(%q, %d) = %q, want %q", tc.in, tc.runes, got, tc.want)
			}
			if n := utf8.RuneCountInString(got); n > max(tc.runes, 0) {
				t.Errorf("%d runes", n)
			}
		})
	}
}

// What lies far behind the cut is not looked at.
func TestLineMaxDoesNotReadOn(t *testing.T) {
	allocs := func(s string) float64 {
		return testing.AllocsPerRun(10, func() { LineMax(s, 40) })
	}
	short, long := allocs(strings.Repeat("\x1b", 100)), allocs(strings.Repeat("\x1b", 1<<20))
	if short != long {
		t.Errorf("%v allocations for a long text, %v for a short one", long, short)
	}
}
