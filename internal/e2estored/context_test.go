package e2estored_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/aipctl/aipctl/internal/devserver"
)

// A context names the endpoint of what the state file has not seen, and who
// decides.
func TestContextNamesEndpointAndApprover(t *testing.T) {
	t.Parallel()
	id := devserver.SeededResponses()["completed"]
	d, w := governed(t, devserver.Options{})
	w.env["AIPCTL_CONFIG"] = filepath.Join(t.TempDir(), "config.toml")
	set := func(args ...string) {
		t.Helper()
		if s := w.run(append([]string{"context", "set"}, args...)...); s.code != 0 {
			t.Fatalf("%v: exit code %d; stderr:\n%s", args, s.code, s.stderr)
		}
	}
	set("lab", "--url", d.URL, "--endpoint", "delete", "--principal", as(), "--tenant", "ours")
	if s := w.run("response", "get", id); s.code != 0 {
		t.Errorf("reading: exit code %d; stderr:\n%s", s.code, s.stderr)
	}
	s := w.run("response", "delete", id, "--yes", "-o", "json")
	o := document[outcome](t, s)
	if s.code != 8 {
		t.Fatalf("deleting: exit code %d; stderr:\n%s", s.code, s.stderr)
	}
	// The same deletion as a plain call is a second one.
	if s := w.run("action", "call", "response_delete", "--input", `{"body":{"response_id":"`+id+`"}}`); s.code != 2 || !strings.Contains(s.stderr, o.ActionID) {
		t.Errorf("a plain call: exit code %d; stderr:\n%s", s.code, s.stderr)
	}
	w.env["AIP_TOKEN"] = approverToken
	if s := w.run("approval", "deny", o.ApprovalID, "--reason", "because", "--yes"); s.code != 0 || !strings.Contains(s.stdout, "denied") {
		t.Errorf("deciding: exit code %d, stdout %s; stderr:\n%s", s.code, s.stdout, s.stderr)
	}
	if last := w.state("settled"); last[len(last)-1].Settled.Verdict != "rejected" || last[len(last)-1].ActionID != o.ActionID {
		t.Errorf("the verdict of the denied action is not recorded: %+v", last)
	}
	set("lab", "--principal", "just a name")
	if s := w.run("approval", "approve", "appr_a", "--yes"); s.code != 2 || !strings.Contains(s.stderr, "context lab") {
		t.Errorf("a principal that is none: exit code %d; stderr:\n%s", s.code, s.stderr)
	}
}
