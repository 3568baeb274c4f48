package aiptest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// CheckRecords fails for every record in what a command has written that is not
// as docs/schema says. A record is a line that is one JSON object with a type;
// other lines are passed over. The schemas leave room for fields of later
// versions; here there is none.
func CheckRecords(t testing.TB, written string) {
	t.Helper()
	all, err := recordSchemas()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(written) {
		if err := all.check(line); err != nil {
			t.Errorf("%v: %.2000s", err, line)
		}
	}
}

// CheckOutput is CheckRecords for a command line that asks for records and for
// all of each.
func CheckOutput(t testing.TB, args []string, streams ...string) {
	t.Helper()
	if !asksForRecords(args) {
		return
	}
	for _, s := range streams {
		CheckRecords(t, s)
	}
}

func asksForRecords(args []string) bool {
	has := func(words ...string) bool {
		return slices.ContainsFunc(args, func(a string) bool { return slices.Contains(words, a) })
	}
	return has("json", "jsonl", "-ojson", "-ojsonl", "--output=json", "--output=jsonl") && !has("--jq")
}

// schemas are the schemas of records by their type.
type schemas map[string]*jsonschema.Schema

// recordSchemas reads the schemas once for all tests of a package.
var recordSchemas = sync.OnceValues(func() (schemas, error) {
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(root, "docs", "schema", "v1", "*.schema.json"))
	if err != nil {
		return nil, err
	}
	all := schemas{}
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(src))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".schema.json")
		closed(doc)
		c := jsonschema.NewCompiler()
		if err := c.AddResource(name, doc); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if all[name], err = c.Compile(name); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("there are no schemas of records in docs/schema")
	}
	return all, nil
})

// closed refuses fields that a schema does not name.
func closed(schema any) {
	s, ok := schema.(map[string]any)
	if !ok {
		return
	}
	closed(s["items"])
	properties, ok := s["properties"].(map[string]any)
	if !ok {
		return
	}
	for _, p := range properties {
		closed(p)
	}
	if _, said := s["additionalProperties"]; !said {
		s["additionalProperties"] = false
	}
}

func (all schemas) check(line string) error {
	if !strings.HasPrefix(line, "{") {
		return nil
	}
	var head struct {
		V    int    `json:"v"`
		Type string `json:"type"`
	}
	if err := json.Unmarshal([]byte(line), &head); err != nil || head.Type == "" {
		return nil // whoever expects JSON there will say so
	}
	schema := all[head.Type]
	if schema == nil {
		return fmt.Errorf("docs/schema knows no record of type %q", head.Type)
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(line))
	if err != nil {
		return err
	}
	if err := schema.Validate(v); err != nil {
		return fmt.Errorf("a record of type %s is not as docs/schema says: %w", head.Type, err)
	}
	return nil
}
