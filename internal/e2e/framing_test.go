package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/aiptest"
	"github.com/aipctl/aipctl/internal/follow"
)

func testCRLFSplit(t *testing.T, dir string) {
	for _, w := range []want{
		{play: ""}, {play: "cr"}, {play: "each-byte"},
		{play: "", opts: []aiptest.PlayOption{aiptest.WithCuts("whole")}},
		{play: "cr", opts: []aiptest.PlayOption{aiptest.WithCuts("each")}},
	} {
		w.text, w.verdict, w.code = "Valve 3 is shut;\npressure 2.1 bar.", "accepted", 0
		w.cursor = terminalCursor(t, dir, "crlf.sse")
		w.settle(t, dir)
	}
	for _, name := range []string{"crlf.sse", "cr.sse"} {
		t.Run("every cut of "+name, func(t *testing.T) {
			t.Parallel()
			src := read(t, dir, name)
			whole := items(t, inMemory{src: src})
			if n := len(whole); n < 9 {
				t.Fatalf("the whole stream gives %d items: %v", n, whole)
			}
			if got := items(t, inMemory{src: src, bytewise: true}); !reflect.DeepEqual(got, whole) {
				t.Errorf("one byte a read gives\n%v\nwant\n%v", got, whole)
			}
			for at := 1; at < len(src); at++ {
				if got := items(t, inMemory{src: src, at: at}); !reflect.DeepEqual(got, whole) {
					t.Fatalf("cut at byte %d the stream gives\n%v\nwant\n%v", at, got, whole)
				}
			}
		})
	}
	t.Run("one event of two data lines", func(t *testing.T) {
		src := read(t, dir, "one-event-two-data-lines.sse")
		for at := range src {
			got := items(t, inMemory{src: src, at: at})
			if len(got) != 1 {
				t.Fatalf("cut at byte %d: %d items, want 1: %v", at, len(got), got)
			}
		}
	})
}

// terminalCursor is the id of the terminal frame of a recorded stream.
func terminalCursor(t *testing.T, dir, name string) string {
	t.Helper()
	text := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(read(t, dir, name)))
	_, frame, found := strings.Cut(text, "event: aip.stream.terminal\n")
	_, id, hasID := strings.Cut(frame, "\nid: ")
	id, _, _ = strings.Cut(id, "\n")
	if !found || !hasID || id == "" {
		t.Fatalf("%s has no terminal frame with an id", name)
	}
	return id
}

func read(t *testing.T, dir, name string) []byte {
	t.Helper()
	src, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return src
}

// items follows a stream and spells what came out of it, up to the terminal
// mark or to the end of the bytes.
func items(t *testing.T, m inMemory) []string {
	t.Helper()
	f := follow.New(m, follow.Options{ActionID: "act_qa_01", IncludeChunks: true})
	var out []string
	err := f.Run(t.Context(), func(it follow.Item) error {
		switch x := it.(type) {
		case follow.Opened:
			return nil
		case follow.Lost:
			return io.EOF // one connection is all there is
		case follow.Chunk:
			out = append(out, fmt.Sprintf("chunk %d %s", x.Chunk.Sequence, x.Chunk.Frame.Data))
		default:
			out = append(out, fmt.Sprintf("%T %+v", it, it))
			if c, ok := it.(follow.Cursor); ok {
				out[len(out)-1] = "cursor " + c.Value
			}
		}
		return nil
	})
	if err != nil && err != io.EOF {
		t.Fatalf("cut at byte %d: %v", m.at, err)
	}
	return out
}

// inMemory is a daemon with one connection, whose reads end at the cut, or
// after each byte.
type inMemory struct {
	src      []byte
	at       int
	bytewise bool
}

func (m inMemory) Follow(context.Context, aip.EventsQuery) (io.ReadCloser, error) {
	if m.bytewise {
		return &pieceReader{slices.Collect(slices.Chunk(m.src, 1))}, nil
	}
	return &pieceReader{[][]byte{m.src[:m.at], m.src[m.at:]}}, nil
}

func (m inMemory) Page(context.Context, aip.EventsQuery, aip.Decoding) (*aip.EventsPage, error) {
	return &aip.EventsPage{}, nil
}

// pieceReader gives one piece a read.
type pieceReader struct{ pieces [][]byte }

func (r *pieceReader) Read(p []byte) (int, error) {
	for len(r.pieces) > 0 && len(r.pieces[0]) == 0 {
		r.pieces = r.pieces[1:]
	}
	if len(r.pieces) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.pieces[0])
	r.pieces[0] = r.pieces[0][n:]
	return n, nil
}

func (r *pieceReader) Close() error { return nil }

func testHugeDataLine(t *testing.T, dir string) {
	want{
		text: "All pumps nominal.", verdict: "accepted", code: 0, cursor: "aev_cursor_407_5",
		// The output of a call that was not streamed shows that a tool ran.
		tools: []string{"/call_qa02/completed"}, warned: []string{"tools.unconfirmed"},
		more: func(t *testing.T, _ *aiptest.Player, s settled) {
			if strings.Contains(s.text.stderr, "intake pump") {
				t.Error("the tool's output is on stderr")
			}
			if s.outcome.ResponseID != "resp_qa02" {
				t.Errorf("response_id is %q", s.outcome.ResponseID)
			}
		},
	}.settle(t, dir)

	const bound = 64 << 10
	t.Run("a line above the bound", func(t *testing.T) {
		p := aiptest.PlayCase(t, running(t, dir, "play.json"), "play.json")
		w := newWorld(t)
		s := w.follow(p, "--max-event-bytes", fmt.Sprint(bound))
		if s.code != 0 || s.stdout != "All pumps nominal.\n" {
			t.Errorf("exit code %d and stdout %q; want the action settled from its result", s.code, s.stdout)
		}
		namesBound(t, s.stderr, bound)
		if strings.Contains(s.stderr, "intake pump") || strings.Contains(s.stderr, "token too long") {
			t.Errorf("stderr shows the line, or a library's words: %q", tail(s.stderr))
		}
		for _, r := range w.state("cursor") {
			if r.Cursor.Cursor != "" {
				t.Errorf("a cursor was kept past what was not read: %+v", *r.Cursor)
			}
		}
		reads(t, p)
	})
	t.Run("a line that never ends", func(t *testing.T) {
		d := serve(t, loadRecording(t, "chat_stream_complete"), func(d *daemon) {
			d.follow = func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, "event: aip.stream.chunk\ndata: {\"chunk\":\"")
				block := strings.Repeat("x", 4096)
				for {
					if _, err := io.WriteString(w, block); err != nil {
						return // the client has given up, as it should
					}
				}
			}
		})
		s := newWorld(t).run("action", "events", d.URL, d.action, "--follow", "--include-chunks", "--max-event-bytes", fmt.Sprint(bound))
		if want := "Checking the notes… The incident is contained.\n"; s.code != 0 || s.stdout != want {
			t.Errorf("exit code %d and stdout %q, want 0 and %q", s.code, s.stdout, want)
		}
		namesBound(t, s.stderr, bound)
		if n := d.count("follow"); n != 1 {
			t.Errorf("%d follows, want 1: the same line would come again", n)
		}
		if n := d.count("post"); n != 0 {
			t.Errorf("%d submits", n)
		}
	})
}

func namesBound(t *testing.T, stderr string, bound int) {
	t.Helper()
	if !strings.Contains(stderr, "--max-event-bytes") || !strings.Contains(stderr, fmt.Sprint(bound)) {
		t.Errorf("stderr does not name the bound %d of --max-event-bytes:\n%s", bound, tail(stderr))
	}
}

func testUTF8Split(t *testing.T, dir string) {
	for _, cut := range []string{"", "whole", "multibyte", "each"} {
		w := want{
			text:    "Größe 12 µm — 水位正常 🚰✅ \u00e9 (e+\u0301) \u05e7\u05d5 \u05de\u05d9\u05dd",
			verdict: "accepted", code: 0,
		}
		if cut != "" {
			w.opts = []aiptest.PlayOption{aiptest.WithCuts(cut)}
		}
		w.settle(t, dir)
	}
}

func testBlocksWithoutData(t *testing.T, dir string) {
	want{
		text: "ready", verdict: "accepted", code: 0,
		more: func(t *testing.T, p *aiptest.Player, s settled) {
			for _, r := range p.Requests() {
				if strings.Contains(r.Target, "evt_") {
					t.Errorf("asked for %s", r.Target)
				}
			}
			for _, out := range []string{s.text.stderr, s.lines.stdout} {
				for _, word := range []string{"QUEUED", "keep-alive", "aip.error", "evt_not_a_cursor"} {
					if strings.Contains(out, word) {
						t.Errorf("a block without data was shown: %q in %q", word, out)
					}
				}
			}
		},
	}.settle(t, dir)
}

func testFieldSpelling(t *testing.T, dir string) {
	want{text: "intake", verdict: "accepted", code: 0}.settle(t, dir)
}

func testUnterminatedLastEvent(t *testing.T, dir string) {
	for _, play := range []string{"", "cut-in-json"} {
		want{
			play: play, text: "north gate open", verdict: "accepted", code: 0,
			follows: []string{"", "aev_cursor_402_1"},
			more: func(t *testing.T, _ *aiptest.Player, s settled) {
				if s.outcome.Reconnects != 1 {
					t.Errorf("%d reconnects, want 1", s.outcome.Reconnects)
				}
			},
		}.settle(t, dir)
	}
}

func testBigNumbersAndHTML(t *testing.T, dir string) {
	want{
		text: "flow <12 & rising> ok", verdict: "accepted", code: 0,
		more: func(t *testing.T, _ *aiptest.Player, s settled) {
			var sequences []string
			for _, r := range ofType(s.all, "chunk") {
				sequences = append(sequences, r.Sequence.String())
			}
			wanted := "9007199254740990 9007199254740991 9007199254740992 9007199254740993 9007199254740994"
			if got := strings.Join(sequences, " "); got != wanted {
				t.Errorf("sequences %s, want %s", got, wanted)
			}
			for _, digits := range []string{`"seed":9007199254740993`, `"created":1893456000123456789`, `"prompt_tokens":1000000`} {
				if !strings.Contains(s.lines.stdout, digits) {
					t.Errorf("the chunks do not repeat %s", digits)
				}
			}
			var usage struct {
				Prompt json.Number `json:"prompt_tokens"`
			}
			if err := json.Unmarshal(s.outcome.Usage, &usage); err != nil || usage.Prompt != "1000000" {
				t.Errorf("usage in the outcome is %s", s.outcome.Usage)
			}
			if !strings.Contains(s.text.stderr, "1000000 in") {
				t.Errorf("the last line does not count the tokens digit for digit: %q", verdictLine(t, s.text.stderr))
			}
		},
	}.settle(t, dir)
}
