package manual

import (
	"io"
	"strings"
)

// WriteMan writes a page in the language of man, for section 1. It carries no
// date, so that equal words are equal bytes.
func WriteMan(w io.Writer, p Page) error {
	var b strings.Builder
	name := FileName(p.Title)
	b.WriteString(`.TH "` + strings.ToUpper(roff(name)) + `" "1" "" "aipctl" "aipctl manual"` + "\n")
	b.WriteString(".SH NAME\n" + roff(name) + ` \- ` + manText(p.Purpose) + "\n")
	if p.Usage != "" {
		b.WriteString(".SH SYNOPSIS\n" + line(roff(p.Usage)))
	}
	for _, s := range p.Sections {
		title := s.Title
		if title == "" {
			title = "Description"
		}
		b.WriteString(".SH " + strings.ToUpper(roff(title)) + "\n")
		for i, block := range s.Blocks {
			manBlock(&b, block, i == 0)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func manBlock(b *strings.Builder, block Block, first bool) {
	switch block := block.(type) {
	case Para:
		if !first {
			b.WriteString(".PP\n")
		}
		b.WriteString(line(manText(string(block))))
	case Code:
		if !first {
			b.WriteString(".PP\n")
		}
		b.WriteString(".RS 4\n.nf\n")
		for _, l := range block {
			b.WriteString(line(roff(l)))
		}
		b.WriteString(".fi\n.RE\n")
	case Terms:
		for _, t := range block {
			b.WriteString(".TP\n" + line(`\fB`+roff(termTitle(t))+`\fR`))
			if t.Text != "" {
				b.WriteString(line(manText(t.Text)))
			}
		}
	}
}

// termTitle is the name of a term; a page is named as man finds it.
func termTitle(t Term) string {
	if t.Page != "" {
		return FileName(t.Page) + "(1)"
	}
	return strings.Join(strings.Fields(t.Name), " ")
}

var roffEscapes = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`)

// roff escapes what is to be read letter by letter.
func roff(s string) string { return roffEscapes.Replace(s) }

// manText writes running text; what stands in backquotes becomes bold. Hyphens
// of words may be broken at, those of commands and flags may not.
func manText(s string) string {
	return outsideQuotes(s, func(s string) string {
		words := strings.Split(s, " ")
		for i, w := range words {
			escaped := roff(w)
			if !strings.HasPrefix(strings.TrimLeft(w, "("), "-") {
				escaped = strings.ReplaceAll(escaped, `\-`, "-")
			}
			words[i] = escaped
		}
		return strings.Join(words, " ")
	}, func(s string) string { return `\fB` + roff(s) + `\fR` })
}

// line is a line of text: what begins like a request is kept from being one.
func line(s string) string {
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	return s + "\n"
}
