//go:build unix

package e2eproc

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aipctl/aipctl/internal/devserver"
)

// hang bounds every wait of a test. It is long, for it only ends what will
// never end by itself.
const hang = 60 * time.Second

// token is what the daemons of these tests ask for.
const token = "e2e-t0ken-0123456789abcdef"

// daemon is the development daemon behind a door that a test can close.
type daemon struct {
	t         *testing.T
	srv       *devserver.Server
	http      *httptest.Server
	url       string // with the path prefix
	tokenFile string
	closing   chan struct{} // closed when the test ends

	mu    sync.Mutex
	holds map[uint64]*hold
	door  door
	seen  map[string]int // requests by kind, those that the door took too

	rewrite func(string) string
}

// setup is how a test wants its daemon.
type setup struct {
	devserver.Options
	door door
	// rewrite changes what the daemon writes, piece by piece; nil leaves it.
	rewrite func(string) string
}

// door may answer a request in the place of the daemon; false lets it in.
type door func(*visit) bool

// visit is a request at the door.
type visit struct {
	kind    string
	w       http.ResponseWriter
	r       *http.Request
	closing <-chan struct{}
}

// starve never answers; it returns true when the client has gone.
func (v *visit) starve() bool {
	_, _ = io.Copy(io.Discard, v.r.Body) // the server sees a client go only then
	select {
	case <-v.r.Context().Done():
	case <-v.closing:
	}
	return true
}

// answer answers in the place of the daemon.
func (v *visit) answer(status int, contentType, body string) bool {
	v.w.Header().Set("Content-Type", contentType)
	v.w.WriteHeader(status)
	_, _ = io.WriteString(v.w, body) // the client may have gone
	return true
}

// rewriting changes what is written. The daemon writes whole frames at once.
type rewriting struct {
	http.ResponseWriter
	rewrite func(string) string
}

func (w rewriting) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.ResponseWriter, w.rewrite(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Unwrap lets the daemon flush.
func (w rewriting) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func newDaemon(t *testing.T, s setup) *daemon {
	t.Helper()
	d := &daemon{t: t, closing: make(chan struct{}), holds: map[uint64]*hold{}, seen: map[string]int{}, door: s.door, rewrite: s.rewrite}
	s.Token = token
	if s.Poll == 0 {
		s.Poll = 10 * time.Millisecond
	}
	own := s.Hooks.BeforeChunk
	s.Hooks.BeforeChunk = func(id string, seq uint64) {
		if own != nil {
			own(id, seq)
		}
		d.pass(seq)
	}
	d.srv = devserver.New(s.Options)
	d.http = httptest.NewServer(http.HandlerFunc(d.serve))
	d.url = d.http.URL + s.PathPrefix
	d.tokenFile = d.tokenFileOf(token + "\n")
	t.Cleanup(func() {
		close(d.closing)
		d.http.CloseClientConnections()
		d.srv.Close()
		d.http.Close()
	})
	return d
}

// tokenFileOf writes an owner-only token file.
func (d *daemon) tokenFileOf(content string) string {
	d.t.Helper()
	path := filepath.Join(d.t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		d.t.Fatal(err)
	}
	return path
}

func (d *daemon) serve(w http.ResponseWriter, r *http.Request) {
	kind := kindOf(r)
	d.mu.Lock()
	d.seen[kind]++
	door := d.door
	d.mu.Unlock()
	if d.rewrite != nil {
		w = rewriting{w, d.rewrite}
	}
	if door != nil && door(&visit{kind, w, r, d.closing}) {
		return
	}
	d.srv.Handler().ServeHTTP(w, r)
}

// setDoor changes what becomes of the requests that come from now on.
func (d *daemon) setDoor(door door) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.door = door
}

// requests is how many requests of a kind have come.
func (d *daemon) requests(kind string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.seen[kind]
}

// kindOf names a request by what it is for.
func kindOf(r *http.Request) string { return kind(r.Method, r.URL.Path, r.URL.RawQuery) }

func kind(method, path, query string) string {
	switch {
	case method == http.MethodPost && strings.HasSuffix(path, "/cancel"):
		return "cancel"
	case method == http.MethodPost:
		return "submit"
	case strings.HasSuffix(path, "/events") && strings.Contains(query, "follow=true"):
		return "follow"
	case strings.HasSuffix(path, "/events"):
		return "page"
	case strings.HasSuffix(path, "/result"):
		return "result"
	case strings.Contains(path, "/aip/v1/actions/"):
		return "status"
	}
	return "other"
}

// hold is a place in the provider's stream where the daemon stands still.
type hold struct {
	arrived chan struct{} // closed when the daemon is there
	free    chan struct{} // closed to let it go on
	once    sync.Once
}

// holdAt makes the daemon stand still before it publishes the chunk of that
// sequence, of whatever action. Everything below it is published then.
func (d *daemon) holdAt(seq uint64) *hold {
	h := &hold{arrived: make(chan struct{}), free: make(chan struct{})}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.holds[seq] = h
	return h
}

func (d *daemon) pass(seq uint64) {
	d.mu.Lock()
	h := d.holds[seq]
	delete(d.holds, seq)
	d.mu.Unlock()
	if h == nil {
		return
	}
	close(h.arrived)
	select {
	case <-h.free:
	case <-d.closing:
	}
}

func (h *hold) release() { h.once.Do(func() { close(h.free) }) }

// await waits until the daemon stands at the hold.
func (h *hold) await(t *testing.T) {
	t.Helper()
	within(t, h.arrived, "the daemon to reach the held chunk")
}

func within(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(hang):
		t.Fatalf("waited in vain for %s", what)
	}
}

// get reads a path of the daemon itself, past the door.
func (d *daemon) get(path string) []byte {
	d.t.Helper()
	r := httptest.NewRequest(http.MethodGet, strings.TrimPrefix(d.url, d.http.URL)+path, nil)
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	d.srv.Handler().ServeHTTP(w, r)
	b, err := io.ReadAll(w.Result().Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return b
}

// chunk is one stored chunk of a chat stream as the daemon serves it.
type chunk struct {
	Sequence uint64 `json:"sequence"`
	Kind     string `json:"kind"`
	Data     struct {
		HermesSSE struct {
			Data json.RawMessage `json:"data"`
			Raw  string          `json:"raw_data"`
		} `json:"hermes_sse"`
	} `json:"data"`
}

// text is the content that the chunk adds to choice 0; empty for any other.
func (c chunk) text() string {
	var v struct {
		Choices []struct {
			Delta struct {
				Content string `json:"content"`
			} `json:"delta"`
		} `json:"choices"`
	}
	if json.Unmarshal(c.Data.HermesSSE.Data, &v) != nil || len(v.Choices) == 0 {
		return "" // [DONE] is a string, a tool frame has no choices
	}
	return v.Choices[0].Delta.Content
}

// finish reports whether the chunk holds a finish reason.
func (c chunk) finish() bool {
	return bytes.Contains(c.Data.HermesSSE.Data, []byte(`"finish_reason":"`)) ||
		bytes.Contains(c.Data.HermesSSE.Data, []byte(`"finish_reason": "`))
}

// chunks reads what the daemon has stored of an action.
func (d *daemon) chunks(id string) []chunk {
	d.t.Helper()
	var v struct {
		Events struct {
			Chunks []chunk `json:"chunks"`
		} `json:"action_events"`
	}
	if err := json.Unmarshal(d.get("/aip/v1/actions/"+id+"/events?include_chunks=true&limit=1000"), &v); err != nil {
		d.t.Fatalf("the stored chunks: %v", err)
	}
	return v.Events.Chunks
}

// answer is the text that the daemon has stored of an action so far.
func (d *daemon) answer(id string) string {
	d.t.Helper()
	var b strings.Builder
	for _, c := range d.chunks(id) {
		b.WriteString(c.text())
	}
	return b.String()
}

// submits is how many envelopes with an action reached the runtime.
func (d *daemon) submits() int { return len(d.srv.Submits()) }

// script is what a scenario will do, learnt from a daemon of its own.
type script struct {
	chunks []chunk
	text   string
}

// play lets a scenario run to its end, as no client disturbs it.
func play(t *testing.T, capability string) script {
	t.Helper()
	d := newDaemon(t, setup{})
	got := d.run(t, "action", "call", d.url, capability, "--prompt", "x", "--action-id", "act_undisturbed", "-o", "jsonl")
	if d.srv.Executions("act_undisturbed") != 1 {
		t.Fatalf("the scenario did not run: %s", got)
	}
	return script{chunks: d.chunks("act_undisturbed"), text: d.answer("act_undisturbed")}
}

// finishAt is the sequence of the chunk with the finish reason.
func (s script) finishAt(t *testing.T) uint64 {
	t.Helper()
	for _, c := range s.chunks {
		if c.finish() {
			return c.Sequence
		}
	}
	t.Fatal("the scenario has no finish chunk")
	return 0
}

// upTo is the text of all chunks below a sequence.
func (s script) upTo(seq uint64) string {
	var b strings.Builder
	for _, c := range s.chunks {
		if c.Sequence < seq {
			b.WriteString(c.text())
		}
	}
	return b.String()
}

// telling is a door that lets everything in and tells of each request of a
// kind, as far as somebody listens.
func telling(kind string, to chan<- struct{}) door {
	return func(v *visit) bool {
		if v.kind == kind {
			select {
			case to <- struct{}{}:
			default:
			}
		}
		return false
	}
}
