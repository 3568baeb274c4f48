package aiptest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"github.com/aipctl/aipctl/internal/fault"
)

// The tables judge the program, so their own slips must not pass: a verdict and
// its number agree, and no two rows answer one question.
func TestTablesAgreeWithTheExitTable(t *testing.T) {
	code := map[string]int{}
	for _, e := range fault.Exits() {
		if e.Class < 128 {
			code[e.Name] = e.Class.Code()
		}
	}
	for table, verdict := range map[string]string{
		"scenarios.tsv": "verdict", "flips.tsv": "verdict", "codes.tsv": "verdict", "submit_answers.tsv": "reading",
	} {
		for i, r := range Table(t, table) {
			v := r.Get(verdict)
			want, ok := code[v]
			if v == "uncertain" && r.Get("exit_code") == "" {
				continue
			}
			if got, err := strconv.Atoi(r.Get("exit_code")); err != nil || !ok || got != want {
				t.Errorf("%s row %d: %s with exit code %q", table, i+1, v, r.Get("exit_code"))
			}
		}
	}
}

func TestTableRowsAskDifferentQuestions(t *testing.T) {
	for table, key := range map[string][]string{
		"scenarios.tsv":      {"scenario"},
		"flips.tsv":          {"flip"},
		"codes.tsv":          {"code", "status", "operation", "uncertain_outcome", "remote_status", "last_named"},
		"submit_answers.tsv": {"http_status", "body", "code", "extra"},
	} {
		seen := map[string]bool{}
		for _, r := range Table(t, table) {
			k := ""
			for _, column := range key {
				k += fmt.Sprintf("%q", r.Get(column))
			}
			if seen[k] {
				t.Errorf("%s asks twice about %s", table, k)
			}
			seen[k] = true
		}
	}
}

func TestStreamsSplitIntoChunksAndResult(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(Testdata(t, "streams"), "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no streams (%v)", err)
	}
	for _, f := range files {
		name := filepath.Base(f)
		chunks, result := Stream(t, name[:len(name)-len(".jsonl")])
		for i, c := range append(chunks, result) {
			var v struct {
				Kind   string `json:"kind"`
				Status string `json:"status"`
			}
			if err := json.Unmarshal(c, &v); err != nil {
				t.Errorf("%s line %d: %v", name, i+1, err)
			}
			if last := i == len(chunks); last != (v.Status != "") || last == (v.Kind != "") {
				t.Errorf("%s line %d has kind %q and status %q", name, i+1, v.Kind, v.Status)
			}
		}
	}
}

// fatalSpy records a fatal error of a goroutine of its own.
type fatalSpy struct {
	testing.TB
	fatal string
}

func (s *fatalSpy) Helper() {}
func (s *fatalSpy) Fatal(args ...any) {
	s.fatal = fmt.Sprint(args...)
	runtime.Goexit()
}
func (s *fatalSpy) Fatalf(format string, args ...any) { s.Fatal(fmt.Sprintf(format, args...)) }

// fatal runs f as a test would and returns what stopped it.
func fatal(t *testing.T, f func(testing.TB)) string {
	s := &fatalSpy{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(s)
	}()
	<-done
	return s.fatal
}

func TestBrokenTableFails(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":             "module x\n",
		"testdata/cells.tsv": "a\tb\n1\n",
		"testdata/empty.tsv": "a\tb\n",
		"testdata/good.tsv":  "a\tb\n1\t-\n",
	} {
		p := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	for _, name := range []string{"cells.tsv", "empty.tsv", "nowhere.tsv"} {
		if fatal(t, func(tb testing.TB) { Table(tb, name) }) == "" {
			t.Errorf("%s was read", name)
		}
	}
	row := Table(t, "good.tsv")[0]
	if row.Get("a") != "1" || row.Get("b") != "" {
		t.Errorf("read %q and %q", row.Get("a"), row.Get("b"))
	}
	if fatal(t, func(tb testing.TB) { Table(tb, "good.tsv")[0].Get("c") }) == "" {
		t.Error("a column that is not there was read")
	}
	if fatal(t, func(tb testing.TB) { Cases(tb) }) == "" {
		t.Error("cases were found where there are none")
	}
}
