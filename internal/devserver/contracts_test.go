package devserver

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const resultCode = "/body/action_result/error/code"

// TestModesThatAnOperationTakes: a mode that the contract lacks is refused
// before anything runs, and before the input of an async action is looked at.
func TestModesThatAnOperationTakes(t *testing.T) {
	for _, tc := range []struct{ scenario, modes string }{
		{"chat-stop", "sync async streaming"},
		{"responses-stop", "sync async streaming"},
		{"run-complete", "sync async streaming"},
		{"operator-complete", "sync async streaming"},
		{"future-stream", "sync async streaming"},
		{"session-complete", "sync streaming"},
		{"chat-sync-ok", "sync"},
		{"responses-sync-ok", "sync"},
		{"health-ok", "sync"},
		{"stored", "sync"},
	} {
		for _, mode := range []any{"sync", "async", "streaming", nil} {
			t.Run(fmt.Sprint(tc.scenario, " ", mode), func(t *testing.T) {
				withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
					r := d.submit(tc.scenario, "act_1", fields{"mode": mode})
					synctest.Wait()
					if mode == nil || slices.Contains(strings.Fields(tc.modes), mode.(string)) {
						d.get("/aip/v1/actions/act_1/result").want(t, 200, "/action_result/status", "completed")
						return
					}
					r.want(t, 200, "/body/action_result/status", "failed", resultCode, "execution.mode_unsupported",
						"/body/action_result/error/category", "policy")
					d.get("/aip/v1/actions/act_1").want(t, 200, "/action_status/state", "unknown")
					if n := d.server.Executions("act_1"); n != 0 {
						t.Errorf("%d executions", n)
					}
				})
			})
		}
	}
}

// TestOrderOfTheChecks: input schema, key, mode, idempotency. An async action
// meets its input schema later.
func TestOrderOfTheChecks(t *testing.T) {
	bad := json.RawMessage(`{"session_key":1,"prompt":"x","query":"x"}`)
	for _, tc := range []struct {
		rule, scenario string
		more           fields
		want           string // code; empty is an Ack
	}{
		{"the schema comes before the key", "operator-complete", fields{"input": bad, "idempotency_key": nil}, "action.input_schema_invalid"},
		{"but not for async", "operator-complete", fields{"input": bad, "idempotency_key": nil, "mode": "async"}, "idempotency.required"},
		{"an empty key is none", "operator-complete", fields{"idempotency_key": ""}, "idempotency.required"},
		{"a blank key is let through", "operator-complete", fields{"idempotency_key": " ", "mode": "async"}, ""},
		{"the schema comes before the mode", "chat-sync-ok", fields{"input": bad, "mode": "streaming"}, "action.input_schema_invalid"},
		{"but not for async here either", "chat-sync-ok", fields{"input": bad, "mode": "async"}, "execution.mode_unsupported"},
		{"an operation that has the mode queues what it cannot read", "chat-stop", fields{"input": bad, "mode": "async"}, ""},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
				r := d.submit(tc.scenario, "act_1", tc.more)
				if tc.want == "" {
					r.want(t, 200, "/body/ack/status", "queued")
					return
				}
				r.want(t, 200, resultCode, tc.want)
			})
		})
	}
	t.Run("a refused mode leaves the key free", func(t *testing.T) {
		withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
			d.submit("chat-sync-ok", "act_1", fields{"mode": "async", "idempotency_key": "k"}).want(t, 200, resultCode, "execution.mode_unsupported")
			d.submit("chat-sync-ok", "act_2", fields{"idempotency_key": "k"}).want(t, 200,
				"/body/action_result/action_id", "act_2", "/body/action_result/status", "completed")
			// Not streamed answers are replayed like any other.
			d.submit("chat-sync-ok", "act_3", fields{"idempotency_key": "k"}).want(t, 200,
				"/body/action_result/action_id", "act_2", "/body/action_result/output/idempotent_replay", "true",
				"/body/action_result/output/object", "chat.completion")
		})
	})
}

func TestInputSchemas(t *testing.T) {
	for _, tc := range []struct {
		rule, operation, input string
		bad                    string // a part of the only violation; empty is none
	}{
		{"a chat has one source", "chat", `{"prompt":"x","messages":[{}]}`, "exactly one of prompt, query, messages"},
		{"a chat has a source", "chat", `{}`, "exactly one of"},
		{"only a stream has a typed event limit", "chat", `{"prompt":"x","max_events":"many"}`, ""},
		{"a stream's limit is a number", "chat_stream", `{"prompt":"x","max_events":"many"}`, "/max_events"},
		{"a Responses input needs nothing", "responses", `{}`, ""},
		{"a Responses body is an object", "responses", `{"body":"x"}`, "/body"},
		{"a history is a list", "responses", `{"conversation_history":{}}`, "/conversation_history"},
		{"a Responses session id is of no type", "responses_stream", `{"session_id":1}`, ""},
		{"the events of a run need its id", "run_events", `{}`, "/run_id is missing"},
		{"which is not empty", "run_events", `{"run_id":""}`, "/run_id"},
		{"and is a string", "run_events", `{"run_id":7}`, "/run_id"},
		{"a run id is enough", "run_events", `{"run_id":"run_1"}`, ""},
		{"a run takes an event limit", "run_events", `{"run_id":"run_1","max_events":0}`, "/max_events"},
		{"a session chat needs the session", "session_chat_stream", `{"body":{"message":"x"}}`, "/session_id is missing"},
		{"an operator may resume by an object", "operator", `{"resume":"act_1"}`, "/resume"},
		{"an operator has no event limit", "operator", `{"max_events":"many"}`, ""},
		{"a stored response has an id", "response_get", `{}`, "/response_id is missing"},
		{"at the top, and nowhere else", "response_delete", `{"body":{"response_id":"resp_1"}}`, "/response_id is missing"},
		{"which is a string", "response_delete", `{"response_id":1}`, "/response_id"},
		{"health takes anything", "health", `{"x":1}`, ""},
		{"but an object", "health", `[]`, "not an object"},
		{"an unknown operation takes anything", "future_stream", `{"x":1}`, ""},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			got := inputViolations(&Scenario{Operation: tc.operation}, json.RawMessage(tc.input))
			if tc.bad == "" && got != nil || tc.bad != "" && (len(got) != 1 || !strings.Contains(got[0], tc.bad)) {
				t.Errorf("violations %q", got)
			}
		})
	}
}

func TestConnectorChecksIDsAndHeaders(t *testing.T) {
	long := strings.Repeat("x", 16385)
	for _, tc := range []struct {
		rule, operation, input string
		ok                     bool
	}{
		{"a blank run id", "run_events", `{"run_id":"  "}`, false},
		{"a run id of 512 bytes", "run_events", `{"run_id":"` + long[:512] + `"}`, true},
		{"a run id of 513 bytes", "run_events", `{"run_id":"` + long[:513] + `"}`, false},
		{"a control character in a run id", "run_events", `{"run_id":"run_\u0007"}`, false},
		{"a response id of 513 bytes", "response_get", `{"response_id":"` + long[:513] + `"}`, false},
		{"a blank response id", "response_delete", `{"response_id":" "}`, false},
		{"a session id of 512 bytes", "session_chat_stream", `{"session_id":"` + long[:512] + `"}`, true},
		{"a session id of 513 bytes, in a path", "session_chat_stream", `{"session_id":"` + long[:513] + `"}`, false},
		{"a session id of 513 bytes, in a header", "chat_stream", `{"prompt":"x","session_id":"` + long[:513] + `"}`, true},
		{"a header of 16384 bytes", "chat", `{"prompt":"x","session_key":"` + long[:16384] + `"}`, true},
		{"a header of 16385 bytes", "chat", `{"prompt":"x","session_key":"` + long + `"}`, false},
		{"an empty header", "chat", `{"prompt":"x","session_id":""}`, false},
		{"a header that is not ASCII", "responses_stream", `{"session_key":"naïve"}`, false},
		{"a line break in a header", "operator", `{"session_key":"a\nb"}`, false},
		{"a negative max_tokens without a chat", "responses", `{"max_tokens":-1}`, true},
		{"a fraction for max_events where there is no limit", "chat", `{"prompt":"x","max_events":1.5}`, true},
		{"a negative max_tokens", "chat", `{"prompt":"x","max_tokens":-1}`, false},
		{"a blank query", "chat", `{"query":"\t"}`, false},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			_, err := connectorInput(&Scenario{Operation: tc.operation}, json.RawMessage(tc.input))
			switch {
			case tc.ok && err != nil:
				t.Errorf("refused: %s", err.Message)
			case !tc.ok && (err == nil || err.Code != "connector.hermes_agent.configuration_or_input" || err.Category != permanent || err.Retryable):
				t.Errorf("got %+v", err)
			case !tc.ok && strings.Contains(err.Message, "xx"):
				t.Errorf("the message repeats the value")
			}
		})
	}
}

// TestOnlyReadingIsSafe: what an operation that changes nothing fails with is
// certain, and can be tried again when the cause can pass.
func TestOnlyReadingIsSafe(t *testing.T) {
	reading := []string{"health", "response_get", "run_events"}
	for _, operation := range slices.Sorted(maps.Keys(contracts)) {
		t.Run(operation, func(t *testing.T) {
			sc := &Scenario{Name: "e", Operation: operation}
			reads := slices.Contains(reading, operation)
			type row struct {
				name                 string
				err                  *protocolError
				uncertain, retryable bool
			}
			rows := []row{
				{"503", providerRefusal(sc, 503), !reads, reads},
				{"429", providerRefusal(sc, 429), !reads, reads},
				{"404", providerRefusal(sc, 404), false, false},
				{"403", providerRefusal(sc, 403), false, false},
				{"bad bytes", invalidResponse(sc, streamFault("x")).err, !reads, false},
			}
			if sc.contract().form != storedResponse {
				rows = append(rows, row{"cut", failedBy(t, sc, endCut, "data: {}\n\n").err, !reads, reads})
			}
			for _, tc := range rows {
				uncertain := strings.Contains(string(encode(tc.err)), `"uncertain_outcome":true`)
				if uncertain != tc.uncertain || tc.err.Retryable != tc.retryable {
					t.Errorf("%s: uncertain %v, retryable %v", tc.name, uncertain, tc.err.Retryable)
				}
			}
		})
	}
	t.Run("a refused chunk is uncertain even then", func(t *testing.T) {
		out := failedBy(t, &Scenario{Name: "e", Operation: "run_events"}, endClose, "data: {\"type\":\"error\"}\n\ndata: {}\n\n")
		if out.err == nil || out.err.Code != "connector.hermes_agent.stream_publication" || out.err.Retryable ||
			!strings.Contains(string(encode(out.err)), `"uncertain_outcome":true`) {
			t.Errorf("got %+v", out.err)
		}
	})
}

func failedBy(t *testing.T, sc *Scenario, end ending, body string) outcome {
	t.Helper()
	broken := *sc
	broken.play = script{frames: recording{{data: []byte(body)}}, end: end}
	input := `{"prompt":"x","run_id":"run_1","session_id":"s"}`
	_, out := invokeBytes(&broken, "act_1", input)
	if out.err == nil {
		t.Fatalf("no error: %+v", out.result)
	}
	return out
}

// TestTimeoutsOfTheContract: the deadline is the contract's, or the action's own
// when that is earlier.
func TestTimeoutsOfTheContract(t *testing.T) {
	own := uint64(1000)
	huge := uint64(1 << 62)
	for _, tc := range []struct {
		operation string
		own       *uint64
		want      time.Duration
	}{
		{"chat", nil, time.Minute},
		{"responses", nil, time.Minute},
		{"health", nil, time.Minute},
		{"response_get", nil, time.Minute},
		{"response_delete", nil, time.Minute},
		{"chat_stream", nil, 5 * time.Minute},
		{"responses_stream", nil, 5 * time.Minute},
		{"run_events", nil, 5 * time.Minute},
		{"session_chat_stream", nil, 5 * time.Minute},
		{"future_stream", nil, 5 * time.Minute},
		{"operator", nil, 15 * time.Minute},
		{"operator", &own, time.Second},
		{"chat", &huge, time.Minute},
	} {
		r := run{scenario: &Scenario{Operation: tc.operation}, action: action{TimeoutMS: tc.own}}
		if got := r.timeout(); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.operation, got, tc.want)
		}
	}
	for scenario, retryable := range map[string]string{"run-complete": "true", "operator-complete": "false", "session-complete": "false"} {
		withDaemon(t, Options{Speed: 1}, func(t *testing.T, d *daemon) {
			d.submit(scenario, "act_1", fields{"timeout_ms": 400}).want(t, 200, resultCode, "sla.timeout_exceeded",
				"/body/action_result/error/retryable", retryable, "/body/action_result/error/details/timeout_ms", "400")
			if n := len(d.chunksOf("act_1")); n == 0 || n > 3 {
				t.Errorf("%s: %d chunks before the deadline", scenario, n)
			}
		})
	}
}

// TestSecondRunOfOneAction: what the provider makes per request differs, what
// belongs to a run that was there before does not.
func TestSecondRunOfOneAction(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		d.submit("session-complete", "act_s", nil).want(t, 200, "/body/action_result/status", "completed")
		d.submit("session-complete", "act_s", nil).want(t, 502, code, "connector.hermes_agent.stream_publication")
		d.submit("operator-complete", "act_o", nil).want(t, 200, "/body/action_result/status", "completed")
		d.submit("operator-complete", "act_o", nil).want(t, 200, "/body/action_result/output/idempotent_replay", "true")
		d.submit("run-complete", "act_r", nil).want(t, 200, "/body/action_result/status", "completed")
		d.submit("run-complete", "act_r", nil).want(t, 200, "/body/action_result/status", "completed")
		first := d.submit("chat-sync-ok", "act_c", nil).at(t, "/body/action_result/output/id")
		if second := d.submit("chat-sync-ok", "act_c", nil).at(t, "/body/action_result/output/id"); first == nil || first == second {
			t.Errorf("two completions %v and %v", first, second)
		}
	})
}

// TestManifestSaysWhatHolds: the contract of each operation as clients read it.
func TestManifestSaysWhatHolds(t *testing.T) {
	type row struct {
		method, path, kind, risk, modes, usual, key, retry, sensitivity string
		timeout                                                         string
	}
	want := map[string]row{
		"chat":                {"POST", "/v1/chat/completions", "agent", "medium", "100", "sync", "optional", "false unsafe", "confidential", "60000"},
		"chat_stream":         {"POST", "/v1/chat/completions", "agent", "medium", "111", "streaming", "optional", "false unsafe", "confidential", "300000"},
		"responses":           {"POST", "/v1/responses", "agent", "medium", "100", "sync", "optional", "false unsafe", "confidential", "60000"},
		"responses_stream":    {"POST", "/v1/responses", "agent", "medium", "111", "streaming", "optional", "false unsafe", "confidential", "300000"},
		"run_events":          {"GET", "/v1/runs/{run_id}/events", "workflow", "low", "111", "streaming", "optional", "true safe", "confidential", "300000"},
		"session_chat_stream": {"POST", "/api/sessions/{session_id}/chat/stream", "agent", "medium", "101", "streaming", "optional", "false unsafe", "confidential", "300000"},
		"operator":            {"POST", "/v1/runs", "agent", "high", "111", "streaming", "required", "false unsafe", "confidential", "900000"},
		"response_get":        {"GET", "/v1/responses/{response_id}", "agent", "low", "100", "sync", "optional", "true safe", "internal", "60000"},
		"response_delete":     {"DELETE", "/v1/responses/{response_id}", "agent", "high", "100", "sync", "required", "false unsafe", "restricted", "60000"},
		"health":              {"GET", "/health", "tool", "low", "100", "sync", "optional", "true safe", "internal", "60000"},
		"future_stream":       {"POST", "/v2/answers", "agent", "medium", "111", "streaming", "optional", "false unsafe", "confidential", "300000"},
	}
	got := map[string]row{}
	for _, sc := range Scenarios() {
		if sc.play.approval {
			continue
		}
		body := string(encode(capability(sc, defaultApprovalTTL)))
		text := func(pointer string) string { return fmt.Sprint(at(t, body, pointer)) }
		modes := ""
		for _, mode := range []string{"sync", "async", "streaming"} {
			modes += map[string]string{"true": "1", "false": "0"}[text("/contract/execution/supports_"+mode)]
		}
		r := row{
			text("/bindings/0/method"), text("/bindings/0/path"), text("/kind"), text("/risk"), modes,
			text("/contract/execution/expected_completion"), text("/contract/idempotency/requirement"),
			text("/contract/execution/supports_retry") + " " + text("/contract/execution/retry_safety"),
			text("/contract/data/sensitivity"), text("/contract/sla/timeout_ms"),
		}
		if old, seen := got[sc.Operation]; seen && old != r {
			t.Errorf("%s differs from others of its operation: %v", sc.Name, r)
		}
		got[sc.Operation] = r
		if text("/bindings/0/operation") != sc.Operation || text("/bindings/0/endpoint_id") != sc.Name {
			t.Errorf("the binding of %s: %s", sc.Name, text("/bindings/0"))
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("\n got %v\nwant %v", got, want)
	}
}

func TestManifestSchemas(t *testing.T) {
	for _, tc := range []struct{ operation, want string }{
		{"health", `{"type":"object"}`},
		{"operator", `{"type":"object","properties":{"idempotency_key":{"type":"string"},"resume":{"type":"object"},"session_key":{"type":"string"}}}`},
		{"run_events", `{"type":"object","required":["run_id"],"properties":{"run_id":{"type":"string","minLength":1},` +
			`"session_key":{"type":"string"},"max_events":{"type":"integer","minimum":1,"maximum":100000}}}`},
		{"chat", `{"type":"object","oneOf":[{"required":["prompt"]},{"required":["query"]},{"required":["messages"]}],` +
			`"properties":{"prompt":{"type":"string","minLength":1},"query":{"type":"string","minLength":1},` +
			`"messages":{"type":"array","minItems":1},"model":{"type":"string"},"session_id":{"type":"string"},` +
			`"session_key":{"type":"string"},"user":{"type":"string"},"idempotency_key":{"type":"string"},` +
			`"temperature":{"type":"number"},"top_p":{"type":"number"},"max_tokens":{"type":"integer"},"metadata":{"type":"object"}}}`},
	} {
		if got := decoded(t, contracts[tc.operation].inputSchema()); !reflect.DeepEqual(got, decoded(t, []byte(strings.Replace(tc.want, "{", `{"$schema":"https://json-schema.org/draft/2020-12/schema",`, 1)))) {
			t.Errorf("%s: %v", tc.operation, got)
		}
	}
	stream := string(contracts["run_events"].outputSchema())
	if plain := string(contracts["operator"].outputSchema()); plain != `{"type":"object"}` || !strings.Contains(stream, `"terminal"`) {
		t.Errorf("output schemas %s and %s", plain, stream)
	}
}

// TestCancelStopsEveryStreamingForm: a cancel request ends a run and an operated
// run like any stream.
func TestCancelStopsEveryStreamingForm(t *testing.T) {
	for _, scenario := range []string{"run-complete", "operator-complete", "session-complete"} {
		t.Run(scenario, func(t *testing.T) {
			withGate(t, 2, func(t *testing.T, d *daemon, g *gate) {
				done := d.submitting(context.Background(), scenario, "act_1", nil)
				<-g.held
				d.post("/aip/v1/actions/act_1/cancel", "").want(t, 200)
				(<-done).want(t, 200, "/body/action_result/status", "cancelled",
					"/body/action_result/output/cancelled", "true", "/body/action_result/error", "<nil>")
				close(g.open)
				if n := len(d.chunksOf("act_1")); n != 2 {
					t.Errorf("%d chunks, want the two before the cancel", n)
				}
			})
		})
	}
}
