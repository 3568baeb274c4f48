package aip

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

func raw(s string) jsontext.Value { return jsontext.Value(s) }

// hello is a chunk as decoded from every one of its spellings below.
func hello() *Chunk {
	return &Chunk{ActionID: "act_1", Sequence: 3, Kind: KindData, Frame: &Frame{Data: raw(`{"choices":[]}`)}}
}

// TestFollowItems reads the data of one frame of the follow route in each of
// its shapes.
func TestFollowItems(t *testing.T) {
	event := &Event{ID: "evt_1", Kind: "aip.stream.chunk", OccurredAt: "2030-01-15T09:30:02.41Z", ActionID: "act_1", Data: raw(`{"sequence":3}`)}
	yes := true
	after := uint64(1000)
	for _, tc := range []struct {
		rule, data string
		want       FollowItem
	}{
		// The three shapes that stand under one event name.
		{"an event record", `{"event":{"id":"evt_1","kind":"aip.stream.chunk","occurred_at":"2030-01-15T09:30:02.41Z","action_id":"act_1","data":{"sequence":3}}}`, FollowItem{Event: event}},
		{"a chunk with its content", `{"chunk":{"action_id":"act_1","sequence":3,"kind":"data","data":{"hermes_sse":{"data":{"choices":[]},"raw_data":"x","terminal":false}}}}`, FollowItem{Chunk: hello()}},
		{"a chunk that stands bare", `{"action_id":"act_1","sequence":3,"kind":"data","data":{"hermes_sse":{"data":{"choices":[]},"raw_data":"x","terminal":false}}}`, FollowItem{Chunk: hello()}},
		{"an event that stands bare", `{"id":"evt_1","kind":"aip.stream.chunk","occurred_at":"2030-01-15T09:30:02.41Z","action_id":"act_1","data":{"sequence":3}}`, FollowItem{Event: event}},

		// Keys in any order, unknown ones between them.
		{"bare, the sequence last", `{"data":{"hermes_sse":{"terminal":false,"data":{"choices":[]}}},"kind":"data","action_id":"act_1","x":[{}],"sequence":3}`, FollowItem{Chunk: hello()}},
		{"wrapped, the sequence last", `{"x":1,"chunk":{"data":{"hermes_sse":{"raw_data":"x","terminal":false,"data":{"choices":[]}}},"kind":"data","y":{"sequence":9},"action_id":"act_1","sequence":3},"z":null}`, FollowItem{Chunk: hello()}},
		{"an event, the id last", `{"event":{"data":{"sequence":3},"action_id":"act_1","occurred_at":"2030-01-15T09:30:02.41Z","kind":"aip.stream.chunk","id":"evt_1"}}`, FollowItem{Event: event}},
		{"white space everywhere", " {\n\t\"chunk\" : { \"action_id\":\"act_1\" ,\r\n\"sequence\" : 3, \"kind\":\"data\",\"data\":{ \"hermes_sse\":{\"data\":{\"choices\":[]},\"terminal\" :false}} } } \n", FollowItem{Chunk: hello()}},

		// Null and absent are alike.
		{"a chunk beside a null event", `{"event":null,"chunk":{"action_id":"act_1","sequence":3,"kind":"data","data":{"hermes_sse":{"data":{"choices":[]}}}}}`, FollowItem{Chunk: hello()}},
		{"an event beside a null chunk", `{"chunk":null,"event":{"id":"evt_1","kind":"aip.stream.chunk","occurred_at":"2030-01-15T09:30:02.41Z","action_id":"act_1","data":{"sequence":3}}}`, FollowItem{Event: event}},
		{"null event and id of a frame", `{"chunk":{"action_id":"act_1","sequence":3,"kind":"data","part":null,"data":{"hermes_sse":{"event":null,"id":null,"data":{"choices":[]},"raw_data":null,"terminal":null}}}}`, FollowItem{Chunk: &Chunk{
			ActionID: "act_1", Sequence: 3, Kind: KindData, Part: raw(`null`), Frame: &Frame{Data: raw(`{"choices":[]}`)},
		}}},
		{"null data of a chunk", `{"chunk":{"action_id":"act_1","sequence":3,"kind":"data","data":null}}`, FollowItem{Chunk: &Chunk{ActionID: "act_1", Sequence: 3, Kind: KindData}}},
		{"null data of a frame", `{"chunk":{"action_id":"act_1","sequence":3,"kind":"data","data":{"hermes_sse":{"event":"ping","data":null,"raw_data":"","terminal":false}}}}`, FollowItem{Chunk: &Chunk{
			ActionID: "act_1", Sequence: 3, Kind: KindData, Frame: &Frame{Event: "ping", Data: raw(`null`)},
		}}},
		{"everything null", `{"event":null,"chunk":null,"next_cursor":null,"terminal":null,"error":null}`, FollowItem{}},

		// Frames.
		{"a frame with a name, an id and the end", `{"chunk":{"action_id":"act_1","sequence":3,"kind":"done","data":{"hermes_sse":{"event":"response.completed","id":"7","data":"[DONE]","raw_data":"[DONE]","terminal":true}},"part":{"type":"text"}}}`, FollowItem{Chunk: &Chunk{
			ActionID: "act_1", Sequence: 3, Kind: KindDone, Part: raw(`{"type":"text"}`), Frame: &Frame{Event: "response.completed", ID: "7", Data: raw(`"[DONE]"`), Terminal: true},
		}}},
		{"data keeps its bytes", `{"chunk":{"action_id":"act_1","sequence":3,"kind":"data","data":{"hermes_sse":{"data":{ "b" : 1.50, "a":9007199254740993,"a":"\u00e9\ud83d" }}}}}`, FollowItem{Chunk: &Chunk{
			ActionID: "act_1", Sequence: 3, Kind: KindData, Frame: &Frame{Data: raw(`{ "b" : 1.50, "a":9007199254740993,"a":"\u00e9\ud83d" }`)},
		}}},

		// Payloads that are no provider frame.
		{"an operator's payload", `{"chunk":{"action_id":"act_1","sequence":3,"kind":"tool","data":{"hermes_operator":{"event":"tool.started"},"x":1.0}}}`, FollowItem{Chunk: &Chunk{
			ActionID: "act_1", Sequence: 3, Kind: KindTool, Data: raw(`{"hermes_operator":{"event":"tool.started"},"x":1.0}`),
		}}},
		{"the mark of a missing end", `{"chunk":{"action_id":"act_1","sequence":3,"kind":"error","data":{"operation":"chat_stream","reason":"r"}}}`, FollowItem{Chunk: &Chunk{
			ActionID: "act_1", Sequence: 3, Kind: KindError, Data: raw(`{"operation":"chat_stream","reason":"r"}`),
		}}},
		{"a payload that is a string", `{"chunk":{"action_id":"act_1","sequence":3,"kind":"data","data":"x"}}`, FollowItem{Chunk: &Chunk{ActionID: "act_1", Sequence: 3, Kind: KindData, Data: raw(`"x"`)}}},
		{"a payload that is empty", `{"chunk":{"action_id":"act_1","sequence":3,"kind":"data","data":{}}}`, FollowItem{Chunk: &Chunk{ActionID: "act_1", Sequence: 3, Kind: KindData, Data: raw(`{}`)}}},
		{"a frame that is none", `{"chunk":{"action_id":"act_1","sequence":3,"kind":"data","data":{"hermes_sse":null}}}`, FollowItem{Chunk: &Chunk{ActionID: "act_1", Sequence: 3, Kind: KindData, Data: raw(`{"hermes_sse":null}`)}}},
		{"a frame beside something else", `{"chunk":{"action_id":"act_1","sequence":3,"kind":"data","data":{"x":1,"hermes_sse":{"data":{"choices":[]}},"y":2}}}`, FollowItem{Chunk: hello()}},

		// The other frames of the route.
		{"a cursor", `{"next_cursor":"aev_cursor_41_0"}`, FollowItem{NextCursor: "aev_cursor_41_0"}},
		{"the terminal mark", `{"terminal":true,"action_id":"act_1"}`, FollowItem{Terminal: true}},
		{"a terminal mark that is false", `{"terminal":false,"action_id":"act_1"}`, FollowItem{}},
		{"an error", `{"error":{"code":"query.invalid_cursor","message":"m","category":"permanent","retryable":true,"retry_after_ms":1000,"details":{"cursor":"chunk:0"},"source":{"component":"c"}}}`, FollowItem{Error: &ProtocolError{
			Code: "query.invalid_cursor", Message: "m", Category: "permanent", Retryable: &yes, RetryAfterMS: &after, Details: raw(`{"cursor":"chunk:0"}`),
		}}},
		{"an error inside an error", `{"error":{"error":{"code":"c"}}}`, FollowItem{Error: &ProtocolError{Code: "c"}}},
		{"an error that is a word", `{"error":"c"}`, FollowItem{}},

		// Nothing known.
		{"an empty object", `{}`, FollowItem{}},
		{"members that nobody knows", `{"x":1,"y":{"chunk":{}}}`, FollowItem{}},

		// A member of the wrong type must not cost the frame around it.
		{"wrong types", `{"chunk":{"action_id":5,"sequence":3,"kind":["data"],"data":{"hermes_sse":{"event":1,"id":{},"data":{"choices":[]},"terminal":"true"}}}}`, FollowItem{Chunk: &Chunk{Sequence: 3, Frame: &Frame{Data: raw(`{"choices":[]}`)}}}},
		{"of a name that stands twice the last one counts", `{"chunk":{"action_id":"act_0","action_id":"act_1","sequence":2,"sequence":3,"kind":"data","data":{"hermes_sse":{"data":1,"data":{"choices":[]}}}}}`, FollowItem{Chunk: hello()}},
		{"bytes that are no UTF-8", "{\"chunk\":{\"action_id\":\"act_1\",\"sequence\":3,\"kind\":\"\xff\",\"data\":{\"hermes_sse\":{\"data\":\"\xff\"}}}}", FollowItem{Chunk: &Chunk{
			ActionID: "act_1", Sequence: 3, Kind: "\ufffd", Frame: &Frame{Data: raw("\"\xff\"")},
		}}},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			got, err := DecodeFollowItem([]byte(tc.data), Decoding{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestWhatIsNoFollowItem(t *testing.T) {
	for rule, data := range map[string]string{
		"nothing":                     ``,
		"white space":                 " \n",
		"text":                        `canary`,
		"an array":                    `["canary"]`,
		"a string":                    `"canary"`,
		"null":                        `null`,
		"an object that breaks off":   `{"chunk":{"action_id":"canary"`,
		"an object and more":          `{"next_cursor":"a"}{"next_cursor":"canary"}`,
		"an object and text":          `{"next_cursor":"a"} canary`,
		"a chunk that is a string":    `{"chunk":"canary"}`,
		"an event that is an array":   `{"event":["canary"]}`,
		"a chunk without a sequence":  `{"chunk":{"action_id":"canary","kind":"data"}}`,
		"a sequence that is null":     `{"chunk":{"action_id":"canary","sequence":null}}`,
		"a sequence that is a string": `{"chunk":{"action_id":"canary","sequence":"3"}}`,
		"a sequence below zero":       `{"chunk":{"action_id":"canary","sequence":-1}}`,
		"a sequence with a point":     `{"chunk":{"action_id":"canary","sequence":3.5}}`,
		"a sequence above 64 bits":    `{"chunk":{"action_id":"canary","sequence":18446744073709551616}}`,
		"a bare sequence of no kind":  `{"sequence":{},"kind":"canary"}`,
	} {
		t.Run(rule, func(t *testing.T) {
			item, err := DecodeFollowItem([]byte(data), Decoding{})
			if !errors.Is(err, ErrNotJSON) {
				t.Fatalf("read as %+v (%v)", item, err)
			}
			if item != (FollowItem{}) {
				t.Errorf("beside the error there is %+v", item)
			}
			if strings.Contains(err.Error(), "canary") {
				t.Errorf("the error repeats the frame: %v", err)
			}
		})
	}
}

func TestSequencesKeepEveryDigit(t *testing.T) {
	for text, want := range map[string]uint64{
		"0": 0, "9007199254740992": 1 << 53, "9007199254740993": 1<<53 + 1, "18446744073709551615": 1<<64 - 1,
	} {
		for _, shape := range []string{`{"chunk":{"sequence":` + text + `}}`, `{"sequence":` + text + `}`} {
			item, err := DecodeFollowItem([]byte(shape), Decoding{})
			if err != nil || item.Chunk == nil || item.Chunk.Sequence != want {
				t.Errorf("%s is read as %+v (%v)", shape, item.Chunk, err)
			}
		}
	}
}

func TestRawDataIsBuiltOnlyWhenAskedFor(t *testing.T) {
	const data = `{"chunk":{"sequence":0,"data":{"hermes_sse":{"data":1,"raw_data":"{\"a\": \"\u00e9\"}","terminal":false}}}}`
	for ask, want := range map[bool]string{false: "", true: "{\"a\": \"é\"}"} {
		item, err := DecodeFollowItem([]byte(data), Decoding{Raw: ask})
		if err != nil || item.Chunk.Frame.Raw != want {
			t.Errorf("asked %v: raw_data is %q (%v)", ask, item.Chunk.Frame.Raw, err)
		}
	}
}

func TestOnlyDoneAndErrorAreTerminal(t *testing.T) {
	for kind, want := range map[string]bool{
		KindDone: true, KindError: true, KindData: false, KindProgress: false, KindTool: false,
		KindThought: false, KindPreview: false, KindPendingApproval: false, "": false, "Done": false,
	} {
		if got := (&Chunk{Kind: kind}).Terminal(); got != want {
			t.Errorf("a chunk of kind %q is terminal: %v", kind, got)
		}
	}
}
