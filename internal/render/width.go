package render

import "github.com/clipperhouse/displaywidth"

// cells is the width of text in cells of a terminal that knows which
// characters a person sees as one.
func cells(s string) int { return displaywidth.String(s) }

// most is the width of text on the terminal that makes the most of it: some
// show the parts of a joined emoji beside each other. It is never below cells.
func most(s string) int {
	n := 0
	for g := displaywidth.StringGraphemes(s); g.Next(); {
		n += mostOf(g)
	}
	return n
}

func mostOf(g displaywidth.Graphemes[string]) int {
	parts := 0
	for _, r := range g.Value() {
		parts += displaywidth.Rune(r)
	}
	return max(g.Width(), parts)
}

const ellipsis = "…"

// cut shortens text to at most n cells of any terminal, the ellipsis that says
// so included. It splits no character.
func cut(s string, n int) string {
	if most(s) <= n {
		return s
	}
	used, end := most(ellipsis), 0
	if n < used {
		return ""
	}
	for g := displaywidth.StringGraphemes(s); g.Next(); {
		used += mostOf(g)
		if used > n {
			break
		}
		end += len(g.Value())
	}
	return s[:end] + ellipsis
}

// wraps is how often a terminal of that width goes to another row in the text.
func wraps(s string, width int) int {
	rows, used := 0, 0
	for g := displaywidth.StringGraphemes(s); g.Next(); {
		if used+g.Width() > width {
			rows++
			used = 0
		}
		used += g.Width()
	}
	return rows
}
