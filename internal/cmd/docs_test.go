package cmd

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aipctl/aipctl/internal/aiptest"
	"github.com/aipctl/aipctl/internal/devserver"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/verdict"
)

var updateDocs = flag.Bool("update-docs", false, "write the generated pages under docs/ instead of comparing them")

const generated = "<!-- Generated: go test ./internal/cmd -run TestGeneratedDocs -update-docs -->\n\n"

// TestGeneratedDocs keeps the pages that repeat a table equal to the table.
func TestGeneratedDocs(t *testing.T) {
	pages := map[string]string{
		"exit-codes.md": exitCodesPage(),
		"scenarios.md":  scenariosPage(t),
	}
	for name, want := range pages {
		path := filepath.Join(aiptest.ModuleRoot(t), "docs", name)
		if *updateDocs {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("docs/%s does not say what the program says; run: go test ./internal/cmd -run TestGeneratedDocs -update-docs", name)
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
