package cmd

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/aipctl/aipctl/internal/client"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/manual"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// newTree is the command tree of a process whose environment is empty.
func newTree() (*run, *cobra.Command) {
	r := &run{App: App{Env: func(string) string { return "" }, Executable: "aipctl"}, opts: newGlobalOptions()}
	root := newRootCmd(r)
	root.InitDefaultHelpCmd()
	return r, root
}

// everyCmd calls f for root and all that is below it, but not for what is
// hidden.
func everyCmd(c *cobra.Command, f func(*cobra.Command)) {
	f(c)
	for _, child := range c.Commands() {
		if !child.Hidden {
			everyCmd(child, f)
		}
	}
}

// TestEveryLeafExplainsItself is the rule for the help of a command. A leaf
// without a page is made by r.leaf(&cobra.Command{…}, page{…}).
func TestEveryLeafExplainsItself(t *testing.T) {
	r, root := newTree()
	n := 0
	everyCmd(root, func(c *cobra.Command) {
		if c.HasAvailableSubCommands() {
			if strings.TrimSpace(c.Long) == "" || c.Short == "" {
				t.Errorf("%s: a group without a purpose or a description", c.CommandPath())
			}
			return
		}
		n++
		p, ok := r.pages[c]
		if !ok {
			t.Errorf("%s: has no page; make it with r.leaf(&cobra.Command{Use, Args, RunE}, page{Purpose, About, Never, Examples, Exits, See})", c.CommandPath())
			return
		}
		for _, wrong := range wrongWithPage(r, root, c, p) {
			t.Errorf("%s: %s", c.CommandPath(), wrong)
		}
	})
	if n < 10 {
		t.Errorf("the walk found %d leaves", n)
	}
}

// wrongWithPage says in words what a page lacks.
func wrongWithPage(r *run, root, c *cobra.Command, p page) []string {
	var wrong []string
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	switch {
	case p.Purpose == "":
		say("Purpose is empty: one line that says what it is for")
	case strings.HasSuffix(p.Purpose, "."), strings.Contains(p.Purpose, "\n"), len(p.Purpose) > manual.Width:
		say("Purpose is one line of at most %d columns without a full stop: %q", manual.Width, p.Purpose)
	}
	if strings.TrimSpace(p.About) == "" {
		say("About is empty: what it does")
	}
	if !strings.Contains(p.Never, "never") {
		say("Never does not say what it never does: %q", p.Never)
	}
	if len(p.Examples) < 2 {
		say("%d examples; at least two", len(p.Examples))
	}
	for _, e := range p.Examples {
		if e.What == "" || strings.Contains(e.What, "\n") {
			say("the example %q does not say in one line what it is for", e.Line)
		}
		lines, err := aipctlLines(e.Line)
		if err != nil {
			say("the example %q: %v", e.Line, err)
		}
		if len(lines) == 0 {
			say("the example %q runs no aipctl", e.Line)
		}
		for _, argv := range lines {
			if err := tryCommandLine(argv); err != nil {
				say("the example `%s` would be refused: %v", strings.Join(argv, " "), err)
			}
		}
	}
	if len(p.Exits) == 0 || p.Exits[0].Class != fault.Accepted {
		say("Exits does not begin with 0: what does an exit of 0 promise?")
	}
	for i, e := range p.Exits {
		switch {
		case i > 0 && e.Class <= p.Exits[i-1].Class:
			say("Exits is not in ascending order at %d", e.Class.Code())
		case slices.Contains(everyCommand, e.Class) && e.Note == "":
			say("Exits has %d, which every command has; leave it out, or say what is special about it here", e.Class.Code())
		case e.text() == "":
			say("Exits has %d, which is not in the exit table", e.Class.Code())
		case e.Class == fault.Accepted && e.Note == "":
			say("Exits does not say what 0 means for this command")
		}
	}
	if len(p.See) == 0 {
		say("See is empty: name related commands, or a topic as \"help TOPIC\"")
	}
	for _, name := range p.See {
		topicName, isHelp := strings.CutPrefix(name, "help ")
		switch found := findCommand(root, name); {
		case isHelp && !isTopic(topicName):
			say("See names the topic %q, which does not exist", topicName)
		case !isHelp && found == nil:
			say("See names the command %q, which does not exist", name)
		case !isHelp && found == c:
			say("See names the command itself")
		}
	}
	return wrong
}

// tryCommandLine makes every check of a command line that comes before its
// command runs: the command is known, and so are its flags, their values and
// the arguments.
func tryCommandLine(argv []string) error {
	r, root := newTree()
	c, rest, err := root.Find(argv[1:])
	if err != nil {
		return err
	}
	c.InitDefaultHelpFlag()
	if err := c.ParseFlags(rest); err != nil {
		return c.FlagErrorFunc()(c, err)
	}
	args := c.Flags().Args()
	if help, _ := c.Flags().GetBool("help"); help {
		return nil
	}
	if c.HasSubCommands() && len(args) > 0 {
		return unknownCommand(c, args[0])
	}
	if err := c.ValidateArgs(args); err != nil {
		return err
	}
	return r.opts.check()
}

func TestTheRuleForPagesCanFail(t *testing.T) {
	r, root := newTree()
	c := findCommand(root, "action status")
	good := r.pages[c]
	for word, spoil := range map[string]func(*page){
		"Purpose is empty":             func(p *page) { p.Purpose = "" },
		"without a full stop":          func(p *page) { p.Purpose = "Reads." },
		"About is empty":               func(p *page) { p.About = " " },
		"never does":                   func(p *page) { p.Never = "It is fast." },
		"1 examples":                   func(p *page) { p.Examples = p.Examples[:1] },
		"runs no aipctl":               func(p *page) { p.Examples = []example{{"a", "ls"}, p.Examples[0]} },
		"unknown flag: --nope":         func(p *page) { p.Examples = []example{{"a", "aipctl action status act_1 --nope"}, p.Examples[0]} },
		"is missing":                   func(p *page) { p.Examples = []example{{"a", "aipctl action status"}, p.Examples[0]} },
		"it takes text, json or jsonl": func(p *page) { p.Examples = []example{{"a", "aipctl action status act_1 -o yaml"}, p.Examples[0]} },
		"is no command of":             func(p *page) { p.Examples = []example{{"a", "aipctl action stat act_1"}, p.Examples[0]} },
		"does not end":                 func(p *page) { p.Examples = []example{{"a", "aipctl 'action"}, p.Examples[0]} },
		"does not begin with 0":        func(p *page) { p.Exits = p.Exits[1:] },
		"ascending":                    func(p *page) { p.Exits = []exit{p.Exits[0], p.Exits[2], p.Exits[1]} },
		"which every command has":      func(p *page) { p.Exits = append(slices.Clone(p.Exits), exit{Class: fault.Output}) },
		"not in the exit table":        func(p *page) { p.Exits = append(slices.Clone(p.Exits), exit{Class: 99}) },
		"See is empty":                 func(p *page) { p.See = nil },
		"topic \"nope\"":               func(p *page) { p.See = []string{"help nope"} },
		"command \"action nope\"":      func(p *page) { p.See = []string{"action nope"} },
		"See names the command its":    func(p *page) { p.See = []string{"action status"} },
	} {
		p := good
		spoil(&p)
		if got := strings.Join(wrongWithPage(r, root, c, p), "\n"); !strings.Contains(got, word) {
			t.Errorf("nothing says %q, but:\n%s", word, got)
		}
	}
	if wrong := wrongWithPage(r, root, c, good); wrong != nil {
		t.Errorf("a good page is refused: %q", wrong)
	}
}

// TestHelpFitsATerminal reads every page of help as a person would.
func TestHelpFitsATerminal(t *testing.T) {
	_, root := newTree()
	pages := [][]string{{"help"}}
	everyCmd(root, func(c *cobra.Command) { pages = append(pages, append(strings.Fields(c.CommandPath())[1:], "--help")) })
	for _, name := range topics {
		pages = append(pages, []string{"help", name})
	}
	for _, args := range pages {
		var out, errs bytes.Buffer
		app := App{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Env: func(string) string { return "" }, Executable: "aipctl"}
		if code := app.Run(context.Background(), args); code != 0 || errs.Len() > 0 {
			t.Errorf("%v: exit %d, %s", args, code, errs.String())
		}
		if out.Len() < 100 {
			t.Errorf("%v says only %q", args, out.String())
		}
		for line := range strings.SplitSeq(out.String(), "\n") {
			if n := utf8.RuneCountInString(line); n > manual.Width {
				t.Errorf("%v has a line of %d columns:\n%s", args, n, line)
			}
		}
	}
}

func TestEveryGlobalFlagStandsInOneGroup(t *testing.T) {
	_, root := newTree()
	groups := map[string]int{}
	for _, g := range flagGroups {
		for _, name := range g.Flags {
			groups[name]++
			if root.PersistentFlags().Lookup(name) == nil {
				t.Errorf("%s lists --%s, which is no global flag", g.Group, name)
			}
		}
	}
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) {
		_, alias := flagAliases[f.Name]
		if want := 1; !alias && groups[f.Name] != want {
			t.Errorf("--%s stands in %d groups of flagGroups, want %d", f.Name, groups[f.Name], want)
		}
	})
}

func TestEveryCommandHasItsPlaceInTheFirstHelp(t *testing.T) {
	_, root := newTree()
	for _, c := range root.Commands() {
		n := 0
		for _, g := range rootGroups {
			for _, name := range g.commands {
				if name == c.Name() {
					n++
				}
			}
		}
		if n != 1 {
			t.Errorf("%s stands in %d of rootGroups, want 1", c.Name(), n)
		}
	}
}

// TestTopicsSayWhatTheCodeKnows looks for what a table of the code brings into
// a topic.
func TestTopicsSayWhatTheCodeKnows(t *testing.T) {
	_, root := newTree()
	want := map[string][]string{
		"exit-codes":  {"130  detached", "stream_truncated"},
		"output":      {"identity", "outcome", "jsonl", "--jq"},
		"environment": {"AIP_URL", "NO_COLOR", "beaten by"},
		"flags":       {"--token-file FILE", "--output text|json|jsonl", "--yes"},
		"state":       {"~/.local/state/aipctl/state.jsonl", "~/Library/Application Support/aipctl/state.jsonl", `%LOCALAPPDATA%\aipctl\state.jsonl`, "aipctl state prune"},
		"redaction":   client.LoggedHeaders(),
		"glossary":    {"accepted", "cursor", "intent"},
	}
	for _, name := range topics {
		var b strings.Builder
		if err := manual.WriteText(&b, topicPage(root, name)); err != nil {
			t.Fatal(err)
		}
		if len(want[name]) == 0 {
			t.Errorf("nothing is expected of topic %s", name)
		}
		for _, word := range want[name] {
			if !strings.Contains(b.String(), word) {
				t.Errorf("topic %s has no %q:\n%s", name, word, b.String())
			}
		}
		if strings.Contains(b.String(), "{{") {
			t.Errorf("topic %s has a place that nothing fills:\n%s", name, b.String())
		}
	}
	files, err := topicFiles.ReadDir("topics")
	if err != nil || len(files) != len(topics) {
		t.Errorf("%d files for %d topics (%v)", len(files), len(topics), err)
	}
}

// TestOutputTopicNamesEveryRecord compares the topic with the records that an
// action prints.
func TestOutputTopicNamesEveryRecord(t *testing.T) {
	var got, want []string
	for _, term := range recordTable() {
		got = append(got, term.Name)
	}
	for _, k := range kinds {
		if strings.Contains(k.by, "`action call`") || strings.HasPrefix(k.by, "every command") {
			want = append(want, k.name)
		}
	}
	if !slices.Equal(got, want) || len(want) < 10 {
		t.Errorf("the topic has %q, want %q", got, want)
	}
}
