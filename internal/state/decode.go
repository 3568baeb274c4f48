package state

import (
	"bytes"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxRecord bounds one record in bytes, its line end not counted. It bounds
// the memory of a scan, so the writer keeps to it too.
const maxRecord = 1 << 20

var (
	// Every record this version writes begins with the marker, and no valid
	// JSON text has it inside a string, where the quotes would be escaped.
	marker = []byte(`{"v":`)
	bom    = []byte("\xef\xbb\xbf")
)

// kind says what became of one line or of one piece of a damaged line.
type kind int

const (
	blank   kind = iota // white space
	good                // a record of this version
	newer               // a record of a later version, or of a type it brought
	damaged             // anything else
)

// trim drops what an editor puts around a line: a byte order mark, white space
// and the rest of another system's line end.
func trim(line []byte) []byte { return bytes.Trim(bytes.TrimPrefix(line, bom), " \t\r\n") }

// decode reads one whole line, trimmed. The reason, for a damaged one, names no
// byte of it. The record is nil for a blank and for a damaged line.
func decode(line []byte) (*Record, kind, string) {
	if len(line) == 0 {
		return nil, blank, ""
	}
	rec := new(Record)
	if err := json.Unmarshal(line, rec); err != nil {
		return decodeFailed(line)
	}
	switch {
	case rec.V > Version:
		return rec, newer, ""
	case rec.V < 1:
		return nil, damaged, "it has no format version"
	case rec.ID == "":
		return nil, damaged, "it has no record id"
	case rec.ActionID == "":
		return nil, damaged, "it has no action id"
	case rec.At.IsZero():
		return nil, damaged, "it has no time"
	case rec.Type == "":
		return nil, damaged, "it has no type"
	case !rec.Type.known():
		return rec, newer, ""
	}
	if _, own := rec.objects(); !own {
		return nil, damaged, "it does not hold the object its type names"
	}
	return rec, good, ""
}

// decodeFailed finds out why a line is no record: a later version may give the
// known names other shapes, and that is no damage.
func decodeFailed(line []byte) (*Record, kind, string) {
	if !jsontext.Value(line).IsValid() {
		if len(bytes.Trim(line, "\x00")) == 0 {
			return nil, damaged, "it is filled with zero bytes"
		}
		return nil, damaged, "it is no whole JSON text"
	}
	if line[0] != '{' {
		return nil, damaged, "it is no JSON object"
	}
	var head struct {
		V int `json:"v"`
	}
	if json.Unmarshal(line, &head) == nil && head.V > Version {
		return &Record{V: head.V}, newer, ""
	}
	return nil, damaged, "a field has the wrong type"
}

// salvage looks for records inside a line that is no record itself: one that
// was joined to the torn end of another, or has something behind it. Each
// attempt ends where the next record may begin, so the work is linear in the
// length of the line.
func salvage(line []byte, found func(k kind, rec *Record, raw []byte)) {
	at := bytes.Index(line, marker)
	for at >= 0 {
		piece, next := line[at:], -1
		if i := bytes.Index(piece[len(marker):], marker); i >= 0 {
			next = at + len(marker) + i
			piece = line[at:next]
		}
		if val, err := jsontext.NewDecoder(bytes.NewBuffer(piece)).ReadValue(); err == nil {
			if rec, k, _ := decode(val); rec != nil {
				found(k, rec, val)
			}
		}
		at = next
	}
}
