package devserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// decoded is a JSON value with its numbers as written, for comparison.
func decoded(t *testing.T, raw []byte) any {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("not JSON: %v: %.200s", err, raw)
	}
	return v
}

// providerBytes writes frames back into the bytes a provider may have sent.
func providerBytes(frames []hermesFrame) recording {
	var rec recording
	for _, h := range frames {
		var b strings.Builder
		if h.Event != nil {
			b.WriteString("event: " + *h.Event + "\n")
		}
		if h.ID != nil {
			b.WriteString("id: " + *h.ID + "\n")
		}
		if h.RawData != "" || h.Event == nil && h.ID == nil {
			for line := range strings.SplitSeq(h.RawData, "\n") {
				b.WriteString("data: " + line + "\n")
			}
		}
		rec = append(rec, block{data: []byte(b.String() + "\n")})
	}
	return rec
}

// invokeBytes runs the connector over a body and returns the chunks it stored.
func invokeBytes(sc *Scenario, actionID, input string) ([]chunk, outcome) {
	s := New(Options{})
	defer s.Close()
	s.providers[sc.Name] = newProvider()
	r := &run{
		action: action{ID: actionID, CapabilityID: sc.CapabilityID(), Input: json.RawMessage(input)}, scenario: sc,
		cancelled: make(chan struct{}),
	}
	r.ctx, r.finish = context.WithCancel(context.Background())
	defer r.finish()
	s.store.start(r)
	out := s.invoke(r)
	return s.store.chunks[actionID], out
}

// TestConnectorMatchesTheStreamModel plays streams whose chunks and result were
// written down from the connector's rules, and expects exactly those. Only the
// wording of errors is ours.
func TestConnectorMatchesTheStreamModel(t *testing.T) {
	files, err := filepath.Glob("testdata/streams/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stream models: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".jsonl"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			lines := bytes.Split(bytes.TrimSpace(raw), []byte("\n"))
			var want struct {
				ActionID string    `json:"action_id"`
				Output   aggregate `json:"output"`
			}
			last := lines[len(lines)-1]
			if err := json.Unmarshal(last, &want); err != nil {
				t.Fatal(err)
			}
			sc := &Scenario{Name: want.Output.EndpointID, Operation: want.Output.Operation}
			sc.play.frames = providerBytes(want.Output.Events)
			if want.Output.Truncated {
				sc.MaxEvents = len(want.Output.Events)
			}
			chunks, out := invokeBytes(sc, want.ActionID, `{"run_id":"run_1","session_id":"s"}`)
			if out.err != nil || len(chunks) != len(lines)-1 {
				t.Fatalf("%d chunks and error %v, want %d chunks", len(chunks), out.err, len(lines)-1)
			}
			for i, c := range chunks {
				if got, want := decoded(t, encode(c)), decoded(t, lines[i]); !reflect.DeepEqual(got, want) {
					t.Errorf("chunk %d\n got %v\nwant %v", i, got, want)
				}
			}
			got, exp := decoded(t, encode(out.result)).(map[string]any), decoded(t, last).(map[string]any)
			for _, m := range []map[string]any{got, exp} {
				if e, ok := m["error"].(map[string]any); ok {
					delete(e, "message")
				}
			}
			if !reflect.DeepEqual(got, exp) {
				t.Errorf("result\n got %v\nwant %v", got, exp)
			}
		})
	}
}

// framesOf cuts bytes into frames, in pieces of the given size.
func framesOf(body string, piece int) (frames []sseFrame, err error) {
	var r sseReader
	for len(body) > 0 {
		n := min(piece, len(body))
		if err := r.write([]byte(body[:n])); err != nil {
			return frames, err
		}
		body = body[n:]
		for {
			f, ok, err := r.next()
			if err != nil {
				return frames, err
			}
			if !ok {
				break
			}
			frames = append(frames, f)
		}
	}
	f, ok, err := r.tail()
	if ok {
		frames = append(frames, f)
	}
	return frames, err
}

func TestProviderFraming(t *testing.T) {
	str := func(s string) *string { return &s }
	for _, tc := range []struct {
		rule, body string
		want       []sseFrame
	}{
		{"LF LF ends a frame", "data: a\n\ndata: b\n\n", []sseFrame{{data: "a", hasData: true}, {data: "b", hasData: true}}},
		{"CR LF CR LF ends a frame", "data: a\r\n\r\ndata: b\r\n\r\n", []sseFrame{{data: "a", hasData: true}, {data: "b", hasData: true}}},
		{"a mixed blank line ends none", "data: a\n\r\ndata: b\n\n", []sseFrame{{data: "a\nb", hasData: true}}},
		{"a lone CR ends no line", "data: a\rid: b\n\n", []sseFrame{{data: "a\rid: b", hasData: true}}},
		{"every trailing CR of a line goes", "data: a\r\r\n\n", []sseFrame{{data: "a", hasData: true}}},
		{"comments and unknown fields alone are no frame", ": keepalive\n\nretry: 5\n\n\n\ndata: a\n\n", []sseFrame{{data: "a", hasData: true}}},
		{"a name alone is a frame", "event: ping\n\n", []sseFrame{{event: str("ping")}}},
		{"an id alone is a frame, and is not remembered", "id: 1\n\ndata: a\n\n", []sseFrame{{id: str("1")}, {data: "a", hasData: true}}},
		{"data lines join with LF", "data: a\ndata\ndata: b\n\n", []sseFrame{{data: "a\n\nb", hasData: true}}},
		{"one leading space is dropped", "data:  a\ndata:b\n\n", []sseFrame{{data: " a\nb", hasData: true}}},
		{"the last name and the last id win", "event: a\nevent: b\nid: 1\nid: 2\n\n", []sseFrame{{event: str("b"), id: str("2")}}},
		{"a byte order mark loses its line", "\ufeffevent: a\ndata: b\n\n", []sseFrame{{data: "b", hasData: true}}},
		{"a tail without a blank line is a frame", "data: a\n\ndata: b", []sseFrame{{data: "a", hasData: true}, {data: "b", hasData: true}}},
		{"a JSON body has no frame", `{"error":{}}`, nil},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			for _, piece := range []int{1, 3, len(tc.body)} {
				got, err := framesOf(tc.body, piece)
				if err != nil || !reflect.DeepEqual(got, tc.want) {
					t.Errorf("in pieces of %d: %+v, %v", piece, got, err)
				}
			}
		})
	}
}

func TestProviderBounds(t *testing.T) {
	var fault streamFault
	if _, err := framesOf("data: \xff\n\n", 100); !errors.As(err, &fault) {
		t.Errorf("invalid UTF-8 gives %v", err)
	}
	big := strings.Repeat("x", maxSSEFrame)
	if _, err := framesOf("data: "+big+"\n\n", 1<<16); !errors.As(err, &fault) {
		t.Errorf("a frame over the bound gives %v", err)
	}
	if _, err := framesOf("data: "+big[:maxSSEFrame-6]+"\n\n", 1<<16); err != nil {
		t.Errorf("a frame on the bound gives %v", err)
	}
	var r sseReader
	r.total = maxSSEStream
	if err := r.write([]byte("x")); !errors.As(err, &fault) {
		t.Errorf("a stream over the bound gives %v", err)
	}
	sc := &Scenario{Name: "x", Operation: "chat_stream", play: script{frames: recording{
		{data: []byte("data: 1\n\n")}, {data: []byte("data: \xff\n\n")},
	}}}
	chunks, out := invokeBytes(sc, "act_bad", `{"prompt":"x"}`)
	if len(chunks) != 1 || out.err == nil || out.err.Code != "connector.hermes_agent.invalid_response" || out.err.httpStatus() != 502 {
		t.Errorf("%d chunks and %+v, want the chunk before the bad bytes and invalid_response", len(chunks), out.err)
	}
}

func TestFrameRules(t *testing.T) {
	type want struct {
		data, kind, part string
		terminal         bool
	}
	for _, tc := range []struct {
		rule, event, data string
		want              want
	}{
		{"type alone names but does not end", "", `{"type":"error"}`, want{`{"type":"error"}`, "error", "", false}},
		{"data event ends", "", `{"event":"run.failed"}`, want{`{"event":"run.failed"}`, "error", "", true}},
		{"run.cancelled is published as done", "", `{"event":"run.cancelled"}`, want{`{"event":"run.cancelled"}`, "done", "", true}},
		{"the event line beats data", "note", `{"event":"error"}`, want{`{"event":"error"}`, "done", "", true}},
		{"a name that is no string hides type", "", `{"event":1,"type":"error"}`, want{`{"event":1,"type":"error"}`, "data", "", false}},
		{"response.completed by type alone is data", "", `{"type":"response.completed"}`, want{`{"type":"response.completed"}`, "data", "", false}},
		{"tool.failed is a tool", "tool.failed", `{}`, want{`{}`, "tool", "", false}},
		{"hermes.tool.progress is data", "hermes.tool.progress", `{"status":"running"}`, want{`{"status":"running"}`, "data", "", false}},
		{"approval.request", "approval.request", `{}`, want{`{}`, "pending_approval", "", false}},
		{"reasoning.available is a thought with a part", "", `{"event":"reasoning.available","text":"hm"}`, want{`{"event":"reasoning.available","text":"hm"}`, "thought", "hm", false}},
		{"a delta that is no string hides text", "", `{"delta":{},"text":"t"}`, want{`{"delta":{},"text":"t"}`, "data", "", false}},
		{"an empty delta makes no part", "", `{"delta":""}`, want{`{"delta":""}`, "data", "", false}},
		{"output fills the part", "run.completed", `{"output":"all"}`, want{`{"output":"all"}`, "done", "all", true}},
		{"escapes become characters", "", `{"a": "\u00e9\ud83d\ude80\u001b\u2028"}`, want{"{\"a\":\"é🚀\\u001b\u2028\"}", "data", "", false}},
		{"number spelling and key order stay", "", `{"b": 1.50, "a": 12345678901234567890}`, want{`{"b":1.50,"a":12345678901234567890}`, "data", "", false}},
		{"half a surrogate pair is refused and stays text", "", `{"a": "\ud83d"}`, want{`"{\"a\": \"\\ud83d\"}"`, "data", "", false}},
		{"the low half first is refused too", "", `{"a": "\ude80\ud83d"}`, want{`"{\"a\": \"\\ude80\\ud83d\"}"`, "data", "", false}},
		{"other text stays text", "error", `boom`, want{`"boom"`, "error", "", true}},
		{"blank data is null", "", ` `, want{`null`, "data", "", false}},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			f := sseFrame{data: tc.data, hasData: true}
			if tc.event != "" {
				f.event = &tc.event
			}
			h := newHermesFrame(f)
			got := want{string(h.Data), h.kind(), "", h.Terminal}
			if p := h.part(); p != nil {
				got.part = p.Text
			}
			if got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
			if h.RawData != tc.data {
				t.Errorf("raw_data is %q", h.RawData)
			}
		})
	}
}

func TestAggregateText(t *testing.T) {
	for _, tc := range []struct {
		rule, before, event, data, want string
	}{
		{"chat content of choice 0", "a", "", `{"choices":[{"delta":{"content":"b"}},{"delta":{"content":"c"}}]}`, "ab"},
		{"any top-level delta, whatever the event", "a", "tool.progress", `{"delta":"b"}`, "ab"},
		{"text of a delta event only", "a", "response.output_text.delta", `{"text":"b"}`, "ab"},
		{"text of another event is left out", "a", "response.output_text.done", `{"text":"b"}`, "a"},
		{"content when there is no text yet", "", "", `{"content":"c","output":"o"}`, "c"},
		{"output when there is no text yet", "", "", `{"output":"o"}`, "o"},
		{"neither once there is text", "a", "", `{"content":"c"}`, "a"},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			f := sseFrame{data: tc.data, hasData: true}
			if tc.event != "" {
				f.event = &tc.event
			}
			if got := newHermesFrame(f).appendText(tc.before); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestUnterminatedTailIgnoresTheLimit: the limit is not asked for the bytes
// left at the end of the body.
func TestUnterminatedTailIgnoresTheLimit(t *testing.T) {
	sc := &Scenario{Name: "x", Operation: "chat_stream", MaxEvents: 2, play: script{frames: recording{
		{data: []byte("data: {}\n\n")}, {data: []byte("data: [DONE]")},
	}}}
	if _, out := invokeBytes(sc, "act_tail", `{"prompt":"x"}`); out.result.Status != "completed" {
		t.Errorf("got %+v", out.result)
	}
}

func TestConnectorRefusesInputTheSchemaLetsPass(t *testing.T) {
	for _, tc := range []struct{ rule, input string }{
		{"max_events spelled as a fraction", `{"prompt":"x","max_events":512.0}`},
		{"blank prompt", `{"prompt":"  "}`},
		{"negative max_tokens", `{"prompt":"x","max_tokens":-1}`},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
				r := d.submit("chat-stop", "act_in", fields{"input": json.RawMessage(tc.input)})
				r.want(t, 400, code, "connector.hermes_agent.configuration_or_input",
					"/body/error/error/details/uncertain_outcome", "false",
					"/body/error/error/details/operation", "invocation")
				d.get("/aip/v1/actions/act_in").want(t, 200, "/action_status/state", "unknown")
			})
		})
	}
}

func TestMaxEventsComesFromTheInput(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		r := d.submit("chat-stop", "act_max", fields{"input": fields{"prompt": "x", "max_events": 3}})
		r.want(t, 200, "/body/action_result/error/code", "connector.hermes_agent.stream_truncated")
		if got := d.chunksOf("act_max"); len(got) != 3 {
			t.Errorf("%d chunks, want 3", len(got))
		}
	})
}
