package state

import (
	"bytes"
	"os"
	"slices"
	"testing"
)

// smallLine makes short inputs reach what is meant for lines of a megabyte.
const smallLine = 600

func scanAll(t *testing.T, content []byte, limit int) ([]*Record, Report) {
	t.Helper()
	var recs []*Record
	rep, err := scan(t.Context(), bytes.NewReader(content), limit, nil, func(k kind, r *Record, _ []byte) {
		if k == good {
			recs = append(recs, r)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return recs, rep
}

func has(recs []*Record, id string) bool {
	return slices.ContainsFunc(recs, func(r *Record) bool { return r.ID == id })
}

// FuzzRead reads anything. Nothing panics, every damage lies in the file, and
// what is found can be written again and be found the same.
func FuzzRead(f *testing.F) {
	whole, err := os.ReadFile("testdata/sound.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add(append([]byte("junk"), whole...))
	f.Fuzz(func(t *testing.T, content []byte) {
		for _, limit := range []int{smallLine, maxRecord} {
			recs, rep := scanAll(t, content, limit)
			lines := 1 + bytes.Count(content, []byte("\n"))
			if rep.Lines > lines || len(rep.Damaged) > rep.Lines {
				t.Fatalf("%d lines are reported as %+v", lines, rep)
			}
			for _, d := range rep.Damaged {
				if d.Line < 1 || d.Line > lines || d.Offset < 0 || d.Offset >= int64(len(content)) || d.Why == "" {
					t.Fatalf("damage %+v", d)
				}
				if d.Offset > 0 && content[d.Offset-1] != '\n' {
					t.Fatalf("no line begins at byte %d", d.Offset)
				}
			}
			if rep.Torn && (content[len(content)-1] == '\n' || len(rep.Damaged) == 0) {
				t.Fatalf("torn: %+v", rep)
			}
			one, _ := newView(recs)
			slices.Reverse(recs)
			if two, _ := newView(recs); distinctIDs(recs) && cmpViews(one, two) != "" {
				t.Fatal("the view depends on the order of lines")
			}
		}
	})
}

func distinctIDs(recs []*Record) bool {
	seen := map[string]bool{}
	for _, r := range recs {
		if seen[r.ID] {
			return false
		}
		seen[r.ID] = true
	}
	return true
}

// FuzzWholeLinesAreNeverLost puts anything before, between and behind whole
// records: on lines of its own, and before a record on the same line.
func FuzzWholeLinesAreNeverLost(f *testing.F) {
	f.Add([]byte("}"), []byte("[]"), []byte(`{"v":1,"id":"to`))
	f.Add([]byte(`{"v":`), bytes.Repeat([]byte("x"), smallLine+1), []byte("\x00\x00"))
	f.Add([]byte(`{"v":2,"what":`), []byte(`"\`), []byte(`{"x":{"y":[`))
	whole, err := os.ReadFile("testdata/sound.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	lines := bytes.SplitAfter(whole, []byte("\n"))
	first, second := lines[1], lines[2]
	f.Fuzz(func(t *testing.T, a, b, c []byte) {
		const firstID, secondID = "00000000000000000000000000000002", "00000000000000000000000000000003"
		own := slices.Concat(a, []byte("\n"), first, b, []byte("\n"), second, c)
		joined := slices.Concat(a, first, b, second)
		for rule, content := range map[string][]byte{"on lines of their own": own, "behind junk on the same line": joined} {
			for _, limit := range []int{smallLine, maxRecord} {
				recs, _ := scanAll(t, content, limit)
				if !has(recs, firstID) || !has(recs, secondID) {
					t.Fatalf("%s, limit %d: a record is lost in %q", rule, limit, content)
				}
			}
		}
	})
}
