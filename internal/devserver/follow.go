package devserver

import (
	"bytes"
	"net/http"
	"strconv"
	"time"
)

// follow streams pages as SSE until one of them says terminal. It is HTTP 200
// from the start: what goes wrong later is a frame. An unknown action has no
// end, so only the client or Close ends such a stream.
func (s *Server) follow(w http.ResponseWriter, r *request, q pageQuery, cursor string, given bool) {
	out := &sseWriter{w: w, flusher: http.NewResponseController(w)}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	if out.flush(); out.err != nil {
		return
	}
	var at position
	if err := s.mayUse(r.caller, r.id, "read"); err != nil {
		out.fail(err)
		return
	}
	if given {
		var err *protocolError
		if at, err = parsePosition(cursor); err != nil {
			out.fail(err)
			return
		}
	}
	silence := time.NewTimer(s.opts.KeepAlive)
	defer silence.Stop()
	for {
		p, err := s.store.page(q, at)
		if err != nil {
			out.fail(err)
			return
		}
		at = p.Cursor
		out.page(p)
		if out.flush(); out.err != nil || p.Terminal {
			return
		}
		if !p.empty() {
			silence.Reset(s.opts.KeepAlive)
			continue
		}
		if !s.idle(r, out, silence) {
			return
		}
	}
}

// idle waits for the next poll and keeps the stream alive meanwhile; false when
// the client left or the daemon closed.
func (s *Server) idle(r *request, out *sseWriter, silence *time.Timer) bool {
	poll := time.NewTimer(s.opts.Poll)
	defer poll.Stop()
	for {
		select {
		case <-poll.C:
			return s.ctx.Err() == nil
		case <-silence.C:
			out.comment("keep-alive")
			if out.flush(); out.err != nil {
				return false
			}
			silence.Reset(s.opts.KeepAlive)
		case <-r.Context().Done():
			return false
		case <-s.ctx.Done():
			return false
		}
	}
}

// sseWriter writes frames in the framework's layout: event, data, then id, each
// on one line, and a blank line. The first error stays.
type sseWriter struct {
	w       http.ResponseWriter
	flusher *http.ResponseController
	buf     bytes.Buffer
	err     error
}

// page writes all events, all chunks, a cursor when there was any, and the
// terminal mark. Only the last two carry an id that is a cursor. Events and
// chunks share a name for chunk events; the key inside tells them apart.
func (o *sseWriter) page(p page) {
	for _, ev := range p.Events {
		o.frame(ev.Kind, map[string]any{"event": ev}, ev.ID)
	}
	for _, c := range p.Chunks {
		o.frame("aip.stream.chunk", map[string]any{"chunk": c}, "chunk:"+strconv.FormatUint(c.Sequence, 10))
	}
	cursor := p.Cursor.String()
	if !p.empty() {
		o.frame("aip.stream.cursor", map[string]any{"next_cursor": cursor}, cursor)
	}
	if p.Terminal {
		o.frame("aip.stream.terminal", struct {
			Terminal bool   `json:"terminal"`
			ActionID string `json:"action_id"`
		}{true, p.ActionID}, cursor)
	}
}

// fail writes the last frame of a stream that cannot go on.
func (o *sseWriter) fail(e *protocolError) {
	o.frame("aip.error", map[string]any{"error": e}, "")
	o.flush()
}

func (o *sseWriter) frame(name string, data any, id string) {
	o.buf.WriteString("event: " + name + "\ndata: ")
	o.buf.Write(encode(data))
	if id != "" {
		o.buf.WriteString("\nid: " + id)
	}
	o.buf.WriteString("\n\n")
}

func (o *sseWriter) comment(text string) { o.buf.WriteString(": " + text + "\n\n") }

// flush hands what was written to the client. A writer that cannot flush is
// fine as long as it can write.
func (o *sseWriter) flush() {
	if o.err != nil {
		return
	}
	if _, o.err = o.buf.WriteTo(o.w); o.err == nil {
		_ = o.flusher.Flush()
	}
}
