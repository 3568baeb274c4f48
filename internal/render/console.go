package render

import (
	"io"
	"strings"
	"time"

	"github.com/aipctl/aipctl/internal/jq"
	"github.com/aipctl/aipctl/internal/sanitize"
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
	// drawn is the status line on the screen with the blanks behind it; empty
	// when there is none. cells is its width, at the most.
	drawn string
	cells int
	// mid is set while the cursor stands in a line of text of stdout.
	mid bool
	// broken is set while a line of text is ended on the screen by a line of
	// ours and not yet by the text.
	broken bool
	// under is the width of the terminal while the status line stands under a
	// line of text that goes on; 0 otherwise. The cursor is kept at its end.
	under int
	// moves is set where the cursor can be moved: escapes are welcome, and both
	// streams are known to be the same terminal.
	moves bool
	// rewraps is set for a terminal that wraps its lines anew when it gets
	// narrower, the status line with them.
	rewraps bool
	// wrote is when text was last written.
	wrote time.Time
	// said is when something was last written where stderr is read.
	said time.Time
}

func newConsole(o Options) *console {
	colored := UseColor(o.Color, o.Format, o.Env, o.StderrTTY)
	live := o.animated() && o.Format != JSONL
	moves := live && colored && o.StdoutTTY && sameFile(o.Stdout, o.Stderr)
	return &console{
		out:     newStdout(o.Stdout),
		err:     o.Stderr,
		filter:  o.Filter,
		place:   placeOf(o),
		palette: newPalette(colored),
		width:   o.Width,
		now:     o.Now,
		live:    live,
		moves:   moves,
		rewraps: moves && (o.Env("TMUX") != "" || strings.HasPrefix(o.Env("TERM"), "tmux")),
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
		if c.broken && c.moves && s[0] == '\n' {
			// The line that this ends has ended on the screen already.
			c.put(cursorUp)
		}
		c.mid = !strings.HasSuffix(s, "\n")
		c.broken = false
	}
	c.wrote = c.now()
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
	c.put(c.blank() + c.endText() + s)
	c.drawn, c.cells, c.mid = "", 0, false
	c.said = c.now()
}

// inText reports whether a line of ours would come into a line of text.
func (c *console) inText() bool { return c.mid && c.place == together }

// endText ends on the screen the line that text stands in, and returns what
// does it.
func (c *console) endText() string {
	if !c.inText() {
		return ""
	}
	c.mid, c.broken = false, true
	return "\n"
}

// draw shows t as the status line, in place of the one before. Where text
// stands in the line it draws nothing, for it would go over it; unless no text
// has come for as long as the patience lasts, and then under it. The text goes
// on where it stood, or where the cursor cannot be moved, on a line of its own.
func (c *console) draw(t sanitize.Text, now time.Time, patience time.Duration) {
	if !c.live {
		return
	}
	below := ""
	if c.mid && c.under == 0 {
		if !c.inText() || now.Sub(c.wrote) < patience {
			return
		}
		if c.moves {
			below, c.under = makeRoom+keepCursor+"\n", max(c.width(), 1)
		} else {
			below = c.endText()
		}
	}
	// One cell stays free: a terminal that has filled a line may have gone to
	// the next one.
	room := max(c.width()-1, 0)
	s := cut(sanitize.Line(t.String()).String(), room)
	w := most(s)
	if c.cells > 0 && (w == 0 || c.cells > room || w != cells(s) || c.cells != cells(c.drawn)) {
		// It became narrower, or nobody knows where its end is.
		c.erase()
		c.draw(t, now, 0)
		return
	}
	if w == 0 {
		c.under = 0
		return
	}
	over := strings.Repeat(" ", max(c.cells-w, 0))
	c.put(below + "\r" + c.palette.paint(dim, sanitize.Line(s)) + over)
	c.drawn, c.cells = s+over, max(c.cells, w)
}

// erase takes the status line off the screen, and lets text go on where it
// stood.
func (c *console) erase() {
	if c.cells > 0 {
		c.put(c.blank())
		c.drawn, c.cells = "", 0
	}
}

const (
	cursorUp   = "\x1b[A"
	eraseBelow = "\x1b[J"
	// makeRoom goes a row down, which scrolls the last one up, and up again, in
	// the same column.
	makeRoom      = "\x1bD\x1bM"
	keepCursor    = "\x1b7"
	restoreCursor = "\x1b8"
)

// blank returns what erases the status line. Blanks do it on any terminal,
// with colour or without. Where the terminal has become too narrow for it and
// is known to wrap such a line, all of it is erased; else nobody knows what the
// terminal has made of it, and what follows begins on a line of its own.
func (c *console) blank() string {
	width, back := max(c.width(), 1), ""
	if c.under != 0 {
		if c.under == width {
			back = restoreCursor
		} else {
			// The text was wrapped anew, and nobody knows where its end is.
			c.mid, c.broken = false, true
		}
		c.under = 0
	}
	return c.blankRow(width) + back
}

func (c *console) blankRow(width int) string {
	switch {
	case c.cells == 0:
		return ""
	case c.cells < width:
		return "\r" + strings.Repeat(" ", c.cells) + "\r"
	case c.rewraps:
		return "\r" + strings.Repeat(cursorUp, wraps(c.drawn, width)) + eraseBelow
	default:
		return "\r" + strings.Repeat(" ", width-1) + "\r\n"
	}
}

// stop erases the status line for good.
func (c *console) stop() {
	c.erase()
	c.live = false
}

// put writes to stderr. There is nowhere to report its errors.
func (c *console) put(s string) { _, _ = io.WriteString(c.err, s) }
