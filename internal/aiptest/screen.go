package aiptest

import (
	"fmt"
	"os"
	"strings"

	"github.com/clipperhouse/displaywidth"
)

// Screen is a terminal that both streams write to. It knows what a text
// terminal does with characters, line ends, carriage returns and the few
// escapes of ours, and it remembers which stream wrote each cell.
type Screen struct {
	Width    int
	Rewraps  bool // wraps its lines anew when the width changes; else it cuts them
	rows     []screenRow
	row, col int
	escape   string   // what has come of an escape
	kept     [2]int   // row and column that were saved
	Escapes  int      // those that move or erase
	Faults   []string // what a person would call a torn line
}

// screenRow is one row of a screen.
type screenRow struct {
	cells []screenCell
	wraps bool // the next row goes on with it
}

type screenCell struct {
	r    rune
	from string // the stream; empty for a blank
}

// NewScreen returns an empty screen, whose rows are as many as are written.
func NewScreen(width int) *Screen { return &Screen{Width: width, rows: []screenRow{{}}} }

// ScreenStream is one way to the screen.
type ScreenStream struct {
	screen *Screen
	name   string
	Log    strings.Builder
}

// Stream returns a way to the screen. The names stdout and stderr have a
// meaning: nothing may be written over what stdout wrote.
func (s *Screen) Stream(name string) *ScreenStream { return &ScreenStream{screen: s, name: name} }

// Write implements io.Writer.
func (s *ScreenStream) Write(p []byte) (int, error) {
	s.Log.Write(p)
	for _, r := range string(p) {
		s.screen.put(s.name, r)
	}
	return len(p), nil
}

// Stat tells that both streams lead to the same place.
func (s *ScreenStream) Stat() (os.FileInfo, error) { return os.Stat(".") }

func (s *Screen) fault(format string, args ...any) {
	s.Faults = append(s.Faults, fmt.Sprintf(format, args...)+fmt.Sprintf(" at %d:%d", s.row, s.col))
}

func (s *Screen) put(from string, r rune) {
	if s.escape != "" || r == '\x1b' {
		s.escape += string(r)
		if n := len(s.escape); n > 2 && r >= 0x40 || n == 2 && r != '[' {
			s.act(from, s.escape)
			s.escape = ""
		}
		return
	}
	switch r {
	case '\n':
		s.down(false)
		return
	case '\r':
		s.col = 0
		return
	}
	w := displaywidth.Rune(r)
	if s.col+w > s.Width {
		s.down(true)
	}
	for range w {
		row := &s.rows[s.row]
		for len(row.cells) <= s.col {
			row.cells = append(row.cells, screenCell{r: ' '})
		}
		was := &row.cells[s.col]
		if was.from == "stdout" {
			s.fault("%s writes %q over the text %q", from, r, was.r)
		}
		if from == "stdout" && was.from != "" {
			s.fault("the text %q meets %q of %s", r, was.r, was.from)
		}
		now := screenCell{r: r, from: from}
		if r == ' ' && from == "stderr" {
			now.from = ""
		}
		*was = now
		s.col++
		r = 0 // the second cell of a wide character
	}
}

func (s *Screen) act(from, escape string) {
	switch {
	case strings.HasSuffix(escape, "m"): // a colour
	case escape == "\x1b[A":
		s.Escapes++
		if s.row == 0 {
			s.fault("%s goes above the screen", from)
			return
		}
		s.row--
	case escape == "\x1bD": // down, in the same column
		s.Escapes++
		col := s.col
		s.down(false)
		s.col = col
	case escape == "\x1bM":
		s.Escapes++
		s.row--
	case escape == "\x1b7":
		s.Escapes++
		s.kept = [2]int{s.row, s.col}
	case escape == "\x1b8":
		s.Escapes++
		s.row, s.col = s.kept[0], s.kept[1]
	case escape == "\x1b[J":
		s.Escapes++
		for i := s.row; i < len(s.rows); i++ {
			cells := s.rows[i].cells
			if i == s.row {
				cells = cells[min(s.col, len(cells)):]
			}
			for j := range cells {
				if cells[j].from == "stdout" {
					s.fault("%s erases the text %q", from, cells[j].r)
				}
				cells[j] = screenCell{r: ' '}
			}
		}
	default:
		s.fault("%s sends %q", from, escape)
	}
}

// down goes to the next line, which may be there already. It only carries on
// the line above where that was full.
func (s *Screen) down(full bool) {
	s.rows[s.row].wraps = full
	s.row++
	s.col = 0
	if s.row == len(s.rows) {
		s.rows = append(s.rows, screenRow{})
	}
}

// Resize gives the terminal another width.
func (s *Screen) Resize(width int) {
	s.Width = width
	if !s.Rewraps {
		for i := range s.rows {
			s.rows[i].cells = s.rows[i].cells[:min(width, len(s.rows[i].cells))]
		}
		s.col = min(s.col, width) // what the user then sees of his own resizing is not ours
		return
	}
	old, row, col := s.rows, s.row, s.col
	s.rows = nil
	for i := 0; i < len(old); {
		var whole []screenCell
		at := -1 // of the cursor
		for {
			if i == row {
				at = len(whole) + col
			}
			whole = append(whole, old[i].cells...)
			i++
			if !old[i-1].wraps || i == len(old) {
				break
			}
		}
		s.rows = append(s.rows, screenRow{})
		for n, c := range whole {
			wide := c.r != 0 && n+1 < len(whole) && whole[n+1].r == 0
			last := &s.rows[len(s.rows)-1]
			if len(last.cells) == width || wide && len(last.cells) == width-1 {
				last.wraps = true
				s.rows = append(s.rows, screenRow{})
				last = &s.rows[len(s.rows)-1]
			}
			if n == at {
				s.row, s.col = len(s.rows)-1, len(last.cells)
			}
			last.cells = append(last.cells, c)
		}
		if at >= len(whole) {
			s.row, s.col = len(s.rows)-1, min(len(s.rows[len(s.rows)-1].cells)+at-len(whole), width)
		}
	}
}

// Rows is the screen as it stands before the eyes: row by row.
func (s *Screen) Rows() string {
	var b strings.Builder
	for _, row := range s.rows {
		b.WriteString(strings.TrimRight(row.text(), " ") + "\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

func (r screenRow) text() string {
	var b strings.Builder
	for _, c := range r.cells {
		if c.r != 0 {
			b.WriteRune(c.r)
		}
	}
	return b.String()
}

// Shown is the screen as it is read: rows that the terminal has wrapped are one
// line again.
func (s *Screen) Shown() string {
	var b strings.Builder
	for _, row := range s.rows {
		if row.wraps {
			b.WriteString(row.text())
			continue
		}
		b.WriteString(strings.TrimRight(row.text(), " ") + "\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// Text is what one stream has on the screen, without blanks and line ends,
// and whether any line belongs to both.
func (s *Screen) Text(from string) (shown string, shared bool) {
	var b strings.Builder
	for _, row := range s.rows {
		owners := map[string]bool{}
		for _, c := range row.cells {
			if c.from != "" {
				owners[c.from] = true
			}
			if c.from == from && c.r != 0 && c.r != ' ' {
				b.WriteRune(c.r)
			}
		}
		shared = shared || len(owners) > 1
	}
	return b.String(), shared
}
