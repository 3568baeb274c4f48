package contract

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// The bounds of one judgement. A step is about what it takes to look at one
// value with one schema, about half a microsecond.
const (
	maxSteps      = 1_000_000
	maxStack      = 4_000 // schemas within schemas
	maxViolations = 16
)

// ErrTooCostly says that a schema and an input together take more time than
// the bounds allow. Nothing is known of the input then.
var ErrTooCostly = fmt.Errorf("it takes too long to judge (%w)", ErrUnsupported)

// Violation is one place of an input that its schema does not allow.
type Violation struct {
	Pointer string // JSON pointer into the input; empty for the whole of it
	Why     string // a clause whose subject is the place; holds nothing of the input but names
}

// Check judges an input, and returns what the schema does not allow, in the
// order of the names in the input; none when it is right. An error says that
// the input could not be judged: it nests too deep, or [ErrTooCostly].
func (s *Schema) Check(input jsontext.Value) ([]Violation, error) {
	v, err := parseValue(input)
	if err != nil {
		if errors.Is(err, errTooDeep) {
			return nil, fmt.Errorf("%w (%w)", err, ErrUnsupported)
		}
		return nil, errors.New("it is no JSON")
	}
	j := &judge{steps: maxSteps, tracks: s.tracks}
	var found findings
	j.apply(s.root, v, "", &found)
	if j.stopped {
		return nil, ErrTooCostly
	}
	return found.list, nil
}

// findings collects violations; nil collects none.
type findings struct{ list []Violation }

func (f *findings) add(pointer, format string, args ...any) {
	if f != nil && len(f.list) < maxViolations {
		f.list = append(f.list, Violation{pointer, fmt.Sprintf(format, args...)})
	}
}

func (f *findings) take(other findings) {
	for _, v := range other.list {
		f.add(v.Pointer, "%s", v.Why)
	}
}

// seen is what a schema has looked at in one array or object, for the
// unevaluated keywords.
type seen struct {
	names map[string]bool
	items map[int]bool
}

func (s *seen) name(name string) {
	if s.names == nil {
		s.names = map[string]bool{}
	}
	s.names[name] = true
}

func (s *seen) item(i int) {
	if s.items == nil {
		s.items = map[int]bool{}
	}
	s.items[i] = true
}

// judge is one run of a schema over an input.
type judge struct {
	steps   int
	depth   int
	tracks  bool
	stopped bool // a bound was passed; whatever is said from then on is nothing
}

func (j *judge) spend(steps int) bool {
	j.steps -= steps
	j.stopped = j.stopped || j.steps < 0
	return !j.stopped
}

// apply judges one value by one schema. It says whether the value is right,
// and what of it the schema has looked at.
func (j *judge) apply(n *node, v value, at string, out *findings) (bool, seen) {
	var did seen
	if j.depth++; j.depth > maxStack {
		j.stopped = true
	}
	defer func() { j.depth-- }()
	if !j.spend(1) {
		return false, did
	}
	if n.never {
		out.add(at, "is not allowed here")
		return false, did
	}
	ok := j.scalar(n, v, at, out)
	in := func(sub *node, out *findings) bool {
		right, what := j.apply(sub, v, at, out)
		if right {
			j.merge(&did, what)
		}
		return right
	}
	if n.ref != nil {
		ok = in(n.ref, out) && ok
	}
	ok = j.logic(n, at, out, in) && ok
	switch v.kind {
	case '[':
		ok = j.array(n, v, at, out, &did) && ok
	case '{':
		ok = j.object(n, v, at, out, &did, in) && ok
	}
	return ok, did
}

func (j *judge) merge(into *seen, from seen) {
	if !j.tracks || !j.spend(len(from.names)+len(from.items)) {
		return
	}
	for name := range from.names {
		into.name(name)
	}
	for i := range from.items {
		into.item(i)
	}
}

// scalar judges by the keywords that look at a value as a whole.
func (j *judge) scalar(n *node, v value, at string, out *findings) bool {
	if n.types != nil && !isOneOf(v, n.types) {
		out.add(at, "is %s, not %s", typeName(v), strings.Join(n.types, " or "))
		return false // whatever else is said of it would be noise
	}
	before := true
	wrong := func(format string, args ...any) {
		out.add(at, format, args...)
		before = false
	}
	if n.constant != nil && !j.equal(v, *n.constant) {
		wrong("is not %s", literal(*n.constant))
	}
	if n.enum != nil && !j.among(v, n.enum) {
		wrong("is none of %s", literals(n.enum))
	}
	switch v.kind {
	case '0':
		j.number(n, v.number, wrong)
	case '"':
		if n.minLength != nil || n.maxLength != nil {
			length := int64(utf8.RuneCountInString(v.text))
			j.spend(len(v.text) / 256)
			bounds(length, n.minLength, n.maxLength, "character", wrong)
		}
		if n.pattern != nil && !j.matches(n.pattern, v.text) {
			wrong("does not match the pattern %s", short(n.pattern.re.String()))
		}
	}
	return before
}

func (j *judge) number(n *node, d decimal, wrong func(string, ...any)) {
	j.spend(len(d.digits) / 64)
	if n.minimum != nil && d.compare(*n.minimum) < 0 {
		wrong("is below %s", n.minimum)
	}
	if n.maximum != nil && d.compare(*n.maximum) > 0 {
		wrong("is above %s", n.maximum)
	}
	if n.above != nil && d.compare(*n.above) <= 0 {
		wrong("is not above %s", n.above)
	}
	if n.below != nil && d.compare(*n.below) >= 0 {
		wrong("is not below %s", n.below)
	}
	// The digits of both become integers, which takes more than their length.
	if m := n.multiple; m != nil && j.spend(len(d.digits)*len(d.digits)/4096+len(m.digits)*len(m.digits)/64) && !d.multipleOf(*m) {
		wrong("is no multiple of %s", m)
	}
}

func (j *judge) matches(p *pattern, s string) bool {
	return j.spend(1+p.cost*len(s)/64) && p.re.MatchString(s)
}

func (j *judge) equal(a, b value) bool {
	if a.kind != b.kind {
		return false
	}
	key := b.key()
	return j.spend(len(key)/64) && a.key() == key
}

func (j *judge) among(v value, list []value) bool {
	key := v.key()
	for _, e := range list {
		if !j.spend(1 + len(key)/64) {
			return false
		}
		if e.kind == v.kind && e.key() == key {
			return true
		}
	}
	return false
}

// bounds judges a count.
func bounds(n int64, least, most *int64, of string, wrong func(string, ...any)) {
	if least != nil && n < *least {
		wrong("has %s, at least %s", amount(n, of), amountOf(*least))
	}
	if most != nil && n > *most {
		wrong("has %s, at most %s", amount(n, of), amountOf(*most))
	}
}

func (j *judge) logic(n *node, at string, out *findings, in func(*node, *findings) bool) bool {
	ok := true
	for _, s := range n.all {
		ok = in(s, out) && ok
	}
	if n.any != nil {
		ok = j.some(n.any, at, out, in) > 0 && ok
	}
	if n.one != nil {
		switch matched := j.some(n.one, at, out, in); {
		case matched > 1:
			ok = false
			if names := presence(n.one); names != nil {
				out.add(at, "has more than one of %s", strings.Join(names, ", "))
			} else {
				out.add(at, "fits %d of %d forms, and has to fit exactly one", matched, len(n.one))
			}
		case matched == 0:
			ok = false
		}
	}
	if n.not != nil && in(n.not, nil) {
		out.add(at, "has a form that is ruled out")
		ok = false
	}
	if n.when != nil {
		next := n.elseThen
		if in(n.when, nil) {
			next = n.then
		}
		if next != nil {
			ok = in(next, out) && ok
		}
	}
	return ok
}

// some says how many of the alternatives fit. Where none does, the one that got
// furthest into the input says why.
func (j *judge) some(alternatives []*node, at string, out *findings, in func(*node, *findings) bool) int {
	matched := 0
	var furthest findings
	for _, s := range alternatives {
		var found findings
		if in(s, &found) {
			matched++
			continue
		}
		if depth := deepest(found.list); depth > deepest(furthest.list) {
			furthest = found
		}
	}
	if matched > 0 || out == nil {
		return matched
	}
	switch names := presence(alternatives); {
	case names != nil:
		out.add(at, "has none of %s", strings.Join(names, ", "))
	case deepest(furthest.list) > strings.Count(at, "/"):
		out.take(furthest)
	default:
		out.add(at, "fits none of %d forms", len(alternatives))
	}
	return 0
}

func deepest(list []Violation) int {
	depth := 0
	for _, v := range list {
		depth = max(depth, strings.Count(v.Pointer, "/"))
	}
	return depth
}

// presence is the names that alternatives tell apart by, when each asks for
// exactly one name; nil otherwise.
func presence(alternatives []*node) []string {
	var names []string
	for _, s := range alternatives {
		if len(s.required) != 1 {
			return nil
		}
		names = append(names, s.required[0])
	}
	return names
}

func (j *judge) array(n *node, v value, at string, out *findings, did *seen) bool {
	ok := true
	wrong := func(format string, args ...any) {
		out.add(at, format, args...)
		ok = false
	}
	look := func(i int, s *node) bool {
		right, _ := j.apply(s, v.list[i], at+"/"+strconv.Itoa(i), out)
		did.item(i)
		return right
	}
	for i := range v.list {
		switch {
		case j.stopped:
			return false
		case i < len(n.prefix):
			ok = look(i, n.prefix[i]) && ok
		case n.items != nil:
			ok = look(i, n.items) && ok
		}
	}
	if n.contains != nil {
		fit := int64(0)
		for i, e := range v.list {
			if right, _ := j.apply(n.contains, e, "", nil); right {
				fit++
				did.item(i)
			}
		}
		least := int64(1)
		if n.minContains != nil {
			least = *n.minContains
		}
		if fit < least {
			wrong("has %s of a form that has to be there, at least %s", amount(fit, "element"), amountOf(least))
		}
		if n.maxContains != nil && fit > *n.maxContains {
			wrong("has %s of a form that may be there, at most %s", amount(fit, "element"), amountOf(*n.maxContains))
		}
	}
	bounds(int64(len(v.list)), n.minItems, n.maxItems, "element", wrong)
	if n.unique {
		if a, b := j.twins(v.list); b > 0 {
			wrong("has the same element twice, as %d and %d", a, b)
		}
	}
	if n.restList != nil {
		for i := range v.list {
			if !did.items[i] && !j.stopped {
				ok = look(i, n.restList) && ok
			}
		}
	}
	return ok
}

// twins are the indexes of two equal elements; 0 and 0 for none.
func (j *judge) twins(list []value) (int, int) {
	first := make(map[string]int, len(list))
	for i, e := range list {
		key := e.key()
		if !j.spend(1 + len(key)/64) {
			return 0, 0
		}
		if k, twice := first[key]; twice {
			return k, i
		}
		first[key] = i
	}
	return 0, 0
}

func (j *judge) object(n *node, v value, at string, out *findings, did *seen, in func(*node, *findings) bool) bool {
	ok := true
	wrong := func(pointer, format string, args ...any) {
		out.add(pointer, format, args...)
		ok = false
	}
	missing := func(name, format string, args ...any) {
		if _, there := v.fields[name]; j.spend(1) && !there {
			wrong(at+"/"+escaper.Replace(name), format, args...)
		}
	}
	for _, name := range n.required {
		missing(name, "is required and missing")
	}
	for _, name := range n.needers {
		if _, there := v.fields[name]; there {
			for _, needed := range n.needs[name] {
				missing(needed, "is missing, which %s asks for", name)
			}
		}
	}
	for _, name := range v.names {
		if j.stopped {
			return false
		}
		ok = j.member(n, v, name, at, out, did) && ok
	}
	bounds(int64(len(v.names)), n.minProperties, n.maxProperties, "member", func(format string, args ...any) { wrong(at, format, args...) })
	for _, name := range n.conditions {
		if _, there := v.fields[name]; there {
			ok = in(n.dependents[name], out) && ok
		}
	}
	if n.restOf != nil {
		for _, name := range v.names {
			if !did.names[name] && !j.stopped {
				right, _ := j.apply(n.restOf, v.fields[name], at+"/"+escaper.Replace(name), out)
				did.name(name)
				ok = right && ok
			}
		}
	}
	return ok
}

// member judges one member of an object by the keywords that name it.
func (j *judge) member(n *node, v value, name, at string, out *findings, did *seen) bool {
	ok, here, known := true, at+"/"+escaper.Replace(name), false
	look := func(s *node) {
		right, _ := j.apply(s, v.fields[name], here, out)
		ok, known = right && ok, true
		did.name(name)
	}
	if s := n.props[name]; s != nil {
		look(s)
	}
	for _, p := range n.patterns {
		if j.matches(p.pattern, name) {
			look(p.node)
		}
	}
	if n.additional != nil && !known {
		look(n.additional)
	}
	if n.nameOf != nil {
		if right, _ := j.apply(n.nameOf, value{kind: '"', text: name}, "", nil); !right {
			out.add(here, "has a name that is not allowed")
			ok = false
		}
	}
	return ok
}
