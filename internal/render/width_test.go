package render

import (
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	family  = "\U0001f468\u200d\U0001f469\u200d\U0001f467" // three people joined into one character
	thumb   = "\U0001f44d\U0001f3fd"                       // with a skin tone
	germany = "\U0001f1e9\U0001f1ea"
	keycap  = "1\ufe0f\u20e3"
	accents = "e\u0301\u0302"
	hebrew  = "\u05e9\u05dc\u05d5\u05dd"
	han     = "\u6f22\u5b57"
)

func TestWidthInCells(t *testing.T) {
	for s, want := range map[string][2]int{ // cells, and the most of any terminal
		"":              {0, 0},
		"plain":         {5, 5},
		han:             {4, 4},
		accents:         {1, 1},
		hebrew:          {4, 4},
		family:          {2, 6},
		thumb:           {2, 4},
		germany:         {2, 4},
		"a" + family:    {3, 7},
		"\u200b\u200d":  {0, 0},
		"x\ufe0f" + han: {6, 6},
	} {
		if got := [2]int{cells(s), most(s)}; got != want {
			t.Errorf("%q has %v cells, want %v", s, got, want)
		}
	}
}

// Whatever the text, what is left has its room on any terminal, is a beginning
// of it, ends where a character ends, and is as long as can be.
func TestCutSplitsNoCharacter(t *testing.T) {
	for _, s := range []string{"plain text of some length", strings.Repeat(han, 5), strings.Repeat(family, 4), strings.Repeat(accents, 9), hebrew + " " + hebrew, keycap + germany + thumb + "x\ufe0f", "a" + han + family + "b"} {
		for n := range most(s) + 2 {
			got := cut(s, n)
			if most(got) > n || !utf8.ValidString(got) {
				t.Fatalf("%q cut to %d cells has %d: %q", s, n, most(got), got)
			}
			if most(s) <= n {
				if got != s {
					t.Errorf("%q has room in %d cells and becomes %q", s, n, got)
				}
				continue
			}
			head, was := strings.CutSuffix(got, ellipsis)
			if !was && n > 0 || !strings.HasPrefix(s, head) {
				t.Errorf("%q cut to %d cells is %q", s, n, got)
			}
			if rest := s[len(head):]; n > 0 && cells(head)+cells(rest) != cells(s) {
				t.Errorf("%q was split within a character: %q and %q", s, head, rest)
			}
		}
	}
}

func TestRowsOfAWrappedLine(t *testing.T) {
	for _, tt := range []struct {
		s           string
		width, want int
	}{
		{"", 10, 0}, {"ten cells!", 10, 0}, {"eleven cell", 10, 1}, {strings.Repeat("x", 30), 10, 2},
		{strings.Repeat(han, 5), 10, 1}, {"x" + strings.Repeat(han, 5), 10, 2}, // a wide character is not halved
	} {
		if got := wraps(tt.s, tt.width); got != tt.want {
			t.Errorf("%q at %d cells wraps %d times, want %d", tt.s, tt.width, got, tt.want)
		}
	}
}
