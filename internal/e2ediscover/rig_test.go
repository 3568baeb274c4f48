package e2ediscover_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aipctl/aipctl/internal/cmd"
	"github.com/aipctl/aipctl/internal/devserver"
	"github.com/aipctl/aipctl/internal/e2erig"
)

// patience ends a run that hangs, so that its test fails and says why.
const patience = 60 * time.Second

// world is what a command finds around itself.
type world struct {
	t   testing.TB
	env map[string]string
	now func() time.Time
}

func newWorld(t testing.TB, url string) *world {
	t.Helper()
	dir := t.TempDir()
	return &world{t: t, now: time.Now, env: map[string]string{
		"AIP_URL": url, "AIPCTL_STATE": filepath.Join(dir, "state", "state.jsonl"), "HOME": dir,
	}}
}

// shot is what came out of one command.
type shot struct {
	code           int
	stdout, stderr string
}

func (w *world) run(args ...string) shot {
	w.t.Helper()
	ctx, stop := context.WithTimeout(w.t.Context(), patience)
	defer stop()
	return w.runContext(ctx, args...)
}

func (w *world) runContext(ctx context.Context, args ...string) shot {
	w.t.Helper()
	code, stdout, stderr := e2erig.Run(ctx, w.t, cmd.App{Now: w.now}, w.env, args...)
	return shot{code, stdout, stderr}
}

// recorded is the state file; empty when there is none.
func (w *world) recorded() string {
	w.t.Helper()
	raw, err := os.ReadFile(w.env["AIPCTL_STATE"])
	if err != nil && !os.IsNotExist(err) {
		w.t.Fatal(err)
	}
	return string(raw)
}

// front is a daemon whose answers about capabilities are the test's, where it
// has any, in front of the development daemon that does everything else.
type front struct {
	url       string
	catalogue http.HandlerFunc
	manifest  http.HandlerFunc
	other     map[string]http.HandlerFunc // by path, before the development daemon

	mu    sync.Mutex
	asked []string // method and path with query
}

func newFront(t testing.TB, catalogue, manifest http.HandlerFunc) *front {
	t.Helper()
	f := &front{catalogue: catalogue, manifest: manifest, other: map[string]http.HandlerFunc{}}
	f.url = e2erig.Serve(t, f.before(t, devserver.Options{Poll: time.Millisecond}))
	return f
}

// before answers what is the test's, and leaves the rest to a development
// daemon.
func (f *front) before(t testing.TB, o devserver.Options) http.Handler {
	back := devserver.New(o)
	t.Cleanup(back.Close)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		f.asked = append(f.asked, r.Method+" "+r.URL.RequestURI())
		other := f.other[r.URL.Path]
		f.mu.Unlock()
		switch {
		case other != nil:
			other(w, r)
		case r.URL.Path == "/aip/v1/capabilities" && f.catalogue != nil:
			f.catalogue(w, r)
		case r.URL.Path == "/aip/v1/manifest" && f.manifest != nil:
			f.manifest(w, r)
		default:
			back.Handler().ServeHTTP(w, r)
		}
	})
}

// requests are those whose text has the part in it.
func (f *front) requests(part string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, a := range f.asked {
		if strings.Contains(a, part) {
			n++
		}
	}
	return n
}

// answers is a fixed answer.
func answers(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

func codeOnly(status int, code string) http.HandlerFunc {
	return answers(status, "application/json", `{"error":{"code":"`+code+`"}}`)
}

// The answers that differ in what they say of a daemon.
var (
	nothingThere = answers(404, "", "")
	disabled     = codeOnly(404, "connector_catalog.disabled")
	noTenant     = codeOnly(403, "connector_catalog.tenant_required")
	unavailable  = codeOnly(503, "connector_catalog.unavailable")
	webPage      = answers(200, "text/html", "<html>Welcome</html>")
	refused      = answers(401, "application/json", `{"aip_version":"1.0","message_type":"aip.core.v1.error","message_id":"msg_1","sent_at":"2030-01-15T09:30:00Z","body":{"error":{"error":{"code":"auth.native_http_unauthorized","message":"x","category":"auth","retryable":false}}}}`)
	plainPage    = manifestOf()
	hangs        = func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
)

// catalogueOf serves capabilities as one page; it takes the filter that the
// protocol has, as a daemon does.
func catalogueOf(capabilities ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		wanted := r.URL.Query().Get("capability_id")
		var entries []string
		for _, c := range capabilities {
			var head struct{ ID string }
			if err := json.Unmarshal([]byte(c), &head); err == nil && wanted != "" && head.ID != wanted {
				continue
			}
			entries = append(entries, `{"capability":`+c+`,"contract_digest":"d1","later":{"n":1.50}}`)
		}
		answers(200, "application/json", `{"catalog_revision":17,"capabilities":[`+strings.Join(entries, ",")+`],"next_cursor":null,"total":1}`)(w, r)
	}
}

func manifestOf(capabilities ...string) http.HandlerFunc {
	return answers(200, "application/json", `{"manifest_version":"aip-manifest/v1","agent":{"id":"agent:x","kind":"agent"},"profiles":["p"],"capabilities":[`+strings.Join(capabilities, ",")+`]}`)
}

// capability reads one published capability of testdata, on one line.
func capability(t testing.TB, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// golden compares text with a file that was written by hand.
func golden(t testing.TB, name, got string) {
	t.Helper()
	want, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s:\n%s\nwant:\n%s", name, got, want)
	}
}
