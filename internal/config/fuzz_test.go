package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/aipctl/aipctl/internal/fault"
)

// FuzzChange: whatever stands in the file, reading it ends with contexts or
// with an error that says where and what to do, and a change either does what
// was asked, and nothing else, or leaves the file alone.
func FuzzChange(f *testing.F) {
	corpus, err := filepath.Glob(filepath.Join("testdata", "*.toml"))
	if err != nil || len(corpus) < 5 {
		f.Fatalf("the corpus has %d files, %v", len(corpus), err)
	}
	for _, name := range corpus {
		src, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(src), "lab", "http://x")
	}
	f.Fuzz(func(t *testing.T, src, name, value string) {
		file := fileWith(t, src)
		file.syncFile, file.syncFolder = func(*os.File) error { return nil }, func(string) error { return nil }
		was, err := file.Load()
		if err != nil {
			if e := fault.As(err); e == nil || e.Class != fault.Usage || e.Hint == "" || !strings.Contains(e.Message, file.path) {
				t.Fatalf("an error that helps nobody: %v", err)
			}
		}
		now, changeErr := file.Set(t.Context(), name, map[string]string{"url": value})
		if changeErr != nil {
			if content(t, file) != src {
				t.Fatalf("the change failed, and the file is another: %v", changeErr)
			}
			return
		}
		if err != nil {
			t.Fatalf("what could not be read was changed: %v", err)
		}
		for _, other := range was.Names() {
			a, _ := was.Get(other)
			b, _ := now.Get(other)
			if other == name {
				a.URL = value
			}
			if a != b {
				t.Errorf("context %s was %+v and is %+v", other, a, b)
			}
		}
		if x, err := now.Get(name); err != nil || x.URL != value {
			t.Errorf("got %+v, %v, want URL %q", x, err, value)
		}
		again, err := file.Load()
		if err != nil || !reflect.DeepEqual(again.byName, now.byName) || again.Current != now.Current {
			t.Errorf("what was written reads as %+v, %v", again, err)
		}
	})
}
