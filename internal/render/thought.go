package render

import (
	"strings"

	"github.com/aipctl/aipctl/internal/sanitize"
)

// thoughtMax bounds what is held of one line of thought, in bytes.
const thoughtMax = 4 << 10

// thought is reasoning that comes in pieces. It is shown by lines, so that a
// provider that thinks in single words does not fill the screen.
type thought struct {
	filter sanitize.Stream
	line   strings.Builder
}

// think takes a piece of reasoning and shows the lines that it completes. It
// is for a person who watches or who asked for it, and never on stdout.
func (n *narration) think(s string) {
	if n.opts.Quiet || !n.opts.StderrTTY && !n.opts.Verbose {
		return
	}
	rest := n.thought.filter.Write(s).String()
	for {
		line, after, found := strings.Cut(rest, "\n")
		n.thought.line.WriteString(line)
		if !found {
			break
		}
		n.showThought()
		rest = after
	}
	if n.thought.line.Len() > thoughtMax {
		n.showThought()
	}
}

// flushThought shows what is held, before something else is shown.
func (n *narration) flushThought() {
	n.thought.line.WriteString(n.thought.filter.Flush().String())
	n.showThought()
}

func (n *narration) showThought() {
	s := n.thought.line.String()
	n.thought.line.Reset()
	if strings.TrimSpace(s) != "" {
		t := sanitize.Format("thought: %s", sanitize.Line(s))
		if n.log {
			t = sanitize.Format("%s %s", stamp(n.opts.Now()), t)
		}
		n.con.line(dim, t)
	}
}
