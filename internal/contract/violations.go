package contract

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// maxViolations is how many are named of one input.
const maxViolations = 16

// Violation is one place of an input that its schema does not allow.
type Violation struct {
	Pointer string // JSON pointer into the input; empty for the whole of it
	Why     string // a clause whose subject is the place; holds nothing of the input but names
}

// violations reads what the library found. Its own words repeat the input, and
// so they are not used.
func (s *Schema) violations(e *jsonschema.ValidationError) []Violation {
	l := s.causes(e)
	slices.SortStableFunc(l, func(a, b Violation) int { return strings.Compare(a.Pointer, b.Pointer) })
	l = slices.Compact(l)
	return l[:min(len(l), maxViolations)]
}

func (s *Schema) causes(e *jsonschema.ValidationError) []Violation {
	at := pointer(e.InstanceLocation)
	one := func(format string, args ...any) []Violation {
		return []Violation{{at, fmt.Sprintf(format, args...)}}
	}
	switch k := e.ErrorKind.(type) {
	case *kind.AnyOf:
		return s.forms(e, "anyOf")
	case *kind.OneOf:
		if len(k.Subschemas) == 0 {
			return s.forms(e, "oneOf")
		}
		if names := s.choice(e, "oneOf"); names != nil {
			return one("has more than one of %s", strings.Join(names, ", "))
		}
		return one("fits more than one of the forms that it may have")
	case *kind.Not:
		return one("has a form that is ruled out")
	case *kind.FalseSchema:
		return one("is not allowed here")
	case *kind.Type:
		return one("is %s, not %s", typeName(k.Got), strings.Join(k.Want, " or "))
	case *kind.Enum:
		return one("is none of %s", literals(k.Want))
	case *kind.Const:
		return one("is not %s", literal(k.Want))
	case *kind.Required:
		return members(at, k.Missing, "is required and missing")
	case *kind.DependentRequired:
		return members(at, k.Missing, "is missing, which "+short(k.Prop)+" asks for")
	case *kind.AdditionalProperties:
		return members(at, k.Properties, "is not allowed here")
	case *kind.PropertyNames:
		return members(at, []string{k.Property}, "has a name that is not allowed")
	case *kind.MinProperties:
		return one("has %s, at least %d", amount(k.Got, "member"), k.Want)
	case *kind.MaxProperties:
		return one("has %s, at most %d", amount(k.Got, "member"), k.Want)
	case *kind.MinItems:
		return one("has %s, at least %d", amount(k.Got, "element"), k.Want)
	case *kind.MaxItems:
		return one("has %s, at most %d", amount(k.Got, "element"), k.Want)
	case *kind.AdditionalItems:
		return one("has %s too many", amount(k.Count, "element"))
	case *kind.UniqueItems:
		return one("has the same element twice, as %d and %d", k.Duplicates[0], k.Duplicates[1])
	case *kind.Contains:
		return one("has no element of a form that has to be there")
	case *kind.MinContains:
		return one("has %s of a form that has to be there, at least %d", amount(len(k.Got), "element"), k.Want)
	case *kind.MaxContains:
		return one("has %s of a form, at most %d", amount(len(k.Got), "element"), k.Want)
	case *kind.MinLength:
		return one("has %s, at least %d", amount(k.Got, "character"), k.Want)
	case *kind.MaxLength:
		return one("has %s, at most %d", amount(k.Got, "character"), k.Want)
	case *kind.Format: // of the schema itself: in an input it is an annotation
		return one("is no %s", k.Want)
	case *kind.Pattern:
		return one("does not match the pattern %s", short(k.Want))
	case *kind.Minimum:
		return one("is below %s", number(k.Want))
	case *kind.Maximum:
		return one("is above %s", number(k.Want))
	case *kind.ExclusiveMinimum:
		return one("is not above %s", number(k.Want))
	case *kind.ExclusiveMaximum:
		return one("is not below %s", number(k.Want))
	case *kind.MultipleOf:
		return one("is no multiple of %s", number(k.Want))
	case *kind.RefCycle:
		return one("is judged by a schema that refers to itself")
	}
	var all []Violation
	for _, c := range e.Causes {
		all = append(all, s.causes(c)...)
	}
	if all == nil {
		return one("is not allowed by %s", strings.Join(e.ErrorKind.KeywordPath(), "/"))
	}
	return all
}

// forms tells of an input that has none of several forms: of the one that fits
// it down to the deepest place, when one does.
func (s *Schema) forms(e *jsonschema.ValidationError, keyword string) []Violation {
	at := pointer(e.InstanceLocation)
	var nearest []Violation
	for _, c := range e.Causes {
		v := s.causes(c)
		if len(v) > 0 && strings.Count(v[0].Pointer, "/") > strings.Count(at, "/") && !slices.ContainsFunc(v, func(v Violation) bool { return v.Pointer == at }) &&
			(nearest == nil || strings.Count(v[0].Pointer, "/") > strings.Count(nearest[0].Pointer, "/")) {
			nearest = v
		}
	}
	if names := s.choice(e, keyword); names != nil {
		return []Violation{{at, "has none of " + strings.Join(names, ", ")}}
	}
	if nearest != nil {
		return nearest
	}
	return []Violation{{at, fmt.Sprintf("fits none of %d forms", len(e.Causes))}}
}

// choice are the members of which a schema demands one each in its forms; nil
// where it demands anything else.
func (s *Schema) choice(e *jsonschema.ValidationError, keyword string) []string {
	v := s.raw
	_, fragment, _ := strings.Cut(e.SchemaURL, "#")
	if fragment != "" {
		for token := range strings.SplitSeq(strings.TrimPrefix(fragment, "/"), "/") {
			v = child(v, unescape(token))
		}
	}
	forms, _ := aip.Elements(aip.Member(v, keyword))
	var names []string
	for _, f := range forms {
		m := aip.Members(f)
		required, _ := aip.Elements(m["required"])
		if len(m) != 1 || len(required) != 1 {
			return nil
		}
		name, ok := aip.Unquote(required[0])
		if !ok {
			return nil
		}
		names = append(names, short(name))
	}
	return names
}

func members(at string, names []string, why string) []Violation {
	var out []Violation
	for _, name := range names {
		out = append(out, Violation{at + "/" + escaper.Replace(name), why})
	}
	return out
}

func pointer(tokens []string) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteByte('/')
		b.WriteString(escaper.Replace(t))
	}
	return b.String()
}

// child is the member or the element of that name; nil for none.
func child(v jsontext.Value, name string) jsontext.Value {
	if list, ok := aip.Elements(v); ok {
		i, err := strconv.Atoi(name)
		if err != nil || i < 0 || i >= len(list) {
			return nil
		}
		return list[i]
	}
	return aip.Members(v)[name]
}

var (
	escaper   = strings.NewReplacer("~", "~0", "/", "~1")
	unescaper = strings.NewReplacer("~1", "/", "~0", "~")
)

func unescape(token string) string { return unescaper.Replace(token) }

// typeName is the type of a value as a person would say it.
func typeName(t string) string {
	switch t {
	case "null":
		return t
	case "array", "object", "integer":
		return "an " + t
	}
	return "a " + t
}

// literal is a value of a schema, shortened.
func literal(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return strconv.Quote(short(v))
	case bool:
		return strconv.FormatBool(v)
	case json.Number:
		return short(v.String())
	case []any:
		return "the array of the schema"
	}
	return "the object of the schema"
}

// literals are the first of several values.
func literals(list []any) string {
	const most = 6
	var out []string
	for i, v := range list {
		if i == most {
			out = append(out, "and "+strconv.Itoa(len(list)-most)+" more")
			break
		}
		out = append(out, literal(v))
	}
	if len(out) == 0 {
		return "nothing, which the schema allows"
	}
	return strings.Join(out, ", ")
}

// number writes a bound of a schema without a fraction bar.
func number(r *big.Rat) string {
	n, exact := r.FloatPrec()
	if !exact {
		n = 20
	}
	return short(r.FloatString(n))
}

func amount(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return strconv.Itoa(n) + " " + of + "s"
}
