package devserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const token = "a-test-token"

// daemon is a Server under test on a fake clock, reached through memory. Every
// test runs in its own bubble and ends with Close, so a goroutine that outlives
// the daemon fails the test.
type daemon struct {
	t      *testing.T
	server *Server
	client *http.Client
	prefix string
}

// withDaemon runs f with a daemon inside a synctest bubble.
func withDaemon(t *testing.T, opts Options, f func(t *testing.T, d *daemon)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { runDaemon(t, opts, f) })
}

// withGate is withDaemon with a stream that stands still before one sequence.
func withGate(t *testing.T, at uint64, f func(t *testing.T, d *daemon, g *gate)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := &gate{at: at, held: make(chan struct{}), open: make(chan struct{})}
		runDaemon(t, Options{Hooks: Hooks{BeforeChunk: g.hook}}, func(t *testing.T, d *daemon) { f(t, d, g) })
	})
}

func runDaemon(t *testing.T, opts Options, f func(t *testing.T, d *daemon)) {
	if opts.Token == "" {
		opts.Token = token
	}
	s := New(opts)
	defer s.Close()
	f(t, &daemon{
		t: t, server: s, prefix: opts.PathPrefix,
		client: &http.Client{Transport: memoryTransport{s.Handler()}},
	})
}

// memoryTransport serves requests on goroutines of the bubble. A body can be
// read while the handler still writes it, as on a socket.
type memoryTransport struct{ handler http.Handler }

func (m memoryTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	in := r.Clone(ctx)
	if in.Body == nil {
		in.Body = http.NoBody
	}
	pr, pw := io.Pipe()
	w := &memoryWriter{header: http.Header{}, body: pw, ready: make(chan struct{})}
	go func() {
		defer func() {
			switch p := recover(); p {
			case nil:
			case http.ErrAbortHandler:
				w.lost = true
				w.WriteHeader(http.StatusOK)
			default:
				panic(p)
			}
		}()
		m.handler.ServeHTTP(w, in)
		w.WriteHeader(http.StatusOK)
		pw.Close()
		cancel()
	}()
	select {
	case <-w.ready:
	case <-r.Context().Done():
		pr.CloseWithError(r.Context().Err())
		cancel()
		return nil, r.Context().Err()
	}
	context.AfterFunc(ctx, func() {
		if r.Context().Err() != nil {
			pr.CloseWithError(r.Context().Err())
		}
	})
	if w.lost {
		cancel()
		return nil, io.ErrUnexpectedEOF
	}
	return &http.Response{
		StatusCode: w.status, Header: w.sent, Request: r,
		Body: memoryBody{pr, cancel}, ProtoMajor: 1, ProtoMinor: 1,
	}, nil
}

type memoryBody struct {
	*io.PipeReader
	cancel context.CancelFunc
}

func (b memoryBody) Close() error {
	b.cancel()
	return b.PipeReader.Close()
}

type memoryWriter struct {
	header, sent http.Header
	status       int
	body         *io.PipeWriter
	ready        chan struct{}
	once         sync.Once
	lost         bool // the connection was cut before the headers
}

func (w *memoryWriter) Header() http.Header { return w.header }
func (w *memoryWriter) Flush()              {}
func (w *memoryWriter) WriteHeader(status int) {
	w.once.Do(func() {
		w.status, w.sent = status, w.header.Clone()
		close(w.ready)
	})
}
func (w *memoryWriter) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(b)
}

// reply is an answer read to its end.
type reply struct {
	status int
	header http.Header
	body   string
}

// do sends a request with the token. It may be called from any goroutine.
func (d *daemon) do(ctx context.Context, method, path, body string, header ...string) (reply, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://daemon"+d.prefix+path, strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Del(header[i])
		if header[i+1] != "" {
			r.Header.Set(header[i], header[i+1])
		}
	}
	resp, err := d.client.Do(r)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(b)}, err
}

func (d *daemon) get(path string, header ...string) reply {
	d.t.Helper()
	r, err := d.do(d.t.Context(), "GET", path, "", header...)
	if err != nil {
		d.t.Fatalf("GET %s: %v", path, err)
	}
	return r
}

func (d *daemon) post(path, body string, header ...string) reply {
	d.t.Helper()
	r, err := d.do(d.t.Context(), "POST", path, body, header...)
	if err != nil {
		d.t.Fatalf("POST %s: %v", path, err)
	}
	return r
}

// serve adds a scenario of a test to those of the daemon.
func (d *daemon) serve(sc Scenario) {
	d.server.scenarios = append(d.server.scenarios, sc)
	d.server.served = append(d.server.served, serves([]Scenario{sc})...)
	d.server.providers[sc.Name] = providersOf([]Scenario{sc})[sc.Name]
}

// fields are members of an action beside those that every envelope here has.
type fields map[string]any

// envelope builds an action envelope for a scenario with a fresh message id. An
// operation other than chat_stream gets its demo input, its mode, and a key
// where it needs one.
func (d *daemon) envelope(scenario, actionID string, more fields) string {
	a := fields{
		"id": actionID, "capability_id": capabilityPrefix + scenario + ":chat_stream",
		"mode": "streaming", "input": fields{"prompt": "hello"},
	}
	for _, sc := range d.server.scenarios {
		if sc.Name != scenario || sc.Operation == "chat_stream" {
			continue
		}
		a["capability_id"], a["mode"], a["input"] = sc.CapabilityID(), sc.Mode, json.RawMessage(sc.Demo)
		if sc.contract().keyed {
			a["idempotency_key"] = "key-of-" + actionID
		}
	}
	for k, v := range more {
		if a[k] = v; v == nil {
			delete(a, k)
		}
	}
	return string(encode(d.wrap("action", a)))
}

func (d *daemon) wrap(key string, body any) fields {
	return fields{
		"aip_version": "1.0", "message_type": typeOf(key),
		"message_id": newID("msg_", d.server.now()), "sent_at": timestamp(d.server.now()),
		"from": fields{"id": "agent:test:cli", "kind": "agent"},
		"body": fields{key: body},
	}
}

// submit posts an action and waits for the answer.
func (d *daemon) submit(scenario, actionID string, more fields) reply {
	d.t.Helper()
	return d.post("/aip/v1/messages", d.envelope(scenario, actionID, more))
}

// submitting posts an action in the background.
func (d *daemon) submitting(ctx context.Context, scenario, actionID string, more fields) <-chan reply {
	body, done := d.envelope(scenario, actionID, more), make(chan reply, 1)
	go func() {
		r, err := d.do(ctx, "POST", "/aip/v1/messages", body)
		if err != nil {
			r = reply{body: err.Error()}
			if !errors.Is(err, context.Canceled) {
				panic(err)
			}
		}
		done <- r
	}()
	return done
}

// at reads a JSON pointer out of a body; nil when it leads nowhere.
func (r reply) at(t *testing.T, pointer string) any {
	t.Helper()
	return at(t, r.body, pointer)
}

func at(t *testing.T, body, pointer string) any {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(body))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("body is not JSON: %v: %.200s", err, body)
	}
	for key := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		switch x := v.(type) {
		case map[string]any:
			v = x[key]
		case []any:
			var i int
			if _, err := fmt.Sscanf(key, "%d", &i); err != nil || i >= len(x) {
				return nil
			}
			v = x[i]
		default:
			return nil
		}
	}
	return v
}

// want checks a status and values behind pointers, compared as text.
func (r reply) want(t *testing.T, status int, pairs ...string) {
	t.Helper()
	if r.status != status {
		t.Fatalf("status %d, want %d: %.300s", r.status, status, r.body)
	}
	for i := 0; i < len(pairs); i += 2 {
		if got := fmt.Sprint(r.at(t, pairs[i])); got != pairs[i+1] {
			t.Errorf("%s is %s, want %s", pairs[i], got, pairs[i+1])
		}
	}
}

// wantPlain checks an answer that is not JSON.
func (r reply) wantPlain(t *testing.T, status int) {
	t.Helper()
	if ct := r.header.Get("Content-Type"); r.status != status || !strings.HasPrefix(ct, "text/plain") || json.Valid([]byte(r.body)) {
		t.Errorf("status %d, type %q, body %.100q, want plain text %d", r.status, ct, r.body, status)
	}
}

const code = "/body/error/error/code"

// sseEvent is one frame of a follow body, as its lines.
type sseEvent struct{ name, data, id string }

// follow opens a follow stream and hands its frames over as they come; the
// channel closes with the body. Comments come as frames named ":".
func (d *daemon) follow(ctx context.Context, path string, header ...string) <-chan sseEvent {
	d.t.Helper()
	r, err := http.NewRequestWithContext(ctx, "GET", "http://daemon"+d.prefix+path, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := d.client.Do(r)
	if err != nil {
		d.t.Fatalf("follow %s: %v", path, err)
	}
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" || resp.Header.Get("Cache-Control") != "no-cache" {
		d.t.Fatalf("follow %s: %d %v", path, resp.StatusCode, resp.Header)
	}
	frames := make(chan sseEvent, 10000)
	go func() {
		defer close(frames)
		defer resp.Body.Close()
		var buf []byte
		chunk := make([]byte, 64<<10)
		for {
			n, err := resp.Body.Read(chunk)
			buf = append(buf, chunk[:n]...)
			for {
				end := bytes.Index(buf, []byte("\n\n"))
				if end < 0 {
					break
				}
				frames <- parseTestFrame(string(buf[:end]))
				buf = buf[end+2:]
			}
			if err != nil {
				return
			}
		}
	}()
	return frames
}

// parseTestFrame is strict about the layout: event, data, id, in this order.
func parseTestFrame(text string) sseEvent {
	lines := strings.Split(text, "\n")
	if strings.HasPrefix(lines[0], ":") && len(lines) == 1 {
		return sseEvent{name: ":", data: lines[0]}
	}
	var e sseEvent
	var ok bool
	if e.name, ok = strings.CutPrefix(lines[0], "event: "); !ok || len(lines) < 2 || len(lines) > 3 {
		return sseEvent{name: "malformed", data: text}
	}
	if e.data, ok = strings.CutPrefix(lines[1], "data: "); !ok {
		return sseEvent{name: "malformed", data: text}
	}
	if len(lines) == 3 {
		if e.id, ok = strings.CutPrefix(lines[2], "id: "); !ok {
			return sseEvent{name: "malformed", data: text}
		}
	}
	return e
}

// now takes the frames that have arrived so far.
func arrived(frames <-chan sseEvent) []sseEvent {
	synctest.Wait()
	var out []sseEvent
	for {
		select {
		case e, ok := <-frames:
			if !ok {
				return out
			}
			out = append(out, e)
		default:
			return out
		}
	}
}

// rest takes every frame up to the end of the body.
func rest(frames <-chan sseEvent) []sseEvent {
	var out []sseEvent
	for e := range frames {
		out = append(out, e)
	}
	return out
}

func names(frames []sseEvent) string {
	var out []string
	for _, e := range frames {
		out = append(out, e.name)
	}
	return strings.Join(out, " ")
}

// chunksOf reads every chunk of an action through plain pages.
func (d *daemon) chunksOf(actionID string) []chunk {
	d.t.Helper()
	var out []chunk
	cursor := ""
	for range 100 {
		r := d.get("/aip/v1/actions/" + actionID + "/events?include_chunks=true&kinds=none&limit=1000" + cursor)
		r.want(d.t, 200)
		var body struct {
			ActionEvents struct {
				Chunks []chunk `json:"chunks"`
				Cursor string  `json:"cursor"`
			} `json:"action_events"`
		}
		if err := json.Unmarshal([]byte(r.body), &body); err != nil {
			d.t.Fatal(err)
		}
		if len(body.ActionEvents.Chunks) == 0 {
			return out
		}
		out = append(out, body.ActionEvents.Chunks...)
		cursor = "&cursor=" + body.ActionEvents.Cursor
	}
	d.t.Fatal("the pages do not end")
	return nil
}

// gate holds a stream before one sequence until open is closed.
type gate struct {
	at   uint64
	held chan struct{}
	open chan struct{}
	once sync.Once
}

func (g *gate) hook(_ string, sequence uint64) {
	if sequence == g.at {
		g.once.Do(func() { close(g.held) })
		<-g.open
	}
}

// sleep lets the fake clock run.
func sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
