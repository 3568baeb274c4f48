package e2egolden_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/aipctl/aipctl/internal/aiptest"
)

// keeper serves one action that has ended as a daemon keeps it: its chunks, its
// result and its state. It takes no submit.
type keeper struct {
	url        string
	action     string
	capability string
	chunks     []json.RawMessage
	result     json.RawMessage
	state      string
	noPages    bool // nothing can be read by paging
	published  int  // chunks that there are so far; the action has ended with the last

	mu     sync.Mutex
	posted int
}

// keep serves a stream of testdata/streams until the test ends.
func keep(t testing.TB, name, operation string) *keeper {
	t.Helper()
	chunks, result := aiptest.Stream(t, name)
	k := &keeper{capability: "cap:hermes_agent:hermes-lab:" + operation, result: result}
	for _, c := range chunks {
		k.chunks = append(k.chunks, c)
	}
	var head struct {
		ActionID string `json:"action_id"`
		Status   string `json:"status"`
	}
	if err := json.Unmarshal(result, &head); err != nil || head.ActionID == "" || head.Status == "" {
		t.Fatalf("the result of %s names no action or no status (%v)", name, err)
	}
	k.action, k.state, k.published = head.ActionID, head.Status, len(k.chunks)
	k.serve(t)
	return k
}

func (k *keeper) serve(t testing.TB) {
	s := httptest.NewServer(k)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	k.url = s.URL
}

// ServeHTTP answers the reading routes.
func (k *keeper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	path, ours := strings.CutPrefix(r.URL.Path, "/aip/v1/actions/"+k.action)
	switch {
	case r.Method != http.MethodGet:
		k.mu.Lock()
		k.posted++
		k.mu.Unlock()
		http.Error(w, "this daemon takes no submit", http.StatusInternalServerError)
	case !ours:
		http.NotFound(w, r)
	case path == "/events" && q.Get("follow") == "true":
		k.stream(w, r, k.from(q.Get("cursor")))
	case path == "/events" && k.noPages:
		http.Error(w, "no pages here", http.StatusGone)
	case path == "/events":
		n := k.count()
		answer(w, map[string]any{"action_events": map[string]any{
			"action_id": k.action, "events": []any{}, "chunks": k.chunks[min(k.from(q.Get("cursor")), n):n], "cursor": k.cursor(n), "terminal": n == len(k.chunks),
		}})
	case k.count() < len(k.chunks) && path == "":
		answer(w, map[string]any{"action_status": map[string]any{"action_id": k.action, "state": "unknown", "updated_at": "2030-01-15T09:30:02Z"}})
	case k.count() < len(k.chunks):
		http.NotFound(w, r)
	case path == "/result":
		answer(w, map[string]any{"action_result": k.result})
	case path == "":
		answer(w, map[string]any{"action_status": map[string]any{
			"action_id": k.action, "capability_id": k.capability, "state": k.state, "updated_at": "2030-01-15T09:30:02Z",
		}})
	default:
		http.NotFound(w, r)
	}
}

// cursor is the position behind n chunks.
func (k *keeper) cursor(n int) string { return fmt.Sprintf("aev_cursor_%d", n) }

// from is the number of chunks before a position.
func (k *keeper) from(cursor string) int {
	var n int
	if _, err := fmt.Sscanf(cursor, "aev_cursor_%d", &n); err != nil || n > len(k.chunks) {
		return 0
	}
	return n
}

// stream sends what follows a position, a cursor behind each chunk, and the end
// where the action has come to it.
func (k *keeper) stream(w http.ResponseWriter, r *http.Request, from int) {
	w.Header().Set("Content-Type", "text/event-stream")
	n := k.count()
	for i := min(from, n); i < n; i++ {
		event(w, "aip.stream.chunk", map[string]any{"chunk": k.chunks[i]}, fmt.Sprintf("chunk:%d", i))
		at := k.cursor(i + 1)
		event(w, "aip.stream.cursor", map[string]any{"next_cursor": at}, at)
	}
	if n < len(k.chunks) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return
	}
	event(w, "aip.stream.terminal", map[string]any{"terminal": true, "action_id": k.action}, k.cursor(n))
}

// publish sets how many chunks there are.
func (k *keeper) publish(n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.published = n
}

func (k *keeper) count() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.published
}

func event(w http.ResponseWriter, name string, data any, id string) {
	b, _ := json.Marshal(data) // of maps and raw JSON; never fails
	fmt.Fprintf(w, "event: %s\ndata: %s\nid: %s\n\n", name, b, id)
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	b, _ := json.Marshal(v)
	_, _ = w.Write(b)
}

// submits is the number of requests that were no reads.
func (k *keeper) submits() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.posted
}

// come is the command that comes back to the action.
func (k *keeper) come(more ...string) []string {
	return append([]string{"action", "events", k.url, k.action, "--follow", "--include-chunks"}, more...)
}
