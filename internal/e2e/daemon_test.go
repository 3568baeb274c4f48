package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/aipctl/aipctl/internal/aiptest"
)

// recording is one action: the chunks that were published and its result, as
// the daemon keeps them.
type recording struct {
	action     string
	capability string
	chunks     []json.RawMessage // in the order of their delivery
	result     json.RawMessage   // the ActionResult, bare
	status     string            // of the result
}

// loadRecording reads a stream of the module's testdata. Its name begins with
// the operation that it records.
func loadRecording(t testing.TB, name string) recording {
	t.Helper()
	chunks, result := aiptest.Stream(t, name)
	r := recording{result: result}
	for _, c := range chunks {
		r.chunks = append(r.chunks, c)
	}
	r.readResult(t)
	r.capability = "cap:hermes_agent:hermes-lab:" + operationOf(t, name)
	return r
}

// readResult takes action and status from the result.
func (r *recording) readResult(t testing.TB) {
	t.Helper()
	var head struct {
		ActionID string `json:"action_id"`
		Status   string `json:"status"`
	}
	if err := json.Unmarshal(r.result, &head); err != nil || head.ActionID == "" || head.Status == "" {
		t.Fatalf("the result of a recording names no action or no status (%v): %s", err, r.result)
	}
	r.action, r.status = head.ActionID, head.Status
}

func operationOf(t testing.TB, name string) string {
	t.Helper()
	if name == "edge_frames" {
		return "chat_stream" // as its result says
	}
	for _, op := range []string{"session_chat_stream", "chat_stream", "responses_stream", "run_events", "operator", "response_get"} {
		if strings.HasPrefix(name, op+"_") {
			return op
		}
	}
	t.Fatalf("the name of the recording %s begins with no operation", name)
	return ""
}

// daemon serves one recording as aipd does: nothing is known of the action
// until it was submitted; then there are its chunks, its terminal mark and its
// result. It keeps connections alive, so that a client that would send a
// submit twice can.
type daemon struct {
	*httptest.Server
	recording
	posted chan struct{} // closed by the submit
	once   sync.Once

	// follow and post replace an answer.
	follow http.HandlerFunc
	post   http.HandlerFunc

	mu   sync.Mutex
	seen []hit
}

// hit is one request that the daemon answered.
type hit struct {
	kind   string // follow, page, result, status, post, cancel
	cursor string
	body   []byte
}

// serve serves a recording until the test ends. The action has been submitted.
func serve(t testing.TB, r recording, change ...func(*daemon)) *daemon {
	t.Helper()
	return serveUnsubmitted(t, r, append(change, (*daemon).submitted)...)
}

// serveUnsubmitted serves a recording whose action is unknown until it is
// posted. What is changed of the daemon is changed before it answers.
func serveUnsubmitted(t testing.TB, r recording, change ...func(*daemon)) *daemon {
	t.Helper()
	d := &daemon{recording: r, posted: make(chan struct{})}
	for _, f := range change {
		f(d)
	}
	d.Server = httptest.NewServer(d)
	t.Cleanup(func() {
		d.CloseClientConnections() // a follow may still stand open
		d.Close()
	})
	return d
}

// serveMinted serves a recording under whatever id the submit brings.
func serveMinted(t testing.TB, r recording) *daemon {
	t.Helper()
	return serveUnsubmitted(t, r, func(d *daemon) {
		d.post = func(w http.ResponseWriter, req *http.Request) {
			d.once.Do(func() {
				d.rename(submittedID(t, req))
				close(d.posted)
			})
			writeJSON(w, http.StatusOK, envelope("action_result", d.result))
		}
	})
}

// rename gives the recording another action id. Nothing else is read of it
// until the action was submitted.
func (r *recording) rename(id string) {
	old := []byte(strconv.Quote(r.action))
	for i, c := range r.chunks {
		r.chunks[i] = bytes.ReplaceAll(c, old, []byte(strconv.Quote(id)))
	}
	r.result = bytes.ReplaceAll(r.result, old, []byte(strconv.Quote(id)))
	r.action = id
}

// submittedID is the action id of an envelope.
func submittedID(t testing.TB, r *http.Request) string {
	t.Helper()
	var sent struct {
		Body struct {
			Action struct {
				ID string `json:"id"`
			} `json:"action"`
		} `json:"body"`
	}
	if err := json.NewDecoder(r.Body).Decode(&sent); err != nil || sent.Body.Action.ID == "" {
		t.Errorf("the submit names no action (%v)", err)
	}
	return sent.Body.Action.ID
}

// actionOf is the action of a native route.
func actionOf(r *http.Request) string {
	id, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/aip/v1/actions/"), "/")
	return id
}

func (d *daemon) submitted() { d.once.Do(func() { close(d.posted) }) }

func (d *daemon) isSubmitted() bool {
	select {
	case <-d.posted:
		return true
	default:
		return false
	}
}

// count returns how many requests of a kind were answered.
func (d *daemon) count(kind string) int { return len(d.hits(kind)) }

func (d *daemon) hits(kind string) []hit {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(d.seen), func(h hit) bool { return h.kind != kind })
}

func (d *daemon) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := hit{kind: "status", cursor: r.URL.Query().Get("cursor")}
	switch path := r.URL.Path; {
	case r.Method == http.MethodPost && strings.HasSuffix(path, "/cancel"):
		h.kind = "cancel"
	case r.Method == http.MethodPost:
		h.kind = "post"
	case strings.HasSuffix(path, "/result"):
		h.kind = "result"
	case strings.HasSuffix(path, "/events") && r.URL.Query().Get("follow") == "true":
		h.kind = "follow"
	case strings.HasSuffix(path, "/events"):
		h.kind = "page"
	}
	h.body, _ = io.ReadAll(r.Body)
	d.mu.Lock()
	d.seen = append(d.seen, h)
	d.mu.Unlock()
	r.Body = io.NopCloser(bytes.NewReader(h.body))
	switch h.kind {
	case "follow":
		if d.follow != nil {
			d.follow(w, r)
			return
		}
		d.stream(w, r, h.cursor)
	case "post":
		if d.post != nil {
			d.post(w, r)
			return
		}
		d.submitted()
		writeJSON(w, http.StatusOK, envelope("action_result", d.result))
	case "page":
		writeJSON(w, http.StatusOK, d.page(actionOf(r), h.cursor))
	case "result":
		if !d.isSubmitted() {
			writeJSON(w, http.StatusBadRequest, aipError("action.not_found", "permanent", nil))
			return
		}
		writeJSON(w, http.StatusOK, map[string]any{"action_result": d.result})
	case "status":
		writeJSON(w, http.StatusOK, d.view(actionOf(r)))
	default:
		http.NotFound(w, r)
	}
}

// view is the durable view of the action: a pending result is one of an action
// that waits.
func (d *daemon) view(action string) any {
	v := map[string]any{"action_id": action, "state": "unknown", "updated_at": "2030-01-15T09:30:02Z"}
	if d.isSubmitted() {
		v["capability_id"], v["state"] = d.capability, d.status
		if d.status == "requires_human" {
			v["state"] = "pending_approval"
		}
	}
	return map[string]any{"action_status": v}
}

// terminal reports whether the action has ended.
func (d *daemon) terminal() bool {
	return d.isSubmitted() && (d.status == "completed" || d.status == "failed" || d.status == "cancelled")
}

// from reads a cursor of this daemon: the number of chunks that lie before it.
func (d *daemon) from(cursor string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(cursor, "aev_cursor_"))
	if err != nil {
		return 0
	}
	return min(n, len(d.chunks))
}

func (d *daemon) page(action, cursor string) any {
	page := map[string]any{"action_id": action, "events": []any{}, "cursor": cursor, "terminal": d.terminal()}
	if d.isSubmitted() {
		page["chunks"] = d.chunks[d.from(cursor):]
		page["cursor"] = fmt.Sprintf("aev_cursor_%d", len(d.chunks))
	}
	return map[string]any{"action_events": page}
}

// stream answers a follow: silence until the action was submitted, then what
// there is of it.
func (d *daemon) stream(w http.ResponseWriter, r *http.Request, cursor string) {
	openStream(w)
	select {
	case <-d.posted:
	case <-r.Context().Done():
		return
	}
	for i, c := range d.chunks[d.from(cursor):] {
		frame(w, "aip.stream.chunk", map[string]any{"chunk": c}, "chunk:"+strconv.Itoa(i))
	}
	at := fmt.Sprintf("aev_cursor_%d", len(d.chunks))
	frame(w, "aip.stream.cursor", map[string]any{"next_cursor": at}, at)
	if !d.terminal() {
		<-r.Context().Done() // an action that waits keeps its stream open
		return
	}
	result := map[string]any{
		"id": "evt_result", "kind": "aip.action.result", "occurred_at": "2030-01-15T09:30:02Z", "action_id": d.action,
		"data": map[string]any{"action_id": d.action, "status": d.status},
	}
	frame(w, "aip.action.result", map[string]any{"event": result}, "evt_result")
	frame(w, "aip.stream.terminal", map[string]any{"terminal": true, "action_id": d.action}, at)
}

// openStream sends the head of an event stream.
func openStream(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
}

// frame writes one event of a stream; the id comes last, as aipd writes it.
func frame(w http.ResponseWriter, event string, data any, id string) {
	fmt.Fprintf(w, "event: %s\ndata: %s\nid: %s\n\n", event, encode(data), id)
	w.(http.Flusher).Flush()
}

// envelope wraps a body as the answer to a submit.
func envelope(key string, content any) any {
	return map[string]any{
		"aip_version": "1.0", "message_type": "aip.core.v1." + key, "message_id": "msg_reply", "sent_at": "2030-01-15T09:30:02Z",
		"body": map[string]any{key: content},
	}
}

// aipError is an envelope that holds a protocol error.
func aipError(code, category string, details any) any {
	e := map[string]any{"code": code, "message": "see code", "category": category, "retryable": false, "source": map[string]any{"component": "test"}}
	if details != nil {
		e["details"] = details
	}
	return envelope("error", map[string]any{"error": e})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(encode(v))
}

// encode keeps the characters of JSON strings as they are; what is not valid
// JSON is a mistake of the test.
func encode(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err)
	}
	return bytes.TrimSpace(b.Bytes())
}
