package faults

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aipctl/aipctl/internal/devserver"
)

const answered = "act_answered"

// played is a development daemon that has played a short answer to its end.
func played(t *testing.T) http.Handler {
	t.Helper()
	s := devserver.New(devserver.Options{})
	t.Cleanup(s.Close)
	r := httptest.NewRequest("POST", submitURL, strings.NewReader(fmt.Sprintf(`{"aip_version":"1.0","message_type":"aip.core.v1.action","message_id":"msg_1","sent_at":%q,
		"from":{"id":"agent:test","kind":"agent"},"body":{"action":{"id":%q,"capability_id":"cap:hermes_agent:chat-stop:chat_stream","input":{"prompt":"hi"},"mode":"streaming"}}}`,
		now(), answered)))
	r.Header.Set("Content-Type", "application/json")
	rec := httptest.NewRecorder()
	s.Handler().ServeHTTP(rec, r)
	if rec.Code != http.StatusOK || !strings.Contains(rec.Body.String(), `"completed"`) {
		t.Fatalf("the submit was answered %d, %s", rec.Code, rec.Body)
	}
	return s.Handler()
}

// read gives the sequences of a follow and of a page, with the cursor.
func read(t *testing.T, h http.Handler, query string) string {
	t.Helper()
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest("GET", "http://daemon/aip/v1/actions/"+answered+"/events?include_chunks=true"+query, nil))
	if strings.Contains(query, "follow=true") {
		return followed(t, rec.Body.String())
	}
	var wire wirePage
	if err := json.Unmarshal(rec.Body.Bytes(), &wire); err != nil || rec.Code != http.StatusOK {
		return fmt.Sprintf("HTTP %d", rec.Code)
	}
	var seqs []string
	for _, raw := range wire.ActionEvents.Chunks {
		seqs = append(seqs, fmt.Sprint(chunkOf(raw).Sequence))
	}
	return strings.Join(seqs, " ") + " " + wire.ActionEvents.Cursor
}

func followed(t *testing.T, body string) string {
	t.Helper()
	var out []string
	for block := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		name, data, id := frameOf(block)
		switch {
		case name == "aip.stream.terminal":
			out = append(out, "terminal", id)
		case name == "aip.error":
			out = append(out, "error")
		case strings.Contains(data, `"chunk":{`):
			out = append(out, strings.TrimPrefix(id, "chunk:"))
		}
	}
	return strings.Join(out, " ")
}

func TestTampers(t *testing.T) {
	h := played(t)
	rnd := func() *rand.Rand { return rand.New(rand.NewPCG(1, 1)) }
	const (
		whole = "0 1 2 3 4 5 6 7 8 9 terminal aev_cursor_11_9"
		paged = "0 1 2 3 4 5 6 7 8 9 aev_cursor_11_9"
	)
	yes := func() bool { return true }
	tests := []struct {
		rule   string
		tamper func(hit func()) func(*EventPage)
		follow string
		page   string
		hits   int
	}{
		{"nothing is changed by itself", nil, whole, paged, 0},
		{"a chunk is withheld and the cursor moves on", func(hit func()) func(*EventPage) { return Withhold(3, yes, hit) },
			"0 1 2 4 5 6 7 8 9 terminal aev_cursor_11_9", "0 1 2 4 5 6 7 8 9 aev_cursor_11_9", 2},
		{"the true content comes first", func(hit func()) func(*EventPage) { return Contradict(3, true, hit) },
			"0 1 2 3 3 4 5 6 7 8 9 terminal aev_cursor_11_9", "0 1 2 3 3 4 5 6 7 8 9 aev_cursor_11_9", 2},
		{"a chunk stands above the one that closes the log", AboveTerminal,
			"0 1 2 3 4 5 6 7 8 9 10 terminal aev_cursor_11_9", "0 1 2 3 4 5 6 7 8 9 10 aev_cursor_11_9", 2},
		{"the terminal mark of a follow comes before its chunks, and a page has them", func(hit func()) func(*EventPage) { return TerminalFirst(4, hit) },
			"0 1 2 3 terminal aev_cursor_11_3", paged, 1},
		{"the terminal mark comes before all chunks", func(hit func()) func(*EventPage) { return TerminalFirst(0, hit) },
			"terminal aev_cursor_11_none", paged, 1},
		{"a large frame keeps its place", func(hit func()) func(*EventPage) { return Inflate(5, 1<<20, hit) }, whole, paged, 2},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			hits := 0
			d := &Daemon{Next: h}
			if tt.tamper != nil {
				d.Pages = append(d.Pages, tt.tamper(func() { hits++ }))
			}
			if got := read(t, d, "&follow=true"); got != tt.follow {
				t.Errorf("follow %s\n  want %s", got, tt.follow)
			}
			if got := read(t, d, ""); got != tt.page {
				t.Errorf("page %s\nwant %s", got, tt.page)
			}
			if hits != tt.hits {
				t.Errorf("%d hits, want %d", hits, tt.hits)
			}
		})
	}
	t.Run("a page in disorder has the same chunks", func(t *testing.T) {
		got := strings.Fields(read(t, &Daemon{Next: h, Pages: []func(*EventPage){Shuffle(rnd(), nil)}}, ""))
		if slices.IsSorted(got[:10]) {
			t.Errorf("%v is in order", got)
		}
		if slices.Sort(got[:10]); strings.Join(got, " ") != paged {
			t.Errorf("sorted, the page has %v", got)
		}
	})
	t.Run("repeats add chunks and no content", func(t *testing.T) {
		got := strings.Fields(read(t, &Daemon{Next: h, Pages: []func(*EventPage){Repeat(rnd(), nil)}}, ""))
		if len(got) <= 11 {
			t.Errorf("%v repeats nothing", got)
		}
		if seqs := slices.Compact(slices.Sorted(slices.Values(got[:len(got)-1]))); strings.Join(seqs, " ") != "0 1 2 3 4 5 6 7 8 9" {
			t.Errorf("the chunks are %v", seqs)
		}
	})
}

// A chunk that is spelled anew has its value, digit for digit.
func TestRespelledChunksKeepTheirValue(t *testing.T) {
	c := chunkOf(json.RawMessage(`{"sequence":7,"kind":"data","data":{"n":9007199254740993,"b":"<&>"}}`))
	again := respelled(c)
	if want := `{"data":{"b":"<&>","n":9007199254740993},"kind":"data","sequence":7}`; string(again.Raw) != want {
		t.Errorf("respelled as %s, want %s", again.Raw, want)
	}
}

func TestARestartedLogKnowsNoOldCursor(t *testing.T) {
	d := &Daemon{Next: played(t)}
	d.ShiftLog(1_000_000)
	if got := read(t, d, "&limit=3&kinds=none"); got != "0 1 2 aev_cursor_1000011_2" {
		t.Errorf("the old log's page is %s", got)
	}
	if got := read(t, d, "&kinds=none&cursor=aev_cursor_1000011_2"); got != "3 4 5 6 7 8 9 aev_cursor_1000011_9" {
		t.Errorf("the old log goes on with %s", got)
	}
	if got := read(t, d, "&kinds=none&follow=true&cursor=aev_cursor_1000011_8"); got != "9 terminal aev_cursor_1000011_9" {
		t.Errorf("the old log follows on with %s", got)
	}
	d.RestartLog()
	if got := read(t, d, "&cursor=aev_cursor_1000011_2"); got != "HTTP 400" {
		t.Errorf("an old cursor gets %s from the new log", got)
	}
	if got := read(t, d, "&follow=true&cursor=aev_cursor_1000011_2"); got != "error" {
		t.Errorf("an old cursor follows %s of the new log", got)
	}
	if got := read(t, d, "&limit=3&kinds=none"); got != "0 1 2 aev_cursor_11_2" {
		t.Errorf("the new log's page is %s", got)
	}
}

func TestTheOutputIsChangedWhereverItStands(t *testing.T) {
	d := &Daemon{Next: played(t), Output: func(out map[string]json.RawMessage) { delete(out, "events") }}
	rec := httptest.NewRecorder()
	d.ServeHTTP(rec, httptest.NewRequest("GET", "http://daemon/aip/v1/actions/"+answered+"/result", nil))
	if body := rec.Body.String(); strings.Contains(body, `"events"`) || !strings.Contains(body, `"terminal":true`) {
		t.Errorf("the result is %s", body)
	}
}

func TestClampCursor(t *testing.T) {
	for _, tt := range []struct {
		cursor string
		seq    uint64
		want   string
	}{
		{"aev_cursor_4_7", 5, "aev_cursor_4_4"}, {"aev_cursor_4_7", 8, "aev_cursor_4_7"}, {"aev_cursor_4_7", 0, "aev_cursor_4_none"},
		{"aev_cursor_4_none", 3, "aev_cursor_4_none"}, {"", 3, ""},
	} {
		if got := ClampCursor(tt.cursor, tt.seq); got != tt.want {
			t.Errorf("%s below %d is %s, want %s", tt.cursor, tt.seq, got, tt.want)
		}
	}
}

func TestGateways(t *testing.T) {
	next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "plain") })
	tests := []struct {
		rule   string
		h      http.Handler
		url    string
		status int
		header string
		value  string
	}{
		{"a page", HTML(502), pageURL, 502, "Content-Type", "text/html; charset=utf-8"},
		{"a redirect", Redirect(), pageURL, 302, "Location", "https://sign-in.example/start"},
		{"out of service", Unavailable(0), pageURL, 503, "Retry-After", ""},
		{"compressed", Gzip(next), pageURL, 200, "Content-Encoding", "gzip"},
		{"a refusal of the protocol", ProtocolError(401, "auth", "auth.not_authorized"), pageURL, 401, "Content-Type", "application/json"},
		{"a refused cursor of a page", RefuseCursor("stream.cursor_expired"), pageURL, 400, "Content-Type", "application/json"},
		{"a refused cursor of a follow", RefuseCursor("stream.cursor_expired"), followURL, 200, "Content-Type", "text/event-stream"},
		{"an empty stream", EmptyStream(), followURL, 200, "Content-Type", "text/event-stream"},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			rec := httptest.NewRecorder()
			tt.h.ServeHTTP(rec, httptest.NewRequest("GET", tt.url, nil))
			if rec.Code != tt.status || rec.Header().Get(tt.header) != tt.value {
				t.Errorf("HTTP %d, %s %q; want %d, %q", rec.Code, tt.header, rec.Header().Get(tt.header), tt.status, tt.value)
			}
		})
	}
}

func now() string { return time.Now().UTC().Format(time.RFC3339Nano) }
