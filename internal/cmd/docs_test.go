package cmd

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aipctl/aipctl/internal/aiptest"
	"github.com/aipctl/aipctl/internal/devserver"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/manual"
	"github.com/aipctl/aipctl/internal/verdict"
	"github.com/spf13/cobra"
)

var updateDocs = flag.Bool("update-docs", false, "write the generated pages under docs/ instead of comparing them")

const generated = "<!-- Generated: go test ./internal/cmd -run TestGeneratedDocs -update-docs -->\n\n"

// generatedFolders hold nothing but generated pages.
var generatedFolders = []string{"reference", "man"}

// TestGeneratedDocs keeps what repeats the program under docs/ equal to the
// program: tables, reference and man pages.
func TestGeneratedDocs(t *testing.T) {
	pages := map[string]string{
		"exit-codes.md": exitCodesPage(),
		"scenarios.md":  scenariosPage(t),
	}
	r, root := newTree()
	manualPages(t, r, root, pages)
	docs := filepath.Join(aiptest.ModuleRoot(t), "docs")
	if *updateDocs {
		if err := writeDocs(docs, pages); err != nil {
			t.Fatal(err)
		}
	}
	for _, wrong := range docsDrift(docs, pages) {
		t.Errorf("%s; run: go test ./internal/cmd -run TestGeneratedDocs -update-docs", wrong)
	}
}

// manualPages adds the reference and the man page of every command and topic.
func manualPages(t *testing.T, r *run, root *cobra.Command, pages map[string]string) {
	t.Helper()
	var commands, about manual.Terms
	add := func(p manual.Page, list *manual.Terms) {
		var md, man strings.Builder
		if err := errors.Join(manual.WriteMarkdown(&md, p), manual.WriteMan(&man, p)); err != nil {
			t.Fatal(err)
		}
		pages["reference/"+manual.FileName(p.Title)+".md"] = generated + md.String()
		pages["man/"+manual.FileName(p.Title)+".1"] = man.String()
		*list = append(*list, manual.Term{Name: p.Title, Text: p.Purpose, Page: p.Title})
	}
	everyCmd(root, func(c *cobra.Command) { add(r.referencePage(c), &commands) })
	for _, name := range topics {
		add(topicPage(root, name), &about)
	}
	var index strings.Builder
	if err := manual.WriteMarkdown(&index, manual.Page{
		Title: "Reference", Purpose: "What `aipctl COMMAND --help` and `aipctl help TOPIC` say",
		Sections: []manual.Section{{Title: "Commands", Blocks: []manual.Block{commands}}, {Title: "Topics", Blocks: []manual.Block{about}}},
	}); err != nil {
		t.Fatal(err)
	}
	pages["reference/README.md"] = generated + index.String()
}

// writeDocs writes the pages, and removes what no longer belongs to them.
func writeDocs(docs string, pages map[string]string) error {
	for _, folder := range generatedFolders {
		if err := os.MkdirAll(filepath.Join(docs, folder), 0o755); err != nil {
			return err
		}
	}
	for name, content := range pages {
		if err := os.WriteFile(filepath.Join(docs, filepath.FromSlash(name)), []byte(content), 0o644); err != nil {
			return err
		}
	}
	orphans, err := orphaned(docs, pages)
	for _, name := range orphans {
		err = errors.Join(err, os.Remove(filepath.Join(docs, filepath.FromSlash(name))))
	}
	return err
}

// docsDrift says which pages are missing, stale or orphaned.
func docsDrift(docs string, pages map[string]string) []string {
	var wrong []string
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		got, err := os.ReadFile(filepath.Join(docs, filepath.FromSlash(name)))
		switch {
		case err != nil:
			wrong = append(wrong, "docs/"+name+" is missing")
		case string(got) != pages[name]:
			wrong = append(wrong, "docs/"+name+" does not say what the program says")
		}
	}
	orphans, err := orphaned(docs, pages)
	if err != nil {
		wrong = append(wrong, err.Error())
	}
	for _, name := range orphans {
		wrong = append(wrong, "docs/"+name+" belongs to nothing that the program has")
	}
	return wrong
}

// orphaned finds the files of the generated folders that are no page.
func orphaned(docs string, pages map[string]string) ([]string, error) {
	var out []string
	for _, folder := range generatedFolders {
		files, err := os.ReadDir(filepath.Join(docs, folder))
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			if _, ok := pages[folder+"/"+f.Name()]; !ok {
				out = append(out, folder+"/"+f.Name())
			}
		}
	}
	return out, nil
}

func TestDriftOfTheDocsIsSeen(t *testing.T) {
	pages := map[string]string{"top.md": "top", "reference/a.md": "a", "man/a.1": "a"}
	docs := t.TempDir()
	if err := writeDocs(docs, pages); err != nil {
		t.Fatal(err)
	}
	if wrong := docsDrift(docs, pages); wrong != nil {
		t.Fatalf("what was just written: %q", wrong)
	}
	file := func(name string) string { return filepath.Join(docs, filepath.FromSlash(name)) }
	for what, spoil := range map[string]func() error{
		"docs/top.md does not say":          func() error { return os.WriteFile(file("top.md"), []byte("other"), 0o600) },
		"docs/man/a.1 is missing":           func() error { return os.Remove(file("man/a.1")) },
		"docs/reference/b.md belongs to no": func() error { return os.WriteFile(file("reference/b.md"), nil, 0o600) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if wrong := docsDrift(docs, pages); len(wrong) != 1 || !strings.Contains(wrong[0], what) {
			t.Errorf("got %q, want %q", wrong, what)
		}
		if err := writeDocs(docs, pages); err != nil {
			t.Fatal(err)
		}
	}
}

func exitCodesPage() string {
	var b strings.Builder
	b.WriteString(generated + "# Exit codes\n\nOnly 0 is success. From `aipctl action call`, the codes 2, 3, 4, 12, 13 and 14 say that\nnothing ran because of this call. `verdict` in the outcome record speaks of the action,\n`exit_code` of the command.\n\n| Code | Name | When |\n|---|---|---|\n")
	for _, e := range fault.Exits() {
		fmt.Fprintf(&b, "| %d | %s | %s |\n", e.Class.Code(), e.Name, e.When)
	}
	b.WriteString("\n## How the error code of a failed action is read\n\nThe first row that matches decides. Several pieces of evidence may speak at once; the\nverdict is then the first of: conflict, pending, auth, not_found, rejected, cancelled,\nunknown, failed, partial, incomplete, accepted.\n\n| Verdict | Code | Error codes |\n|---|---|---|\n")
	for _, row := range verdict.CodeTable() {
		fmt.Fprintf(&b, "| %s | %d | %s |\n", row.Reading, row.Reading.Code(), row.Codes)
	}
	return b.String()
}

func scenariosPage(t *testing.T) string {
	t.Helper()
	verdicts := map[string]aiptest.Row{}
	for _, row := range aiptest.Table(t, "scenarios.tsv") {
		verdicts[row.Get("scenario")] = row
	}
	var b strings.Builder
	b.WriteString(generated + "# Scenarios of the embedded daemon\n\nEach one plays bytes that a real Hermes server wrote, through the connector's rules.\n\n    aipctl demo --scenario NAME\n    aipctl dev serve          # then call cap:hermes_agent:NAME:OPERATION\n\n| Name | Operation | What happens | Verdict | Exit | Because |\n|---|---|---|---|---|---|\n")
	for _, s := range devserver.Scenarios() {
		row, ok := verdicts[s.Name]
		if !ok {
			t.Errorf("scenario %s has no row in testdata/scenarios.tsv", s.Name)
			continue
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", s.Name, s.Operation, s.Summary, row.Get("verdict"), row.Get("exit_code"), row.Get("rule"))
	}
	return b.String()
}
