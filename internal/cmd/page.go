package cmd

import (
	"slices"

	"github.com/aipctl/aipctl/internal/fault"
	"github.com/spf13/cobra"
)

// page is what the help of a command says beside its usage and its flags. It
// stands next to the command. Help, man page and reference are written from it,
// and a test refuses a leaf that lacks a part of it.
type page struct {
	Purpose  string    // one line without a full stop
	About    string    // what it does; an empty line parts paragraphs, indented lines are code
	Never    string    // what it never does, in the same form
	Examples []example // at least two
	Exits    []exit    // in ascending order, without those of everyCommand
	See      []string  // related commands and topics, without the program's name

	// Without are the groups of global flags that mean nothing to this command.
	// They are accepted all the same, and left out of its help.
	Without []flagGroup
}

// example is one command line, or several that belong together. It is parsed by
// a test and never run by one.
type example struct {
	What string // a few words, in lower case
	Line string
}

// exit is one exit code of a command.
type exit struct {
	Class fault.Class
	Note  string // what it means for this command; empty for what the exit table says
}

// everyCommand are the codes that any command can end with, and that no page
// repeats.
var everyCommand = []fault.Class{fault.Internal, fault.Usage, fault.Output, fault.BrokenPipe}

// verdictExits are the codes of a command that judges an action, with what
// deserves a word of its own in the place of the table's.
func verdictExits(own ...exit) []exit {
	var out []exit
	for _, e := range fault.Exits() {
		if slices.Contains(everyCommand, e.Class) {
			continue
		}
		x := exit{Class: e.Class}
		if at := slices.IndexFunc(own, func(x exit) bool { return x.Class == e.Class }); at >= 0 {
			x = own[at]
		} else if e.Class == fault.Accepted {
			x.Note = "every applicable check passed"
		}
		out = append(out, x)
	}
	return out
}

// leaf makes a command that does something, with the page that its help is
// written from. Where the command does not say what its arguments can be,
// completion offers nothing for them.
func (r *run) leaf(c *cobra.Command, p page) *cobra.Command {
	c.Short = p.Purpose
	if c.ValidArgsFunction == nil {
		c.ValidArgsFunction = cobra.NoFileCompletions
	}
	if r.pages == nil {
		r.pages = map[*cobra.Command]page{}
	}
	r.pages[c] = p
	return c
}
