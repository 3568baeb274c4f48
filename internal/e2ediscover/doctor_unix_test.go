//go:build unix

package e2ediscover_test

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestTheDoctorLooksAtModes: what lets others at a secret or at the state, and
// the command that shuts them out.
func TestTheDoctorLooksAtModes(t *testing.T) {
	if os.Geteuid() != 0 {
		c := newClinic(t)
		if err := os.Chmod(c.path("state/state.jsonl"), 0o400); err != nil {
			t.Fatal(err)
		}
		if f, got := c.examine(); got.code != 14 || !strings.Contains(f.Checks[len(f.Checks)-1].Detail, "permission denied") {
			t.Errorf("%d %s", got.code, got.stdout)
		}
	}
	for _, c := range []struct {
		name   string
		mode   os.FileMode
		check  string
		status string
		exit   int
		fix    string
	}{
		{"token", 0o644, "token", "fail", 4, "chmod 600"},
		{"state/state.jsonl", 0o644, "state", "warn", 0, "`chmod 600 "},
		{"state", 0o777, "state", "warn", 0, "`chmod go-w "},
		{"state", 0o755, "state", "ok", 0, ""},
	} {
		clinic := newClinic(t)
		if err := os.Chmod(clinic.path(c.name), c.mode); err != nil {
			t.Fatal(err)
		}
		f, got := clinic.examine()
		i := slices.IndexFunc(f.Checks, func(x finding) bool { return x.Name == c.check })
		if x := f.Checks[i]; got.code != c.exit || x.Status != c.status || !strings.Contains(x.Fix, c.fix) {
			t.Errorf("%s %04o: exit %d, %+v", c.name, c.mode, got.code, x)
		}
	}
}
