package sanitize

import (
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func TestFormat(t *testing.T) {
	hostile := Line("a\x1bb")
	for _, tc := range []struct {
		rule string
		got  Text
		want string
	}{
		{"no verbs", Format("plain"), "plain"},
		{"verbs are filled in order", Format("%s, then %s", Static("one"), Static("two")), "one, then two"},
		{"verbs may touch", Format("%s%s", Static("one"), Static("two")), "onetwo"},
		{"a doubled percent sign is one", Format("100%% of %s", Int(3)), "100% of 3"},
		{"an argument is not read as a format", Format("%s", Line("50%s off")), "50%s off"},
		{"a cleaned argument stays clean", Format("<%s>", hostile), `<a\x1bb>`},
		{"the format is cleaned too", Format("\x1b[31m%s", hostile), `\x1b[31ma\x1bb`},
		{"an argument too few is marked", Format("%s and %s", Static("one")), "one and %!s(MISSING)"},
		{"an argument too many is marked", Format("%s", Static("one"), Static("two")), "one%!(EXTRA)"},
		{"another verb is marked", Format("%d of %s", Static("one")), "%!d(BADVERB) of one"},
		{"a percent sign at the end is marked", Format("100%"), "100%!(NOVERB)"},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			if tc.got.String() != tc.want {
				t.Errorf("got %q, want %q", tc.got, tc.want)
			}
		})
	}
}

func TestJoin(t *testing.T) {
	for _, tc := range []struct {
		rule string
		got  Text
		want string
	}{
		{"nothing", Join(", "), ""},
		{"one part has no separator", Join(", ", Static("one")), "one"},
		{"the separator stands between", Join(", ", Static("one"), Text{}, Static("two")), "one, , two"},
		{"the separator is cleaned", Join("\a", Static("one"), Static("two")), `one\x07two`},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			if tc.got.String() != tc.want {
				t.Errorf("got %q, want %q", tc.got, tc.want)
			}
		})
	}
}

func TestStaticKeepsNewlineAndTab(t *testing.T) {
	if got := Static("a\n\tb").String(); got != "a\n\tb" {
		t.Errorf("got %q", got)
	}
	if got := Static("\x1b]0;x\a").String(); got != `\x1b]0;x\x07` {
		t.Errorf("a constant with controls came out as %q", got)
	}
}

func TestLengthIsInBytes(t *testing.T) {
	if got := Static("é…").Len(); got != 5 {
		t.Errorf("Len() = %d, want 5", got)
	}
	if Static("x").IsEmpty() || !(Text{}).IsEmpty() || !Static("").IsEmpty() {
		t.Error("IsEmpty is wrong")
	}
}

func TestNumbers(t *testing.T) {
	for want, got := range map[string]Text{
		"0":                    Int(0),
		"-9223372036854775808": Int(math.MinInt64),
		"18446744073709551615": Uint(math.MaxUint64),
	} {
		if got.String() != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestDuration(t *testing.T) {
	for _, tc := range []struct {
		d    time.Duration
		want string
	}{
		{0, "0s"},
		{1, "<1ms"},
		{999 * time.Microsecond, "<1ms"},
		{time.Millisecond, "1ms"},
		{350*time.Millisecond + 900*time.Microsecond, "350ms"},
		{time.Second - 1, "999ms"},
		{time.Second, "1.0s"},
		{1290 * time.Millisecond, "1.2s"},
		{time.Minute - 1, "59.9s"},
		{time.Minute, "1m00s"},
		{2*time.Minute + 3*time.Second + 999*time.Millisecond, "2m03s"},
		{time.Hour - 1, "59m59s"},
		{time.Hour, "1h00m"},
		{26*time.Hour + 5*time.Minute + 59*time.Second, "26h05m"},
		{-1290 * time.Millisecond, "-1.2s"},
		{math.MaxInt64, "2562047h47m"},
		{math.MinInt64, "-2562047h47m"},
	} {
		if got := Duration(tc.d).String(); got != tc.want {
			t.Errorf("Duration(%d) = %q, want %q", tc.d, got, tc.want)
		}
	}
}

// Each line of testdata/misuse that ends in a "want" comment has to be refused
// by the compiler with that message, and no other line may be.
func TestOnlyCleanedTextCompiles(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the package from source")
	}
	if build.Default.GOROOT == "" { // left out by -trimpath
		out, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
		if err != nil {
			t.Fatal(err)
		}
		build.Default.GOROOT = strings.TrimSpace(string(out))
	}
	const path = "github.com/aipctl/aipctl/internal/sanitize"
	fset := token.NewFileSet()
	source := importer.ForCompiler(fset, "source", nil)

	own := parseDir(t, fset, ".")
	pkg, err := (&types.Config{Importer: source}).Check(path, fset, own, nil)
	if err != nil {
		t.Fatal(err)
	}

	misuse := parseDir(t, fset, "testdata/misuse")
	want := map[token.Position]string{}
	for _, f := range misuse {
		for _, group := range f.Comments {
			for _, c := range group.List {
				if text, ok := strings.CutPrefix(c.Text, "// want: "); ok {
					want[lineOf(fset, c.Pos())] = text
				}
			}
		}
	}
	if len(want) == 0 {
		t.Fatal("testdata/misuse wants nothing")
	}
	check := types.Config{
		Importer: importerFunc(func(p string) (*types.Package, error) {
			if p == path {
				return pkg, nil
			}
			return source.Import(p)
		}),
		Error: func(err error) {
			te := err.(types.Error)
			at := lineOf(fset, te.Pos)
			if text, ok := want[at]; !ok || !strings.Contains(te.Msg, text) {
				t.Errorf("%v: got %q, want %q", at, te.Msg, text)
			}
			delete(want, at)
		},
	}
	_, _ = check.Check("misuse", fset, misuse, nil) // errors go to Error above
	for at, text := range want {
		t.Errorf("%v: compiles, want %q", at, text)
	}
}

type importerFunc func(path string) (*types.Package, error)

func (f importerFunc) Import(path string) (*types.Package, error) { return f(path) }

func parseDir(t *testing.T, fset *token.FileSet, dir string) []*ast.File {
	t.Helper()
	names, err := fs.Glob(os.DirFS(dir), "*.go")
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, dir+"/"+name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

func lineOf(fset *token.FileSet, pos token.Pos) token.Position {
	p := fset.Position(pos)
	return token.Position{Filename: p.Filename, Line: p.Line}
}
