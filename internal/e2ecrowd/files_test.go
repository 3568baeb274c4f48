//go:build unix

package e2ecrowd

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// fixture reads a file of testdata. old.jsonl has one action of each condition
// from the year 2020: three are settled (accepted, not_sent, failed), with seven
// records, and four are not.
func fixture(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// put makes the state file of the home.
func (h *home) put(content []byte) {
	h.t.Helper()
	if err := os.MkdirAll(filepath.Dir(h.stateFile()), 0o700); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(h.stateFile(), content, 0o600); err != nil {
		h.t.Fatal(err)
	}
}

var (
	oldSettled   = []string{"act_old.accepted", "act_old.elsewhere", "act_old.not_sent"}
	oldUnsettled = []string{"act_old.followed", "act_old.pending", "act_old.unknown", "act_old.unsettled"}
)

// wantUnsettledKept fails unless of old.jsonl exactly the unsettled actions are
// left.
func (h *home) wantUnsettledKept() {
	h.t.Helper()
	known := map[string]bool{}
	for _, r := range h.records() {
		known[r.ActionID] = true
	}
	for _, id := range oldUnsettled {
		if !known[id] {
			h.t.Errorf("%s is not settled, and was dropped", id)
		}
	}
	for _, id := range oldSettled {
		if known[id] {
			h.t.Errorf("%s is settled and old, and was kept", id)
		}
	}
	if h.wantSound(); slices.Equal(h.bytes(), fixture(h.t, "old.jsonl")) {
		h.t.Error("the file was not rewritten")
	}
}
