package render

import (
	"io"
	"strings"
	"time"

	"github.com/aipctl/aipctl/internal/jq"
	"github.com/aipctl/aipctl/internal/sanitize"
	"github.com/charmbracelet/x/ansi"
)

// place says whether stdout and stderr end up on one screen or in one log.
type place int

const (
	unsure   place = iota // a pipe: to a file, or through a filter to this very screen
	together              // one terminal, or one file or pipe for both
	apart                 // stdout is a file
)

// console is what a person watches: stderr, and stdout as far as both share a
// screen. It keeps lines whole.
type console struct {
	out     *stdout
	err     io.Writer
	filter  *jq.Filter // of records; nil passes them on
	place   place
	palette palette
	width   func() int
	now     func() time.Time
	// live is set where a status line may be drawn.
	live bool
	// drawn is the width in cells of the status line on the screen; 0 when
	// there is none.
	drawn int
	// mid is set while the cursor stands in a line of text of stdout.
	mid bool
	// said is when something was last written where stderr is read.
	said time.Time
}

func newConsole(o Options) *console {
	return &console{
		out:     newStdout(o.Stdout),
		err:     o.Stderr,
		filter:  o.Filter,
		place:   placeOf(o),
		palette: newPalette(UseColor(o.Color, o.Format, o.Env, o.StderrTTY)),
		width:   o.Width,
		now:     o.Now,
		live:    o.animated() && o.Format != JSONL,
		said:    o.Now(),
	}
}

// text writes t to stdout.
func (c *console) text(t sanitize.Text) error { return c.clean(t.String()) }

// clean writes to stdout what is cut out of a sanitize.Text, or put together
// of several. Cleaning it again would judge it by itself, where what came
// before it counts.
func (c *console) clean(s string) error {
	if s == "" {
		return c.out.failure()
	}
	if c.place != apart {
		c.erase()
		c.mid = !strings.HasSuffix(s, "\n")
	}
	if c.place == together {
		c.said = c.now()
	}
	return c.out.write([]byte(s))
}

// record writes one line of JSON to stdout, or what the filter makes of it. A
// filter that fails is an output that did not take everything: nothing is
// written after it.
func (c *console) record(line []byte) error {
	if c.filter != nil && c.out.err == nil {
		var err error
		if line, err = c.filtered(line); err != nil {
			return c.out.fail(err)
		}
	}
	c.erase()
	return c.out.write(line)
}

// line writes one line to stderr. Cleaning it again costs little and keeps a
// text of several lines from looking like several lines of ours.
func (c *console) line(s style, t sanitize.Text) {
	c.raw(c.palette.paint(s, sanitize.Line(t.String())) + "\n")
}

// raw writes to stderr, in one Write, what ends in a line end.
func (c *console) raw(s string) {
	prefix := ""
	if c.mid && c.place == together {
		prefix = "\n"
	}
	c.put(c.blank() + prefix + s)
	c.drawn, c.mid = 0, false
	c.said = c.now()
}

// draw shows t as the status line, in place of the one before. Where text
// stands in the line it draws nothing: it would go over it.
func (c *console) draw(t sanitize.Text) {
	if !c.live || c.mid {
		return
	}
	// One cell stays free: a terminal that has filled a line may have gone to
	// the next one.
	s := ansi.Truncate(sanitize.Line(t.String()).String(), max(c.width()-1, 0), "…")
	w := ansi.StringWidth(s)
	if w == 0 {
		c.erase()
		return
	}
	c.put("\r" + c.palette.paint(dim, sanitize.Line(s)) + strings.Repeat(" ", max(c.drawn-w, 0)))
	c.drawn = max(c.drawn, w)
}

// erase takes the status line off the screen.
func (c *console) erase() {
	if c.drawn > 0 {
		c.put(c.blank())
		c.drawn = 0
	}
}

// blank returns what erases the status line. Blanks do it on any terminal,
// with colour or without.
func (c *console) blank() string {
	if c.drawn == 0 {
		return ""
	}
	return "\r" + strings.Repeat(" ", c.drawn) + "\r"
}

// stop erases the status line for good.
func (c *console) stop() {
	c.erase()
	c.live = false
}

// put writes to stderr. There is nowhere to report its errors.
func (c *console) put(s string) { _, _ = io.WriteString(c.err, s) }
