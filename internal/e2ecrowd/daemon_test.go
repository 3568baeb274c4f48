//go:build unix

package e2ecrowd

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aipctl/aipctl/internal/devserver"
)

// hang bounds every wait of a test. It is long, for it only ends what will
// never end by itself.
const hang = 3 * time.Minute

// token is what the daemons of these tests ask for.
const token = "crowd-t0ken-0123456789abcdef"

// short is a scenario of ten chunks, long one of forty-four.
const (
	short = "cap:hermes_agent:chat-stop:chat_stream"
	long  = "cap:hermes_agent:chat-slow:chat_stream"
)

// daemon is the development daemon, and a door that a test can hold.
type daemon struct {
	t         testing.TB
	srv       *devserver.Server
	http      *httptest.Server
	url       string
	tokenFile string
	closing   chan struct{} // closed when the daemon ends

	mu     sync.Mutex
	chunks map[uint64]*hold
	kinds  map[string]*hold
	seen   map[string]int
	asked  func(kind string, r *http.Request)
}

// newDaemon starts a daemon; asked, which may be nil, is told of each request
// before it is answered.
func newDaemon(t testing.TB, asked func(kind string, r *http.Request)) *daemon {
	t.Helper()
	return newDaemonAt(t, 0, asked)
}

// newDaemonAt starts one that plays its recordings so many times faster than
// they were; 0 leaves no pauses.
func newDaemonAt(t testing.TB, speed float64, asked func(kind string, r *http.Request)) *daemon {
	t.Helper()
	d := &daemon{
		t: t, closing: make(chan struct{}), asked: asked,
		chunks: map[uint64]*hold{}, kinds: map[string]*hold{}, seen: map[string]int{},
	}
	d.srv = devserver.New(devserver.Options{
		Token: token, Poll: 5 * time.Millisecond, Speed: speed,
		Hooks: devserver.Hooks{BeforeChunk: func(_ string, seq uint64) { d.pass(d.takeChunk(seq)) }},
	})
	d.http = httptest.NewServer(http.HandlerFunc(d.serve))
	d.url = d.http.URL
	d.tokenFile = filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(d.tokenFile, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		close(d.closing)
		d.http.CloseClientConnections()
		d.srv.Close()
		d.http.Close()
	})
	return d
}

func (d *daemon) serve(w http.ResponseWriter, r *http.Request) {
	kind := kindOf(r)
	d.mu.Lock()
	d.seen[kind]++
	h := d.kinds[kind]
	delete(d.kinds, kind)
	d.mu.Unlock()
	if d.asked != nil {
		d.asked(kind, r)
	}
	d.pass(h)
	d.srv.Handler().ServeHTTP(w, r)
}

// requests is how many requests of a kind have come.
func (d *daemon) requests(kind string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.seen[kind]
}

// kindOf names a request by what it is for.
func kindOf(r *http.Request) string {
	path := r.URL.Path
	switch {
	case r.Method == http.MethodPost && strings.HasSuffix(path, "/cancel"):
		return "cancel"
	case r.Method == http.MethodPost:
		return "submit"
	case strings.HasSuffix(path, "/events") && r.URL.Query().Get("follow") == "true":
		return "follow"
	case strings.HasSuffix(path, "/events"):
		return "page"
	case strings.HasSuffix(path, "/result"):
		return "result"
	}
	return "status"
}

// hold is a place where the daemon stands still.
type hold struct {
	arrived chan struct{} // closed when the daemon is there
	free    chan struct{} // closed to let it go on
	once    sync.Once
}

func newHold() *hold { return &hold{arrived: make(chan struct{}), free: make(chan struct{})} }

// holdChunk makes the daemon stand still before it publishes the chunk of that
// sequence. Everything below it is published then.
func (d *daemon) holdChunk(seq uint64) *hold {
	h := newHold()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.chunks[seq] = h
	return h
}

// holdRequest makes the daemon stand still before it answers the next request
// of a kind.
func (d *daemon) holdRequest(kind string) *hold {
	h := newHold()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.kinds[kind] = h
	return h
}

func (d *daemon) takeChunk(seq uint64) *hold {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.chunks[seq]
	delete(d.chunks, seq)
	return h
}

// pass stands still at a hold; nil is none.
func (d *daemon) pass(h *hold) {
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

// await waits until the daemon stands at the hold, or a process that should
// bring it there has ended, which fails the test.
func (h *hold) await(p *process) {
	p.t.Helper()
	select {
	case <-h.arrived:
	case <-p.done:
		p.t.Fatalf("the process ended before it came to the place it was to be held at\n%s", p.result())
	case <-time.After(hang):
		p.t.Fatalf("waited in vain for the daemon to be held; stderr:\n%s", p.stderr)
	}
}

// arrives waits for a word from the daemon.
func arrives(t testing.TB, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(hang):
		t.Fatal("waited in vain for a request")
	}
}

// wantOnce fails unless the daemon has run each of these actions exactly once
// and has been sent each exactly once.
func (d *daemon) wantOnce(ids ...string) {
	d.t.Helper()
	submits := d.srv.Submits()
	for _, id := range ids {
		sent := 0
		for _, s := range submits {
			if s == id {
				sent++
			}
		}
		if n := d.srv.Executions(id); n != 1 || sent != 1 {
			d.t.Errorf("%s ran %d times and was sent %d times, want 1 and 1", id, n, sent)
		}
	}
}

// wantKept fails unless every id that the daemon was sent has an intent in the
// state file, and only one.
func (d *daemon) wantKept(h *home) {
	d.t.Helper()
	kept := map[string]int{}
	for _, r := range h.records() {
		if r.Type == "intent" {
			kept[r.ActionID]++
		}
	}
	for _, id := range slices.Compact(slices.Sorted(slices.Values(d.srv.Submits()))) {
		if kept[id] != 1 {
			d.t.Errorf("%s was sent and has %d intents in the state file", id, kept[id])
		}
	}
}

// deltas are the texts of the chunks that the daemon has stored of an action;
// a chunk without text has an empty one.
func (d *daemon) deltas(id string) []string {
	d.t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/aip/v1/actions/"+id+"/events?include_chunks=true&limit=1000", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	d.srv.Handler().ServeHTTP(w, r)
	var v struct {
		Events struct {
			Chunks []struct {
				Data struct {
					HermesSSE struct {
						Data json.RawMessage `json:"data"`
					} `json:"hermes_sse"`
				} `json:"data"`
			} `json:"chunks"`
		} `json:"action_events"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		d.t.Fatalf("the stored chunks: %v", err)
	}
	var out []string
	for _, c := range v.Events.Chunks {
		var frame struct {
			Choices []struct {
				Delta struct {
					Content string `json:"content"`
				} `json:"delta"`
			} `json:"choices"`
		}
		text := ""
		if json.Unmarshal(c.Data.HermesSSE.Data, &frame) == nil && len(frame.Choices) > 0 { // [DONE] is a string
			text = frame.Choices[0].Delta.Content
		}
		out = append(out, text)
	}
	return out
}

// answer is the text that the daemon has stored of an action.
func (d *daemon) answer(id string) string {
	d.t.Helper()
	return strings.Join(d.deltas(id), "")
}

// undisturbed is what a scenario gives when nothing happens to anybody: the text
// of each chunk.
type undisturbed []string

func (u undisturbed) text() string { return strings.Join(u, "") }

// play lets a scenario run to its end.
func play(t testing.TB, capability string) undisturbed {
	t.Helper()
	d := newDaemon(t, nil)
	got := d.newHome().run("action", "call", d.url, capability, "--prompt", "x", "--action-id", "act_undisturbed")
	got.want(t, 0)
	u := undisturbed(d.deltas("act_undisturbed"))
	if len(u) < 10 || got.out != u.text()+"\n" {
		t.Fatalf("the undisturbed run wrote %q, stored is %q", got.out, u)
	}
	return u
}
