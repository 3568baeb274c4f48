package e2e_test

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/aipctl/aipctl/internal/aiptest"
	"github.com/aipctl/aipctl/internal/sanitize"
	"github.com/google/go-cmp/cmp"
)

// TestScenarios runs each scenario of the embedded daemon by the command that
// a person would try first.
func TestScenarios(t *testing.T) {
	for _, row := range aiptest.Table(t, "scenarios.tsv") {
		name := row.Get("scenario")
		code, err := strconv.Atoi(row.Get("exit_code"))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newWorld(t).run("demo", "--scenario", name, "--speed", "0", "-o", "jsonl")
			all, o := records(t, s.stdout)
			if s.code != code || o.ExitCode != code || o.Verdict != row.Get("verdict") {
				t.Errorf("exit code %d, in the outcome %d and %s; want %d and %s by %q\nchecks %v, stderr %q",
					s.code, o.ExitCode, o.Verdict, code, row.Get("verdict"), row.Get("rule"), o.Checks, s.stderr)
			}
			// The text mode shows the same answer; what may not reach a terminal
			// is spelled out there.
			want := sanitize.Block(asText(all)).String()
			if want != "" {
				want = strings.TrimRight(want, "\n") + "\n"
			}
			text := newWorld(t).run("demo", "--scenario", name, "--speed", "0")
			if text.code != code || text.stdout != want {
				t.Errorf("in text: exit code %d and stdout %q, want %d and %q", text.code, text.stdout, code, want)
			}
			if line := verdictLine(t, text.stderr); !verdictIs(line, row.Get("verdict")) {
				t.Errorf("stderr says %q, want the verdict %s", line, row.Get("verdict"))
			}
			clean(t, "stdout", text.stdout, "\n\t")
			clean(t, "stderr", text.stderr, "\n")
		})
	}
}

func TestEveryScenarioHasARowAndEveryRowAScenario(t *testing.T) {
	s := newWorld(t).run("demo", "--list", "-o", "jsonl")
	if s.code != 0 {
		t.Fatalf("exit code %d: %s", s.code, s.stderr)
	}
	var listed, rows []string
	for line := range strings.Lines(s.stdout) {
		var r struct {
			Name string `json:"name"`
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil || r.Name == "" {
			t.Fatalf("%v in %q", err, line)
		}
		listed = append(listed, r.Name)
	}
	for _, row := range aiptest.Table(t, "scenarios.tsv") {
		rows = append(rows, row.Get("scenario"))
	}
	slices.Sort(listed)
	slices.Sort(rows)
	if diff := cmp.Diff(rows, listed); diff != "" {
		t.Errorf("rows and scenarios differ (-rows +scenarios):\n%s", diff)
	}
}
