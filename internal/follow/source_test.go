package follow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/go-json-experiment/json/jsontext"
)

// source is a daemon in memory: each follow gets the next connection, each
// page the next answer of its cursor.
type source struct {
	conns []conn
	pages map[string][]answer // by cursor; the last answer of a cursor repeats
	begun time.Time
	asked []string // what was asked for, and when
	limit []int    // the limits of the follows
}

// conn is one connection: a refusal, or steps and then an end.
type conn struct {
	refuse error
	steps  []any // string: bytes to send; time.Duration: silence
	end    error // nil holds the connection open and silent
}

// answer is one page, or why there is none.
type answer struct {
	page aip.EventsPage
	err  error
}

// stream is a connection that sends its parts and then ends cleanly.
func stream(parts ...any) conn { return conn{steps: parts, end: io.EOF} }

func (s *source) note(format string, args ...any) {
	s.asked = append(s.asked, fmt.Sprintf(format, args...))
}

func (s *source) since() time.Duration { return time.Since(s.begun).Round(time.Millisecond) }

func (s *source) Follow(ctx context.Context, q aip.EventsQuery) (io.ReadCloser, error) {
	s.note("follow %q at %s", q.Cursor, s.since())
	s.limit = append(s.limit, q.Limit)
	if len(s.conns) == 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	c := s.conns[0]
	s.conns = s.conns[1:]
	if c.refuse != nil {
		return nil, c.refuse
	}
	return &body{conn: c, closed: make(chan struct{})}, nil
}

func (s *source) Page(ctx context.Context, q aip.EventsQuery, _ aip.Decoding) (*aip.EventsPage, error) {
	s.note("page %q at %s", q.Cursor, s.since())
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	list := s.pages[q.Cursor]
	if len(list) == 0 {
		return &aip.EventsPage{ActionID: q.ActionID, Cursor: q.Cursor}, nil
	}
	a := list[0]
	if len(list) > 1 {
		s.pages[q.Cursor] = list[1:]
	}
	if a.err != nil {
		return nil, a.err
	}
	return &a.page, nil
}

// body plays the steps of a connection. Close ends a read that waits.
type body struct {
	conn
	once   sync.Once
	closed chan struct{}
}

func (b *body) Read(p []byte) (int, error) {
	for len(b.steps) > 0 {
		switch x := b.steps[0].(type) {
		case string:
			n := copy(p, x)
			if b.steps[0] = x[n:]; n == len(x) {
				b.steps = b.steps[1:]
			}
			return n, nil
		case time.Duration:
			b.steps = b.steps[1:]
			select {
			case <-time.After(x):
			case <-b.closed:
				return 0, errClosed
			}
		}
	}
	if b.end == nil {
		<-b.closed
		return 0, errClosed
	}
	return 0, b.end
}

var errClosed = errors.New("read on a closed body")

func (b *body) Close() error {
	b.once.Do(func() { close(b.closed) })
	return nil
}

// The frames of the follow route. A word is a chat delta; done is [DONE].
func chunkData(seq uint64, word string) string {
	kind, data, terminal := "data", fmt.Sprintf(`{"choices":[{"index":0,"delta":{"content":%q}}]}`, word), false
	if word == "done" {
		kind, data, terminal = "done", `"[DONE]"`, true
	}
	return fmt.Sprintf(`{"action_id":%q,"sequence":%d,"kind":%q,"data":{"hermes_sse":{"data":%s,"raw_data":"","terminal":%t}}}`, actionID, seq, kind, data, terminal)
}

func chunkFrame(seq uint64, word string) string {
	return fmt.Sprintf("event: aip.stream.chunk\ndata: {\"chunk\":%s}\nid: chunk:%d\n\n", chunkData(seq, word), seq)
}

func eventFrame(id, kind string) string {
	return fmt.Sprintf("event: %s\ndata: {\"event\":{\"id\":%q,\"kind\":%q,\"action_id\":%q}}\nid: %s\n\n", kind, id, kind, actionID, id)
}

func cursorFrame(value string) string {
	return fmt.Sprintf("event: aip.stream.cursor\ndata: {\"next_cursor\":%q}\nid: %s\n\n", value, value)
}

func terminalFrame(value string) string {
	return fmt.Sprintf("event: aip.stream.terminal\ndata: {\"terminal\":true,\"action_id\":%q}\nid: %s\n\n", actionID, value)
}

func errorFrame(code string) string {
	return fmt.Sprintf("event: aip.error\ndata: {\"error\":{\"code\":%q,\"category\":\"permanent\"}}\n\n", code)
}

const keepAlive = ": keep-alive\n\n"

// paged is a page with the chunks of a stream that starts at from.
func paged(cursor string, from uint64, words ...string) answer {
	a := answer{page: aip.EventsPage{ActionID: actionID, Cursor: cursor}}
	for i, w := range words {
		if w == "" {
			continue // left out: a hole
		}
		c, err := aip.Decoding{}.Chunk(jsontext.NewDecoder(strings.NewReader(chunkData(from+uint64(i), w))))
		if err != nil {
			panic(err)
		}
		a.page.Chunks = append(a.page.Chunks, *c)
	}
	return a
}

// told spells an item the way the tests expect it.
func told(it Item) string {
	switch x := it.(type) {
	case Opened:
		return fmt.Sprintf("opened %d", x.Attempt)
	case Lost:
		line := fmt.Sprintf("lost %d after %s: %s", x.Attempt, x.Wait.Round(time.Millisecond), x.Reason)
		if x.Err != nil {
			line += " (not opened)"
		}
		return line
	case Chunk:
		line := fmt.Sprintf("chunk %d %s", x.Chunk.Sequence, x.Source)
		if x.Past {
			line += " past"
		}
		return line
	case Event:
		return "event " + x.Event.ID
	case Cursor:
		if x.Last == nil {
			return "cursor " + x.Value + " last none"
		}
		return fmt.Sprintf("cursor %s last %d", x.Value, *x.Last)
	case Gap:
		return fmt.Sprintf("gap %d-%d", x.From, x.To)
	case Contradiction:
		return fmt.Sprintf("contradiction %s %d first=%t", x.Place.name(), x.Sequence, x.FirstTime)
	case Restarted:
		return "restarted " + x.Code
	case Trouble:
		return "trouble " + x.Err.Code
	case Unread:
		return "unread " + x.Name
	case Terminal:
		return "terminal"
	case Duplicate:
		return "duplicate"
	case Stuck:
		return "stuck"
	}
	return fmt.Sprintf("%T", it)
}

var errReset = fmt.Errorf("read: %w", syscall.ECONNRESET)

func httpError(status int, code string) error {
	return &aip.RemoteError{Status: status, Form: aip.FormEnvelope, Proto: &aip.ProtocolError{Code: code}}
}
