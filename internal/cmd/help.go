package cmd

import (
	"fmt"
	"io"
	"strings"

	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/verdict"
	"github.com/spf13/cobra"
)

// topics are the pages of help that belong to no command.
var topics = map[string]func(io.Writer) error{
	"exit-codes": writeExitCodes,
}

func newHelpCmd(root *cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use:   "help [COMMAND | exit-codes]",
		Short: "Help about a command or a topic",
		Long:  "Shows the help of a command, or one of the topics: exit-codes.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				if page, ok := topics[args[0]]; ok {
					return page(cmd.OutOrStdout())
				}
			}
			found, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 || found == nil {
				name := strings.Join(args, " ")
				f := usageError("usage.help", "there is no help for %q", name)
				if near := nearest(name, append(childNames(root), "exit-codes")); near != "" {
					return f.WithHint("did you mean `aipctl help %s`?", near)
				}
				return f.WithHint("see `aipctl --help`")
			}
			return found.Help()
		},
	}
	return c
}

// writeExitCodes prints the exit table and the code table, from which docs
// and man page are made too.
func writeExitCodes(w io.Writer) error {
	var b strings.Builder
	b.WriteString("Exit codes\n\n")
	for _, e := range fault.Exits() {
		fmt.Fprintf(&b, "  %3d  %-12s %s\n", e.Class.Code(), e.Name, e.When)
	}
	b.WriteString(`
Only 0 is success. From ` + "`aipctl action call`" + `, the codes 2, 3, 4, 12, 13 and 14 say
that nothing ran because of this call.

How the error code of a failed action is read, first match:

`)
	for _, row := range verdict.CodeTable() {
		fmt.Fprintf(&b, "  %-12s %2d  %s\n", row.Reading, row.Reading.Code(), row.Codes)
	}
	_, err := io.WriteString(w, b.String())
	if err != nil {
		return fault.New(fault.Output, "output.write", "stdout could not be written in full")
	}
	return nil
}
