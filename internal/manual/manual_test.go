package manual

import (
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// long is a page with something of every kind that is wider than a line.
var long = Page{
	Title: "tool do", Purpose: "Do what has to be done " + strings.Repeat("again ", 20),
	Usage: "tool do [URL] THING (--input JSON|@FILE|- | --prompt TEXT|@FILE|-) [--reason TEXT] [flags]",
	Sections: []Section{
		{Blocks: Text("It does\nthe thing, " + strings.Repeat("and then more ", 12) + "\n\nIt never does another.\n\n  tool do --now\n  tool do")},
		{Title: "Terms", Blocks: []Block{Terms{
			{Name: "-s", Text: strings.Repeat("short ", 30)},
			{Name: "--a-name-that-is-longer-than-its-column", Text: strings.Repeat("long ", 30)},
			{Name: "bare"},
		}}},
	},
}

func TestNoLineIsWiderThanATerminal(t *testing.T) {
	var b strings.Builder
	if err := WriteText(&b, long); err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(b.String(), "\n") {
		if n := utf8.RuneCountInString(line); n > Width {
			t.Errorf("%d columns: %s", n, line)
		}
		if strings.TrimRight(line, " ") != line {
			t.Errorf("a line ends in a blank: %q", line)
		}
	}
	for _, want := range []string{"\nUsage:\n  tool do [URL] THING (--input JSON|@FILE|- | --prompt TEXT|@FILE|-)\n      [--reason TEXT] [flags]\n", "\n  tool do --now\n  tool do\n", "\nTerms:\n  -s    short", "\n  --a-name-that-is-longer-than-its-column\n        long", "\n  bare\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the page has no %q:\n%s", want, b.String())
		}
	}
}

func TestTextIsReflowedAndCodeIsNot(t *testing.T) {
	got := Text("one\n  two\n\n    three\n    four  five\n\n\nsix")
	want := []Block{Para("one two"), Code{"three", "four  five"}, Para("six")}
	if len(got) != len(want) {
		t.Fatalf("%d blocks: %q", len(got), got)
	}
	for i := range want {
		switch w := want[i].(type) {
		case Para:
			if got[i] != w {
				t.Errorf("block %d is %q, want %q", i, got[i], w)
			}
		case Code:
			if strings.Join(got[i].(Code), "\n") != strings.Join(w, "\n") {
				t.Errorf("block %d is %q, want %q", i, got[i], w)
			}
		}
	}
}

func TestParse(t *testing.T) {
	table := Terms{{Name: "a", Text: "one"}}
	got := Parse("Lead\nin.\n\n# First: one\n- x: y\n  z\n- `b`\n\n  code\n\n# Second\n\nBefore\n\n{{table}}\n\n# Empty\n", map[string][]Block{"table": {table}})
	want := []Section{
		{Blocks: []Block{Para("Lead in.")}},
		{Title: "First: one", Blocks: []Block{Terms{{Name: "x", Text: "y z"}, {Name: "`b`"}}, Code{"code"}}},
		{Title: "Second", Blocks: []Block{Para("Before"), table}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}
