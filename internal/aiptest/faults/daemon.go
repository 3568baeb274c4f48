package faults

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
)

// Daemon stands in front of a daemon and changes what its events route, its
// results and the answers to its submits say. The daemon behind has to write
// whole SSE frames, a page in one write.
type Daemon struct {
	Next http.Handler
	// Before may answer a request itself; it returns true when it has.
	Before func(w http.ResponseWriter, r *http.Request) bool
	// Pages change what is read of the events, in their order, for follows
	// and pages alike.
	Pages []func(*EventPage)
	// Output changes the output of results, wherever they stand; nil leaves
	// them alone.
	Output func(map[string]json.RawMessage)

	shift atomic.Int64
}

// EventPage is what one read of the events route brings.
type EventPage struct {
	Follow   bool
	Events   []json.RawMessage
	Chunks   []EventChunk
	Cursor   string // empty when the page has none
	Terminal bool
}

// EventChunk is one chunk as the daemon wrote it.
type EventChunk struct {
	Sequence uint64
	Kind     string
	Raw      json.RawMessage
}

// Closes reports whether the chunk is of a kind that closes the log.
func (c EventChunk) Closes() bool { return c.Kind == "done" || c.Kind == "error" }

// ShiftLog adds n to the event offset of every cursor, so that the log looks
// as if it had begun long ago.
func (d *Daemon) ShiftLog(n int64) { d.shift.Store(n) }

// RestartLog takes the shift away: the log is fresh and shorter now, and what
// was a cursor before lies beyond its end.
func (d *Daemon) RestartLog() { d.shift.Store(0) }

// ServeHTTP implements http.Handler.
func (d *Daemon) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if d.Before != nil && d.Before(w, r) {
		return
	}
	r = d.unshifted(r)
	tampered := len(d.Pages) > 0 || d.shift.Load() != 0
	switch route := RouteOf(r); {
	case route == Follow && tampered:
		f := &follower{ResponseWriter: w, d: d}
		d.Next.ServeHTTP(f, r)
	case route == Page && tampered:
		d.rewrite(w, r, d.page)
	case (route == Submit || route == Result) && d.Output != nil:
		d.rewrite(w, r, d.result)
	default:
		d.Next.ServeHTTP(w, r)
	}
}

// unshifted gives the request as the daemon behind knows its cursors.
func (d *Daemon) unshifted(r *http.Request) *http.Request {
	n := d.shift.Load()
	cursor := r.URL.Query().Get("cursor")
	if n == 0 || cursor == "" {
		return r
	}
	q := r.URL.Query()
	q.Set("cursor", moved(cursor, -n))
	r = r.Clone(r.Context())
	u := *r.URL
	u.RawQuery = q.Encode()
	r.URL = &u
	return r
}

// moved adds n to the offset of a cursor; what is no cursor stays.
func moved(cursor string, n int64) string {
	rest, ok := strings.CutPrefix(cursor, "aev_cursor_")
	offset, tail, both := strings.Cut(rest, "_")
	o, err := strconv.ParseInt(offset, 10, 64)
	if !ok || !both || err != nil {
		return cursor
	}
	return fmt.Sprintf("aev_cursor_%d_%s", o+n, tail)
}

// ClampCursor gives the cursor that has delivered chunks below seq only.
func ClampCursor(cursor string, seq uint64) string {
	i := strings.LastIndexByte(cursor, '_')
	at, err := strconv.ParseUint(cursor[i+1:], 10, 64)
	switch {
	case i < 0 || err != nil || at < seq:
		return cursor
	case seq == 0:
		return cursor[:i+1] + "none"
	}
	return cursor[:i+1] + strconv.FormatUint(seq-1, 10)
}

// change lets every tamper have the page.
func (d *Daemon) change(p *EventPage) {
	for _, f := range d.Pages {
		f(p)
	}
	if n := d.shift.Load(); n != 0 && p.Cursor != "" {
		p.Cursor = moved(p.Cursor, n)
	}
}

// rewrite answers with a body that was changed as a whole.
func (d *Daemon) rewrite(w http.ResponseWriter, r *http.Request, change func([]byte) []byte) {
	rec := &recorder{head: w.Header()}
	d.Next.ServeHTTP(rec, r)
	if r.Context().Err() != nil {
		return
	}
	body := rec.body.Bytes()
	if rec.status == http.StatusOK {
		body = change(body)
	}
	w.WriteHeader(rec.status)
	w.Write(body)
}

// recorder keeps an answer back.
type recorder struct {
	head   http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header { return r.head }

func (r *recorder) WriteHeader(status int) { r.status = status }

func (r *recorder) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.body.Write(p)
}

// wirePage is the JSON of a page.
type wirePage struct {
	ActionEvents struct {
		ActionID string            `json:"action_id"`
		Events   []json.RawMessage `json:"events"`
		Chunks   []json.RawMessage `json:"chunks"`
		Cursor   string            `json:"cursor"`
		Terminal bool              `json:"terminal"`
	} `json:"action_events"`
}

func (d *Daemon) page(body []byte) []byte {
	var wire wirePage
	if json.Unmarshal(body, &wire) != nil {
		return body
	}
	ae := &wire.ActionEvents
	p := &EventPage{Events: ae.Events, Cursor: ae.Cursor, Terminal: ae.Terminal}
	for _, raw := range ae.Chunks {
		p.Chunks = append(p.Chunks, chunkOf(raw))
	}
	d.change(p)
	// Put together by hand: a page of large chunks is not worth a second look
	// at each of its bytes.
	var out bytes.Buffer
	fmt.Fprintf(&out, `{"action_events":{"action_id":%q,"events":[`, ae.ActionID)
	out.Write(bytes.Join(asBytes(p.Events), []byte(",")))
	out.WriteString("]")
	if len(p.Chunks) > 0 {
		out.WriteString(`,"chunks":[`)
		for i, c := range p.Chunks {
			if i > 0 {
				out.WriteByte(',')
			}
			out.Write(c.Raw)
		}
		out.WriteString("]")
	}
	fmt.Fprintf(&out, `,"cursor":%q,"terminal":%t}}`, p.Cursor, p.Terminal)
	return out.Bytes()
}

func asBytes(list []json.RawMessage) [][]byte {
	out := make([][]byte, len(list))
	for i, raw := range list {
		out[i] = raw
	}
	return out
}

func chunkOf(raw json.RawMessage) EventChunk {
	var c struct {
		Sequence uint64 `json:"sequence"`
		Kind     string `json:"kind"`
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		panic("faults: the daemon wrote a chunk that cannot be read: " + err.Error())
	}
	return EventChunk{Sequence: c.Sequence, Kind: c.Kind, Raw: raw}
}

func mustJSON(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("faults: " + err.Error())
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

// result changes the output inside an answer, enveloped or not.
func (d *Daemon) result(body []byte) []byte {
	outer := map[string]json.RawMessage{}
	if json.Unmarshal(body, &outer) != nil {
		return body
	}
	if inner, ok := outer["body"]; ok {
		outer["body"] = d.result(inner)
		return mustJSON(outer)
	}
	res := map[string]json.RawMessage{}
	if json.Unmarshal(outer["action_result"], &res) != nil {
		return body
	}
	output := map[string]json.RawMessage{}
	if json.Unmarshal(res["output"], &output) != nil {
		return body
	}
	d.Output(output)
	res["output"] = mustJSON(output)
	delete(res, "message") // repeats the output
	outer["action_result"] = mustJSON(res)
	return mustJSON(outer)
}

// follower changes the pages of an event stream as they pass.
type follower struct {
	http.ResponseWriter
	d *Daemon
}

// Flush implements http.Flusher.
func (f *follower) Flush() { f.ResponseWriter.(http.Flusher).Flush() }

// Write takes the blocks of one page.
func (f *follower) Write(b []byte) (int, error) {
	var page EventPage
	page.Follow = true
	var out bytes.Buffer
	isPage := false
	for block := range strings.SplitSeq(strings.TrimSuffix(string(b), "\n\n"), "\n\n") {
		name, data, id := frameOf(block)
		switch {
		case name == "" || name == "aip.error":
			out.WriteString(block + "\n\n")
		case name == "aip.stream.cursor":
			isPage, page.Cursor = true, id
		case name == "aip.stream.terminal":
			isPage, page.Terminal, page.Cursor = true, true, id
		default:
			isPage = true
			var one struct{ Event, Chunk json.RawMessage }
			if err := json.Unmarshal([]byte(data), &one); err != nil {
				panic("faults: the daemon wrote a frame that cannot be read: " + err.Error())
			}
			if one.Chunk != nil {
				page.Chunks = append(page.Chunks, chunkOf(one.Chunk))
			} else {
				page.Events = append(page.Events, one.Event)
			}
		}
	}
	if isPage {
		f.d.change(&page)
		page.write(&out)
	}
	if out.Len() == 0 {
		return len(b), nil
	}
	if _, err := f.ResponseWriter.Write(out.Bytes()); err != nil {
		return 0, err
	}
	return len(b), nil
}

// frameOf takes one block apart; a comment has no name.
func frameOf(block string) (name, data, id string) {
	for line := range strings.SplitSeq(block, "\n") {
		field, value, _ := strings.Cut(line, ": ")
		switch field {
		case "event":
			name = value
		case "data":
			data = value
		case "id":
			id = value
		}
	}
	return name, data, id
}

// write spells the page as frames.
func (p *EventPage) write(out *bytes.Buffer) {
	frame := func(name, id, key string, value []byte) {
		out.WriteString("event: " + name + "\ndata: {\"" + key + "\":")
		out.Write(value)
		out.WriteString("}\n")
		if id != "" {
			out.WriteString("id: " + id + "\n")
		}
		out.WriteString("\n")
	}
	for _, raw := range p.Events {
		var ev struct{ ID, Kind string }
		if err := json.Unmarshal(raw, &ev); err != nil {
			panic("faults: the daemon wrote an event that cannot be read: " + err.Error())
		}
		frame(ev.Kind, ev.ID, "event", raw)
	}
	for _, c := range p.Chunks {
		frame("aip.stream.chunk", "chunk:"+strconv.FormatUint(c.Sequence, 10), "chunk", c.Raw)
	}
	if len(p.Events) > 0 || len(p.Chunks) > 0 {
		frame("aip.stream.cursor", p.Cursor, "next_cursor", mustJSON(p.Cursor))
	}
	if p.Terminal {
		frame("aip.stream.terminal", p.Cursor, "terminal", []byte("true"))
	}
}

// ActionOf is the action id in the path of a request; empty when it has none.
func ActionOf(r *http.Request) string {
	_, rest, ok := strings.Cut(r.URL.EscapedPath(), "/aip/v1/actions/")
	if !ok {
		return ""
	}
	escaped, _, _ := strings.Cut(rest, "/")
	id, err := url.PathUnescape(escaped)
	if err != nil {
		return ""
	}
	return id
}
