package cmd

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/aipctl/aipctl/internal/contract"
	"github.com/aipctl/aipctl/internal/devserver"
	"github.com/aipctl/aipctl/internal/engine"
	"github.com/aipctl/aipctl/internal/identity"
	"github.com/aipctl/aipctl/internal/sanitize"
	"github.com/aipctl/aipctl/internal/state"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Completion reads the state file, the contexts and folders, and nothing else:
// it asks no daemon, writes nothing, takes no lock, and is silent about what it
// cannot read, for nobody reads an error in the middle of a word.

// mostOffered bounds how many ids are offered: a shell asks before it shows
// more, and the newest come first.
const mostOffered = 100

// offered is what a completion function returns when it has said all.
const offered = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder

// outline is what the state file says, newest action first; empty where it
// cannot be read.
func (r *run) outline(cmd *cobra.Command) []*state.Action {
	v, err := r.statePath()
	if err != nil || v.Text == stateOff {
		return nil
	}
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	view, err := state.New(v.Text).Outline(ctx)
	if err != nil {
		return nil
	}
	actions := view.Actions()
	slices.Reverse(actions)
	return actions
}

// completeAction offers action ids for [URL] ACTION.
func (r *run) completeAction(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return r.actionIDs(cmd, args, word, nil)
}

// completeUnsettled offers first the actions about which more is to be learnt.
func (r *run) completeUnsettled(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return r.actionIDs(cmd, args, word, func(a, b *state.Action) int { return compareBool(settled(a), settled(b)) })
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

func (r *run) actionIDs(cmd *cobra.Command, args []string, word string, order func(a, b *state.Action) int) ([]cobra.Completion, cobra.ShellCompDirective) {
	if _, rest := takeURL(args); len(rest) > 0 {
		return nil, offered
	}
	actions := r.outline(cmd)
	if order != nil {
		slices.SortStableFunc(actions, order)
	}
	var out []cobra.Completion
	for _, a := range actions {
		if len(out) == mostOffered {
			break
		}
		if strings.HasPrefix(a.ID, word) && identity.ParseActionID(a.ID) == nil {
			out = append(out, cobra.CompletionWithDesc(a.ID, r.about(a)))
		}
	}
	return out, offered
}

// about says in a few words which action it is.
func (r *run) about(a *state.Action) string {
	words := []string{age(r.Now().Sub(begun(a))), condition(a)}
	if a.Intent != nil {
		words = append(words, a.Intent.CapabilityID)
	}
	return sanitize.LineMax(strings.Join(words, ", "), 120).String()
}

func begun(a *state.Action) time.Time {
	if a.Intent != nil {
		return a.IntentAt
	}
	return a.Last.At
}

// age is a length of time as a person says it.
func age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "just now"
	case d < time.Hour:
		return fmt.Sprintf("%dm ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh ago", int(d.Hours()))
	}
	return fmt.Sprintf("%dd ago", int(d.Hours())/24)
}

// completeResponse offers ids of stored responses for [URL] RESPONSE_ID.
func (r *run) completeResponse(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return r.idsOf(cmd, args, word, identity.ParseResponseID, func(a *state.Action) []string { return a.ResponseIDs })
}

// completeApproval offers ids of approvals for [URL] APPROVAL.
func (r *run) completeApproval(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return r.idsOf(cmd, args, word, identity.ParseApprovalID, func(a *state.Action) []string { return a.ApprovalIDs })
}

// idsOf offers ids that actions have, each once. A state file holds what daemons
// said: what the command would refuse, or take for a flag, is not offered.
func (r *run) idsOf(cmd *cobra.Command, args []string, word string, parse func(string) error, ids func(*state.Action) []string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if _, rest := takeURL(args); len(rest) > 0 {
		return nil, offered
	}
	seen := map[string]bool{}
	var out []cobra.Completion
	for _, a := range r.outline(cmd) {
		for _, id := range ids(a) {
			if len(out) < mostOffered && !seen[id] && strings.HasPrefix(id, word) && parse(id) == nil && id[0] != '-' {
				out = append(out, cobra.CompletionWithDesc(id, r.about(a)))
			}
			seen[id] = true
		}
	}
	return out, offered
}

// completeCapability offers capabilities for [URL] CAPABILITY: those that were
// called from here, then the operations that the connector publishes.
func (r *run) completeCapability(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if _, rest := takeURL(args); len(rest) > 0 {
		return nil, offered
	}
	var out []cobra.Completion
	endpoint, _ := cmd.Flags().GetString("endpoint")
	prefix, isID := endpointPrefix(word)
	switch {
	case isID: // cap:hermes_agent:ENDPOINT: and perhaps the beginning of an operation
	case endpoint == "":
		for _, id := range r.capabilities(cmd) {
			out = append(out, cobra.CompletionWithDesc(id, "called before"))
		}
	}
	for _, k := range contract.Operations() {
		out = append(out, cobra.CompletionWithDesc(prefix+k.Operation, k.Does))
	}
	return beginning(word, out), offered
}

// endpointPrefix is the part of a Hermes capability before its operation.
func endpointPrefix(word string) (string, bool) {
	i := strings.LastIndexByte(word, ':')
	if strings.Count(word, ":") != 3 || !strings.HasPrefix(word, "cap:hermes_agent:") {
		return "", false
	}
	return word[:i+1], true
}

// capabilities are those that the state file has seen, the last one first.
func (r *run) capabilities(cmd *cobra.Command) []string {
	var out []string
	for _, a := range r.outline(cmd) {
		if a.Intent == nil || len(out) == mostOffered || slices.Contains(out, a.Intent.CapabilityID) {
			continue
		}
		if _, err := identity.ParseCapability(a.Intent.CapabilityID); err == nil {
			out = append(out, a.Intent.CapabilityID)
		}
	}
	return out
}

// completeEndpoint offers the endpoints that were called from here.
func (r *run) completeEndpoint(cmd *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var out []cobra.Completion
	for _, id := range r.capabilities(cmd) {
		c, _ := identity.ParseCapability(id)
		if c.Endpoint != "" && strings.HasPrefix(c.Endpoint, word) && !slices.Contains(out, c.Endpoint) {
			out = append(out, c.Endpoint)
		}
	}
	return out, offered
}

func completeScenario(_ *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var out []cobra.Completion
	for _, s := range devserver.Scenarios() {
		out = append(out, cobra.CompletionWithDesc(s.Name, s.Summary))
	}
	return beginning(word, out), offered
}

// beginning keeps what begins with the word.
func beginning(word string, all []cobra.Completion) []cobra.Completion {
	return slices.DeleteFunc(all, func(c cobra.Completion) bool { return !strings.HasPrefix(c, word) })
}

// completeSource offers files behind the @ of --input and --prompt, which no
// shell takes for the beginning of a path.
func completeSource(_ *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	path, isFile := strings.CutPrefix(word, "@")
	if !isFile {
		return []cobra.Completion{cobra.CompletionWithDesc("@", "a file"), cobra.CompletionWithDesc("-", "stdin")}, offered | cobra.ShellCompDirectiveNoSpace
	}
	dir, base := filepath.Split(path)
	entries, err := os.ReadDir(cmp.Or(dir, "."))
	if err != nil {
		return nil, offered
	}
	var out []cobra.Completion
	directive := cobra.ShellCompDirectiveNoFileComp
	for _, e := range entries {
		name := e.Name()
		if !strings.HasPrefix(name, base) || base == "" && strings.HasPrefix(name, ".") || strings.ContainsAny(name, "\n\t") {
			continue
		}
		if e.IsDir() {
			name += string(filepath.Separator)
			directive |= cobra.ShellCompDirectiveNoSpace
		}
		out = append(out, "@"+dir+name)
	}
	return out, directive
}

func completeFiles(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

// completeHelp offers commands and topics.
func completeHelp(root *cobra.Command) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		found, rest, err := root.Find(args)
		if err != nil || len(rest) > 0 {
			return nil, offered
		}
		var out []cobra.Completion
		for _, c := range found.Commands() {
			if c.IsAvailableCommand() {
				out = append(out, cobra.CompletionWithDesc(c.Name(), c.Short))
			}
		}
		if found == root {
			for _, name := range topics {
				purpose, _ := topicText(name)
				out = append(out, cobra.CompletionWithDesc(name, purpose))
			}
		}
		return beginning(word, out), offered
	}
}

// pathFlags name a file, which is what a shell completes by itself.
var pathFlags = []string{"token-file", "native-bearer-token-file", "ca-file", "native-tls-ca-file", "state", "token-out"}

// completeFlags says what each flag's value can be. flags has what a word of
// its own cannot tell.
func completeFlags(c *cobra.Command, flags map[string]cobra.CompletionFunc) {
	complete := func(f *pflag.Flag) {
		values := flags[f.Name]
		if words, ok := f.Value.(*choice); ok {
			values = cobra.FixedCompletions(words.words, offered)
		}
		switch {
		case values == nil && slices.Contains(pathFlags, f.Name):
			values = completeFiles
		case values == nil:
			values = cobra.NoFileCompletions
		}
		_ = c.RegisterFlagCompletionFunc(f.Name, values) // the one error is a flag that was registered before
	}
	c.LocalFlags().VisitAll(complete)
	for _, child := range c.Commands() {
		completeFlags(child, flags)
	}
}

// flagCompletions are the flags whose values are learnt where completion is
// asked for.
func (r *run) flagCompletions() map[string]cobra.CompletionFunc {
	return map[string]cobra.CompletionFunc{
		"endpoint": r.completeEndpoint,
		"capability": func(c *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return r.completeCapability(c, nil, word)
		},
		"context": func(c *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return r.completeContext(c, nil, word)
		},
		"input":    completeSource,
		"prompt":   completeSource,
		"scenario": completeScenario,
		"from":     cobra.FixedCompletions([]cobra.Completion{engine.FromSaved, engine.FromStart}, offered),
	}
}
