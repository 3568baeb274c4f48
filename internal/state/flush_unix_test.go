//go:build unix

package state

import (
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/aipctl/aipctl/internal/fault"
)

// While an intent is flushed, the lock is free: what another writer does then,
// it does at once, and what it wrote is never taken back with an intent that
// the disk refuses.
func TestFlushKeepsNobodyWaiting(t *testing.T) {
	refused := errors.New("input/output error")
	other := func(path string) *File { return New(path, WithLockTimeout(time.Millisecond)) }
	for _, tt := range []struct {
		rule      string
		meanwhile func(t *testing.T, path string) error
		disk      error
		kept      []string // actions that the file knows in the end
	}{
		{"another record", func(t *testing.T, path string) error {
			return other(path).RecordIntent(t.Context(), "act_2", Intent{}, true)
		}, nil, []string{"act_0", "act_1", "act_2"}},
		{"nothing, and the disk refuses", func(*testing.T, string) error { return nil }, refused, []string{"act_0"}},
		{"another record, and the disk refuses", func(t *testing.T, path string) error {
			return other(path).RecordIntent(t.Context(), "act_2", Intent{}, true)
		}, refused, []string{"act_0", "act_1", "act_2"}},
		{"a rewrite that drops nothing, and the disk refuses", func(t *testing.T, path string) error {
			_, err := other(path).Rewrite(t.Context(), nil)
			return err
		}, refused, []string{"act_0", "act_1"}},
		{"another file of the same size, and the disk refuses", func(t *testing.T, path string) error {
			was := read(t, path)
			return errors.Join(os.Rename(path, path+".old"), os.WriteFile(path, was, 0o600))
		}, refused, []string{"act_0", "act_1"}},
		{"a removed file, and the disk refuses", func(_ *testing.T, path string) error { return os.Remove(path) }, refused, nil},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			f := New(tempFile(t))
			if err := f.RecordIntent(t.Context(), "act_0", Intent{}, true); err != nil {
				t.Fatal(err)
			}
			flushed := 0
			f.syncFile = func(*os.File) error {
				flushed++
				if err := tt.meanwhile(t, f.Path()); err != nil {
					t.Errorf("meanwhile: %v", err)
				}
				return tt.disk
			}
			err := f.RecordIntent(t.Context(), "act_1", Intent{}, true)
			if tt.disk == nil && err != nil {
				t.Error(err)
			}
			if tt.disk != nil {
				wantFault(t, err, fault.State, "state.unwritable")
			}
			if flushed != 1 {
				t.Errorf("flushed %d times", flushed)
			}
			v, rep := load(t, f.Path())
			if got := ids(v); !rep.Sound() || !slices.Equal(got, tt.kept) {
				t.Errorf("the file knows %v, want %v (%+v)", got, tt.kept, rep)
			}
			// Whatever stayed is an intent like any other: its id is taken.
			f.syncFile = (*os.File).Sync
			err = f.RecordIntent(t.Context(), "act_1", Intent{}, true)
			if v.Action("act_1") != nil {
				wantFault(t, err, fault.Usage, "state.duplicate_intent")
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}
