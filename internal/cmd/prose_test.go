package cmd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aipctl/aipctl/internal/aiptest"
	"github.com/aipctl/aipctl/internal/manual"
	"github.com/spf13/cobra"
)

// TestCommandsInProseAreRight parses what a reader could copy: code of the
// README, the docs and the topics, and commands in `backquotes` of all of them
// and of the pages of help.
func TestCommandsInProseAreRight(t *testing.T) {
	root := aiptest.ModuleRoot(t)
	files, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md"))
	copied, named := 0, 0
	read := func(where, text, code string) {
		lines, err := aipctlLines(code)
		if err != nil {
			t.Errorf("%s: %v", where, err)
		}
		for _, argv := range lines {
			copied++
			if err := tryCommandLine(argv); err != nil {
				t.Errorf("%s: `%s` would be refused: %v", where, strings.Join(argv, " "), err)
			}
		}
		for _, quote := range quotedCommands(text) {
			named++
			if err := namesACommand(quote); err != nil {
				t.Errorf("%s: `%s`: %v", where, quote, err)
			}
		}
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(raw), "act_…", "act_1")
		read(filepath.Base(file), text, markdownCode(text))
	}
	for _, name := range topics {
		_, text := topicText(name)
		var code []string
		for _, section := range manual.Parse(text, nil) {
			for _, block := range section.Blocks {
				if lines, ok := block.(manual.Code); ok {
					code = append(code, lines...)
				}
			}
		}
		read("topic "+name, text, strings.Join(code, "\n"))
	}
	r, tree := newTree()
	everyCmd(tree, func(c *cobra.Command) {
		p := r.pages[c]
		words := []string{c.Long, c.Short, p.About, p.Never}
		for _, e := range p.Exits {
			words = append(words, e.Note)
		}
		read("help of "+c.CommandPath(), strings.Join(words, "\n"), "")
	})
	for _, s := range r.rootCode(tree) {
		read("the first help", "", s)
	}
	if copied < 15 || named < 40 {
		t.Errorf("only %d commands were copied and %d named", copied, named)
	}
}

// rootCode is the code of the first help.
func (r *run) rootCode(root *cobra.Command) []string {
	var out []string
	for _, section := range r.helpPage(root).Sections {
		for _, block := range section.Blocks {
			if lines, ok := block.(manual.Code); ok {
				out = append(out, strings.Join(lines, "\n"))
			}
		}
	}
	return out
}

// markdownCode is the code of a Markdown text: what is indented by four, or
// fenced.
func markdownCode(text string) string {
	var out []string
	fenced := false
	for line := range strings.SplitSeq(text, "\n") {
		switch {
		case strings.HasPrefix(line, "```"):
			fenced = !fenced
		case fenced:
			out = append(out, line)
		case strings.HasPrefix(line, "    "):
			out = append(out, strings.TrimSpace(line))
		}
	}
	return strings.Join(out, "\n")
}

var commandQuote = regexp.MustCompile("`(aipctl [^`]+)`")

// quotedCommands are the commands in backquotes.
func quotedCommands(text string) []string {
	var out []string
	for _, m := range commandQuote.FindAllStringSubmatch(text, -1) {
		out = append(out, strings.Join(strings.Fields(m[1]), " "))
	}
	return out
}

// namesACommand refuses what begins with a command that does not exist, or has
// a flag that it does not take. What is left open, as in `aipctl help TOPIC`, is
// not looked at.
func namesACommand(quote string) error {
	_, root := newTree()
	words := strings.Fields(quote)[1:]
	end := slices.IndexFunc(words, func(w string) bool {
		return strings.HasPrefix(w, "-") || w != strings.ToLower(w) || strings.ContainsAny(w, "….")
	})
	path := words
	if end >= 0 {
		path = words[:end]
	}
	c, rest, err := root.Find(path)
	switch {
	case err != nil:
		return err
	case len(rest) > 0 && c.HasSubCommands():
		return unknownCommand(c, rest[0])
	case len(rest) > 0 && c.Name() == "help":
		return checkHelpArgs(root, rest)
	}
	c.InitDefaultHelpFlag()
	for _, w := range words {
		name, isFlag := strings.CutPrefix(w, "--")
		name, _, _ = strings.Cut(name, "=")
		if isFlag && name != "" && c.Flag(name) == nil && c.InheritedFlags().Lookup(name) == nil {
			return fmt.Errorf("there is no flag --%s", name)
		}
	}
	return nil
}

func TestWrongProseIsSeen(t *testing.T) {
	for quote, want := range map[string]string{
		"aipctl action stats act_1":   "no command",
		"aipctl nothing":              "no command",
		"aipctl help nothing":         "no help",
		"aipctl action status --nope": "no flag",
	} {
		if err := namesACommand(quote); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", quote, err)
		}
	}
	var all error
	for _, quote := range []string{"aipctl help TOPIC", "aipctl COMMAND --help", "aipctl action events act_1 --follow", "aipctl events ...", "aipctl help exit-codes"} {
		all = errors.Join(all, namesACommand(quote))
	}
	if all != nil {
		t.Error(all)
	}
	if got := quotedCommands("see `aipctl state\nlist`, `x` and `aipctl demo`"); !slices.Equal(got, []string{"aipctl state list", "aipctl demo"}) {
		t.Errorf("%q", got)
	}
}
