package render

import (
	"bytes"
	"strings"
	"testing"

	"github.com/aipctl/aipctl/internal/sanitize"
)

func tableOn(t *testing.T, width int, tty bool, rows ...[]string) string {
	t.Helper()
	var out bytes.Buffer
	r := New(Options{Stdout: &out, StdoutTTY: tty, Width: func() int { return width }})
	var texts [][]sanitize.Text
	for _, row := range rows {
		var cells []sanitize.Text
		for _, c := range row {
			cells = append(cells, sanitize.Line(c))
		}
		texts = append(texts, cells)
	}
	if err := r.Table(texts...); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestTheLastColumnWrapsBetweenWords, below itself; the others never do, and
// nothing is cut, so that ids can be copied.
func TestTheLastColumnWrapsBetweenWords(t *testing.T) {
	got := tableOn(t, 40, true, []string{"NAME", "MEANING"}, []string{"id", "one two three four five six seven eight"}, []string{"日本", "wide"}, []string{"empty", ""})
	const want = "NAME   MEANING\nid     one two three four five six seven\n       eight\n日本   wide\nempty\n"
	if got != want {
		t.Errorf("%q, want %q", got, want)
	}
	long := strings.Repeat("x", 70)
	if got := tableOn(t, 40, true, []string{long, "a", "b"}, []string{"y", "c", "d"}); got != long+"  a  b\ny  c  d\n" {
		t.Errorf("%q", got)
	}
	if got := tableOn(t, 40, true, []string{"n", long}); got != "n  "+long+"\n" {
		t.Errorf("a long word: %q", got)
	}
}

// TestATableIsLaidOutForTheReader: a pipe has 80 cells, whatever the terminal
// beside it has, and lines that are too long to read are not made.
func TestATableIsLaidOutForTheReader(t *testing.T) {
	words := strings.TrimSpace(strings.Repeat("word ", 100))
	for _, c := range []struct {
		width int
		tty   bool
		most  int
	}{{200, false, 80}, {40, false, 80}, {200, true, 100}, {60, true, 60}, {5, true, 30}} {
		longest := 0
		for line := range strings.Lines(tableOn(t, c.width, c.tty, []string{"name", words})) {
			longest = max(longest, len(strings.TrimSuffix(line, "\n")))
		}
		if longest > c.most || longest < c.most-10 {
			t.Errorf("width %d, terminal %v: a line of %d cells, at most %d", c.width, c.tty, longest, c.most)
		}
	}
}

// TestATableIsForPeople alone.
func TestATableIsForPeople(t *testing.T) {
	var out bytes.Buffer
	r := New(Options{Stdout: &out, Format: JSONL})
	if err := r.Table([]sanitize.Text{sanitize.Static("a")}); err != nil || out.Len() > 0 {
		t.Errorf("%v %q", err, out.String())
	}
}
