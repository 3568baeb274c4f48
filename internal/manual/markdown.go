package manual

import (
	"io"
	"strings"
)

// WriteMarkdown writes a page for a folder that holds each page of the manual
// as its FileName with the ending .md. Titles of other pages become links.
func WriteMarkdown(w io.Writer, p Page) error {
	var b strings.Builder
	b.WriteString("# " + p.Title + "\n\n" + markdownText(p.Purpose) + ".\n")
	if p.Usage != "" {
		b.WriteString("\n    " + p.Usage + "\n")
	}
	for _, s := range p.Sections {
		if s.Title != "" {
			b.WriteString("\n## " + s.Title + "\n")
		}
		for _, block := range s.Blocks {
			b.WriteByte('\n')
			switch block := block.(type) {
			case Para:
				b.WriteString(markdownText(string(block)) + "\n")
			case Code:
				for _, line := range block {
					b.WriteString(strings.TrimRight("    "+line, " ") + "\n")
				}
			case Terms:
				for _, t := range block {
					b.WriteString("- " + markdownTerm(t) + "\n")
				}
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func markdownTerm(t Term) string {
	name := "`" + strings.Join(strings.Fields(t.Name), " ") + "`"
	if t.Page != "" {
		name = "[" + name + "](" + FileName(t.Page) + ".md)"
	}
	if t.Text == "" {
		return name
	}
	return name + ": " + markdownText(t.Text)
}

var markdownEscapes = strings.NewReplacer(`\`, `\\`, "*", `\*`, "_", `\_`, "<", `\<`, "[", `\[`)

// markdownText escapes what Markdown would take for its own, outside of
// backquotes.
func markdownText(s string) string { return outsideQuotes(s, markdownEscapes.Replace, quoted) }

func quoted(s string) string { return "`" + s + "`" }

// outsideQuotes writes the parts of s outside of backquotes by one function and
// those inside by another. A backquote without a partner stands for itself.
func outsideQuotes(s string, outside, inside func(string) string) string {
	parts := strings.Split(s, "`")
	if len(parts)%2 == 0 {
		return outside(s)
	}
	var b strings.Builder
	for i, part := range parts {
		if i%2 == 0 {
			b.WriteString(outside(part))
		} else {
			b.WriteString(inside(part))
		}
	}
	return b.String()
}
