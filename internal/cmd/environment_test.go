package cmd

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aipctl/aipctl/internal/aiptest"
)

// TestEveryVariableTheCodeReadsIsInTheTable finds the names in the sources, so
// that a new variable cannot be read without being documented.
func TestEveryVariableTheCodeReadsIsInTheTable(t *testing.T) {
	var listed []string
	for _, v := range environment() {
		if v.name == "" || v.does == "" || strings.HasSuffix(v.does, ".") {
			t.Errorf("row %q says %q", v.name, v.does)
		}
		for name := range strings.SplitSeq(v.name, ", ") {
			if slices.Contains(listed, name) {
				t.Errorf("%s has two rows", name)
			}
			listed = append(listed, name)
		}
	}
	reads := regexp.MustCompile(`(?i)env\("([A-Z_]+)"\)|= "((?:AIP|AIPCTL|GETAIP)_[A-Z_]+)"`)
	found := 0
	err := filepath.WalkDir(filepath.Join(aiptest.ModuleRoot(t), "internal"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "aiptest") {
			return err
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range reads.FindAllStringSubmatch(string(src), -1) {
			found++
			if name := m[1] + m[2]; !slices.Contains(listed, name) {
				t.Errorf("%s reads %s, which the table does not list", filepath.Base(path), name)
			}
		}
		return nil
	})
	if err != nil || found < 20 {
		t.Errorf("%d readings were found (%v)", found, err)
	}
}
