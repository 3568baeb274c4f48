package cmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
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
	files := []string{filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md")}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	copied, named := 0, 0
	known := map[string]error{} // the reference repeats what help says
	once := func(line string, check func() error) error {
		if _, ok := known[line]; !ok {
			known[line] = check()
		}
		return known[line]
	}
	read := func(where, text, code string) {
		lines, err := aipctlLines(code)
		if err != nil {
			t.Errorf("%s: %v", where, err)
		}
		for _, argv := range lines {
			line := strings.Join(argv, " ")
			check := func() error { return tryCommandLine(argv) }
			if isSynopsis(argv) {
				named++
				check = func() error { return namesACommand(line) }
			} else {
				copied++
			}
			if err := once(line, check); err != nil {
				t.Errorf("%s: `%s` would be refused: %v", where, line, err)
			}
		}
		for _, quote := range quotedCommands(text) {
			named++
			err := once("`"+quote, func() error {
				if err := namesACommand(quote); err != nil || isFragment(quote) {
					return err
				}
				return wouldBeTaken(quote)
			})
			if err != nil {
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
		name, err := filepath.Rel(root, file)
		if err != nil {
			t.Fatal(err)
		}
		read(filepath.ToSlash(name), text, markdownCode(text))
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
	if copied < 100 || named < 200 {
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

// isSynopsis tells the line of usage that heads a page of the reference, which
// shows what there is to choose from and is not for copying.
func isSynopsis(argv []string) bool {
	return slices.ContainsFunc(argv, func(w string) bool {
		return w == "[flags]" || w == "[URL]" || strings.Trim(w, "[.") == "COMMAND"
	})
}

// fragments are the quotes that nobody can run as they stand, and why each of
// them is still right.
var fragments = map[string]string{
	"aipctl help TOPIC":     "any of the topics",
	"aipctl COMMAND --help": "any of the commands",
}

// isFragment tells a quote that only names a command, as in "see `aipctl action
// call`", or leaves something open with an ellipsis.
func isFragment(quote string) bool {
	if _, ok := fragments[quote]; ok || strings.ContainsAny(quote, "…[") || strings.Contains(quote, "...") {
		return true
	}
	root := namedTree()
	c, rest, err := root.Find(strings.Fields(quote)[1:])
	return err == nil && len(rest) == 0 && c != root
}

// wouldBeTaken makes every check of a quote that comes before the command runs.
func wouldBeTaken(quote string) error {
	lines, err := aipctlLines(strings.ReplaceAll(quote, " ACTION", " act_1"))
	for _, argv := range lines {
		err = errors.Join(err, tryCommandLine(argv))
	}
	return err
}

var commandQuote = regexp.MustCompile("`((?:go run \\./cmd/)?aipctl [^`]+)`")

// quotedCommands are the commands in backquotes.
func quotedCommands(text string) []string {
	var out []string
	for _, m := range commandQuote.FindAllStringSubmatch(text, -1) {
		out = append(out, strings.TrimPrefix(strings.Join(strings.Fields(m[1]), " "), "go run ./cmd/"))
	}
	return out
}

// namedTree is a tree to look names up in. No flag of it is ever parsed.
var namedTree = sync.OnceValue(func() *cobra.Command {
	_, root := newTree()
	return root
})

// namesACommand refuses what begins with a command that does not exist, or has
// a flag that it does not take. What is left open, as in `aipctl help TOPIC`, is
// not looked at.
func namesACommand(quote string) error {
	root := namedTree()
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
	for quote, want := range map[string]string{
		"aipctl action status act_1 act_2":                "too many",
		"aipctl action events --follow":                   "is missing",
		"aipctl action status act_1 -o yaml":              "it takes text, json or jsonl",
		"aipctl state prune --settled --older-than never": "length of time",
	} {
		if isFragment(quote) {
			t.Errorf("%s is taken for a fragment", quote)
		} else if err := wouldBeTaken(quote); err == nil || !strings.Contains(err.Error(), want) {
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

// TestTheIndexNamesEveryPage keeps docs/README.md whole.
func TestTheIndexNamesEveryPage(t *testing.T) {
	docs := filepath.Join(aiptest.ModuleRoot(t), "docs")
	index, err := os.ReadFile(filepath.Join(docs, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(docs)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "README.md" && !strings.Contains(string(index), "("+e.Name()) {
			t.Errorf("docs/README.md does not name %s", e.Name())
		}
	}
}
