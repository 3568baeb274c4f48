package state

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/aipctl/aipctl/internal/fault"
)

func TestMergeTakesWhatIsMissing(t *testing.T) {
	lines := bytes.SplitAfter(sound(t), []byte("\n"))
	newerLine := []byte(`{"v":2,"id":7}` + "\n")
	mine := place(t, slices.Concat(lines[0], lines[1], newerLine, []byte("torn {")))
	theirs := place(t, slices.Concat(lines[0][:100], []byte("\n"), newerLine, bytes.Join(lines[1:], nil), []byte(`{"v":3}`)))
	f := New(mine)
	got, err := f.Merge(t.Context(), theirs)
	if err != nil || got.Added != 13 || got.Source.Path != theirs || len(got.Source.Damaged) != 1 || got.Source.Newer != 2 {
		t.Fatalf("%+v %v", got, err)
	}
	v, rep := load(t, mine)
	want, _ := load(t, "testdata/sound.jsonl")
	if d := cmpViews(want, v); d != "" || rep.Newer != 2 || len(rep.Damaged) != 1 || rep.Records != 14 {
		t.Errorf("%+v (-want +got):\n%s", rep, d)
	}
	before := read(t, mine)
	for _, again := range []string{theirs, mine} {
		if got, err := f.Merge(t.Context(), again); err != nil || got.Added != 0 {
			t.Errorf("a second merge: %+v %v", got, err)
		}
	}
	if !bytes.Equal(before, read(t, mine)) {
		t.Error("a merge of nothing changed the file")
	}
	_, err = f.Merge(t.Context(), filepath.Join(t.TempDir(), "none"))
	wantFault(t, err, fault.State, "state.unreadable")
}

func TestRewriteLeavesOutWhatIsDroppedAndKeepsTheDamagedFile(t *testing.T) {
	whole := sound(t)
	content := slices.Concat(whole, []byte("junk "), whole, []byte(`{"v":2,"id":"n","action_id":"`+actPending+`"}`+"\n"), []byte(`{"v":1,"id":"to`))
	path := place(t, content)
	f := New(path)
	got, err := f.Rewrite(t.Context(), func(a *Action) bool { return a.ID == actPending })
	if err != nil || got.Kept != 10 || got.Dropped != 5 || got.Backup == "" {
		t.Fatalf("%+v %v", got, err)
	}
	if !bytes.Equal(read(t, got.Backup), content) {
		t.Error("the damaged file was not kept as it was")
	}
	v, rep := load(t, path)
	if len(rep.Damaged) != 0 || rep.Newer != 1 || rep.Records != 9 || !slices.Equal(ids(v), []string{actSettled, actNotSent}) {
		t.Errorf("%+v %v", rep, ids(v))
	}
	// A file opened before goes on under the same name.
	if err := f.RecordIntent(t.Context(), "act_chosen", Intent{}, true); err != nil {
		t.Error(err)
	}
	got, err = f.Rewrite(t.Context(), nil)
	if err != nil || got.Kept != 11 || got.Dropped != 0 || got.Backup != "" {
		t.Errorf("a sound file: %+v %v", got, err)
	}
	left, _ := os.ReadDir(filepath.Dir(path))
	if len(left) != 3 { // the file, its lock and the backup
		t.Errorf("left %v", left)
	}
}

func TestRewriteSweepsWhatAKilledOneLeft(t *testing.T) {
	path := place(t, sound(t))
	names := map[string]bool{ // and whether it stays
		".0123456789abcdef.tmp": false, ".0123456789abcdeg.tmp": true, ".0123456789abcd.tmp": true,
		".tmp": true, ".0123456789abcdef": true, ".lock.0123456789abcdef.tmp": true,
	}
	for name := range names {
		if err := os.WriteFile(path+name, []byte("half a li"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := New(path).Rewrite(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for name, stays := range names {
		if _, err := os.Stat(path + name); (err == nil) != stays {
			t.Errorf("%s: %v, want it to stay: %v", name, err, stays)
		}
	}
}
