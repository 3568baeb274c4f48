package state

import (
	"bytes"
	"context"
	"fmt"
	"io"
)

// Report says what a reading of the file met besides records.
type Report struct {
	Path    string   // the file as it was named to [New]
	Lines   int      // lines that hold anything but white space
	Records int      // distinct records understood, those found in damaged lines included
	Damaged []Damage // every line that is no record, in file order; a torn one included
	Torn    bool     // the last line has no end and is no record: a write was cut off
	Newer   int      // lines of a later format, kept and not interpreted
	Empty   bool     // the file exists and has no byte: new, or emptied by somebody
}

// Damage is one line that is no record.
type Damage struct {
	Line      int    // from 1
	Offset    int64  // of its first byte in the file
	Why       string // a clause for a person; holds no byte of the line
	Recovered bool   // a record was found inside it
}

// Sound says that every line was understood.
func (r Report) Sound() bool { return len(r.Damaged) == 0 && r.Newer == 0 }

// Warnings gives one clause for each trouble, for stderr, and none where the
// file is as this version left it. At most three damaged lines are named.
func (r Report) Warnings() []string {
	var out []string
	for i, d := range r.Damaged {
		if i == 3 {
			out = append(out, fmt.Sprintf("%s: %d more lines are damaged", r.Path, len(r.Damaged)-i))
			break
		}
		kept := "it is skipped and kept as it is"
		if d.Recovered {
			kept = "a record inside it was found"
		}
		out = append(out, fmt.Sprintf("%s: line %d (byte %d) is damaged: %s; %s", r.Path, d.Line, d.Offset, d.Why, kept))
	}
	if r.Empty {
		out = append(out, fmt.Sprintf("%s: the file is there and empty; what it may have held is lost", r.Path))
	}
	if r.Newer > 0 {
		out = append(out, fmt.Sprintf("%s: %d lines were written by a newer aipctl and are not read", r.Path, r.Newer))
	}
	return out
}

// chunk is a whole line, or a piece of one that is too long to be a record.
type chunk struct {
	line   int
	offset int64 // of the line
	data   []byte
	long   bool // the line is longer than a record may be
	more   bool // more pieces of the same line follow
	open   bool // the file ended before the line did
}

// chunks cuts a file into lines with bounded memory. A line over max bytes
// comes in pieces, cut so that no piece ends inside a record that would fit.
func chunks(ctx context.Context, r io.Reader, max int, visit func(chunk)) error {
	buf := make([]byte, 0, min(max+1, 64<<10))
	var (
		line      = 1
		base      int64 // offset of buf[0] in the file
		lineStart int64
		long      bool
		eof       bool
	)
	for {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		rest := buf
		for {
			i := bytes.IndexByte(rest, '\n')
			if i < 0 {
				break
			}
			visit(chunk{line: line, offset: lineStart, data: rest[:i], long: long})
			base += int64(i) + 1
			rest = rest[i+1:]
			line, lineStart, long = line+1, base, false
		}
		switch {
		case eof:
			if len(rest) > 0 || long {
				visit(chunk{line: line, offset: lineStart, data: rest, long: long, open: true})
			}
			return nil
		case len(rest) > max:
			// The last place where a record may begin stays in the buffer, and
			// where there is none, the bytes that may be half a marker.
			piece, cut := rest, len(rest)-len(marker)+1
			if i := bytes.LastIndex(rest[1:], marker); i >= 0 {
				cut = i + 1
				piece = rest[:cut]
			}
			long = true
			visit(chunk{line: line, offset: lineStart, data: piece, long: true, more: true})
			base += int64(cut)
			rest = rest[cut:]
		}
		n := copy(buf[:cap(buf)], rest)
		buf = buf[:n]
		if n == cap(buf) {
			grown := make([]byte, n, min(2*n, max+1))
			copy(grown, buf)
			buf = grown
		}
		m, err := r.Read(buf[n:cap(buf)])
		buf = buf[:n+m]
		switch {
		case err == io.EOF:
			eof = true
		case err != nil:
			return err
		}
	}
}

// scan reads every record of a file, repeats included, in file order. The
// bytes a record was read from are the callee's for the call only. skip, where
// given, drops a line unread.
func scan(ctx context.Context, r io.Reader, max int, skip func([]byte) bool, visit func(k kind, rec *Record, raw []byte)) (Report, error) {
	var rep Report
	recovered := false // within the pieces of one line
	err := chunks(ctx, r, max, func(c chunk) {
		why := "it is longer than a record may be"
		if !c.long {
			if skip != nil && skip(c.data) {
				return
			}
			c.data = trim(c.data)
			rec, k, reason := decode(c.data)
			switch k {
			case blank:
				return
			case newer:
				rep.Newer++
			}
			if k != damaged {
				rep.Lines++
				visit(k, rec, c.data)
				return
			}
			why = reason
			if c.open {
				why = "it ends in the middle"
			}
		}
		salvage(c.data, func(k kind, rec *Record, raw []byte) {
			recovered = true
			if k == newer {
				rep.Newer++
			}
			visit(k, rec, raw)
		})
		if c.more {
			return
		}
		rep.Lines++
		rep.Torn = c.open
		rep.Damaged = append(rep.Damaged, Damage{Line: c.line, Offset: c.offset, Why: why, Recovered: recovered})
		recovered = false
	})
	return rep, err
}
