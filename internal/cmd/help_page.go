package cmd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/manual"
	"github.com/spf13/cobra"
)

// manualPage is the help of a command, written from its page, its flags and
// the tables.
func (r *run) manualPage(c *cobra.Command) manual.Page {
	p, isLeaf := r.pages[c]
	if !isLeaf {
		return groupPage(c)
	}
	m := manual.Page{Title: c.CommandPath(), Purpose: c.Short, Usage: c.UseLine()}
	add := func(title string, blocks ...manual.Block) {
		m.Sections = append(m.Sections, manual.Section{Title: title, Blocks: blocks})
	}
	add("", append(manual.Text(p.About), manual.Text(p.Never)...)...)
	var examples manual.Code
	for i, e := range p.Examples {
		if i > 0 {
			examples = append(examples, "")
		}
		examples = append(append(examples, "# "+e.What), strings.Split(e.Line, "\n")...)
	}
	add("Examples", examples)
	if own := ownFlags(c); len(own) > 0 {
		add("Flags", own)
	}
	m.Sections = append(m.Sections, globalFlags(c.Root(), p.Without...)...)
	add("Exit codes", exitTerms(p.Exits), manual.Para(everyExit(p.Exits)))
	add("See also", r.seeTerms(c.Root(), p.See))
	return m
}

// groupPage is the help of a command that only holds others.
func groupPage(c *cobra.Command) manual.Page {
	m := manual.Page{Title: c.CommandPath(), Purpose: c.Short, Usage: c.CommandPath() + " COMMAND"}
	var children manual.Terms
	for _, child := range c.Commands() {
		if child.IsAvailableCommand() {
			children = append(children, manual.Term{Name: child.Name(), Text: child.Short})
		}
	}
	m.Sections = []manual.Section{
		{Blocks: manual.Text(c.Long)},
		{Title: "Commands", Blocks: []manual.Block{children}},
		{Title: "More", Blocks: []manual.Block{manual.Para(fmt.Sprintf("`%s COMMAND --help` shows flags, examples and exit codes of a command.", c.CommandPath()))}},
	}
	return m
}

// exitTerms lists the codes that are a command's own.
func exitTerms(exits []exit) manual.Terms {
	var out manual.Terms
	for _, e := range exits {
		out = append(out, manual.Term{Name: fmt.Sprintf("%3d  %s", e.Class.Code(), e.Class), Text: e.text()})
	}
	return out
}

// text is what the code means for the command, else what it means anywhere.
func (e exit) text() string {
	if e.Note != "" {
		return e.Note
	}
	for _, row := range fault.Exits() {
		if row.Class == e.Class {
			return row.When
		}
	}
	return ""
}

// everyExit names the codes that a command shares with all others.
func everyExit(own []exit) string {
	var codes []string
	for _, class := range everyCommand {
		if !slices.ContainsFunc(own, func(e exit) bool { return e.Class == class }) {
			codes = append(codes, fmt.Sprint(class.Code()))
		}
	}
	return fmt.Sprintf("And as from every command %s; see `aipctl help exit-codes`.", strings.Join(codes, ", "))
}

// seeTerms lists related commands and topics with what they are for.
func (r *run) seeTerms(root *cobra.Command, see []string) manual.Terms {
	var out manual.Terms
	for _, name := range see {
		text := ""
		if topic, ok := strings.CutPrefix(name, "help "); ok {
			text = topics[topic].Purpose
		} else if c := findCommand(root, name); c != nil {
			text = c.Short
		}
		out = append(out, manual.Term{Name: root.Name() + " " + name, Text: text})
	}
	return out
}

// findCommand finds a command by its path without the program's name; nil
// where there is none.
func findCommand(root *cobra.Command, path string) *cobra.Command {
	words := strings.Fields(path)
	c, rest, err := root.Find(words)
	if err != nil || len(rest) > 0 || c == root {
		return nil
	}
	return c
}
