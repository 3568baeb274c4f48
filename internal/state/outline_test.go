package state

import (
	"bytes"
	"context"
	stdjson "encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// outlined is what an outline has to say of an action, in a form that compares.
func outlined(v *View) []string {
	var out []string
	for _, a := range v.Actions() {
		capability, verdict := "-", "-"
		if a.Intent != nil {
			capability = a.Intent.CapabilityID
		}
		if a.Settled != nil {
			verdict = a.Settled.Verdict
		}
		out = append(out, fmt.Sprint(a.ID, capability, a.IntentAt.UTC(), a.Last.At.UTC(), a.Last.Type, a.NotSent != nil, a.Submitted,
			a.ResponseIDs, a.ApprovalIDs, verdict, a.SettledAt.UTC()))
	}
	return out
}

// compareOutline reads the same bytes both ways.
func compareOutline(t *testing.T, content []byte, limit int) Report {
	t.Helper()
	recs, rep := scanAll(t, content, limit)
	full, _ := newView(recs)
	short, err := outline(t.Context(), bytes.NewReader(content), limit)
	if err != nil {
		t.Fatal(err)
	}
	brief, _ := newView(short)
	if want, got := outlined(full), outlined(brief); !slices.Equal(got, want) && rep.Sound() {
		t.Fatalf("the outline says\n%s\nand the view\n%s\nof\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"), content)
	}
	return rep
}

// anyRecord makes a record of few ids and times, so that much of it collides.
func anyRecord(r *rand.Rand) Record {
	rec := Record{V: Version, ID: fmt.Sprintf("%032x", r.IntN(60)), At: t0.Add(time.Duration(r.IntN(30)) * time.Second), ActionID: fmt.Sprintf("act_%d", r.IntN(5))}
	switch r.IntN(9) {
	case 0:
		rec.Type, rec.Intent = TypeIntent, &Intent{CapabilityID: fmt.Sprintf("cap:hermes_agent:lab%d:chat", r.IntN(3)), InputHash: "sha256:1"}
	case 1:
		rec.Type, rec.NotSent = TypeNotSent, &NotSent{Class: 3, InputHash: "sha256:1", Reason: "said \"no\""}
	case 2:
		rec.Type, rec.Submitted = TypeSubmitted, &Submitted{Mode: "sync"}
	case 3, 4:
		rec.Type, rec.Cursor = TypeCursor, &Cursor{URL: "http://127.0.0.1", Cursor: "aev_cursor_1_1"}
	case 5:
		rec.Type, rec.Response = TypeResponse, &Response{ResponseID: fmt.Sprintf("resp_%d", r.IntN(3))}
	case 6:
		rec.Type, rec.Approval = TypeApproval, &Approval{ApprovalID: fmt.Sprintf("appr_%d", r.IntN(3))}
	case 7:
		rec.Type, rec.Decision = TypeDecision, &Decision{ApprovalID: fmt.Sprintf("appr_%d", r.IntN(3)), DecisionID: "dec_1", Decision: "deny"}
	case 8:
		verdict := []string{"accepted", "conflict", "unknown"}[r.IntN(3)]
		rec.Type, rec.Settled = TypeSettled, &Settled{Verdict: verdict, Missing: r.IntN(2), Checks: map[string]string{"terminal": []string{"pass", "missing"}[r.IntN(2)]}}
	}
	return rec
}

// spelled writes a record as this version does, or in another way that means
// the same.
func spelled(t *testing.T, r *rand.Rand, rec Record) []byte {
	t.Helper()
	line, err := json.Marshal(rec, json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	v := jsontext.Value(line)
	switch r.IntN(8) {
	case 0:
		err = v.Canonicalize() // names in the order of the alphabet
	case 1:
		err = v.Format(jsontext.Multiline(false), jsontext.SpaceAfterColon(true), jsontext.SpaceAfterComma(true))
	case 2:
		v = append(jsontext.Value(" \t"), append(v, '\r')...)
	case 3:
		v = bytes.Replace(v, []byte(`"action_id"`), []byte(`"\u0061ction_id"`), 1)
	case 4:
		v = append(bytes.TrimSuffix(v, []byte("}")), `,"later":{"verdict":"x"}}`...)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestOutlineSaysWhatTheViewSays reads files of whole records in any order and
// spelling, repeated, and with what no record stands in.
func TestOutlineSaysWhatTheViewSays(t *testing.T) {
	files, err := filepath.Glob("testdata/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, name := range files {
		compareOutline(t, read(t, name), maxRecord)
	}
	soundRuns := 0
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		var content []byte
		for range r.IntN(25) {
			line := spelled(t, r, anyRecord(r))
			switch r.IntN(40) {
			case 0:
				line = line[:r.IntN(len(line))] // a write that was cut, joined to the next
				content = append(content, line...)
				continue
			case 1:
				line = []byte("junk")
			}
			content = append(append(content, line...), '\n')
		}
		recs, rep := scanAll(t, content, maxRecord)
		if compareOutline(t, content, maxRecord); rep.Sound() {
			soundRuns++
		}
		// A torn or joined line is no reason to differ either.
		full, _ := newView(recs)
		short, _ := outline(t.Context(), bytes.NewReader(content), maxRecord)
		if brief, _ := newView(short); distinctIDs(recs) && !slices.Equal(outlined(brief), outlined(full)) {
			t.Fatalf("seed %d: the outline differs:\n%s", seed, content)
		}
	}
	if soundRuns < 100 {
		t.Errorf("only %d of 400 files were sound", soundRuns)
	}
}

// FuzzOutline reads anything both ways; where the view calls the file sound,
// the outline says the same.
func FuzzOutline(f *testing.F) {
	whole, err := os.ReadFile("testdata/sound.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	for line := range bytes.Lines(whole) {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		compareOutline(t, content, smallLine)
		compareOutline(t, content, maxRecord)
	})
}

func TestOutlineOfWhatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	if v, err := New(filepath.Join(dir, "none", "state.jsonl")).Outline(t.Context()); err != nil || len(v.Actions()) != 0 {
		t.Errorf("no file: %v, %v", v, err)
	}
	if v, err := New(dir).Outline(t.Context()); err == nil || len(v.Actions()) != 0 {
		t.Errorf("a folder: %v, %v", v, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if v, err := New("testdata/sound.jsonl").Outline(ctx); err == nil || len(v.Actions()) != 0 {
		t.Errorf("nobody wants it: %v, %v", v, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("reading left %v, %v", entries, err)
	}
}

// BenchmarkNames compares, over one file of 10,000 actions, the outline that
// completion reads with what encoding/json needs to read the file.
func BenchmarkNames(b *testing.B) {
	f := tenThousand(b)
	b.Run("outline", func(b *testing.B) {
		for b.Loop() {
			if v, err := f.Outline(b.Context()); err != nil || len(v.Actions()) != 10_000 {
				b.Fatal(err)
			}
		}
	})
	b.Run("encoding-json", func(b *testing.B) {
		for b.Loop() {
			file, err := os.Open(f.Path())
			if err != nil {
				b.Fatal(err)
			}
			n, dec := 0, stdjson.NewDecoder(file)
			for dec.More() {
				var rec Record
				if err := dec.Decode(&rec); err != nil {
					b.Fatal(err)
				}
				n++
			}
			file.Close()
			if n != 60_000 {
				b.Fatal(n)
			}
		}
	})
}
