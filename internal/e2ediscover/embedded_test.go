package e2ediscover_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/aipctl/aipctl/internal/contract"
	"github.com/go-json-experiment/json/jsontext"
)

// TestTheEmbeddedDaemonIsUnderstood: its catalogue was written from the
// protocol by somebody else. Every schema in it compiles, every capability can
// be described, and a call is held to what it publishes.
func TestTheEmbeddedDaemonIsUnderstood(t *testing.T) {
	c := newClinic(t)
	list := c.run("capability", "list", "-o", "jsonl")
	if list.code != 0 {
		t.Fatalf("%d %s", list.code, list.stderr)
	}
	operations := map[string]string{}
	for line := range strings.Lines(list.stdout) {
		var rec struct {
			Source     string
			Capability struct {
				ID          string
				InputSchema jsontext.Value `json:"input_schema"`
				Bindings    []struct{ Operation string }
			}
		}
		if err := json.Unmarshal([]byte(line), &rec); err != nil {
			t.Fatal(err)
		}
		if _, err := contract.Compile(rec.Capability.InputSchema); err != nil || rec.Source != "catalogue" || len(rec.Capability.Bindings) == 0 {
			t.Errorf("%s: %v", line, err)
			continue
		}
		operations[rec.Capability.Bindings[0].Operation] = rec.Capability.ID
	}
	if len(operations) < 5 {
		t.Fatalf("only the operations %v", operations)
	}
	for operation, id := range operations {
		got := c.run("capability", "describe", id)
		for _, field := range []string{id + "\n", "\nrisk ", "\nmodes ", "\napproval ", "\nkey ", "\nretry ", "\ntimeout ", "\neffects ", "\ndata "} {
			if got.code != 0 || !strings.Contains(got.stdout, field) {
				t.Errorf("%s: %d, without %q: %s%s", operation, got.code, field, got.stdout, got.stderr)
			}
		}
		if !strings.Contains(got.stdout, "\nINPUT ") && !strings.Contains(got.stdout, "\nThe input has no members that the schema names.\n") {
			t.Errorf("%s: says nothing of its input: %s", operation, got.stdout)
		}
		if strings.Contains(got.stdout, "not said") || strings.Contains(got.stdout, "cannot be used") {
			t.Errorf("%s: %s", operation, got.stdout)
		}
	}
	if got := c.call("require"); got.code != 0 || strings.Contains(got.stderr, "checked against") {
		t.Errorf("%d %s", got.code, got.stderr)
	}
	before := c.front.requests("POST ")
	if got := c.call("require", "--input", `{"prompt":"Hi","session_id":"s","max_tokens":"many"}`); got.code != 2 || !strings.Contains(got.stderr, "/max_tokens is a string, not integer") || c.front.requests("POST ") != before {
		t.Errorf("%d %s", got.code, got.stderr)
	}
	c.front.catalogue = disabled
	if got := c.run("capability", "list"); got.code != 0 || !strings.Contains(got.stderr, "this is the manifest") {
		t.Errorf("%d %s%s", got.code, got.stdout, got.stderr)
	}
	c.front.manifest = http.NotFound
	if got := c.call("auto"); got.code != 0 || !strings.Contains(got.stderr, "checked against the built-in contract") {
		t.Errorf("%d %s", got.code, got.stderr)
	}
}
