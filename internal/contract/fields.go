package contract

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/go-json-experiment/json/jsontext"
)

// The bounds of what is shown of a schema.
const (
	maxFields     = 60
	maxFieldDepth = 3
	maxHops       = 8 // references that lead to references
)

// Field is one member of an input as a person reads about it. Its texts are the
// daemon's, shortened but not cleaned.
type Field struct {
	Path     string // dots lead into objects, [] into the elements of an array
	Type     string
	Required bool
	Meaning  string // what it is for, and what it has to keep to
}

// Fields lists the members that a schema speaks of, the required ones first,
// and what it says of them together. more says that there are others that are
// not listed. It is for reading: what is judged is judged by [Schema.Check].
func Fields(schema jsontext.Value) (fields []Field, notes []string, more bool) {
	if len(schema) > maxSchemaBytes {
		return nil, nil, true
	}
	l := &lister{root: schema}
	l.object(schema, "", 0)
	return l.fields, l.notes, l.more
}

type lister struct {
	root   jsontext.Value
	fields []Field
	notes  []string
	more   bool
}

// object lists the members of one object schema.
func (l *lister) object(v jsontext.Value, prefix string, depth int) {
	m := aip.Members(l.follow(v))
	required := list(m["required"])
	members := aip.Members(m["properties"])
	names := slices.SortedFunc(maps.Keys(members), func(a, b string) int {
		if x, y := slices.Contains(required, a), slices.Contains(required, b); x != y {
			if x {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})
	for _, name := range names {
		if len(l.fields) >= maxFields {
			l.more = true
			return
		}
		l.member(members[name], prefix+name, slices.Contains(required, name), depth)
	}
	// What is required without being described is to be there all the same.
	for _, name := range required {
		if _, described := members[name]; !described && len(l.fields) < maxFields {
			l.fields = append(l.fields, Field{Path: prefix + name, Type: "any", Required: true})
		}
	}
	l.together(m, prefix)
}

func (l *lister) member(v jsontext.Value, path string, required bool, depth int) {
	v = l.follow(v)
	m := aip.Members(v)
	l.fields = append(l.fields, Field{Path: path, Type: l.typeOf(v), Required: required, Meaning: meaning(m)})
	if depth >= maxFieldDepth {
		return
	}
	if m["properties"] != nil {
		l.object(v, path+".", depth+1)
	}
	if items := l.follow(m["items"]); aip.Member(items, "properties") != nil {
		l.object(items, path+"[].", depth+1)
	}
}

// together says what concerns several members at once.
func (l *lister) together(m map[string]jsontext.Value, prefix string) {
	where := ""
	if prefix != "" {
		where = " in " + strings.TrimSuffix(prefix, ".")
	}
	for keyword, word := range map[string]string{"oneOf": "exactly one of ", "anyOf": "at least one of "} {
		alternatives, _ := aip.Elements(m[keyword])
		var names []string
		for _, a := range alternatives {
			if r := list(aip.Member(a, "required")); len(r) == 1 {
				names = append(names, r[0])
			}
		}
		switch {
		case len(alternatives) == 0:
		case len(names) == len(alternatives):
			l.notes = append(l.notes, word+strings.Join(names, ", ")+where)
		default:
			l.notes = append(l.notes, "one of "+strconv.Itoa(len(alternatives))+" forms"+where+"; see -o json")
		}
	}
	if m["properties"] != nil && m["additionalProperties"].Kind() == 'f' {
		l.notes = append(l.notes, "no other members"+where)
	}
	slices.Sort(l.notes)
}

// follow goes where a local reference leads.
func (l *lister) follow(v jsontext.Value) jsontext.Value {
	for range maxHops {
		ref, ok := aip.Unquote(aip.Member(v, "$ref"))
		if !ok || !strings.HasPrefix(ref, "#/") {
			return v
		}
		next := l.root
		for token := range strings.SplitSeq(ref[2:], "/") {
			next = child(next, unescape(token))
		}
		if next == nil {
			return v
		}
		v = next
	}
	return v
}

func (l *lister) typeOf(v jsontext.Value) string {
	m := aip.Members(v)
	if s, ok := aip.Unquote(m["type"]); ok {
		if items := l.follow(m["items"]); s == "array" && items != nil {
			if of, ok := aip.Unquote(aip.Member(items, "type")); ok {
				return "array of " + of
			}
		}
		return s
	}
	if types := list(m["type"]); types != nil {
		return strings.Join(types, " or ")
	}
	var types []string
	for _, keyword := range []string{"anyOf", "oneOf"} {
		alternatives, _ := aip.Elements(m[keyword])
		for _, a := range alternatives {
			if t, ok := aip.Unquote(aip.Member(l.follow(a), "type")); ok && !slices.Contains(types, t) {
				types = append(types, t)
			}
		}
	}
	if types != nil {
		return strings.Join(types, " or ")
	}
	return "any"
}

// meaning puts a description and the constraints of a member into words.
func meaning(m map[string]jsontext.Value) string {
	var out []string
	say := func(s string) {
		if s != "" {
			out = append(out, s)
		}
	}
	text, _ := aip.Unquote(m["description"])
	if text == "" {
		text, _ = aip.Unquote(m["title"])
	}
	say(strings.TrimSuffix(cutRunes(strings.Join(strings.Fields(text), " "), 160), "."))
	say(between(m["minimum"], m["maximum"], ""))
	say(prefixed("above ", m["exclusiveMinimum"]))
	say(prefixed("below ", m["exclusiveMaximum"]))
	say(prefixed("a multiple of ", m["multipleOf"]))
	say(between(m["minLength"], m["maxLength"], "character"))
	say(between(m["minItems"], m["maxItems"], "element"))
	say(prefixed("always ", m["const"]))
	if values, ok := aip.Elements(m["enum"]); ok {
		var words []string
		for _, v := range values {
			words = append(words, scalar(v))
		}
		say("one of " + cutRunes(strings.Join(words, ", "), 160))
	}
	for _, keyword := range []string{"pattern", "format"} {
		if s, ok := aip.Unquote(m[keyword]); ok {
			say(keyword + " " + short(s))
		}
	}
	say(prefixed("else ", m["default"]))
	return strings.Join(out, "; ")
}

func between(least, most jsontext.Value, of string) string {
	low, high := least.Kind() == '0', most.Kind() == '0'
	unit := ""
	if of != "" {
		unit = " " + of + "s"
		if high && string(most) == "1" || !high && string(least) == "1" {
			unit = " " + of
		}
	}
	switch {
	case low && high && string(least) == string(most):
		return "exactly " + short(string(least)) + unit
	case low && high:
		return short(string(least)) + " to " + short(string(most)) + unit
	case low:
		return "at least " + short(string(least)) + unit
	case high:
		return "at most " + short(string(most)) + unit
	}
	return ""
}

func prefixed(word string, v jsontext.Value) string {
	if len(v) == 0 {
		return ""
	}
	return word + scalar(v)
}

// scalar is a value of a schema on a line.
func scalar(v jsontext.Value) string {
	switch v.Kind() {
	case '{':
		return "an object"
	case '[':
		return "an array"
	}
	return short(string(v))
}

func list(v jsontext.Value) []string {
	elements, _ := aip.Elements(v)
	var out []string
	for _, e := range elements {
		if s, ok := aip.Unquote(e); ok {
			out = append(out, s)
		}
	}
	return out
}

func cutRunes(s string, most int) string {
	n := 0
	for i := range s {
		if n++; n > most {
			return s[:i] + "…"
		}
	}
	return s
}
