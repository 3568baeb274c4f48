package contract

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/go-json-experiment/json/jsontext"
)

// The bounds of a schema, which comes from a daemon and may be hostile.
const (
	maxSchemaBytes = 1 << 20
	maxSchemaDepth = 64
	maxSchemaNodes = 20_000
	maxProgram     = 20_000 // instructions of all patterns together
)

// dialect is the only one that is judged, with or without the empty fragment.
const dialect = "https://json-schema.org/draft/2020-12/schema"

// ErrUnsupported is in the chain of an error of [Compile] when the schema may
// be well formed, but says something that is not judged here.
var ErrUnsupported = errors.New("not judged by aipctl")

func unsupported(format string, args ...any) error {
	return fmt.Errorf(format+" (%w)", append(args, ErrUnsupported)...)
}

// Schema is a JSON Schema of draft 2020-12, ready to judge inputs.
//
// Everything of the draft is understood but what leads out of the document or
// depends on the way it was reached: remote and relative references, embedded
// $id, $dynamicRef. format and content are annotations, as the draft has it.
// Patterns are those of Go, which take linear time.
type Schema struct {
	root   *node
	tracks bool // unevaluatedItems or unevaluatedProperties is somewhere
}

// node is one schema of a document. What is absent is nil.
type node struct {
	never bool // the schema false
	ref   *node

	types    []string
	enum     []value
	constant *value

	minimum, maximum, above, below, multiple *decimal
	minLength, maxLength                     *int64
	pattern                                  *pattern

	prefix                    []*node
	items, contains, restList *node
	minContains, maxContains  *int64
	minItems, maxItems        *int64
	unique                    bool

	props                        map[string]*node
	names                        []string // of props, sorted
	patterns                     []patternNode
	additional, nameOf, restOf   *node
	required                     []string
	needs                        map[string][]string
	needers, conditions          []string // the sorted names of needs and of dependents
	dependents                   map[string]*node
	minProperties, maxProperties *int64

	all, any, one             []*node
	not, when, then, elseThen *node
}

type pattern struct {
	re   *regexp.Regexp
	cost int // instructions
}

type patternNode struct {
	*pattern
	node *node
}

// compiler builds the nodes of one document.
type compiler struct {
	root    jsontext.Value
	id      string           // of the whole document
	nodes   map[string]*node // by JSON pointer
	anchors map[string]string
	refs    []reference
	program int
	tracks  bool
}

type reference struct {
	from *node
	to   string // as written
}

// Compile reads a schema. It opens no reference that leads out of the document,
// neither of a file nor of a host. The error says what is wrong in the schema's
// own terms; [ErrUnsupported] is in its chain when the schema may be right.
func Compile(raw jsontext.Value) (*Schema, error) {
	if len(raw) > maxSchemaBytes {
		return nil, unsupported("it has %d bytes, more than %d", len(raw), maxSchemaBytes)
	}
	if !aip.Valid(raw) {
		return nil, errors.New("it is no JSON")
	}
	c := &compiler{root: raw, nodes: map[string]*node{}, anchors: map[string]string{}}
	c.id, _ = aip.Unquote(aip.Member(raw, "$id"))
	root, err := c.schema(raw, "", 0)
	if err != nil {
		return nil, err
	}
	// A reference may lead to a place that was no schema until now, which may
	// have references of its own.
	for len(c.refs) > 0 {
		r := c.refs[0]
		c.refs = c.refs[1:]
		if r.from.ref, err = c.resolve(r.to); err != nil {
			return nil, err
		}
	}
	return &Schema{root: root, tracks: c.tracks}, nil
}

// schema builds the node at a pointer, and those below it.
func (c *compiler) schema(raw jsontext.Value, at string, depth int) (*node, error) {
	if n := c.nodes[at]; n != nil {
		return n, nil
	}
	switch {
	case depth > maxSchemaDepth:
		return nil, unsupported("it nests deeper than %d schemas", maxSchemaDepth)
	case len(c.nodes) >= maxSchemaNodes:
		return nil, unsupported("it has more than %d schemas", maxSchemaNodes)
	}
	n := &node{}
	c.nodes[at] = n
	switch raw.Kind() {
	case 't':
		return n, nil
	case 'f':
		n.never = true
		return n, nil
	case '{':
	default:
		return nil, fmt.Errorf("at %s stands no schema", place(at))
	}
	r := &reader{c: c, m: aip.Members(raw), at: at, depth: depth}
	r.identify(n)
	r.values(n)
	r.arrays(n)
	r.objects(n)
	r.logic(n)
	return n, r.err
}

func place(at string) string {
	if at == "" {
		return "the top"
	}
	return at
}

// resolve finds what a reference within the document leads to.
func (c *compiler) resolve(ref string) (*node, error) {
	target, inside := ref, strings.HasPrefix(ref, "#")
	if !inside && c.id != "" {
		target, inside = strings.CutPrefix(ref, strings.TrimSuffix(c.id, "#"))
		inside = inside && (target == "" || target[0] == '#')
	}
	if !inside {
		return nil, unsupported("the reference %q leads out of the schema, and is not followed", short(ref))
	}
	fragment, err := url.PathUnescape(strings.TrimPrefix(target, "#"))
	if err != nil {
		return nil, fmt.Errorf("the reference %q is none", short(ref))
	}
	if fragment != "" && !strings.HasPrefix(fragment, "/") {
		at, ok := c.anchors[fragment]
		if !ok {
			return nil, fmt.Errorf("the reference %q leads nowhere", short(ref))
		}
		return c.nodes[at], nil
	}
	if n := c.nodes[fragment]; n != nil {
		return n, nil
	}
	v := c.root
	for token := range strings.SplitSeq(strings.TrimPrefix(fragment, "/"), "/") {
		if v = child(v, unescape(token)); v == nil {
			return nil, fmt.Errorf("the reference %q leads nowhere", short(ref))
		}
	}
	return c.schema(v, fragment, strings.Count(fragment, "/"))
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

// short cuts what a schema says to what fits into a message.
func short(s string) string {
	const most = 80 // runes
	n := 0
	for i := range s {
		if n++; n > most {
			return s[:i] + "…"
		}
	}
	return s
}

var (
	escaper   = strings.NewReplacer("~", "~0", "/", "~1")
	unescaper = strings.NewReplacer("~1", "/", "~0", "~")
)

func unescape(token string) string { return unescaper.Replace(token) }

// reader reads the keywords of one schema; the first error stays.
type reader struct {
	c     *compiler
	m     map[string]jsontext.Value
	at    string
	depth int
	err   error
}

func (r *reader) fail(keyword, format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%s/%s %s", r.at, keyword, fmt.Sprintf(format, args...))
	}
}

func (r *reader) text(keyword string) string {
	v, ok := r.m[keyword]
	if !ok {
		return ""
	}
	s, isText := aip.Unquote(v)
	if !isText {
		r.fail(keyword, "is no string")
	}
	return s
}

func (r *reader) texts(keyword string, v jsontext.Value) []string {
	list, ok := aip.Elements(v)
	if !ok {
		r.fail(keyword, "is no list of strings")
	}
	out := make([]string, 0, len(list))
	for _, e := range list {
		s, isText := aip.Unquote(e)
		if !isText {
			r.fail(keyword, "is no list of strings")
		}
		out = append(out, s)
	}
	return out
}

// count reads a whole number from 0 on, 3.0 among them.
func (r *reader) count(keyword string) *int64 {
	d := r.number(keyword)
	if d == nil {
		return nil
	}
	n := int64(0)
	switch {
	case !d.isInteger() || d.negative:
		r.fail(keyword, "is no whole number from 0 on")
		return nil
	case d.exp > 15:
		n = 1 << 50 // more than anything that is counted here
	case d.digits != "":
		n, _ = strconv.ParseInt(d.digits+strings.Repeat("0", int(d.exp)-len(d.digits)), 10, 64)
	}
	return &n
}

func (r *reader) number(keyword string) *decimal {
	v, ok := r.m[keyword]
	if !ok {
		return nil
	}
	if v.Kind() != '0' {
		r.fail(keyword, "is no number")
		return nil
	}
	d := parseDecimal(string(v))
	return &d
}

func (r *reader) value(keyword string, v jsontext.Value) value {
	out, err := parseValue(v)
	if err != nil {
		r.fail(keyword, "cannot be read: %s", err)
	}
	return out
}

// sub reads a keyword that holds one schema.
func (r *reader) sub(keyword string) *node {
	v, ok := r.m[keyword]
	if !ok {
		return nil
	}
	return r.schema(v, keyword)
}

func (r *reader) schema(v jsontext.Value, path string) *node {
	if r.err != nil {
		return nil
	}
	n, err := r.c.schema(v, r.at+"/"+path, r.depth+1)
	if err != nil {
		r.err = err
	}
	return n
}

// list reads a keyword that holds a list of schemas.
func (r *reader) list(keyword string) []*node {
	v, ok := r.m[keyword]
	if !ok {
		return nil
	}
	elements, isList := aip.Elements(v)
	if !isList || len(elements) == 0 {
		r.fail(keyword, "is no list of schemas")
		return nil
	}
	out := make([]*node, len(elements))
	for i, e := range elements {
		out[i] = r.schema(e, keyword+"/"+strconv.Itoa(i))
	}
	return out
}

// named reads a keyword that holds schemas by name.
func (r *reader) named(keyword string) map[string]*node {
	v, ok := r.m[keyword]
	if !ok {
		return nil
	}
	if v.Kind() != '{' {
		r.fail(keyword, "is no object of schemas")
		return nil
	}
	out := map[string]*node{}
	members := aip.Members(v)
	for _, name := range slices.Sorted(maps.Keys(members)) {
		out[name] = r.schema(members[name], keyword+"/"+escaper.Replace(name))
	}
	return out
}

func (r *reader) compile(keyword, expr string) *pattern {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		r.err = unsupported("%s/%s is no regular expression that Go knows", r.at, keyword)
		return nil
	}
	prog, err := syntax.Compile(re.Simplify())
	if err != nil || r.c.program+len(prog.Inst) > maxProgram {
		r.err = unsupported("%s/%s makes the patterns too large", r.at, keyword)
		return nil
	}
	r.c.program += len(prog.Inst)
	compiled, err := regexp.Compile(expr)
	if err != nil {
		r.err = unsupported("%s/%s is no regular expression that Go knows", r.at, keyword)
		return nil
	}
	return &pattern{re: compiled, cost: len(prog.Inst)}
}

// identify reads what a schema is and where it leads.
func (r *reader) identify(n *node) {
	if s := r.text("$schema"); s != "" && strings.TrimSuffix(s, "#") != dialect {
		r.err = unsupported("its dialect %q is not draft 2020-12", short(s))
	}
	if _, embedded := r.m["$id"]; embedded && r.at != "" {
		r.err = unsupported("it has another schema in it, at %s", r.at)
	}
	for _, keyword := range []string{"$dynamicRef", "$recursiveRef"} {
		if _, ok := r.m[keyword]; ok {
			r.err = unsupported("it uses %s, at %s", keyword, place(r.at))
		}
	}
	for _, keyword := range []string{"$anchor", "$dynamicAnchor"} {
		if name := r.text(keyword); name != "" {
			r.c.anchors[name] = r.at
		}
	}
	if ref := r.text("$ref"); r.m["$ref"] != nil {
		r.c.refs = append(r.c.refs, reference{n, ref})
	}
	r.named("$defs")
	r.named("definitions")
}

// values reads what is said of values that are neither arrays nor objects.
func (r *reader) values(n *node) {
	if v, ok := r.m["type"]; ok {
		if v.Kind() == '"' {
			n.types = []string{r.text("type")}
		} else {
			n.types = r.texts("type", v)
		}
		known := []string{"null", "boolean", "string", "number", "integer", "array", "object"}
		for _, t := range n.types {
			if !slices.Contains(known, t) {
				r.fail("type", "names a type that there is none of")
			}
		}
	}
	if v, ok := r.m["enum"]; ok {
		list, isList := aip.Elements(v)
		if !isList {
			r.fail("enum", "is no list")
		}
		n.enum = make([]value, len(list))
		for i, e := range list {
			n.enum[i] = r.value("enum", e)
		}
	}
	if v, ok := r.m["const"]; ok {
		c := r.value("const", v)
		n.constant = &c
	}
	n.minimum, n.maximum = r.number("minimum"), r.number("maximum")
	n.above, n.below = r.number("exclusiveMinimum"), r.number("exclusiveMaximum")
	if n.multiple = r.number("multipleOf"); n.multiple != nil && (n.multiple.digits == "" || n.multiple.negative) {
		r.fail("multipleOf", "is not above 0")
	}
	n.minLength, n.maxLength = r.count("minLength"), r.count("maxLength")
	if _, ok := r.m["pattern"]; ok {
		n.pattern = r.compile("pattern", r.text("pattern"))
	}
}

func (r *reader) arrays(n *node) {
	n.prefix, n.items = r.list("prefixItems"), r.sub("items")
	n.contains, n.minContains, n.maxContains = r.sub("contains"), r.count("minContains"), r.count("maxContains")
	n.minItems, n.maxItems = r.count("minItems"), r.count("maxItems")
	n.unique = r.m["uniqueItems"].Kind() == 't'
	n.restList = r.sub("unevaluatedItems")
	r.c.tracks = r.c.tracks || n.restList != nil
}

func (r *reader) objects(n *node) {
	n.props = r.named("properties")
	n.names = slices.Sorted(maps.Keys(n.props))
	named := r.named("patternProperties")
	for _, expr := range slices.Sorted(maps.Keys(named)) {
		if p := r.compile("patternProperties", expr); p != nil {
			n.patterns = append(n.patterns, patternNode{p, named[expr]})
		}
	}
	n.additional, n.nameOf, n.restOf = r.sub("additionalProperties"), r.sub("propertyNames"), r.sub("unevaluatedProperties")
	r.c.tracks = r.c.tracks || n.restOf != nil
	n.minProperties, n.maxProperties = r.count("minProperties"), r.count("maxProperties")
	if v, ok := r.m["required"]; ok {
		n.required = r.texts("required", v)
	}
	if v, ok := r.m["dependentRequired"]; ok {
		n.needs = map[string][]string{}
		for name, list := range aip.Members(v) {
			n.needs[name] = r.texts("dependentRequired", list)
		}
		n.needers = slices.Sorted(maps.Keys(n.needs))
	}
	n.dependents = r.named("dependentSchemas")
	n.conditions = slices.Sorted(maps.Keys(n.dependents))
}

func (r *reader) logic(n *node) {
	n.all, n.any, n.one = r.list("allOf"), r.list("anyOf"), r.list("oneOf")
	n.not, n.when, n.then, n.elseThen = r.sub("not"), r.sub("if"), r.sub("then"), r.sub("else")
}
