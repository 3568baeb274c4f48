package cmd

import (
	"errors"
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
		newResponseCmd(r),
		newApprovalCmd(r),
		newContextCmd(r),
		newCapabilityCmd(r),
		newStateCmd(r),
		newDemoCmd(r),
		newDevCmd(r),
		newCompletionCmd(r),
		newDoctorCmd(r),
		newVersionCmd(r),
	)
	root.SilenceErrors, root.SilenceUsage = true, true
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommand(newHelpCmd(r, root))
	root.SetHelpFunc(func(c *cobra.Command, _ []string) {
		_ = manual.WriteText(c.OutOrStdout(), r.helpPage(c)) // the stream keeps its error
	})
	r.opts.bind(root)
	root.PersistentPreRunE = func(*cobra.Command, []string) error { return r.opts.check() }
	root.SetFlagErrorFunc(flagError)
	if asksForCompletion(r.args) {
		completeFlags(root, r.flagCompletions()) // a walk over all flags, which no other command waits for
	}
	return root
}

// asksForCompletion reports whether a command line is the shell's question how
// another one can go on.
func asksForCompletion(args []string) bool {
	return len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd)
}

const rootLong = `aipctl submits an action to an AIP daemon, follows its durable stream, shows the
answer as it is written, and says how the action ended, with an exit code that a
script can trust.

It never submits an intent twice: after any doubt it only reads. A lost
connection, a closed terminal or the end of a stream changes nothing about the
action and is never taken for success.`

// shortcut is the same command one level up.
func shortcut(c *cobra.Command) *cobra.Command {
	c.Short = "Short for `aipctl action " + c.Name() + "`"
	return c
}

// flagError names the nearest flag beside what is wrong.
func flagError(cmd *cobra.Command, err error) error {
	f := usageError("usage.flag", "%s", err)
	var (
		unknown *pflag.NotExistError
		missing *pflag.ValueRequiredError
		invalid *pflag.InvalidValueError
	)
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		var names []string
		collect := func(fl *pflag.Flag) { names = append(names, fl.Name) }
		cmd.Flags().VisitAll(collect)
		cmd.InheritedFlags().VisitAll(collect)
		if near := nearest(unknown.GetSpecifiedName(), names); near != "" {
			return f.WithHint("did you mean --%s?", near)
		}
	case errors.As(err, &missing):
		return f.WithHint("write %s", strings.TrimSpace(flagTerm(missing.GetFlag()).Name))
	case errors.As(err, &invalid):
		return invalidValue(invalid.GetFlag(), invalid.GetValue())
	}
	return f.WithHint("see `%s --help`", cmd.CommandPath())
}

// invalidValue says what a flag takes instead of a value.
func invalidValue(f *pflag.Flag, value string) error {
	shown := "--" + f.Name
	if isWord(value) {
		shown += " " + value
	}
	wrong := func(what string) hintless { return usageError("usage.value", "%s: %s", shown, what) }
	if c, ok := f.Value.(*choice); ok {
		h := wrong("it takes " + listed(c.words))
		if near := nearest(value, c.words); near != "" {
			return h.WithHint("did you mean --%s %s?", f.Name, near)
		}
		if f.DefValue == "" {
			return h.WithHint("write one of them, or leave the flag out")
		}
		return h.WithHint("write one of them, or leave the flag out for %s", f.DefValue)
	}
	switch f.Value.Type() {
	case "duration":
		return wrong("it takes a length of time").WithHint("write a number with a unit, such as 45s, 2m or 1h30m")
	case "bool":
		return wrong("it takes true or false, or nothing").WithHint("write --%s alone", f.Name)
	case "int", "int64", "uint", "uint64":
		return wrong("it takes a whole number").WithHint("write digits only, such as --%s %s", f.Name, f.DefValue)
	case "float64":
		return wrong("it takes a number").WithHint("write one such as --%s 2.5", f.Name)
	}
	return wrong("it cannot take this").WithHint("`aipctl help` lists what the flags take")
}

// isWord reports whether a wrong value is short and plain enough to be repeated:
// what landed there by mistake may be a prompt.
func isWord(s string) bool {
	return s != "" && len(s) <= 24 && strings.Trim(strings.ToLower(s), "abcdefghijklmnopqrstuvwxyz0123456789._-") == ""
}

func newActionCmd(r *run) *cobra.Command {
	return group("action", "Submit, follow, read and cancel actions",
		"Everything about one action, addressed by its id (act_…).",
		newCallCmd(r), newEventsCmd(r), newCancelCmd(r), newStatusCmd(r), newResultCmd(r))
}

// oneID refuses what is not [URL] and one id that parse takes.
func oneID(cmd *cobra.Command, args []string, what string, parse func(string) error) error {
	_, rest := takeURL(args)
	if err := argCount(cmd, rest, 1, 1, what); err != nil {
		return err
	}
	return parse(rest[0])
}

// argCount refuses a wrong number of arguments and names what is expected.
func argCount(cmd *cobra.Command, args []string, least, most int, what string) error {
	switch {
	case len(args) < least:
		return usageError("usage.arguments", "%s is missing", what).WithHint("usage: %s", cmd.UseLine())
	case len(args) > most && slices.Contains(args, ""):
		return usageError("usage.arguments", "an argument is empty").WithHint("a shell variable may be empty; usage: %s", cmd.UseLine())
	case len(args) > most:
		are := "are"
		if len(args) == most+1 {
			are = "is"
		}
		return usageError("usage.arguments", "there %s %s too many", are, counted(len(args)-most, "argument")).
			WithHint("a text with blanks needs quotes around it; usage: %s", cmd.UseLine())
	}
	return nil
}
