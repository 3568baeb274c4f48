package state

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/aipctl/aipctl/internal/userfile"
)

// Merged says what [File.Merge] did.
type Merged struct {
	Added  int    // lines that were not there before
	Source Report // of the file they came from
}

// Merge appends every line of another state file that this one does not have,
// lines of newer versions included, and flushes them. The other file is only
// read, without its lock; its damaged lines stay behind, and the records in
// them come along. Errors are of class [fault.State].
func (f *File) Merge(ctx context.Context, other string) (Merged, error) {
	var lines []rawLine
	src := New(other)
	rep, err := src.each(ctx, func(l rawLine) { lines = append(lines, l) })
	if err != nil {
		return Merged{Source: Report{Path: other}}, err
	}
	done := Merged{Source: rep}
	err = f.locked(ctx, func(w *writer) error {
		have := make(map[string]struct{})
		if _, err := w.scan(ctx, nil, func(k kind, rec *Record, raw []byte) {
			have[newRawLine(k, rec, raw).key()] = struct{}{}
		}); err != nil {
			return f.fault(ctx, "state.unreadable", "read", err)
		}
		var buf bytes.Buffer
		for _, l := range lines {
			if _, ok := have[l.key()]; ok {
				continue
			}
			have[l.key()] = struct{}{}
			buf.Write(l.text)
			buf.WriteByte('\n')
			done.Added++
		}
		if done.Added == 0 {
			return nil
		}
		return f.writeLines(w, buf.Bytes(), true)
	})
	if err != nil {
		done.Added = 0
	}
	return done, err
}

// Rewritten says what [File.Rewrite] did.
type Rewritten struct {
	Kept    int    // lines that are in the file now
	Dropped int    // records of dropped actions
	Backup  string // the untouched file, kept because it was damaged; empty when it was sound
}

// Rewrite puts a new file in the place of this one: every record once, lines
// of newer versions as they are, and nothing of the actions that drop asks to
// leave out; a nil drop leaves out none. Damaged lines are not taken over; the
// file that had them is kept beside it, under the name that is returned. The
// new file is complete on the disk before it takes the name, so that a crash
// leaves the old or the new one. Errors are of class [fault.State].
func (f *File) Rewrite(ctx context.Context, drop func(*Action) bool) (Rewritten, error) {
	var done Rewritten
	err := f.locked(ctx, func(w *writer) error {
		var lines []rawLine
		var recs []*Record
		rep, err := w.scan(ctx, nil, func(k kind, rec *Record, raw []byte) {
			l := newRawLine(k, rec, raw)
			lines = append(lines, l)
			if k == good {
				recs = append(recs, rec)
			}
		})
		if err != nil {
			return f.fault(ctx, "state.unreadable", "read", err)
		}
		view, _ := newView(recs)
		dropped := make(map[string]bool)
		for _, a := range view.Actions() {
			dropped[a.ID] = drop != nil && drop(a)
		}
		have := make(map[string]struct{})
		kept := lines[:0]
		for _, l := range lines {
			if _, again := have[l.key()]; again {
				continue
			}
			have[l.key()] = struct{}{}
			if l.kind == good && dropped[l.actionID] {
				done.Dropped++
				continue
			}
			kept = append(kept, l)
		}
		done.Kept = len(kept)
		path := w.file.Name()
		if len(rep.Damaged) > 0 {
			done.Backup = path + ".damaged-" + newRecordID()[:8]
			if err := f.keepCopy(w, path, done.Backup); err != nil {
				return f.fault(ctx, "state.unwritable", "copy", err)
			}
		}
		if err := f.replace(w, path, kept); err != nil {
			return f.fault(ctx, "state.unwritable", "replace", err)
		}
		return nil
	})
	if err != nil {
		return Rewritten{Backup: done.Backup}, err
	}
	return done, nil
}

// rawLine is a line that is copied as it stands.
type rawLine struct {
	kind     kind
	id       string
	actionID string
	text     []byte
}

func newRawLine(k kind, rec *Record, raw []byte) rawLine {
	return rawLine{kind: k, id: rec.ID, actionID: rec.ActionID, text: bytes.Clone(raw)}
}

// key tells repeats of a line: by the record id, and by the text where a newer
// version has no such thing.
func (l rawLine) key() string {
	if l.id != "" {
		return l.id
	}
	return string(l.text)
}

// each reads every line that is a record of this or a newer version.
func (f *File) each(ctx context.Context, visit func(rawLine)) (Report, error) {
	file, size, err := openRead(f.path)
	if err != nil {
		return Report{}, f.fault(ctx, "state.unreadable", "read", err)
	}
	defer func() { _ = file.Close() }() // read only: nothing can be lost
	ids := make(map[string]struct{})
	rep, err := scan(ctx, io.NewSectionReader(file, 0, size), maxRecord, nil, func(k kind, rec *Record, raw []byte) {
		if k == good {
			ids[rec.ID] = struct{}{}
		}
		visit(newRawLine(k, rec, raw))
	})
	if err != nil {
		return Report{}, f.fault(ctx, "state.unreadable", "read", err)
	}
	rep.Path, rep.Records, rep.Empty = f.path, len(ids), size == 0
	return rep, nil
}

// keepCopy gives the file a second name, or copies it where a file system has
// no hard links.
func (f *File) keepCopy(w *writer, path, backup string) error {
	if os.Link(path, backup) == nil {
		return nil
	}
	return f.create(backup, func(out io.Writer) error {
		_, err := io.Copy(out, io.NewSectionReader(w.file, 0, w.size))
		return err
	})
}

// replace writes the lines to a file of its own name and gives it the path.
func (f *File) replace(w *writer, path string, lines []rawLine) error {
	sweep(path)
	temp := path + "." + newRecordID()[:tempMark] + tempSuffix
	err := f.create(temp, func(out io.Writer) error {
		for _, l := range lines {
			if _, err := out.Write(append(l.text, '\n')); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	// Windows renames nothing over a file that is open.
	if err := w.close(); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	if err := userfile.Rename(temp, path); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return f.syncFolder(filepath.Dir(path))
}

const (
	tempSuffix = ".tmp"
	tempMark   = 16 // hex digits between the name of the file and tempSuffix
)

// sweep removes what a rewrite that was killed left beside path. It is called
// under the lock, so none of it is in use; what cannot be removed harms nobody.
func sweep(path string) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return
	}
	for _, e := range entries {
		mark, ok := strings.CutPrefix(e.Name(), filepath.Base(path)+".")
		mark, temp := strings.CutSuffix(mark, tempSuffix)
		if _, err := hex.DecodeString(mark); ok && temp && err == nil && len(mark) == tempMark && e.Type().IsRegular() {
			_ = os.Remove(filepath.Join(filepath.Dir(path), e.Name()))
		}
	}
}

// create writes a new file in full, flushed, or leaves none.
func (f *File) create(path string, fill func(io.Writer) error) error {
	file, err := userfile.Create(path)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(file)
	err = fill(out)
	if err == nil {
		err = out.Flush()
	}
	if err == nil {
		err = f.syncFile(file)
	}
	if cerr := file.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		if rerr := os.Remove(path); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
			return errors.Join(err, rerr)
		}
		return err
	}
	return nil
}
