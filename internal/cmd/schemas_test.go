package cmd

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/aiptest"
	"github.com/aipctl/aipctl/internal/contract"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/record"
	"github.com/aipctl/aipctl/internal/verdict"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// recordKind is one type of record: its name in the field type, who prints it,
// and the Go types that are printed under the name.
type recordKind struct {
	name  string
	by    string
	types []reflect.Type
}

// kind is the row of one Go type.
func kind[T any](name, by string) recordKind {
	return recordKind{name, by, []reflect.Type{reflect.TypeFor[T]()}}
}

// kinds are all records that commands print. A new one needs its row here;
// docs/schema is then written by
//
//	go test ./internal/cmd -run TestRecordSchemas -update-docs
var kinds = []recordKind{
	kind[record.Identity](record.TypeIdentity, "`action call`, `events`, `result`: the first record"),
	kind[record.State](record.TypeState, "`action call`, `events`, `result`"),
	kind[record.Event](record.TypeEvent, "`action call`, `events`"),
	kind[record.Chunk](record.TypeChunk, "`action call`, `events --include-chunks`"),
	kind[record.Text](record.TypeText, "`action call`, `events --include-chunks`"),
	kind[record.Tool](record.TypeTool, "`action call`, `events --include-chunks`"),
	kind[record.Item](record.TypeItem, "`action call`, `events --include-chunks`"),
	kind[record.Warning](record.TypeWarning, "every command"),
	kind[record.Gap](record.TypeGap, "`action call`, `events --include-chunks`"),
	kind[verdict.Outcome](record.TypeOutcome, "`action call`, `events --follow`, `result`, `cancel`: the last record, and the document of `-o json`"),
	kind[record.ApprovalRecord](record.TypeApproval, "`approval list -o jsonl`, `approval get`"),
	kind[record.ApprovalDocument](record.TypeApprovals, "`approval list -o json`"),
	kind[record.Decision](record.TypeDecision, "`approval approve`, `approval deny`"),
	kind[record.Error](record.TypeError, "every command that fails, on stderr"),
	kind[record.Status](record.TypeStatus, "`action status`"),
	kind[eventDocument]("events", "`action events -o json` without `--follow`"),
	{"capability", "`capability list -o jsonl`, `capability describe`", []reflect.Type{reflect.TypeFor[capabilityDetail](), reflect.TypeFor[capabilityRecord]()}},
	kind[capabilityDocument]("capabilities", "`capability list -o json`"),
	kind[doctorCheckRecord]("check", "`doctor -o jsonl`"),
	kind[doctorRecord]("doctor", "`doctor`: the last record, and the document of `-o json`"),
	kind[dryRunRecord]("dry_run", "`action call --dry-run`"),
	kind[contextRecord]("context", "`context set`, `use`, `show`, `list -o jsonl`"),
	kind[contextsDocument]("contexts", "`context list -o json`"),
	kind[deletedContextRecord]("context_deleted", "`context delete`"),
	kind[pathRecord]("state_path", "`state path`"),
	{"state_action", "`state list -o jsonl`, `state show`", []reflect.Type{reflect.TypeFor[actionDetail](), reflect.TypeFor[stateRow]()}},
	kind[stateDocument]("state_actions", "`state list -o json`"),
	kind[checkRecord]("state_check", "`state check`"),
	kind[mergeRecord]("state_merge", "`state merge -o jsonl`"),
	kind[mergeDocument]("state_merged", "`state merge -o json`"),
	kind[pruneRecord]("state_prune", "`state prune`"),
	kind[scenarioRecord]("scenario", "`demo --list`"),
	kind[serveRecord]("serving", "`dev serve`"),
	kind[versionRecord]("version", "`version`"),
}

// words are the fields that hold one of a closed list of words, by record or
// Go type.
var words = map[string][]string{
	"outcome.verdict":      verdictNames(),
	"outcome.tool_effects": {"none", "unconfirmed", "confirmed"},
	"error.class":          verdictNames(),
	"state.state": {
		record.StateConnecting, record.StateFollowing, record.StateSubmitted, record.StateReconnecting, record.StateReplied,
		record.StateUncertain, record.StateDraining, record.StateSettling, record.StateWaiting, record.StateRetrying, record.StateApproval,
	},
	"decision.decision":   {aip.ApprovalApproved, aip.ApprovalDenied},
	"decision.known":      {record.KnownReply, record.KnownRead, record.KnownEarlier, record.KnownVote},
	"capability.source":   contractSources,
	"capabilities.source": contractSources,
	"check.status":        checkWords,
	"doctorCheck.status":  checkWords,
	"chunk.source":        sources,
	"text.source":         sources,
}

var checkWords = []string{checkOK, checkWarn, checkFail}

var contractSources = []string{string(contract.Catalogue), string(contract.Manifest)}

var sources = []string{record.SourceFollow, record.SourcePage, record.SourceAggregate, record.SourceResult}

func verdictNames() []string {
	var names []string
	for _, e := range fault.Exits() {
		if !slices.Contains(names, e.Class.String()) {
			names = append(names, e.Class.String())
		}
	}
	return names
}

// TestRecordSchemas keeps docs/schema equal to the types of the records.
func TestRecordSchemas(t *testing.T) {
	s := &schemas{t: t, docs: map[string]map[string]typeDoc{}}
	dir := filepath.Join(aiptest.ModuleRoot(t), "docs", "schema", "v"+strconv.Itoa(record.Version))
	want := map[string]bool{}
	for _, k := range kinds {
		name := k.name + ".schema.json"
		want[name] = true
		s.keep(filepath.Join(dir, name), s.schema(k))
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !want[e.Name()] {
			t.Errorf("docs/schema has %s, and no record is called so", e.Name())
		}
	}
	readme := filepath.Join(filepath.Dir(dir), "README.md")
	s.keep(readme, s.withTable(readme))
}

// TestEveryRecordHasASchema looks through the source of the program for the
// names of records.
func TestEveryRecordHasASchema(t *testing.T) {
	named := map[string]string{}
	for _, file := range sourceFiles(t, "internal") {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 1 {
				return true
			}
			if sel, ok := call.Fun.(*ast.SelectorExpr); !ok || sel.Sel.Name != "NewHead" {
				return true
			}
			switch arg := call.Args[0].(type) {
			case *ast.BasicLit:
				name, err := strconv.Unquote(arg.Value)
				if err != nil {
					t.Fatal(err)
				}
				named[name] = file
			case *ast.SelectorExpr: // a constant of the package record
				named[strings.ToLower(strings.TrimPrefix(arg.Sel.Name, "Type"))] = file
			default:
				t.Errorf("%s names a record by something that is no constant", file)
			}
			return true
		})
	}
	if len(named) < 20 {
		t.Fatalf("only %d names of records were found", len(named))
	}
	for name, file := range named {
		if !slices.ContainsFunc(kinds, func(k recordKind) bool { return k.name == name }) {
			t.Errorf("%s prints a record of type %q, which has no row in the table kinds", file, name)
		}
	}
}

// sourceFiles are the Go files below a folder of the module that are no tests.
func sourceFiles(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(filepath.Join(aiptest.ModuleRoot(t), dir), func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			out = append(out, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// schemas makes JSON Schemas of Go types and of the comments of their fields.
type schemas struct {
	t    *testing.T
	docs map[string]map[string]typeDoc // by package path and type
}

// typeDoc is what the comments of a struct say.
type typeDoc struct {
	doc    string
	fields map[string]string
}

// keep compares a page with what is on disk, or writes it.
func (s *schemas) keep(path string, want []byte) {
	s.t.Helper()
	if *updateDocs {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			s.t.Fatal(err)
		}
		if err := os.WriteFile(path, want, 0o644); err != nil {
			s.t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		s.t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		s.t.Errorf("docs/schema/%s does not say what the type says; run: go test ./internal/cmd -run TestRecordSchemas -update-docs", filepath.Base(path))
	}
}

// withTable is the page at path with the table of records in its place.
func (s *schemas) withTable(path string) []byte {
	s.t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	const begin, end = "<!-- records -->\n", "<!-- end of records -->\n"
	before, rest, ok := strings.Cut(string(page), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		s.t.Fatalf("%s has no place for the table of records", path)
	}
	var b strings.Builder
	b.WriteString("| Type | Printed by | What it is |\n|---|---|---|\n")
	for _, k := range kinds {
		fmt.Fprintf(&b, "| [`%s`](v%d/%s.schema.json) | %s | %s |\n", k.name, record.Version, k.name, k.by, s.describe(k.types[0]))
	}
	return []byte(before + begin + b.String() + end + after)
}

// node is a schema. Its fields are written in this order.
type node struct {
	Schema      string     `json:"$schema,omitzero"`
	ID          string     `json:"$id,omitzero"`
	Title       string     `json:"title,omitzero"`
	Description string     `json:"description,omitzero"`
	Type        string     `json:"type,omitzero"`
	Const       any        `json:"const,omitzero"`
	Enum        []string   `json:"enum,omitzero"`
	Minimum     *int       `json:"minimum,omitzero"`
	Items       *node      `json:"items,omitzero"`
	Properties  properties `json:"properties,omitzero"`
	Required    []string   `json:"required,omitzero"`
	Additional  *node      `json:"additionalProperties,omitzero"`
}

// properties keep the order of the fields.
type properties []property

type property struct {
	name string
	node *node
}

func (p properties) MarshalJSONTo(e *jsontext.Encoder) error {
	if err := e.WriteToken(jsontext.BeginObject); err != nil {
		return err
	}
	for _, x := range p {
		if err := e.WriteToken(jsontext.String(x.name)); err != nil {
			return err
		}
		if err := json.MarshalEncode(e, x.node); err != nil {
			return err
		}
	}
	return e.WriteToken(jsontext.EndObject)
}

func (p properties) find(name string) int {
	return slices.IndexFunc(p, func(x property) bool { return x.name == name })
}

// schema is the file of one type of record. Where several Go types are printed
// under the name, a field is required if all of them have it.
func (s *schemas) schema(k recordKind) []byte {
	s.t.Helper()
	root := s.object(k.types[0], k.name)
	for _, more := range k.types[1:] {
		other := s.object(more, k.name)
		for _, p := range other.Properties {
			if root.Properties.find(p.name) < 0 {
				root.Properties = append(root.Properties, p)
			}
		}
		root.Required = slices.DeleteFunc(root.Required, func(name string) bool { return !slices.Contains(other.Required, name) })
	}
	root.Schema = "https://json-schema.org/draft/2020-12/schema"
	root.ID = fmt.Sprintf("urn:aipctl:record:v%d:%s", record.Version, k.name)
	root.Title, root.Description = k.name, s.describe(k.types[0])
	for name, value := range map[string]any{"v": record.Version, "type": k.name} {
		i := root.Properties.find(name)
		if i < 0 {
			s.t.Fatalf("the record %s has no field %s", k.name, name)
		}
		root.Properties[i].node.Const = value
	}
	b, err := json.Marshal(root, jsontext.WithIndent("  "), jsontext.EscapeForHTML(false))
	if err != nil {
		s.t.Fatal(err)
	}
	return append(b, '\n')
}

// object is the schema of a struct; place is its name in the table of words.
func (s *schemas) object(typ reflect.Type, place string) *node {
	s.t.Helper()
	n := &node{Type: "object"}
	for i := range typ.NumField() {
		f := typ.Field(i)
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			inner := s.object(f.Type, place)
			n.Properties = append(n.Properties, inner.Properties...)
			n.Required = append(n.Required, inner.Required...)
			continue
		case name == "-" || !f.IsExported():
			continue
		case name == "":
			s.t.Errorf("%s.%s has no name in JSON", typ, f.Name)
		}
		p := s.node(f.Type, place+"."+name)
		p.Description = s.doc(typ).fields[f.Name]
		if p.Description == "" {
			s.t.Errorf("%s.%s has no comment that says what it is", typ, f.Name)
		}
		if n.Properties.find(name) >= 0 {
			s.t.Errorf("%s has %s twice", typ, name)
		}
		n.Properties = append(n.Properties, property{name, p})
		if opts != "omitempty" && opts != "omitzero" {
			n.Required = append(n.Required, name)
		}
	}
	return n
}

// node is the schema of the values of a type.
func (s *schemas) node(typ reflect.Type, place string) *node {
	s.t.Helper()
	none := 0
	switch {
	case typ == reflect.TypeFor[jsontext.Value]():
		return &node{} // any JSON
	case typ == reflect.TypeFor[verdict.Status]():
		return &node{Type: "string", Enum: []string{string(verdict.Pass), string(verdict.Fail), string(verdict.Missing), string(verdict.NotApplicable)}}
	}
	switch typ.Kind() {
	case reflect.Pointer:
		return s.node(typ.Elem(), place)
	case reflect.String:
		return &node{Type: "string", Enum: words[place]}
	case reflect.Bool:
		return &node{Type: "boolean"}
	case reflect.Int, reflect.Int64:
		return &node{Type: "integer"}
	case reflect.Uint64:
		return &node{Type: "integer", Minimum: &none}
	case reflect.Slice:
		return &node{Type: "array", Items: s.node(typ.Elem(), place)}
	case reflect.Map:
		return &node{Type: "object", Additional: s.node(typ.Elem(), place)}
	case reflect.Struct:
		// A record within a record is described by its own name.
		n := s.object(typ, strings.ToLower(typ.Name()))
		return n
	}
	s.t.Fatalf("%s: records do not know values of type %s", place, typ)
	return nil
}

func (s *schemas) describe(typ reflect.Type) string {
	text := s.doc(typ).doc
	if text == "" {
		s.t.Errorf("%s has no comment", typ)
	}
	// "Gap is a run of sequences" describes the record as "A run of sequences".
	for _, verb := range []string{" is ", " says "} {
		if _, rest, ok := strings.Cut(text, typ.Name()+verb); ok && verb == " is " {
			return strings.ToUpper(rest[:1]) + rest[1:]
		} else if ok {
			return "Says " + rest
		}
	}
	return text
}

// doc reads the comments of a struct out of the source of its package.
func (s *schemas) doc(typ reflect.Type) typeDoc {
	s.t.Helper()
	path := typ.PkgPath()
	if s.docs[path] == nil {
		s.docs[path] = s.read(path)
	}
	return s.docs[path][typ.Name()]
}

func (s *schemas) read(path string) map[string]typeDoc {
	s.t.Helper()
	dir := strings.TrimPrefix(path, "github.com/aipctl/aipctl/")
	out := map[string]typeDoc{}
	for _, file := range sourceFiles(s.t, filepath.FromSlash(dir)) {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, decl := range f.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range gen.Specs {
				ts, ok := spec.(*ast.TypeSpec)
				if !ok {
					continue
				}
				st, ok := ts.Type.(*ast.StructType)
				if !ok {
					continue
				}
				doc := ts.Doc
				if doc == nil {
					doc = gen.Doc
				}
				d := typeDoc{doc: oneLine(doc), fields: map[string]string{}}
				for _, field := range st.Fields.List {
					text := oneLine(field.Comment)
					if text == "" {
						text = oneLine(field.Doc)
					}
					for _, name := range field.Names {
						d.fields[name.Name] = text
					}
				}
				out[ts.Name.Name] = d
			}
		}
	}
	return out
}

// oneLine is a comment without its line ends.
func oneLine(c *ast.CommentGroup) string { return strings.Join(strings.Fields(c.Text()), " ") }
