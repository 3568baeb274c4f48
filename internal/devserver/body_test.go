package devserver

import (
	"strings"
	"testing"
)

// answered runs an operation that is not streamed over a provider body.
func answered(operation, text string) outcome {
	sc := &Scenario{Name: "e", Operation: operation, play: script{frames: recording{{data: []byte(text)}}}}
	_, out := invokeBytes(sc, "act_1", `{"prompt":"x"}`)
	return out
}

func TestBodyBecomesTheOutput(t *testing.T) {
	for _, tc := range []struct{ rule, body, output, text string }{
		{"JSON as it is: order, numbers and all", `{"b": 1.50, "a": [12345678901234567890]}`, `{"b":1.50,"a":[12345678901234567890]}`, ""},
		{"escapes become characters", `{"a": "\u56de"}`, `{"a":"回"}`, ""},
		{"text that is no JSON is put into an object", "Bad <gateway>", `{"text":"Bad <gateway>"}`, ""},
		{"a blank body is null", " \n", `null`, ""},
		{"the first choice's message is the text", `{"choices":[{"message":{"content":"a"}},{"message":{"content":"b"}}]}`, "", "a"},
		{"else the message at the top", `{"choices":[],"message":{"content":"b"}}`, "", "b"},
		{"a first choice without text is passed over", `{"choices":[{"message":{"content":null}}],"message":{"content":"b"}}`, "", "b"},
		{"choices that are no list are passed over", `{"choices":{"0":1},"message":{"content":"b"}}`, "", "b"},
		{"blank text is no part", `{"choices":[{"message":{"content":" \n"}}]}`, "", ""},
		{"a Responses object has no text part", `{"output":[{"content":[{"text":"a"}]}]}`, "", ""},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			out := answered("chat", tc.body)
			if out.err != nil || out.result.Status != "completed" {
				t.Fatalf("%+v, %v", out.result, out.err)
			}
			if got := string(out.result.Output); tc.output != "" && got != tc.output {
				t.Errorf("output %s, want %s", got, tc.output)
			}
			parts := out.result.Message
			if tc.text != "" {
				if p, ok := parts[0].(*textPart); !ok || p.Text != tc.text {
					t.Fatalf("the first part is %v, want %q", parts[0], tc.text)
				}
				parts = parts[1:]
			}
			if p, ok := parts[0].(jsonPart); !ok || len(parts) != 1 || string(p.Data) != string(out.result.Output) {
				t.Errorf("the rest of the message is %v", parts)
			}
		})
	}
}

// TestOutputOfABodyMustBeAnObject: the provider did its work, and the answer is
// withheld all the same.
func TestOutputOfABodyMustBeAnObject(t *testing.T) {
	for _, text := range []string{"", "[1]", `"a"`} {
		withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
			d.serve(Scenario{
				Name: "odd", Operation: "responses", Demo: `{}`, Mode: "sync", play: script{frames: recording{{data: []byte(text)}}},
			})
			d.submit("odd", "act_1", nil).want(t, 200,
				"/body/action_result/error/code", "action.output_schema_invalid", "/body/action_result/output", "<nil>")
		})
	}
}

// TestHealth: a bad state of health is the only failed result without an error.
func TestHealth(t *testing.T) {
	for _, tc := range []struct{ rule, body, status, text string }{
		{"ok", `{"status":"ok"}`, "completed", ""},
		{"another word", `{"status":"degraded"}`, "failed", "degraded"},
		{"no word", `{}`, "failed", "health"},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			out := answered("health", tc.body)
			if out.err != nil || out.result.Status != tc.status || out.result.Error != nil || string(out.result.Output) != tc.body {
				t.Fatalf("%+v, %v", out.result, out.err)
			}
			p, ok := out.result.Message[0].(*textPart)
			if ok != (tc.text != "") || ok && !strings.Contains(p.Text, tc.text) {
				t.Errorf("message %v", out.result.Message)
			}
		})
	}
}
