package contract

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/go-json-experiment/json/jsontext"
)

// value is a JSON value taken apart once, so that a schema may look at it as
// often as it likes.
type value struct {
	kind   jsontext.Kind // n f t " 0 { [
	text   string        // of a string
	number decimal
	list   []value
	names  []string // of an object, sorted; of two equal ones the last counts
	fields map[string]value
}

// maxValueDepth bounds how deep an input may nest to be judged.
const maxValueDepth = 512

var errTooDeep = errors.New("it nests too deep to be judged")

// parseValue takes JSON apart. The error is errTooDeep, or says that it is no
// JSON.
func parseValue(raw jsontext.Value) (value, error) {
	dec := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	return readValue(dec, 0)
}

func readValue(dec *jsontext.Decoder, depth int) (value, error) {
	if depth > maxValueDepth {
		return value{}, errTooDeep
	}
	switch kind := dec.PeekKind(); kind {
	case '{':
		v := value{kind: kind, fields: map[string]value{}}
		if _, err := dec.ReadToken(); err != nil {
			return v, err
		}
		for dec.PeekKind() == '"' {
			name, err := readText(dec)
			if err != nil {
				return v, err
			}
			if v.fields[name], err = readValue(dec, depth+1); err != nil {
				return v, err
			}
		}
		for name := range v.fields {
			v.names = append(v.names, name)
		}
		slices.Sort(v.names)
		_, err := dec.ReadToken()
		return v, err
	case '[':
		v := value{kind: kind}
		if _, err := dec.ReadToken(); err != nil {
			return v, err
		}
		for k := dec.PeekKind(); k != ']' && k > 0; k = dec.PeekKind() {
			e, err := readValue(dec, depth+1)
			if err != nil {
				return v, err
			}
			v.list = append(v.list, e)
		}
		_, err := dec.ReadToken()
		return v, err
	case '"':
		text, err := readText(dec)
		return value{kind: kind, text: text}, err
	case '0':
		raw, err := dec.ReadValue()
		return value{kind: kind, number: parseDecimal(string(raw))}, err
	default:
		_, err := dec.ReadToken()
		return value{kind: kind}, err
	}
}

func readText(dec *jsontext.Decoder) (string, error) {
	raw, err := dec.ReadValue()
	if err != nil {
		return "", err
	}
	s, _ := aip.Unquote(raw)
	return s, nil
}

// is says whether the value has the type that a schema names.
func (v value) is(name string) bool {
	switch name {
	case "null":
		return v.kind == 'n'
	case "boolean":
		return v.kind == 't' || v.kind == 'f'
	case "string":
		return v.kind == '"'
	case "number":
		return v.kind == '0'
	case "integer":
		return v.kind == '0' && v.number.isInteger()
	case "array":
		return v.kind == '['
	default:
		return name == "object" && v.kind == '{'
	}
}

// key is the same text for values that JSON Schema calls equal, and for no
// others.
func (v value) key() string {
	var b strings.Builder
	v.appendKey(&b)
	return b.String()
}

func (v value) appendKey(b *strings.Builder) {
	b.WriteByte(byte(v.kind))
	switch v.kind {
	case '"':
		b.WriteString(strconv.Itoa(len(v.text)) + ":" + v.text)
	case '0':
		if v.number.negative {
			b.WriteByte('-')
		}
		b.WriteString(v.number.digits + "e" + strconv.FormatInt(v.number.exp, 10) + ";")
	case '[':
		for _, e := range v.list {
			e.appendKey(b)
		}
		b.WriteByte(']')
	case '{':
		for _, name := range v.names {
			b.WriteString(strconv.Itoa(len(name)) + ":" + name)
			v.fields[name].appendKey(b)
		}
		b.WriteByte('}')
	}
}
