package contract

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// outOfReach are the groups of the suite whose schemas lead out of the document
// or depend on the way they were reached: such a schema is not judged, which is
// said, and never judged wrong.
const outOfReach = 37

// TestTheSuiteOfTheDraft runs the official tests of draft 2020-12. Each schema
// is judged exactly as the suite has it, or is said not to be judged.
func TestTheSuiteOfTheDraft(t *testing.T) {
	files, err := filepath.Glob("testdata/suite/*.json")
	if err != nil || len(files) < 40 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	unjudged, judged := 0, 0
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var groups []struct {
			Description string
			Schema      jsontext.Value
			Tests       []struct {
				Description string
				Data        jsontext.Value
				Valid       bool
			}
		}
		if err := json.Unmarshal(raw, &groups); err != nil {
			t.Fatal(err)
		}
		for _, g := range groups {
			s, err := Compile(g.Schema)
			if errors.Is(err, ErrUnsupported) {
				unjudged++
				continue
			}
			if err != nil {
				t.Errorf("%s: %s: %v", filepath.Base(file), g.Description, err)
				continue
			}
			for _, c := range g.Tests {
				judged++
				got, err := s.Check(c.Data)
				if err != nil || (len(got) == 0) != c.Valid {
					t.Errorf("%s: %s: %s: %v %v, valid is %v", filepath.Base(file), g.Description, c.Description, got, err, c.Valid)
				}
			}
		}
	}
	if judged < 900 {
		t.Errorf("only %d inputs were judged", judged)
	}
	if unjudged != outOfReach {
		t.Errorf("%d groups are not judged, %d are known to be out of reach", unjudged, outOfReach)
	}
}
