package cmd

import (
	"slices"
	"strings"

	"github.com/aipctl/aipctl/internal/manual"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newRootCmd(r *run) *cobra.Command {
	root := group("aipctl", "Run governed actions and learn truthfully how they ended", rootLong,
		newActionCmd(r),
		shortcut(newEventsCmd(r)),
		shortcut(newCancelCmd(r)),
		newStateCmd(r),
		newDemoCmd(r),
		newDevCmd(r),
		newVersionCmd(r),
	)
	root.SilenceErrors, root.SilenceUsage = true, true
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommand(newHelpCmd(r, root))
	root.SetHelpFunc(func(c *cobra.Command, _ []string) {
		_ = manual.WriteText(c.OutOrStdout(), r.manualPage(c)) // the stream keeps its error
	})
	r.opts.bind(root)
	root.PersistentPreRunE = func(*cobra.Command, []string) error { return r.opts.check() }
	root.SetFlagErrorFunc(flagError)
	return root
}

const rootLong = `aipctl submits an action to an AIP daemon, follows its durable stream, shows the
answer as it is written, and says how the action ended, with an exit code that a
script can trust.

It never submits an intent twice: after any doubt it only reads. A lost
connection, a closed terminal or the end of a stream changes nothing about the
action and is never taken for success.`

// shortcut is the same command one level up.
func shortcut(c *cobra.Command) *cobra.Command {
	c.Short += " (shortcut of `aipctl action " + c.Name() + "`)"
	return c
}

// flagError names the nearest flag beside what is wrong.
func flagError(cmd *cobra.Command, err error) error {
	msg := err.Error()
	f := usageError("usage.flag", "%s", msg)
	var name string
	switch {
	case strings.HasPrefix(msg, "unknown flag: --"):
		name = strings.TrimPrefix(msg, "unknown flag: --")
	case strings.HasPrefix(msg, "unknown shorthand flag:"):
		return f.WithHint("see `%s --help`", cmd.CommandPath())
	default:
		return f.WithHint("see `%s --help`", cmd.CommandPath())
	}
	var names []string
	collect := func(fl *pflag.Flag) { names = append(names, fl.Name) }
	cmd.Flags().VisitAll(collect)
	cmd.InheritedFlags().VisitAll(collect)
	if near := nearest(name, names); near != "" {
		return f.WithHint("did you mean --%s?", near)
	}
	return f.WithHint("see `%s --help`", cmd.CommandPath())
}

func newActionCmd(r *run) *cobra.Command {
	return group("action", "Submit, follow, read and cancel actions",
		"Everything about one action, addressed by its id (act_…).",
		newCallCmd(r), newEventsCmd(r), newCancelCmd(r), newStatusCmd(r), newResultCmd(r))
}

// argCount refuses a wrong number of arguments and names what is expected.
func argCount(cmd *cobra.Command, args []string, least, most int, what string) error {
	switch {
	case len(args) < least:
		return usageError("usage.arguments", "%s is missing", what).WithHint("usage: %s", cmd.UseLine())
	case len(args) > most && slices.Contains(args, ""):
		return usageError("usage.arguments", "an argument is empty").WithHint("a shell variable may be empty; usage: %s", cmd.UseLine())
	case len(args) > most:
		return usageError("usage.arguments", "there are %d arguments too many", len(args)-most).WithHint("usage: %s", cmd.UseLine())
	}
	return nil
}
