package render

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/aipctl/aipctl/internal/hermes"
	"github.com/aipctl/aipctl/internal/transcript"
)

// writes keeps every Write on its own.
type writes struct{ all []string }

func (w *writes) Write(p []byte) (int, error) {
	w.all = append(w.all, string(p))
	return len(p), nil
}

// piece is one operation on text, short enough for a table.
type piece = transcript.Op

func say(item int, s string) piece {
	return transcript.Text{Item: transcript.ItemRef{ItemID: fmt.Sprint("msg_", item), OutputIndex: item}, Text: s}
}

func part(item, content int, s string) piece {
	return transcript.Text{Item: transcript.ItemRef{ItemID: fmt.Sprint("msg_", item), OutputIndex: item, ContentIndex: content}, Text: s}
}

func TestAnswer(t *testing.T) {
	chat := func(s string) piece { return transcript.Text{Text: s} }
	final := func(s string) piece { return transcript.FinalText{Text: s} }
	for name, tt := range map[string]struct {
		ops  []piece
		want []string // the writes
	}{
		"no text, no line end":                     {nil, nil},
		"an empty delta is no text":                {[]piece{chat("")}, nil},
		"one delta is one write":                   {[]piece{chat("a"), chat("b")}, []string{"a", "b", "\n"}},
		"a closing line end is not doubled":        {[]piece{chat("a\n")}, []string{"a\n"}},
		"closing line ends become one":             {[]piece{chat("a\n\n\n")}, []string{"a\n"}},
		"closing line ends in deltas become one":   {[]piece{chat("a"), chat("\n"), chat("\n"), chat("\n")}, []string{"a", "\n"}},
		"line ends within the text stay":           {[]piece{chat("a\n\n\n"), chat("b")}, []string{"a\n", "\n\nb", "\n"}},
		"line ends before the text stay":           {[]piece{chat("\n\n"), chat("a")}, []string{"\n", "\na", "\n"}},
		"only line ends are one line end":          {[]piece{chat("\n\n")}, []string{"\n"}},
		"blanks at the end stay":                   {[]piece{chat("a \t")}, []string{"a \t", "\n"}},
		"another item begins on a new line":        {[]piece{say(0, "a"), say(1, "b")}, []string{"a", "\nb", "\n"}},
		"the new line of an item is its own":       {[]piece{say(0, "a\n"), say(1, "b")}, []string{"a\n", "\nb", "\n"}},
		"parts of one item run on":                 {[]piece{part(0, 0, "a"), part(0, 1, "b")}, []string{"a", "b", "\n"}},
		"back to an item is another item":          {[]piece{say(0, "a"), say(1, "b"), say(0, "c")}, []string{"a", "\nb", "\nc", "\n"}},
		"an item without text makes no line":       {[]piece{say(0, "a"), say(1, ""), say(2, "b")}, []string{"a", "\nb", "\n"}},
		"other choices are not the answer":         {[]piece{chat("a"), transcript.Text{Item: transcript.ItemRef{Choice: 1}, Text: "b"}}, []string{"a", "\n"}},
		"a done text only verifies":                {[]piece{chat("a"), transcript.TextDone{Text: "a"}}, []string{"a", "\n"}},
		"a final text stands in for deltas":        {[]piece{final("a\n\n")}, []string{"a\n"}},
		"a final text after deltas is a repeat":    {[]piece{chat("a"), final("a")}, []string{"a", "\n"}},
		"a final text is shown once":               {[]piece{final("a"), final("a")}, []string{"a", "\n"}},
		"an empty final text is none":              {[]piece{final(""), final("a")}, []string{"a", "\n"}},
		"a final text of another choice is none":   {[]piece{transcript.FinalText{Item: transcript.ItemRef{Choice: 1}, Text: "a"}}, nil},
		"deltas of another choice count as seen":   {[]piece{transcript.Text{Item: transcript.ItemRef{Choice: 1}, Text: "a"}, final("b")}, []string{"b", "\n"}},
		"a thought is no text":                     {[]piece{transcript.Thought{Text: "a"}}, nil},
		"halves of a character are joined":         {[]piece{chat("a\xed\xa0\xbd"), chat("\xed\xb4\x8e")}, []string{"a", "\U0001f50e", "\n"}},
		"halves belong to their item":              {[]piece{say(0, "a\xed\xa0\xbd"), say(1, "b"), say(0, "\xed\xb4\x8e")}, []string{"a", "\nb", "\n\U0001f50e", "\n"}},
		"a half alone is shown at the end":         {[]piece{chat("a\xed\xa0\xbd")}, []string{"a", `\ud83d`, "\n"}},
		"a half alone is shown when the text ends": {[]piece{chat("a\xed\xa0\xbd"), transcript.TextDone{}, chat("b")}, []string{"a", `\ud83d`, "b", "\n"}},
		"a half alone is shown when the item ends": {
			[]piece{say(0, "a\xed\xa0\xbd"), transcript.Item{ItemID: "msg_0", Kind: "message"}, say(0, "b")},
			[]string{"a", `\ud83d`, "b", "\n"}},
		"CRLF is a line end": {[]piece{chat("a\r"), chat("\nb")}, []string{"a", "\nb", "\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := &writes{}
			g := newRig(t, Options{Stdout: w})
			for i, op := range tt.ops {
				g.deliver(uint64(i), op)
			}
			g.outcome(nil)
			if !slices.Equal(w.all, tt.want) {
				t.Errorf("writes %q, want %q", w.all, tt.want)
			}
			// Text that no outcome follows is completed all the same.
			alone := &writes{}
			g = newRig(t, Options{Stdout: alone})
			for i, op := range tt.ops {
				g.deliver(uint64(i), op)
			}
			g.ok(g.r.Close())
			g.ok(g.r.Close())
			if !slices.Equal(alone.all, tt.want) {
				t.Errorf("writes without an outcome %q, want %q", alone.all, tt.want)
			}
		})
	}
}

// What stands on stdout does not depend on how the text was cut into deltas.
func TestAnswerDoesNotDependOnTheCuts(t *testing.T) {
	var text strings.Builder
	for _, c := range chunks(t, escapes) {
		for _, op := range hermes.Chunk(c) {
			if o, ok := op.(transcript.Text); ok {
				text.WriteString(o.Text)
			}
		}
	}
	text.WriteString("\n\nflag \U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f \xed\xa0\xbd\xed\xb4\x8e \xff\r\n\n\n")
	whole := text.String()
	show := func(deltas []string) string {
		g := newRig(t, Options{})
		for i, d := range deltas {
			g.deliver(uint64(i), transcript.Text{Text: d})
		}
		g.outcome(nil)
		return g.out.String()
	}
	want := show([]string{whole})
	if !strings.Contains(want, `cr FAILED\rPASSED`) || strings.HasSuffix(want, "\n\n") || !strings.HasSuffix(want, "\n") {
		t.Fatalf("the whole text is shown as %q", want)
	}
	bytewise := make([]string, 0, len(whole))
	for i := range len(whole) {
		bytewise = append(bytewise, whole[i:i+1])
	}
	if got := show(bytewise); got != want {
		t.Errorf("byte by byte: %q, want %q", got, want)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var deltas []string
		for rest := whole; rest != ""; {
			n := min(1+rng.IntN(40), len(rest))
			deltas = append(deltas, rest[:n])
			rest = rest[n:]
		}
		if got := show(deltas); got != want {
			t.Fatalf("cut as %q: %q, want %q", deltas, got, want)
		}
	}
}

// The answer on stdout is the one that the facts of the run hold.
func TestAnswerIsTheOneOfTheTranscript(t *testing.T) {
	for name, ops := range map[string][]piece{
		"items in their order": {say(0, "a"), say(0, "b"), say(1, "c\n"), say(2, "\nd")},
		"a final text":         {transcript.FinalText{Text: "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			script := transcript.New()
			g := newRig(t, Options{})
			for i, op := range ops {
				script.Apply(uint64(i), []transcript.Op{op})
				g.deliver(uint64(i), op)
			}
			g.outcome(nil)
			facts := script.Facts()
			if want := facts.Answer() + "\n"; g.out.String() != want {
				t.Errorf("stdout %q, transcript %q", g.out.String(), want)
			}
		})
	}
}
