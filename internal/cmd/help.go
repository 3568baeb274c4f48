package cmd

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/manual"
	"github.com/aipctl/aipctl/internal/verdict"
	"github.com/spf13/cobra"
)

// topic is a page of help that belongs to no command.
type topic struct {
	Purpose string // one line without a full stop
	Blocks  func() []manual.Section
}

// topics are all pages of help that belong to no command, by name.
var topics = map[string]topic{
	"exit-codes": {"What each exit code means", exitCodesTopic},
}

// topicNames are the names of all topics, sorted.
func topicNames() []string { return slices.Sorted(maps.Keys(topics)) }

func (t topic) page(name string) manual.Page {
	return manual.Page{Title: "aipctl help " + name, Purpose: t.Purpose, Sections: t.Blocks()}
}

func newHelpCmd(r *run, root *cobra.Command) *cobra.Command {
	return r.leaf(&cobra.Command{
		Use:  "help [COMMAND... | TOPIC]",
		Args: func(_ *cobra.Command, args []string) error { return checkHelpArgs(root, args) },
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				if t, ok := topics[args[0]]; ok {
					return manual.WriteText(cmd.OutOrStdout(), t.page(args[0]))
				}
			}
			found, _, err := root.Find(args)
			if err != nil {
				return err
			}
			return found.Help()
		},
	}, page{
		Purpose: "Help about a command or a topic",
		About: `Shows the help of a command, as its --help does, or a page about what
concerns all of them. Without an argument it lists both.`,
		Never: `It never reads a file or asks the network, so it works where nothing is set up.`,
		Examples: []example{
			{"what a command takes, and how it ends", "aipctl help action call"},
			{"what the exit codes mean", "aipctl help exit-codes"},
		},
		Exits:   []exit{{fault.Accepted, "the help was shown"}},
		See:     []string{"help exit-codes", "demo"},
		Without: []flagGroup{connectionFlags, waitingFlags, outputFlags, safetyFlags},
	})
}

// checkHelpArgs refuses what is neither a command nor a topic.
func checkHelpArgs(root *cobra.Command, args []string) error {
	if len(args) == 1 {
		if _, ok := topics[args[0]]; ok {
			return nil
		}
	}
	found, rest, err := root.Find(args)
	if err == nil && len(rest) == 0 {
		return nil
	}
	name := strings.Join(args, " ")
	f := usageError("usage.help", "there is no help for %q", name)
	candidates := append(childNames(root), topicNames()...)
	if found != nil && found != root && len(rest) == 1 {
		prefix := strings.TrimPrefix(found.CommandPath(), root.Name()+" ")
		candidates = nil
		for _, child := range childNames(found) {
			candidates = append(candidates, prefix+" "+child)
		}
	}
	if near := nearest(name, candidates); near != "" {
		return f.WithHint("did you mean `aipctl help %s`?", near)
	}
	return f.WithHint("`aipctl help` lists the commands and the topics")
}

// exitCodesTopic is the exit table and the code table, from which docs and
// man page are made too.
func exitCodesTopic() []manual.Section {
	var exits manual.Terms
	for _, e := range fault.Exits() {
		exits = append(exits, manual.Term{Name: fmt.Sprintf("%3d  %s", e.Class.Code(), e.Name), Text: e.When})
	}
	var codes manual.Terms
	for _, row := range verdict.CodeTable() {
		codes = append(codes, manual.Term{Name: fmt.Sprintf("%s, %d", row.Reading, row.Reading.Code()), Text: row.Codes})
	}
	return []manual.Section{
		{Blocks: []manual.Block{manual.Para("Only 0 is success. From `aipctl action call`, the codes 2, 3, 4, 12, 13 and 14 say that nothing ran because of this call.")}},
		{Title: "Exit codes", Blocks: []manual.Block{exits}},
		{Title: "How the error code of a failed action is read, first match", Blocks: []manual.Block{codes}},
	}
}
