package cmd

import (
	"slices"
	"strings"

	"github.com/aipctl/aipctl/internal/manual"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagGroup is a heading under which help lists some of the global flags.
type flagGroup string

const (
	connectionFlags flagGroup = "Connection flags"
	waitingFlags    flagGroup = "Waiting and limits"
	outputFlags     flagGroup = "Output flags"
	answerFlags     flagGroup = "What is shown of an answer"
	safetyFlags     flagGroup = "State and safety"
)

// flagGroups puts every global flag into its group, the most wanted first. A
// test refuses a global flag that stands in none.
var flagGroups = []struct {
	Group flagGroup
	Flags []string
}{
	{connectionFlags, []string{"url", "context", "token-file", "ca-file", "allow-plaintext", "connect-timeout"}},
	{waitingFlags, []string{"wait", "idle-timeout", "max-event-bytes", "max-result-bytes"}},
	{outputFlags, []string{"output", "jq", "quiet", "verbose", "color", "debug-http"}},
	{answerFlags, []string{"include-raw", "show-labels", "show-provider-errors"}},
	{safetyFlags, []string{"state", "yes"}},
}

// flagAliases are second names of flags, listed with the first.
var flagAliases = map[string]string{
	"native-bearer-token-file": "token-file",
	"native-tls-ca-file":       "ca-file",
}

// ownFlags lists the flags that belong to the command alone.
func ownFlags(c *cobra.Command) manual.Terms {
	var out manual.Terms
	c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" && !f.Hidden {
			out = append(out, flagTerm(f))
		}
	})
	return out
}

// globalFlags lists the flags that every command takes, in their groups.
func globalFlags(root *cobra.Command, without ...flagGroup) []manual.Section {
	var out []manual.Section
	for _, g := range flagGroups {
		if slices.Contains(without, g.Group) {
			continue
		}
		var terms manual.Terms
		for _, name := range g.Flags {
			if f := root.PersistentFlags().Lookup(name); f != nil {
				terms = append(terms, flagTerm(f))
			}
		}
		out = append(out, manual.Section{Title: string(g.Group), Blocks: []manual.Block{terms}})
	}
	return out
}

// flagTerm is a flag as help lists it.
func flagTerm(f *pflag.Flag) manual.Term {
	value, text := pflag.UnquoteUsage(f)
	name := "    --" + f.Name
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", --" + f.Name
	}
	switch value {
	case "":
	case "int", "float":
		name += " N"
	case "string":
		name += " TEXT"
	case "duration":
		name += " TIME"
	default:
		name += " " + value
	}
	switch f.DefValue {
	case "", "0", "0s", "false", "[]":
	default:
		text += " (default " + f.DefValue + ")"
	}
	for alias, of := range flagAliases {
		if of == f.Name {
			text += "; also --" + alias
		}
	}
	return manual.Term{Name: name, Text: strings.TrimSpace(text)}
}
