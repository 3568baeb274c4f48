package hermes

import (
	"strings"
	"testing"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/transcript"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

func truth(b bool) *bool { return &b }

// TestFrames reads one frame at a time. Rows are the renderer's rules and the
// traps of the providers' payloads.
func TestFrames(t *testing.T) {
	named := func(name string, more ...transcript.Op) []transcript.Op {
		return append([]transcript.Op{transcript.Named{Name: name}}, more...)
	}
	none := []transcript.Op(nil)
	for _, tc := range []struct {
		rule  string
		event string
		data  string
		want  []transcript.Op
	}{
		// Names.
		{"the event line names a frame", "run.completed", `{"event":"run.failed","type":"error"}`, named("run.completed")},
		{"else the member event", "", `{"event":"run.failed","type":"error"}`, named("run.failed")},
		{"else the member type", "", `{"type":"run.started"}`, named("run.started")},
		{"an event that is no string hides the type", "", `{"event":5,"type":"run.failed"}`, []transcript.Op{transcript.Note{}}},
		{"a null event hides the type", "", `{"event":null,"type":"run.failed"}`, []transcript.Op{transcript.Note{}}},

		// What is not understood becomes a note, and keeps its name.
		{"an unknown name", "hermes.future.event", `{"x":1}`, named("hermes.future.event", transcript.Note{Name: "hermes.future.event"})},
		{"an unknown Responses name", "response.refusal.delta", `{"delta":"no"}`, named("response.refusal.delta", transcript.Note{Name: "response.refusal.delta"})},
		{"no name and nothing known", "", `{"x":1}`, []transcript.Op{transcript.Note{}}},
		{"null data", "ping", `null`, named("ping", transcript.Note{Name: "ping"})},
		{"an array", "", `[1]`, []transcript.Op{transcript.Note{}}},
		{"a number", "", `5`, []transcript.Op{transcript.Note{}}},
		{"text that is no JSON", "", `"plain words"`, []transcript.Op{transcript.Note{}}},
		{"the empty object", "", `{}`, []transcript.Op{transcript.Note{}}},

		// Chat.
		{"[DONE]", "", `"[DONE]"`, []transcript.Op{transcript.Done{}}},
		{"[DONE] with blanks", "", `" [DONE]\n"`, []transcript.Op{transcript.Done{}}},
		{"text", "", `{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}`, []transcript.Op{transcript.Text{Text: "a"}, transcript.Finish{}}},
		{"text and finish in one frame", "", `{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}`, []transcript.Op{transcript.Text{Text: "a"}, transcript.Finish{Reason: "stop"}}},
		{"choices by their own index", "", `{"choices":[{"index":3,"delta":{"content":"a"}},{"index":1,"delta":{"content":"b"}}]}`, []transcript.Op{
			transcript.Text{Item: transcript.ItemRef{Choice: 3}, Text: "a"}, transcript.Finish{Choice: 3},
			transcript.Text{Item: transcript.ItemRef{Choice: 1}, Text: "b"}, transcript.Finish{Choice: 1},
		}},
		{"choices without an index by their place", "", `{"choices":[{"delta":{"content":"a"}},{"delta":{"content":"b"}}]}`, []transcript.Op{
			transcript.Text{Text: "a"}, transcript.Finish{}, transcript.Text{Item: transcript.ItemRef{Choice: 1}, Text: "b"}, transcript.Finish{Choice: 1},
		}},
		{"content in parts", "", `{"choices":[{"index":0,"delta":{"content":[{"type":"text","text":"a"},{"type":"image"},{"type":"text","text":"b"}]}}]}`, []transcript.Op{transcript.Text{Text: "ab"}, transcript.Finish{}}},
		{"a whole message", "", `{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"stop"}]}`, []transcript.Op{transcript.Text{Text: "a"}, transcript.Finish{Reason: "stop"}}},
		{"a session's answer in one message", "", `{"session_id":"s","message":{"role":"assistant","content":"a"}}`, []transcript.Op{transcript.Text{Text: "a"}}},
		{"a message beside choices is none", "", `{"choices":[],"message":{"content":"a"}}`, none},
		{"a named frame with choices", "message", `{"choices":[{"index":0,"delta":{"content":"a"}}]}`, named("message", transcript.Text{Text: "a"}, transcript.Finish{})},
		{"no choices left", "", `{"choices":[]}`, none},
		{"null choices", "", `{"choices":null}`, none},
		{"a choice that is no object", "", `{"choices":[null]}`, []transcript.Op{transcript.Finish{}}},
		{"content that is a number", "", `{"choices":[{"index":0,"delta":{"content":5}}]}`, []transcript.Op{transcript.Finish{}}},
		{"usage alone", "", `{"usage":{"total_tokens":7}}`, []transcript.Op{transcript.Usage{Value: jsontext.Value(`{"total_tokens":7}`)}}},
		{"usage null", "", `{"choices":[],"usage":null}`, none},
		{"the state of Hermes", "", `{"choices":[],"hermes":{"completed":true,"partial":false,"failed":null,"error":"e","error_code":"c"}}`, []transcript.Op{
			transcript.Hermes{Completed: truth(true), Partial: truth(false), ErrorCode: "c"},
		}},

		{"the state of Hermes alone", "", `{"hermes":{"failed":false}}`, []transcript.Op{transcript.Hermes{Failed: truth(false)}}},
		{"a state that is no object", "", `{"choices":[],"hermes":"failed"}`, none},

		// Errors, on any frame.
		{"the error of a length explains it", "", `{"choices":[{"index":0,"finish_reason":"length"}],"error":{"type":"t"}}`, []transcript.Op{
			transcript.Finish{Reason: "length"}, transcript.ProviderError{Type: "t", Explains: true}}},
		{"with a state that has not failed it still does", "", `{"choices":[{"index":0,"finish_reason":"length"}],"hermes":{"failed":false},"error":"m"}`, []transcript.Op{
			transcript.Finish{Reason: "length"}, transcript.Hermes{Failed: truth(false)}, transcript.ProviderError{Message: "m", Explains: true}}},
		{"a failure explains nothing", "", `{"choices":[{"index":0,"finish_reason":"length"}],"hermes":{"failed":true},"error":"m"}`, []transcript.Op{
			transcript.Finish{Reason: "length"}, transcript.Hermes{Failed: truth(true)}, transcript.ProviderError{Message: "m"}}},
		{"the error of a stop explains nothing", "", `{"choices":[{"index":0,"finish_reason":"stop"}],"error":"m"}`, []transcript.Op{
			transcript.Finish{Reason: "stop"}, transcript.ProviderError{Message: "m"}}},
		{"an error object", "", `{"choices":[],"error":{"type":"t","code":"c","message":"m"}}`, []transcript.Op{transcript.ProviderError{Type: "t", Code: "c", Message: "m"}}},
		{"an error without choices", "", `{"error":{"type":"t"}}`, []transcript.Op{transcript.ProviderError{Type: "t"}}},
		{"a code that is a number", "", `{"error":{"code":502}}`, []transcript.Op{transcript.ProviderError{Code: "502"}}},
		{"an error string on a named frame", "run.failed", `{"error":"m"}`, named("run.failed", transcript.ProviderError{Message: "m"})},
		{"the error of the response", "response.failed", `{"response":{"id":"r","status":"failed","error":{"type":"t"}}}`, named("response.failed",
			transcript.Response{Event: "response.failed", ID: "r", Status: "failed"}, transcript.ProviderError{Type: "t"})},
		{"a state of Hermes on a named frame", "run.failed", `{"hermes":{"failed":true}}`, named("run.failed", transcript.Hermes{Failed: truth(true)})},

		// Tool progress.
		{"a tool starts", "hermes.tool.progress", `{"tool":"t","emoji":"e","label":"l","toolCallId":"c","status":"running"}`, named("hermes.tool.progress",
			transcript.Tool{CallID: "c", Name: "t", Label: "l", Emoji: "e", Status: "running"})},
		{"a tool ends", "hermes.tool.progress", `{"tool":"t","toolCallId":"c","status":"completed"}`, named("hermes.tool.progress", transcript.Tool{CallID: "c", Name: "t", Status: "completed"})},
		{"a tool fails", "hermes.tool.progress", `{"tool":"t","toolCallId":"c","status":"error"}`, named("hermes.tool.progress", transcript.Tool{CallID: "c", Name: "t", Status: "failed"})},
		{"the old form without status means started", "hermes.tool.progress", `{"tool":"t","emoji":"e","label":"l"}`, named("hermes.tool.progress", transcript.Tool{Name: "t", Label: "l", Emoji: "e", Status: "running"})},
		{"no data means nothing", "hermes.tool.progress", `{}`, named("hermes.tool.progress", transcript.Note{Name: "hermes.tool.progress"})},

		// Responses.
		{"a delta of an item", "response.output_text.delta", `{"item_id":"m","output_index":4,"content_index":1,"delta":"a"}`, named("response.output_text.delta",
			transcript.Text{Item: transcript.ItemRef{ItemID: "m", OutputIndex: 4, ContentIndex: 1}, Text: "a"})},
		{"an empty delta", "response.output_text.delta", `{"item_id":"m","delta":""}`, named("response.output_text.delta")},
		{"a null delta", "response.output_text.delta", `{"item_id":"m","delta":null}`, named("response.output_text.delta")},
		{"a done text only verifies", "response.output_text.done", `{"item_id":"m","text":"a"}`, named("response.output_text.done", transcript.TextDone{Item: transcript.ItemRef{ItemID: "m"}, Text: "a"})},
		{"an empty done text verifies too", "response.output_text.done", `{"item_id":"m","text":""}`, named("response.output_text.done", transcript.TextDone{Item: transcript.ItemRef{ItemID: "m"}})},
		{"a done event without a text", "response.output_text.done", `{"item_id":"m"}`, named("response.output_text.done")},
		{"a content part repeats", "response.content_part.done", `{"item_id":"m","part":{"type":"output_text","text":"a"}}`, named("response.content_part.done")},
		{"completed without an object", "response.completed", `{}`, named("response.completed", transcript.Response{Event: "response.completed"})},
		{"completed with usage", "response.completed", `{"response":{"id":"r","status":"completed","output":[{"type":"message","content":[{"text":"again"}]}],"usage":{"total_tokens":1}}}`, named("response.completed",
			transcript.FinalText{Text: "again"},
			transcript.Response{Event: "response.completed", ID: "r", Status: "completed", Messages: []string{"again"}}, transcript.Usage{Value: jsontext.Value(`{"total_tokens":1}`)})},
		{"a call opens", "response.output_item.added", `{"output_index":1,"item":{"id":"fc","type":"function_call","call_id":"c","name":"t","status":"in_progress"}}`, named("response.output_item.added",
			transcript.Item{ItemID: "fc", OutputIndex: 1, Kind: "function_call", CallID: "c", Name: "t", Status: "in_progress", Open: true, Payload: jsontext.Value(`{"id":"fc","type":"function_call","call_id":"c","name":"t","status":"in_progress"}`)},
			transcript.Tool{CallID: "c", Name: "t", Status: "running"})},
		{"a call that is spelled out is no end of it", "response.output_item.done", `{"item":{"type":"function_call","call_id":"c","name":"t"}}`, named("response.output_item.done",
			transcript.Item{Kind: "function_call", CallID: "c", Name: "t", Payload: jsontext.Value(`{"type":"function_call","call_id":"c","name":"t"}`)})},
		{"its output ends it", "response.output_item.done", `{"item":{"type":"function_call_output","call_id":"c"}}`, named("response.output_item.done",
			transcript.Item{Kind: "function_call_output", CallID: "c", Payload: jsontext.Value(`{"type":"function_call_output","call_id":"c"}`)},
			transcript.Tool{CallID: "c", Status: "completed"})},
		{"an output that opens completed ends it too", "response.output_item.added", `{"item":{"type":"function_call_output","call_id":"c","status":"completed"}}`, named("response.output_item.added",
			transcript.Item{Kind: "function_call_output", CallID: "c", Status: "completed", Open: true, Payload: jsontext.Value(`{"type":"function_call_output","call_id":"c","status":"completed"}`)},
			transcript.Tool{CallID: "c", Status: "completed"})},
		{"an output in progress does not", "response.output_item.added", `{"item":{"type":"function_call_output","call_id":"c","status":"in_progress"}}`, named("response.output_item.added",
			transcript.Item{Kind: "function_call_output", CallID: "c", Status: "in_progress", Open: true, Payload: jsontext.Value(`{"type":"function_call_output","call_id":"c","status":"in_progress"}`)})},
		{"a message opens without its text", "response.output_item.added", `{"output_index":2,"item":{"id":"m","type":"message","status":"in_progress","content":[]}}`, named("response.output_item.added",
			transcript.Item{ItemID: "m", OutputIndex: 2, Kind: "message", Status: "in_progress", Open: true})},

		// Runs.
		{"run text", "", `{"event":"message.delta","run_id":"r","delta":"a"}`, named("message.delta", transcript.Text{Text: "a"})},
		{"a run's tool starts", "", `{"event":"tool.started","tool":"t","preview":"p"}`, named("tool.started", transcript.Tool{Name: "t", Label: "p", Status: "running"})},
		{"a run's tool ends", "", `{"event":"tool.completed","tool":"t","duration":1.5,"error":false}`, named("tool.completed", transcript.Tool{Name: "t", Status: "completed"})},
		{"a run's tool ends badly", "", `{"event":"tool.completed","tool":"t","error":true}`, named("tool.completed", transcript.Tool{Name: "t", Status: "failed"})},
		{"reasoning is no text", "", `{"event":"reasoning.available","text":"hm"}`, named("reasoning.available", transcript.Thought{Text: "hm"})},
		{"an approval asks", "", `{"event":"approval.request","choices":["once","deny"],"command":"rm"}`, named("approval.request", transcript.Approval{Choices: []string{"once", "deny"}})},
		{"an approval was answered", "", `{"event":"approval.responded","choice":"once"}`, named("approval.responded")},
		{"a run completes", "", `{"event":"run.completed","output":"all","usage":{"total_tokens":1}}`, named("run.completed", transcript.FinalText{Text: "all"}, transcript.Usage{Value: jsontext.Value(`{"total_tokens":1}`)})},
		{"a run fails with a string", "", `{"event":"run.failed","error":"m"}`, named("run.failed", transcript.ProviderError{Message: "m"})},
		{"a run is cancelled", "", `{"event":"run.cancelled"}`, named("run.cancelled")},

		// Session chats.
		{"session text", "assistant.delta", `{"session_id":"s","delta":"a"}`, named("assistant.delta", transcript.Text{Text: "a"}, transcript.Session{ID: "s"})},
		{"a session's reasoning is no text", "tool.progress", `{"tool_name":"_thinking","delta":"hm"}`, named("tool.progress", transcript.Thought{Text: "hm"})},
		{"a session's tool", "tool.started", `{"tool_name":"t","preview":"p"}`, named("tool.started", transcript.Tool{Name: "t", Label: "p", Status: "running"})},
		{"a session's tool fails", "tool.failed", `{"tool_name":"t"}`, named("tool.failed", transcript.Tool{Name: "t", Status: "failed"})},
		{"a session's whole answer", "assistant.completed", `{"content":"all","completed":true}`, named("assistant.completed", transcript.FinalText{Text: "all"})},
		{"a session's end", "run.completed", `{"messages":[],"usage":{"total_tokens":1}}`, named("run.completed", transcript.Usage{Value: jsontext.Value(`{"total_tokens":1}`)})},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			got := Frame(&aip.Frame{Event: tc.event, Data: jsontext.Value(tc.data)})
			if len(got) == 0 && len(tc.want) == 0 {
				return
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// TestStringsThatHoldAnObjectAreOpened: the connector hands over as text what
// its own JSON reader refuses, such as half characters.
func TestStringsThatHoldAnObjectAreOpened(t *testing.T) {
	quote := func(s string) string {
		b, err := jsontext.AppendQuote(nil, s)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, tc := range []struct {
		rule, text string
		want       string // text; a note when empty
	}{
		{"an object", `{"choices":[{"index":0,"delta":{"content":"hi"}}]}`, "hi"},
		{"with blanks around it", "\n {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]} \n", "hi"},
		{"with half a character", `{"choices":[{"index":0,"delta":{"content":"\ud83d"}}]}`, "�"},
		{"an object that breaks off", `{"choices":[{"index":0,"delta":{"content":"hi"}`, ""},
		{"an object and more", `{"choices":[]} {"choices":[]}`, ""},
		{"an array", `[{"choices":[]}]`, ""},
		{"a string in a string", quote(`{"choices":[{"index":0,"delta":{"content":"hi"}}]}`), ""},
		{"nothing", ``, ""},
		{"blanks", `   `, ""},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			f := framesFacts(frame(quote(tc.text)))
			if got := f.Answer(); got != tc.want || (f.Unknown == 1) != (tc.want == "") {
				t.Errorf("text %q and %d unknown frames, want %q", got, f.Unknown, tc.want)
			}
		})
	}
}

// TestHalvesOfACharacterAreJoined over two deltas, whether their frames came
// as objects or as text that holds one.
func TestHalvesOfACharacterAreJoined(t *testing.T) {
	delta := func(content string) string {
		return `{"choices":[{"index":0,"delta":{"content":"` + content + `"}}]}`
	}
	asText := func(s string) string {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
	}
	for _, tc := range []struct {
		rule   string
		frames []string
		want   string
	}{
		{"as objects", []string{delta(`go \ud83d`), delta(`\ude80!`)}, "go 🚀!"},
		{"as text", []string{asText(delta(`go \ud83d`)), asText(delta(`\ude80!`))}, "go 🚀!"},
		{"one of each", []string{delta(`go \ud83d`), asText(delta(`\ude80!`))}, "go 🚀!"},
		{"with an empty delta between", []string{delta(`\ud83d`), delta(``), delta(`\ude80`)}, "🚀"},
		{"a half that never finds the other", []string{delta(`a\ud83d`), delta(`b`)}, "a�b"},
		{"a half at the end", []string{delta(`a\ud83d`)}, "a�"},
		{"the second half alone", []string{delta(`\ude80a`)}, "�a"},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			var frames []*aip.Frame
			for _, d := range tc.frames {
				frames = append(frames, frame(d))
			}
			if f := framesFacts(frames...); f.Answer() != tc.want {
				t.Errorf("text %q, want %q", f.Answer(), tc.want)
			}
		})
	}
	// A tool frame between the halves belongs to another story.
	tool := &aip.Frame{Event: "hermes.tool.progress", Data: jsontext.Value(`{"tool":"t"}`)}
	if f := framesFacts(frame(delta(`\ud83d`)), tool, frame(delta(`\ude80`))); f.Answer() != "🚀" {
		t.Errorf("text %q around a tool", f.Answer())
	}
}

func TestChunksThatCarryNoFrame(t *testing.T) {
	for _, tc := range []struct {
		rule, kind, data string
		want             []transcript.Op
	}{
		{"the connector's mark of a missing end", "error", `{"operation":"chat_stream","reason":"upstream_stream_closed_without_terminal_event"}`, []transcript.Op{transcript.Closed{Reason: UpstreamClosed}}},
		{"a reason on another kind is nothing known", "data", `{"reason":"x"}`, []transcript.Op{transcript.Note{}}},
		{"an operator's text", "data", `{"hermes_operator":{"event":"message.delta","delta":"a"}}`, []transcript.Op{transcript.Named{Name: "message.delta"}, transcript.Text{Text: "a"}}},
		{"an operator's tool", "tool", `{"hermes_operator":{"event":"tool.started","tool":"t"}}`, []transcript.Op{transcript.Named{Name: "tool.started"}, transcript.Tool{Name: "t", Status: "running"}}},
		{"an operator's progress without a name", "progress", `{"hermes_operator":{"x":1}}`, nil},
		{"an operator's unknown event", "progress", `{"hermes_operator":{"event":"x"}}`, []transcript.Op{transcript.Named{Name: "x"}, transcript.Note{Name: "x"}}},
		{"an unknown payload", "preview", `{"x":1}`, []transcript.Op{transcript.Note{}}},
		{"no payload", "data", ``, []transcript.Op{transcript.Note{}}},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			got := Chunk(&aip.Chunk{Kind: tc.kind, Data: jsontext.Value(tc.data)})
			if len(got) == 0 && len(tc.want) == 0 {
				return
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// TestRawAndPartAreNeverRead: both repeat the text, and part leaks reasoning.
func TestRawAndPartAreNeverRead(t *testing.T) {
	c := &aip.Chunk{
		Kind: "data",
		Part: jsontext.Value(`{"type":"text","text":"from the part"}`),
		Frame: &aip.Frame{
			Event: "reasoning.available", Data: jsontext.Value(`{"text":"hm"}`),
			Raw: `{"choices":[{"index":0,"delta":{"content":"from raw"},"finish_reason":"stop"}]}`,
		},
	}
	tr := transcript.New()
	tr.Apply(0, Chunk(c))
	if f := tr.Facts(); f.Answer() != "" || len(f.Finishes) != 0 {
		t.Errorf("text %q, finishes %v", f.Answer(), f.Finishes)
	}
}

// TestObjectsOfOperationsThatDoNotStream reads whole answers.
func TestObjectsOfOperationsThatDoNotStream(t *testing.T) {
	read := func(operation, object string) transcript.Facts {
		tr := transcript.New()
		tr.Apply(0, Object(operation, jsontext.Value(object)))
		return tr.Facts()
	}
	chat := read("chat", `{"id":"c","choices":[{"index":0,"message":{"role":"assistant","content":"whole"},"finish_reason":"stop"}],"usage":{"total_tokens":1}}`)
	if diff := cmp.Diff(inWords{Text: "whole", Finish: []string{"stop"}, Usage: `{"total_tokens":1}`}, inWordsOf(chat)); diff != "" {
		t.Errorf("chat: -want +got\n%s", diff)
	}
	for _, operation := range []string{"responses", "response_get"} {
		f := read(operation, `{"id":"resp_1","status":"completed","output":[
			{"type":"function_call","call_id":"c","name":"t","arguments":"{}"},
			{"type":"function_call_output","call_id":"c","output":"3.2"},
			{"type":"message","role":"assistant","content":[{"type":"output_text","text":"who"},{"type":"output_text","text":"le"}]}],
			"usage":{"total_tokens":1},"error":null}`)
		want := inWords{Text: "whole", Response: "resp_1 completed", Usage: `{"total_tokens":1}`}
		if diff := cmp.Diff(want, inWordsOf(f)); diff != "" {
			t.Errorf("%s: -want +got\n%s", operation, diff)
		}
		if !f.FromEnd || len(f.Items) != 2 || f.Items[1].CallID != "c" {
			t.Errorf("%s: from end %v, items %+v", operation, f.FromEnd, f.Items)
		}
	}
	failed := read("responses", `{"id":"resp_1","status":"failed","output":[],"error":{"type":"server_error","code":null,"message":"gone"}}`)
	if diff := cmp.Diff(inWords{Response: "resp_1 failed", Errors: []string{"server_error||gone"}}, inWordsOf(failed)); diff != "" {
		t.Errorf("failed: -want +got\n%s", diff)
	}
	for _, odd := range []string{``, `null`, `[]`, `"text"`, `{"output":5}`, `{"output":[null,5]}`} {
		for _, operation := range []string{"chat", "responses"} {
			if f := read(operation, odd); f.Answer() != "" || len(f.Errors) != 0 {
				t.Errorf("%s of %s says %+v", operation, odd, f)
			}
		}
	}
}
