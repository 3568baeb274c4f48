package aiptest

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Testdata returns the absolute path of a file or folder below the module's
// testdata folder, whatever package the test runs in. The test fails where it
// does not exist.
func Testdata(t testing.TB, elem ...string) string {
	t.Helper()
	p := filepath.Join(append([]string{ModuleRoot(t), "testdata"}, elem...)...)
	if _, err := os.Stat(p); err != nil {
		t.Fatalf("testdata: %v", err)
	}
	return p
}

// ModuleRoot returns the folder of go.mod above the test's working directory.
func ModuleRoot(t testing.TB) string {
	t.Helper()
	dir, err := moduleRoot()
	if err != nil {
		t.Fatalf("module root: %v", err)
	}
	return dir
}

func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("no go.mod above the working directory")
		}
		dir = up
	}
}

// CaseDir returns the path of a folder of testdata/cases.
func CaseDir(t testing.TB, name string) string {
	t.Helper()
	return Testdata(t, "cases", name)
}

// Cases returns the names of all folders of testdata/cases in lexical order,
// never none.
func Cases(t testing.TB) []string {
	t.Helper()
	entries, err := os.ReadDir(Testdata(t, "cases"))
	if err != nil {
		t.Fatalf("cases: %v", err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	if len(names) == 0 {
		t.Fatal("cases: the folder is empty")
	}
	return names
}

// Stream returns a recording of testdata/streams: its chunks, one JSON object
// each in the order they were published, and the ActionResult, bare.
func Stream(t testing.TB, name string) (chunks [][]byte, result []byte) {
	t.Helper()
	src, err := os.ReadFile(Testdata(t, "streams", name+".jsonl"))
	if err != nil {
		t.Fatalf("stream: %v", err)
	}
	lines := bytes.Split(bytes.TrimSpace(src), []byte("\n"))
	last := len(lines) - 1
	if len(lines[last]) == 0 {
		t.Fatalf("stream %s is empty", name)
	}
	return lines[:last], lines[last]
}

// Row is one line of a table, by the names of its columns.
type Row struct {
	t     testing.TB
	table string
	cells map[string]string
}

// Get returns a cell; "-" stands for absent and is returned as "". A column the
// table does not have fails the test.
func (r Row) Get(column string) string {
	r.t.Helper()
	v, ok := r.cells[column]
	if !ok {
		r.t.Fatalf("table %s has no column %q", r.table, column)
	}
	if v == "-" {
		return ""
	}
	return v
}

// Table reads a table of the testdata folder (for instance "codes.tsv"): one
// line of column names, then one line a row, cells apart by one tab. A line
// with another number of cells, or a table without rows, fails the test.
func Table(t testing.TB, name string) []Row {
	t.Helper()
	f, err := os.Open(Testdata(t, name))
	if err != nil {
		t.Fatalf("table: %v", err)
	}
	defer f.Close()
	var head []string
	var rows []Row
	in := bufio.NewScanner(f)
	for n := 1; in.Scan(); n++ {
		cells := strings.Split(in.Text(), "\t")
		if head == nil {
			head = cells
			continue
		}
		if len(cells) != len(head) {
			t.Fatalf("table %s: line %d has %d cells, the head has %d", name, n, len(cells), len(head))
		}
		r := Row{t, name, make(map[string]string, len(head))}
		for i, c := range cells {
			r.cells[head[i]] = c
		}
		rows = append(rows, r)
	}
	if err := in.Err(); err != nil {
		t.Fatalf("table %s: %v", name, err)
	}
	if len(rows) == 0 {
		t.Fatalf("table %s has no rows", name)
	}
	return rows
}
