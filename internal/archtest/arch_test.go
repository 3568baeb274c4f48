// Package archtest holds the walls between the rooms of the module. It has
// tests only: they read what every package imports, on every system the
// program is built for, and compare it with the table of rooms. The linter
// says the same earlier (depguard); this says it wherever go test runs.
package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/aipctl/aipctl/"

// A room is one package: what it may import of the module and of others. The
// standard library is open to all, but a pure room links no network and asks
// the operating system for nothing.
type room struct {
	inside  []string // packages of the module, without "internal/"
	outside []string // third-party packages; a package below one counts as it
	pure    bool
}

const (
	cobra   = "github.com/spf13/cobra"
	pflag   = "github.com/spf13/pflag"
	goSSE   = "github.com/tmaxmax/go-sse"
	color   = "github.com/fatih/color"
	isatty  = "github.com/mattn/go-isatty"
	xterm   = "golang.org/x/term"
	width   = "github.com/clipperhouse/displaywidth"
	uax29   = "github.com/clipperhouse/uax29/v2"
	goTOML  = "github.com/pelletier/go-toml/v2"
	flock   = "github.com/gofrs/flock"
	sys     = "golang.org/x/sys"
	uuid    = "github.com/google/uuid"
	gojq    = "github.com/itchyny/gojq"
	schema  = "github.com/santhosh-tekuri/jsonschema/v6"
	jsonExp = "github.com/go-json-experiment/json"
	gointer = "github.com/rogpeppe/go-internal"
)

var rooms = map[string]room{
	"cmd/aipctl": {inside: []string{"cmd"}},

	"internal/cmd": {
		inside: []string{
			"aip", "client", "config", "contract", "cursor", "devserver", "engine", "fault", "follow", "hermes",
			"identity", "jq", "manual", "record", "render", "sanitize", "state", "transcript", "userfile", "verdict",
		},
		outside: []string{cobra, pflag, isatty, xterm, sys, jsonExp},
	},
	"internal/engine": {
		inside: []string{
			"aip", "client", "contract", "cursor", "fault", "follow", "hermes", "identity", "record", "state",
			"transcript", "verdict",
		},
		outside: []string{jsonExp},
	},
	"internal/client":   {inside: []string{"aip", "fault", "idle"}, outside: []string{jsonExp}},
	"internal/follow":   {inside: []string{"aip", "fault", "idle"}, outside: []string{goSSE, jsonExp}},
	"internal/idle":     {},
	"internal/contract": {inside: []string{"aip", "client", "fault"}, outside: []string{jsonExp, schema}},
	"internal/config":   {inside: []string{"fault", "userfile"}, outside: []string{goTOML}},
	"internal/jq":       {inside: []string{"fault"}, outside: []string{gojq}},
	"internal/cursor":   {inside: []string{"state"}},
	"internal/identity": {inside: []string{"fault", "state"}, outside: []string{uuid, jsonExp, sys}},
	"internal/state":    {inside: []string{"fault", "userfile"}, outside: []string{jsonExp}},
	"internal/userfile": {outside: []string{flock, sys}},
	"internal/render": {
		inside:  []string{"aip", "fault", "jq", "record", "sanitize", "transcript", "verdict"},
		outside: []string{color, isatty, xterm, width, jsonExp},
	},

	"internal/fault":      {pure: true},
	"internal/manual":     {pure: true},
	"internal/aip":        {inside: []string{"fault"}, outside: []string{jsonExp}, pure: true},
	"internal/transcript": {inside: []string{"aip"}, outside: []string{jsonExp}, pure: true},
	"internal/hermes":     {inside: []string{"aip", "transcript"}, outside: []string{jsonExp}, pure: true},
	"internal/verdict":    {inside: []string{"aip", "fault", "transcript"}, outside: []string{jsonExp}, pure: true},
	"internal/record":     {inside: []string{"aip", "transcript"}, outside: []string{jsonExp}, pure: true},
	"internal/sanitize":   {outside: []string{uax29}, pure: true},

	"internal/devserver": {},
	"internal/aiptest":   {inside: []string{"devserver"}, outside: []string{gointer, schema, width}},

	"internal/aiptest/faults": {},

	"internal/archtest":    {},
	"internal/e2e":         {},                                   // tests of whole commands against a daemon on loopback
	"internal/e2ecrowd":    {},                                   // tests of crowds of processes, kills, losses and a full disk
	"internal/e2estored":   {},                                   // tests of whole commands about stored responses and approvals
	"internal/e2ediscover": {},                                   // tests of what is asked before a call
	"internal/e2erig":      {inside: []string{"aiptest", "cmd"}}, // runs commands for the end to end tests
	"internal/e2egolden":   {},                                   // tests of whole commands over every recorded stream
	"internal/e2eproc":     {},                                   // tests of the program as a process
}

// network and system are closed to a pure room: the first even through other
// packages, the second in its own imports (the standard library itself cannot
// format a number without os).
var (
	network = []string{"net", "net/http", "crypto/tls"}
	system  = []string{"os", "os/exec", "os/signal", "os/user", "path/filepath", "syscall", "io/ioutil", "log"}
)

// pkg is what go list says of a package.
type pkg struct {
	ImportPath string
	Imports    []string
	Deps       []string
	Error      *struct{ Err string }
}

// violations returns what the package imports against its row.
func violations(p pkg) []string {
	name := strings.TrimPrefix(p.ImportPath, module)
	r, ok := rooms[name]
	if !ok {
		return []string{name + " has no row in the table of rooms"}
	}
	var out []string
	for _, imp := range p.Imports {
		switch inner, ours := strings.CutPrefix(imp, module); {
		case ours:
			if !slices.Contains(r.inside, strings.TrimPrefix(inner, "internal/")) {
				out = append(out, name+" may not import "+inner)
			}
		case strings.Contains(strings.Split(imp, "/")[0], "."):
			if !slices.ContainsFunc(r.outside, func(o string) bool { return imp == o || strings.HasPrefix(imp, o+"/") }) {
				out = append(out, name+" may not import "+imp)
			}
		case r.pure && (slices.Contains(system, imp) || slices.Contains(network, imp)):
			out = append(out, name+" is pure and may not import "+imp)
		case imp == "C":
			out = append(out, name+" uses cgo")
		}
	}
	for _, dep := range p.Deps {
		if r.pure && slices.Contains(network, dep) {
			out = append(out, name+" is pure and links "+dep)
		}
	}
	return out
}

// listed keeps what list has found; the tests run one after the other.
var listed = map[string][]pkg{}

// list returns the packages of the module as they are built for a system.
func list(t *testing.T, goos string) []pkg {
	t.Helper()
	if all, ok := listed[goos]; ok {
		return all
	}
	c := exec.Command("go", "list", "-e", "-json=ImportPath,Imports,Deps,Error", module+"...")
	c.Env = append(os.Environ(), "GOOS="+goos, "GOARCH=amd64", "CGO_ENABLED=0")
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.Bytes())
	}
	var all []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			listed[goos] = all
			return all
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		if p.Error != nil {
			t.Errorf("%s: %s", p.ImportPath, p.Error.Err)
		}
		all = append(all, p)
	}
}

// touchSources opens every source of the module. A cached test result is
// thrown away when a file that the test itself opened has changed; what go list
// opens does not count.
func touchSources(t *testing.T) {
	t.Helper()
	n := 0
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch name := d.Name(); {
		case d.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "dist"):
			return fs.SkipDir
		case strings.HasSuffix(name, ".go"), name == "go.mod":
			n++
			_, err = os.ReadFile(path)
		}
		return err
	})
	if err != nil || n < 2 {
		t.Fatalf("reading %d sources: %v", n, err)
	}
}

func TestRoomsImportWhatTheirRowAllows(t *testing.T) {
	touchSources(t)
	for _, goos := range []string{"linux", "darwin", "windows"} {
		t.Run(goos, func(t *testing.T) {
			pkgs := list(t, goos)
			if len(pkgs) < 2 {
				t.Fatalf("go list found %d packages", len(pkgs))
			}
			for _, p := range pkgs {
				for _, v := range violations(p) {
					t.Error(v)
				}
			}
		})
	}
}

// TestWhatIsLinkedIsArguedFor compares the libraries in the program with
// docs/dependencies.md, where each has its reason.
func TestWhatIsLinkedIsArguedFor(t *testing.T) {
	argued, err := os.ReadFile(filepath.Join("..", "..", "docs", "dependencies.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, goos := range []string{"linux", "darwin", "windows"} {
		linked := 0
		for _, p := range list(t, goos) {
			if p.ImportPath != module+"cmd/aipctl" {
				continue
			}
			for _, dep := range p.Deps {
				parts := strings.Split(dep, "/")
				if !strings.Contains(parts[0], ".") || strings.HasPrefix(dep, module) || len(parts) < 3 {
					continue
				}
				linked++
				name := strings.TrimPrefix(strings.Join(parts[:3], "/"), "github.com/")
				if !bytes.Contains(argued, []byte("`"+name)) {
					t.Errorf("%s links %s, which docs/dependencies.md does not name", goos, dep)
				}
			}
		}
		if linked == 0 {
			t.Errorf("nothing is linked for %s", goos)
		}
	}
}

func TestTheTableItself(t *testing.T) {
	only := map[string][]string{ // a library and the only rooms that may know it
		cobra: {"internal/cmd"}, pflag: {"internal/cmd"}, goSSE: {"internal/follow"}, color: {"internal/render"},
		flock: {"internal/userfile"}, goTOML: {"internal/config"}, uuid: {"internal/identity"}, sys: {"internal/cmd", "internal/identity", "internal/userfile"}, gointer: {"internal/aiptest"},
	}
	for name, r := range rooms {
		for _, lib := range r.outside {
			if who, ok := only[lib]; ok && !slices.Contains(who, name) {
				t.Errorf("%s may import %s, which belongs to %v", name, lib, who)
			}
		}
		for _, in := range r.inside {
			other, ok := rooms["internal/"+in]
			switch {
			case !ok:
				t.Errorf("%s may import %s, which has no row", name, in)
			case r.pure && !other.pure:
				t.Errorf("%s is pure and may import %s, which is not", name, in)
			case in == "e2erig", in == "aiptest" && name != "internal/e2erig":
				t.Errorf("%s may import %s, which is for tests", name, in)
			}
		}
	}
	if n := len(rooms["internal/devserver"].inside); n != 0 {
		t.Errorf("devserver may import %d packages of the module, want none", n)
	}
}

func TestWallsAreSeen(t *testing.T) {
	for _, tc := range []struct {
		rule string
		p    pkg
		want string
	}{
		{"a room without a row", pkg{ImportPath: module + "internal/attic"}, "no row"},
		{"devserver imports nothing of ours", pkg{ImportPath: module + "internal/devserver", Imports: []string{module + "internal/aip"}}, "internal/aip"},
		{"only cmd knows cobra", pkg{ImportPath: module + "internal/render", Imports: []string{cobra}}, cobra},
		{"a package below a library counts", pkg{ImportPath: module + "internal/engine", Imports: []string{goSSE + "/internal/parser"}}, goSSE},
		{"only tests know aiptest", pkg{ImportPath: module + "internal/cmd", Imports: []string{module + "internal/aiptest"}}, "internal/aiptest"},
		{"a pure room opens no file", pkg{ImportPath: module + "internal/verdict", Imports: []string{"os"}}, "may not import os"},
		{"a pure room links no network", pkg{ImportPath: module + "internal/hermes", Deps: []string{"net/http"}}, "links net/http"},
		{"nothing uses cgo", pkg{ImportPath: module + "internal/state", Imports: []string{"C"}}, "cgo"},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			if got := fmt.Sprint(violations(tc.p)); !strings.Contains(got, tc.want) {
				t.Errorf("violations %s do not speak of %q", got, tc.want)
			}
		})
	}
	if v := violations(pkg{ImportPath: module + "internal/follow", Imports: []string{"net/http", goSSE, module + "internal/aip"}}); v != nil {
		t.Errorf("what is allowed was refused: %v", v)
	}
}
