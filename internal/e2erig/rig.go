// Package e2erig runs whole commands in the process of a test. The end to end
// tests of every room begin with it; each adds what its own commands find
// around themselves.
package e2erig

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aipctl/aipctl/internal/aiptest"
	"github.com/aipctl/aipctl/internal/cmd"
)

// Version is what the program says of itself in these tests.
var Version = cmd.Version{Version: "0.0.0-test"}

// Main runs the tests of a package, so many of them side by side: most wait for
// a daemon and not for a processor. A -parallel on the command line wins. Their
// transcripts know the program as aipctl. It never returns.
func Main(m *testing.M, parallel int) {
	if err := flag.Set("test.parallel", strconv.Itoa(parallel)); err != nil {
		panic(err)
	}
	aiptest.Main(m, map[string]func(){"aipctl": func() { os.Exit(cmd.Main(Version)) }})
}

// Run runs one command line with nothing of this machine's around it but what
// the app brings: its streams for reading, its terminals, its clock. A run that
// hangs ends with ctx. Records that were asked for must be as docs/schema says.
func Run(ctx context.Context, t testing.TB, app cmd.App, env map[string]string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	app.Version, app.Executable = Version, "aipctl"
	app.Stdout, app.Stderr = &out, &errs
	app.Env = func(name string) string { return env[name] }
	app.Width = func() int { return 200 }
	if app.Stdin == nil {
		app.Stdin = strings.NewReader("")
	}
	if app.Now == nil {
		app.Now = time.Now
	}
	code = app.Run(ctx, args)
	aiptest.CheckOutput(t, args, out.String(), errs.String())
	return code, out.String(), errs.String()
}

// State reads the records of a state file; a file that is not there has none.
// A line that is no record fails the test.
func State[Record any](t testing.TB, path string) []Record {
	t.Helper()
	src, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatalf("state file: %v", err)
	}
	var out []Record
	for line := range strings.Lines(string(src)) {
		var r Record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("state file: %v in line %q", err, line)
		}
		out = append(out, r)
	}
	return out
}

// Serve serves a handler on loopback until the test ends, and returns its URL.
func Serve(t testing.TB, h http.Handler) string {
	hs := httptest.NewServer(h)
	t.Cleanup(func() {
		hs.CloseClientConnections() // a follow may still stand open
		hs.Close()
	})
	return hs.URL
}
