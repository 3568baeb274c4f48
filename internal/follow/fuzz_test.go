package follow

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/google/go-cmp/cmp"
	"github.com/tmaxmax/go-sse"
)

// reference reads an event stream the way the standard describes it, line by
// line over the whole input. Only two things are added, which this client
// needs: a block that names a type or an id and no data is told, for its id
// stays in force, and whether the id may be the event's own.
func reference(in string) (events []sse.Event, own []bool) {
	in = strings.TrimPrefix(in, "\ufeff")
	var lines []string
	for in != "" {
		end := strings.IndexAny(in, "\r\n")
		if end < 0 {
			break // a line without an end did not come
		}
		lines = append(lines, in[:end])
		if strings.HasPrefix(in[end:], "\r\n") {
			end++
		}
		in = in[end+1:]
	}
	var ev sse.Event
	var data []string
	something, last, lastWasCursor := false, "", false
	for _, line := range lines {
		if line == "" {
			if something {
				ev.Data = strings.Join(data, "\n")
				events = append(events, ev)
				own = append(own, ev.LastEventID != last || lastWasCursor)
				last, lastWasCursor = ev.LastEventID, ev.Type == aip.FrameCursor
			}
			ev, data, something = sse.Event{LastEventID: ev.LastEventID}, nil, false
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case name == "data":
			data, something = append(data, value), true
		case name == "event":
			ev.Type, something = value, true
		case name == "id" && !strings.Contains(value, "\x00"):
			ev.LastEventID, something = value, true
		}
	}
	return events, own
}

// holeless is a daemon without pages: a hole is passed at once.
type holeless struct{ body io.Reader }

func (h holeless) Follow(context.Context, aip.EventsQuery) (io.ReadCloser, error) {
	return io.NopCloser(h.body), nil
}

func (holeless) Page(_ context.Context, q aip.EventsQuery, _ aip.Decoding) (*aip.EventsPage, error) {
	return &aip.EventsPage{}, nil
}

// items are what one connection brings.
func items(t *testing.T, body io.Reader) []string {
	t.Helper()
	var out []string
	f := New(holeless{body}, Options{ActionID: actionID, IncludeChunks: true})
	_, err := f.connection(t.Context(), func(it Item) error {
		out = append(out, told(it))
		return nil
	})
	var trouble *troubleError
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, errTerminal) && !errors.As(err, &trouble) {
		t.Fatalf("the connection ended with %v", err)
	}
	return out[1:] // opened
}

// FuzzCuts feeds a follower any bytes in any pieces: it must hand out what a
// straightforward reading of the whole gives.
func FuzzCuts(f *testing.F) {
	page := eventFrame("evt_s", "aip.stream.chunk") + chunkFrame(0, "héllo ✓") + keepAlive + chunkFrame(2, "c") + chunkFrame(1, "b") +
		chunkFrame(1, "x") + cursorFrame("c_1") + eventFrame("evt_1", "aip.action.result") + chunkFrame(3, "done") + cursorFrame("c_2") + terminalFrame("c_2")
	for i, s := range []string{
		page,
		strings.ReplaceAll(page, "\n", "\r\n"),
		strings.ReplaceAll(page, "\n", "\r"),
		"\ufeff" + page,
		page[:len(page)-1],
		page[:len(page)/2],
		strings.ReplaceAll(page, "data: ", "data:"),
		"\n\n" + strings.ReplaceAll(page, "\n\n", "\n\n\n: \n\n"),
		chunkFrame(0, "a") + "event: aip.stream.cursor\ndata: {\ndata: }\nid: c_1\n\nid\n\ndata\n\n" + cursorFrame("c\x00"),
		"retry: 10\nid: a\n\nevent: x\n\n" + errorFrame("stream.cursor_expired"),
	} {
		f.Add([]byte(s), uint64(i))
	}
	f.Fuzz(func(t *testing.T, in []byte, seed uint64) {
		if len(in) > 1<<16 {
			return
		}
		events, own := reference(string(in))
		want := []string{}
		whole := New(holeless{}, Options{ActionID: actionID, IncludeChunks: true})
		for i, ev := range events {
			if ev.Data == "" {
				continue
			}
			if err := whole.frame(t.Context(), ev, own[i], func(it Item) error {
				want = append(want, told(it))
				return nil
			}); err != nil {
				break
			}
		}
		rnd := rand.New(rand.NewPCG(seed, 1))
		cuts := &pieces{err: io.EOF}
		for rest := in; len(rest) > 0; {
			n := min(1+rnd.IntN(40), len(rest))
			cuts.left = append(cuts.left, rest[:n])
			rest = rest[n:]
		}
		for how, body := range map[string]io.Reader{
			"at once":        strings.NewReader(string(in)),
			"byte by byte":   &pieces{left: every(in, 1), err: io.EOF},
			"in odd pieces":  cuts,
			"in two letters": &pieces{left: every(in, 2), err: io.EOF},
		} {
			if diff := cmp.Diff(want, items(t, body)); diff != "" {
				t.Errorf("%s (-reference +got):\n%s", how, diff)
			}
		}
	})
}
