package render

import (
	"strings"

	"github.com/aipctl/aipctl/internal/sanitize"
)

const (
	gutter      = 2  // cells between two columns
	narrowest   = 20 // cells that the last column gets at least
	widestSheet = 100
	widestPad   = 60 // a longer cell moves the rest of its own row only
)

// page is the width that tables are laid out for: the terminal's, as far as a
// line of it can be read, and 80 cells where there is none.
func (r *Renderer) page() int {
	if !r.opts.StdoutTTY {
		return defaultWidth
	}
	return min(r.opts.Width(), widestSheet)
}

// Table writes rows to stdout in text, and nothing in JSON and JSON Lines. The
// last column is wrapped between words; nothing else is, and nothing is cut, so
// that what is shown can be copied. A row may be shorter than the others.
func (r *Renderer) Table(rows ...[]sanitize.Text) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.opts.Format != Text {
		return nil
	}
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			if n := cells(cell.String()); n <= widestPad {
				widths[i] = max(widths[i], n)
			}
		}
	}
	var b strings.Builder
	for _, row := range rows {
		writeRow(&b, row, widths, r.page())
	}
	return r.con.text(sanitize.Block(b.String()))
}

// Sheet is [Renderer.Fields] with values that are wrapped between words.
func (r *Renderer) Sheet(fields ...Field) error {
	var rows [][]sanitize.Text
	for _, f := range fields {
		if !f.Value.IsEmpty() {
			rows = append(rows, []sanitize.Text{f.Name, f.Value})
		}
	}
	return r.Table(rows...)
}

// writeRow writes one row without the blanks that nobody sees at its end.
func writeRow(out *strings.Builder, row []sanitize.Text, widths []int, page int) {
	var b strings.Builder
	at, indent := 0, 0
	for i, cell := range row {
		s := sanitize.Line(cell.String()).String()
		if i < len(row)-1 {
			b.WriteString(s)
			indent += widths[i] + gutter
			fill := max(indent-at-cells(s), gutter)
			b.WriteString(strings.Repeat(" ", fill))
			at += cells(s) + fill
			continue
		}
		for n, line := range wrapWords(s, max(page-indent, narrowest)) {
			if n > 0 {
				b.WriteString("\n" + strings.Repeat(" ", indent))
			}
			b.WriteString(line)
		}
	}
	out.WriteString(strings.TrimRight(b.String(), " ") + "\n")
}

// wrapWords cuts text into lines of at most so many cells, between words; a
// word that is longer has a line of its own.
func wrapWords(s string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(s) {
		switch {
		case line == "":
			line = word
		case cells(line)+1+cells(word) > width:
			lines = append(lines, line)
			line = word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}
