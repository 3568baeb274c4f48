// Package manual holds a page of help as a document, and writes it as text for
// a terminal, as Markdown and as a man page.
//
// Invariant: the three say the same words, because each is written from the
// same [Page]. Nothing in here depends on the day, the machine or the terminal.
package manual

import (
	"io"
	"strings"
	"unicode/utf8"
)

// Width is the number of columns that no line of a text page is longer than,
// apart from a single word or a line of code that is longer by itself.
const Width = 80

// Page is one page of the manual: a command or a topic.
type Page struct {
	Title    string // what a person types to mean it, such as "aipctl action call"
	Purpose  string // one line without a full stop
	Usage    string // the line of usage; empty for a topic
	Sections []Section
}

// Section is a part of a page. The description that follows the usage has no
// title.
type Section struct {
	Title  string
	Blocks []Block
}

// Block is a part of a section: Para, Code or Terms.
type Block interface{ block() }

// Para is running text. Words in `backquotes` are what a person types.
type Para string

// Code holds lines to be copied as they are.
type Code []string

// Terms is a list of names, each with what it means.
type Terms []Term

// Term is one row of Terms.
type Term struct {
	Name string
	Text string
	Page string // title of the page that says more; empty for none
}

// FileName is the name of a page's file without its ending: the title with
// hyphens.
func FileName(title string) string { return strings.ReplaceAll(title, " ", "-") }

func (Para) block()  {}
func (Code) block()  {}
func (Terms) block() {}

// Text makes blocks of a text as it stands in the source: paragraphs are parted
// by an empty line, a paragraph of indented lines is code, and one of lines that
// begin with "- NAME: " is a list of terms.
func Text(s string) []Block {
	var out []Block
	for p := range strings.SplitSeq(strings.Trim(s, "\n"), "\n\n") {
		lines := strings.Split(strings.Trim(p, "\n"), "\n")
		switch {
		case strings.HasPrefix(lines[0], "  "), strings.HasPrefix(lines[0], "\t"):
			indent := lines[0][:len(lines[0])-len(strings.TrimLeft(lines[0], " \t"))]
			for i, l := range lines {
				lines[i] = strings.TrimPrefix(l, indent)
			}
			out = append(out, Code(lines))
		case strings.HasPrefix(lines[0], "- "):
			out = append(out, list(lines))
		case strings.TrimSpace(p) != "":
			out = append(out, Para(strings.Join(strings.Fields(p), " ")))
		}
	}
	return out
}

// list reads terms; a line that begins with a blank goes on with the one before.
func list(lines []string) Terms {
	var out Terms
	for _, l := range lines {
		row, isNew := strings.CutPrefix(l, "- ")
		if !isNew {
			out[len(out)-1].Text += " " + strings.TrimSpace(l)
			continue
		}
		name, text, _ := strings.Cut(row, ": ")
		out = append(out, Term{Name: name, Text: text})
	}
	return out
}

// Parse makes sections of a text as it stands in the source: a line "# TITLE"
// begins one, and the rest is as for [Text]. A section whose text is a line
// {{NAME}} gets the blocks that fill gives for the name.
func Parse(s string, fill map[string][]Block) []Section {
	var out []Section
	for i, part := range strings.Split("\n"+s, "\n# ") {
		section := Section{}
		if i > 0 {
			section.Title, part, _ = strings.Cut(part, "\n")
		}
		for _, block := range Text(part) {
			name, isFill := strings.CutPrefix(paraOf(block), "{{")
			if isFill {
				section.Blocks = append(section.Blocks, fill[strings.TrimSuffix(name, "}}")]...)
				continue
			}
			section.Blocks = append(section.Blocks, block)
		}
		if len(section.Blocks) > 0 {
			out = append(out, section)
		}
	}
	return out
}

func paraOf(b Block) string {
	p, _ := b.(Para)
	return string(p)
}

// WriteText writes a page for a terminal of 80 columns or more, in one call of
// w.Write.
func WriteText(w io.Writer, p Page) error {
	var b strings.Builder
	wrap(&b, p.Purpose, "", "")
	if p.Usage != "" {
		b.WriteString("\nUsage:\n")
		wrapWords(&b, usageWords(p.Usage), "  ", "      ")
	}
	for _, s := range p.Sections {
		indent := ""
		b.WriteByte('\n')
		if s.Title != "" {
			b.WriteString(s.Title + ":\n")
			indent = "  "
		}
		for i, block := range s.Blocks {
			if i > 0 {
				b.WriteByte('\n')
			}
			if _, isCode := block.(Code); isCode && len(s.Blocks) > 1 {
				writeBlock(&b, block, indent+"  ")
				continue
			}
			writeBlock(&b, block, indent)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeBlock(b *strings.Builder, block Block, indent string) {
	switch block := block.(type) {
	case Para:
		wrap(b, string(block), indent, indent)
	case Code:
		for _, line := range block {
			b.WriteString(strings.TrimRight(max(indent, "  ")+line, " ") + "\n")
		}
	case Terms:
		writeTerms(b, block, max(indent, "  "))
	}
}

// termColumn is the widest name that still shares its line with what it means.
const termColumn = 26

func writeTerms(b *strings.Builder, terms Terms, indent string) {
	column := 0
	for _, t := range terms {
		if n := utf8.RuneCountInString(t.Name); n <= termColumn {
			column = max(column, n)
		}
	}
	if column == 0 {
		column = 4
	}
	hang := indent + strings.Repeat(" ", column+2)
	for _, t := range terms {
		n := utf8.RuneCountInString(t.Name)
		switch {
		case t.Text == "":
			b.WriteString(indent + t.Name + "\n")
		case n > column:
			b.WriteString(indent + t.Name + "\n")
			wrap(b, t.Text, hang, hang)
		default:
			wrap(b, t.Text, indent+t.Name+strings.Repeat(" ", column+2-n), hang)
		}
	}
}

// wrap writes the words of s in lines of at most Width columns. What stands in
// backquotes is broken like the rest: it is read, not copied.
func wrap(b *strings.Builder, s, first, rest string) {
	wrapWords(b, strings.Fields(s), first, rest)
}

func wrapWords(b *strings.Builder, words []string, first, rest string) {
	line, empty := first, true
	for _, word := range words {
		if !empty && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > Width {
			b.WriteString(line + "\n")
			line, empty = rest, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	b.WriteString(strings.TrimRight(line, " ") + "\n")
}

// usageWords splits a line of usage where it may be broken: a group in
// brackets or parentheses stays together.
func usageWords(s string) []string {
	var out []string
	depth := 0
	for _, word := range strings.Fields(s) {
		if depth > 0 {
			out[len(out)-1] += " " + word
		} else {
			out = append(out, word)
		}
		depth += strings.Count(word, "(") + strings.Count(word, "[") - strings.Count(word, ")") - strings.Count(word, "]")
	}
	return out
}
