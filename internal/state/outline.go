package state

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
)

// Outline reads what a list of names needs, in a fraction of the time of
// [File.Load], and waits for nobody: completion of a command line calls it at
// every key. The actions have an id, times, the capability of the intent, the
// verdict, and the ids of responses and approvals; other fields may be empty.
// A file that does not exist is an empty view. Errors are those of Load.
//
// Where every line is a record of this version or of none, it says of those
// fields what Load says. A line that begins and ends like a record and is
// damaged in between may be taken for one.
func (f *File) Outline(ctx context.Context) (*View, error) {
	file, size, err := openRead(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return &View{}, nil
	}
	if err != nil {
		return &View{}, f.fault(ctx, "state.unreadable", "read", err)
	}
	defer func() { _ = file.Close() }() // read only: nothing can be lost
	recs, err := outline(ctx, io.NewSectionReader(file, 0, size), maxRecord)
	if err != nil {
		return &View{}, f.fault(ctx, "state.unreadable", "read", err)
	}
	v, _ := newView(recs)
	return v, nil
}

func outline(ctx context.Context, r io.Reader, max int) ([]*Record, error) {
	var recs []*Record
	var o outliner
	skip := func(line []byte) bool {
		rec := o.read(line)
		if rec != nil {
			recs = append(recs, rec)
		}
		return rec != nil
	}
	_, err := scan(ctx, r, max, skip, func(k kind, rec *Record, _ []byte) {
		if k == good {
			recs = append(recs, rec)
		}
	})
	return recs, err
}

// outliner reads lines that are spelled as this version writes them.
type outliner struct {
	lastID string // most lines speak of the action of the line before
	block  []Record
}

// The beginnings of what this version writes, in its order of fields.
var (
	headID       = []byte(`{"v":1,"id":"`)
	headType     = []byte(`","type":"`)
	headAt       = []byte(`","at":"`)
	headActionID = []byte(`","action_id":"`)
	headNamed    = []byte(`","`)
	headObject   = []byte(`":{`)
	tail         = []byte(`}}`)
	missingName  = []byte(`"missing"`)
)

// Objects that say nothing here but that they are there.
var (
	someSubmitted = new(Submitted)
	someNotSent   = new(NotSent)
	someCursor    = new(Cursor)
)

// read returns the outline of a record, or nil for a line that has to be read
// in full: one that is spelled in another way, or of which more is wanted than
// stands at its beginning.
func (o *outliner) read(line []byte) *Record {
	if !bytes.HasSuffix(line, tail) || bytes.IndexByte(line, '\\') >= 0 || bytes.Contains(line[1:], marker) {
		return nil
	}
	rest, ok := bytes.CutPrefix(line, headID)
	id, rest := upTo(rest, headType, &ok)
	kind, rest := upTo(rest, headAt, &ok)
	at, rest := upTo(rest, headActionID, &ok)
	actionID, rest := upTo(rest, headNamed, &ok)
	named, object := upTo(rest, headObject, &ok)
	if !ok || len(id) == 0 || len(actionID) == 0 || !bytes.Equal(named, kind) {
		return nil
	}
	rec := o.next()
	if rec.At.UnmarshalText(at) != nil || rec.At.IsZero() {
		return nil
	}
	rec.V, rec.ID, rec.Type = Version, string(id), Type(kind)
	switch rec.Type {
	case TypeIntent:
		capability, ok := member(object, `"capability_id":"`)
		if !ok {
			return nil
		}
		rec.Intent = &Intent{CapabilityID: capability}
	case TypeSubmitted:
		rec.Submitted = someSubmitted
	case TypeNotSent:
		rec.NotSent = someNotSent
	case TypeCursor:
		rec.Cursor = someCursor
	case TypeResponse:
		response, ok := member(object, `"response_id":"`)
		if !ok {
			return nil
		}
		rec.Response = &Response{ResponseID: response}
	case TypeSettled:
		verdict, ok := member(object, `"verdict":"`)
		if !ok || bytes.Contains(object, missingName) {
			return nil // how many checks are missing decides between two verdicts
		}
		rec.Settled = &Settled{Verdict: verdict}
	default:
		return nil
	}
	if o.lastID != string(actionID) {
		o.lastID = string(actionID)
	}
	rec.ActionID = o.lastID
	o.block = o.block[1:]
	return rec
}

// next is the place of the next record; it is taken when the record is whole.
func (o *outliner) next() *Record {
	if len(o.block) == 0 {
		o.block = make([]Record, 64)
	}
	o.block[0] = Record{}
	return &o.block[0]
}

// upTo cuts at the mark, which begins with the quote that ends the text before
// it; ok becomes false where another one follows the text.
func upTo(text, mark []byte, ok *bool) (before, after []byte) {
	i := bytes.IndexByte(text, '"')
	if i < 0 || !bytes.HasPrefix(text[i:], mark) {
		*ok = false
		return nil, nil
	}
	return text[:i], text[i+len(mark):]
}

// member reads the string at the beginning of an object, whose name and opening
// quote are given.
func member(object []byte, name string) (string, bool) {
	rest, ok := bytes.CutPrefix(object, []byte(name))
	i := bytes.IndexByte(rest, '"')
	if !ok || i < 0 {
		return "", false
	}
	return string(rest[:i]), true
}
