package cmd

import (
	"strings"

	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/manual"
	"github.com/spf13/cobra"
)

func newHelpCmd(r *run, root *cobra.Command) *cobra.Command {
	return r.leaf(&cobra.Command{
		Use: "help [COMMAND... | TOPIC]", ValidArgsFunction: completeHelp(root),
		Args: func(_ *cobra.Command, args []string) error { return checkHelpArgs(root, args) },
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && isTopic(args[0]) {
				return manual.WriteText(cmd.OutOrStdout(), topicPage(root, args[0]))
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
concerns all of them. Without an argument it lists both. Where a topic and a
group of commands have one name, this is the topic.`,
		Never: `It never reads a file or asks the network, so it works where nothing is set up.`,
		Examples: []example{
			{"what a command takes, and how it ends", "aipctl help action call"},
			{"what the exit codes mean", "aipctl help exit-codes"},
		},
		Exits:   []exit{{fault.Accepted, "the help was shown"}},
		See:     []string{"help exit-codes", "demo"},
		Without: []flagGroup{connectionFlags, waitingFlags, outputFlags, safetyFlags, answerFlags},
	})
}

// checkHelpArgs refuses what is neither a command nor a topic.
func checkHelpArgs(root *cobra.Command, args []string) error {
	if len(args) == 1 && isTopic(args[0]) {
		return nil
	}
	found, rest, err := root.Find(args)
	if err == nil && len(rest) == 0 {
		return nil
	}
	name := strings.Join(args, " ")
	f := usageError("usage.help", "there is no help for %q", name)
	candidates := append(childNames(root), topics...)
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
