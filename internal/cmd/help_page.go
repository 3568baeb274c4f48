package cmd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/manual"
	"github.com/spf13/cobra"
)

// helpPage is the help of a command as a terminal shows it: with the global
// flags that mean something to it.
func (r *run) helpPage(c *cobra.Command) manual.Page {
	return r.manualPage(c, globalFlags(c.Root(), r.pages[c].Without...))
}

// referencePage is the help of a command where the global flags have a page of
// their own.
func (r *run) referencePage(c *cobra.Command) manual.Page {
	flags := manual.Term{Name: "aipctl help flags", Text: "The flags that every command takes", Page: "aipctl help flags"}
	return r.manualPage(c, []manual.Section{{Title: "Global flags", Blocks: []manual.Block{manual.Terms{flags}}}})
}

// manualPage is the help of a command, written from its page, its flags and
// the tables.
func (r *run) manualPage(c *cobra.Command, global []manual.Section) manual.Page {
	p, isLeaf := r.pages[c]
	switch {
	case !c.HasParent():
		return rootPage(c)
	case !isLeaf:
		return groupPage(c)
	}
	c.InheritedFlags() // the usage line knows only of flags that were looked at
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
	m.Sections = append(m.Sections, global...)
	add("Exit codes", exitTerms(p.Exits), manual.Para(everyExit(p.Exits)))
	add("See also", r.seeTerms(c.Root(), p.See))
	return m
}

// groupPage is the help of a command that only holds others.
func groupPage(c *cobra.Command) manual.Page {
	m := manual.Page{Title: c.CommandPath(), Purpose: c.Short, Usage: c.CommandPath() + " COMMAND"}
	m.Sections = []manual.Section{
		{Blocks: manual.Text(c.Long)},
		{Title: "Commands", Blocks: []manual.Block{childTable(c, false)}},
		{Title: "More", Blocks: []manual.Block{manual.Para(fmt.Sprintf("`%s COMMAND --help` shows flags, examples and exit codes of a command.", c.CommandPath()))}},
	}
	return m
}

// rootGroups are the commands in the order in which a newcomer needs them. A
// test refuses a command that stands in none.
var rootGroups = []struct {
	title    string
	commands []string
}{
	{"Run and follow actions", []string{"action", "events", "cancel"}},
	{"Ask a daemon", []string{"capability", "response", "approval"}},
	{"On this machine", []string{"context", "state", "doctor"}},
	{"Try it", []string{"demo", "dev"}},
	{"About aipctl", []string{"help", "completion", "version"}},
}

// rootPage is what a newcomer reads first.
func rootPage(root *cobra.Command) manual.Page {
	m := manual.Page{Title: root.Name(), Purpose: root.Short, Usage: root.Name() + " COMMAND [flags]"}
	add := func(title string, blocks ...manual.Block) {
		m.Sections = append(m.Sections, manual.Section{Title: title, Blocks: blocks})
	}
	add("", manual.Text(root.Long)...)
	add("First steps", manual.Code{
		"# see a run, from a daemon that comes along",
		"aipctl demo",
		"",
		"# run an action of yours",
		"export AIP_URL=https://aipd.example.net AIP_TOKEN_FILE=~/.config/aip-token",
		"aipctl action call cap:hermes_agent:lab:chat_stream --prompt 'Say hello'",
	})
	for _, g := range rootGroups {
		var terms manual.Terms
		for _, name := range g.commands {
			if c := findCommand(root, name); c != nil {
				terms = append(terms, manual.Term{Name: name, Text: c.Short, Page: c.CommandPath()})
			}
		}
		if len(terms) > 0 {
			add(g.title, terms)
		}
	}
	var pages manual.Terms
	for _, name := range topics {
		purpose, _ := topicText(name)
		pages = append(pages, manual.Term{Name: name, Text: purpose, Page: root.Name() + " help " + name})
	}
	add("Topics of aipctl help", pages)
	add("More", manual.Para("`aipctl COMMAND --help` shows flags, examples and exit codes of a command, and `aipctl help TOPIC` a topic. `aipctl help flags` lists the flags that every command takes."))
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
			text, _ = topicText(topic)
		} else if c := findCommand(root, name); c != nil {
			text = c.Short
		}
		out = append(out, manual.Term{Name: root.Name() + " " + name, Text: text, Page: root.Name() + " " + name})
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
