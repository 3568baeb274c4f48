package devserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// read submits response_get for an id at an endpoint.
func (d *daemon) read(endpoint, actionID, responseID string) reply {
	d.t.Helper()
	return d.submit(endpoint, actionID, fields{
		"capability_id": capabilityPrefix + endpoint + ":response_get", "mode": "sync",
		"input": fields{"response_id": responseID},
	})
}

// wantNotFound is the only 404 there is: it does not tell why.
func (r reply) wantNotFound(t *testing.T) {
	t.Helper()
	r.want(t, 400, code, "connector.hermes_agent.remote_rejected", "/body/error/error/category", "permanent",
		"/body/error/error/retryable", "false", "/body/error/error/details/remote_status", "404",
		"/body/error/error/details/uncertain_outcome", "false")
}

const storedStatus = "/body/action_result/output/status"

// TestSeededResponses: each state reads back as the object itself, without a
// text part in the message.
func TestSeededResponses(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		ids := SeededResponses()
		for _, state := range []string{"completed", "failed", "incomplete", "in_progress"} {
			r := d.read("stored", "act_"+state, ids[state])
			r.want(t, 200, "/body/action_result/status", "completed", storedStatus, state,
				"/body/action_result/output/id", ids[state], "/body/action_result/output/object", "response")
			checkMessage(t, r, "")
			_, usage := r.at(t, "/body/action_result/output").(map[string]any)["usage"]
			_, fault := r.at(t, "/body/action_result/output").(map[string]any)["error"]
			if usage != (state != "in_progress") || fault != (state == "failed") {
				t.Errorf("%s has usage %v, error %v", state, usage, fault)
			}
		}
	})
}

// TestWhatARunLeavesInTheStore: the state is the provider's own, whatever the
// action comes to.
func TestWhatARunLeavesInTheStore(t *testing.T) {
	input := func(body string) fields { return fields{"input": json.RawMessage(body)} }
	for _, tc := range []struct {
		rule, scenario string
		more           fields
		want           string // status; empty is nothing stored
	}{
		{"a completed stream", "responses-stop", nil, "completed"},
		{"a failed one", "responses-failed", nil, "failed"},
		{"an incomplete one", "responses-incomplete", nil, "incomplete"},
		{"completed around an incomplete object", "responses-envelope-incomplete", nil, "incomplete"},
		{"a cut leaves the snapshot", "responses-upstream-close", nil, "in_progress"},
		{"only the end, when nothing was created before", "responses-no-created", nil, "completed"},
		{"the provider wrote its end before the limit was asked", "responses-truncated-on-completed", nil, "completed"},
		{"a reader that leaves early", "responses-stop", input(`{"body":{"input":"x"},"max_events":4}`), "incomplete"},
		{"an answer that is no stream", "responses-sync-ok", nil, "completed"},
		{"store is on when nothing is said", "responses-stop", input(`{"body":{"input":"x"}}`), "completed"},
		{"store false", "responses-stop", input(`{"body":{"input":"x","store":false}}`), ""},
		{"store off, as a word", "responses-stop", input(`{"body":{"input":"x","store":"Off"}}`), ""},
		{"store 0", "responses-stop", input(`{"body":{"input":"x","store":0}}`), ""},
		{"store null is no value", "responses-stop", input(`{"body":{"input":"x","store":null}}`), "completed"},
		{"store beside a body is not the provider's", "responses-stop", input(`{"body":{"input":"x"},"store":false}`), "completed"},
		{"store without a body is", "responses-stop", input(`{"input":"x","store":false}`), ""},
		{"a body in a body", "responses-stop", input(`{"body":{"body":{"input":"x","store":false}}}`), ""},
		{"not streamed and not stored", "responses-sync-ok", input(`{"body":{"input":"x","store":false}}`), ""},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
				d.submit(tc.scenario, "act_1", tc.more)
				ids := d.server.StoredResponses(tc.scenario)
				if tc.want == "" {
					if len(ids) != 0 {
						t.Errorf("stored %v", ids)
					}
					return
				}
				if len(ids) != 1 {
					t.Fatalf("stored %v", ids)
				}
				r := d.read(tc.scenario, "act_2", ids[0])
				r.want(t, 200, storedStatus, tc.want)
				if output, _ := r.at(t, "/body/action_result/output/output").([]any); (len(output) == 0) != (tc.want == "in_progress") && tc.scenario != "responses-no-created" {
					t.Errorf("output %v", output)
				}
			})
		})
	}
}

// TestStoredWhileItRuns: the snapshot is there after the first event, and does
// not change while text arrives.
func TestStoredWhileItRuns(t *testing.T) {
	withGate(t, 4, func(t *testing.T, d *daemon, g *gate) {
		done := d.submitting(t.Context(), "responses-stop", "act_1", nil)
		<-g.held
		id := d.server.StoredResponses("responses-stop")[0]
		d.read("responses-stop", "act_2", id).want(t, 200, storedStatus, "in_progress",
			"/body/action_result/output/output", "[]", "/body/action_result/output/usage", "<nil>")
		close(g.open)
		first := (<-done).at(t, "/body/action_result/output/events").([]any)
		last := first[len(first)-1].(map[string]any)["data"].(map[string]any)["response"]
		r := d.read("responses-stop", "act_3", id)
		if got := r.at(t, "/body/action_result/output"); !reflect.DeepEqual(got, last) {
			t.Errorf("the stored object is %v, the last event has %v", got, last)
		}
	})
}

// TestCancelledRunIsStoredLater: the provider notices nothing; its run goes on
// to the end, and only then is the response incomplete.
func TestCancelledRunIsStoredLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runDaemon(t, Options{Speed: 1}, func(t *testing.T, d *daemon) {
			done := d.submitting(t.Context(), "responses-keepalive-tool", "act_1", nil)
			sleep(3 * time.Second)
			d.post("/aip/v1/actions/act_1/cancel", "").want(t, 200)
			(<-done).want(t, 200, "/body/action_result/status", "cancelled")
			id := d.server.StoredResponses("responses-keepalive-tool")[0]
			d.read("responses-keepalive-tool", "act_2", id).want(t, 200, storedStatus, "in_progress")
			sleep(time.Minute)
			r := d.read("responses-keepalive-tool", "act_3", id)
			r.want(t, 200, storedStatus, "incomplete", "/body/action_result/output/error", "<nil>")
			if r.at(t, "/body/action_result/output/usage") == nil || len(r.at(t, "/body/action_result/output/output").([]any)) != 3 {
				t.Errorf("stored %s", r.body)
			}
		})
	})
}

// TestEveryRunHasItsOwnResponse: two actions never share a response id.
func TestEveryRunHasItsOwnResponse(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		for i := range 3 {
			d.submit("responses-stop", fmt.Sprint("act_", i), nil).want(t, 200)
		}
		if ids := d.server.StoredResponses("responses-stop"); len(ids) != 3 || len(slices.Compact(ids)) != 3 {
			t.Errorf("stored %v", ids)
		}
	})
}

// TestStoreEvictsTheLeastRecentlyUsed: 100 are kept; a read refreshes, a failed
// one does not, and nothing goes by age.
func TestStoreEvictsTheLeastRecentlyUsed(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		object := func(i int) (string, json.RawMessage) {
			id := fmt.Sprintf("resp_%028x", i)
			return id, encode(fields{"id": id, "object": "response", "status": "completed", "output": []any{}})
		}
		const endpoint = "responses-stop"
		for i := range maxStored {
			_, o := object(i)
			d.server.KeepResponse(endpoint, o)
		}
		sleep(365 * 24 * time.Hour)
		first, _ := object(0)
		second, _ := object(1)
		third, _ := object(2)
		d.read(endpoint, "act_1", first).want(t, 200, storedStatus, "completed")
		d.submit(endpoint, "act_2", nil).want(t, 200) // the 101st: the second goes, not the first
		d.read(endpoint, "act_3", second).wantNotFound(t)
		d.read(endpoint, "act_4", first).want(t, 200)
		d.server.RefuseResponses(endpoint, 503)
		d.read(endpoint, "act_5", third).want(t, 503)
		d.submit(endpoint, "act_6", nil).want(t, 200)
		d.read(endpoint, "act_7", third).wantNotFound(t)
		if n := len(d.server.StoredResponses(endpoint)); n != maxStored {
			t.Errorf("%d are stored", n)
		}
	})
}

// TestStoredEndpointsMakeResponses: what an endpoint keeps from the start stands
// beside what is made there, unless it forgets everything.
func TestStoredEndpointsMakeResponses(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		for endpoint, want := range map[string]int{"stored": 5, "delete": 5, "stored-missing": 0} {
			d.submit(endpoint, "act_"+endpoint, fields{
				"capability_id": capabilityPrefix + endpoint + ":responses_stream", "mode": "streaming",
				"input": json.RawMessage(responsesDemo), "idempotency_key": nil,
			}).want(t, 200, "/body/action_result/status", "completed", "/body/action_result/output/text", hello)
			if n := len(d.server.StoredResponses(endpoint)); n != want {
				t.Errorf("%s keeps %d, want %d", endpoint, n, want)
			}
		}
	})
}

// TestStoresAreApart: another endpoint, another daemon and a store that was
// lost know nothing of a response.
func TestStoresAreApart(t *testing.T) {
	var id string
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		d.submit("responses-stop", "act_1", nil).want(t, 200)
		id = d.server.StoredResponses("responses-stop")[0]
		d.read("responses-tools", "act_2", id).wantNotFound(t)
		d.read("stored-missing", "act_3", SeededResponses()["completed"]).wantNotFound(t)
		d.server.ForgetResponses("responses-stop")
		d.read("responses-stop", "act_4", id).wantNotFound(t)
	})
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) { d.read("responses-stop", "act_1", id).wantNotFound(t) })
}

// TestReadsThatTheProviderRefuses: only a cause that can pass may be tried
// again, and a read leaves nothing uncertain.
func TestReadsThatTheProviderRefuses(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		id := SeededResponses()["completed"]
		for i := range 2 {
			d.read("stored-busy", fmt.Sprint("act_", i), id).want(t, 503, code, "connector.hermes_agent.remote_temporary",
				"/body/error/error/retryable", "true", "/body/error/error/details/remote_status", "503",
				"/body/error/error/details/uncertain_outcome", "false")
		}
		d.read("stored-busy", "act_2", id).want(t, 200, storedStatus, "completed")
		d.read("stored-unauthorized", "act_3", id).want(t, 401, code, "connector.hermes_agent.authentication",
			"/body/error/error/retryable", "false", "/body/error/error/details/remote_status", "401")
		d.server.RefuseResponses("stored", http.StatusTooManyRequests)
		d.read("stored", "act_4", id).want(t, 503, "/body/error/error/details/remote_status", "429")
		d.read("stored", "act_5", id).want(t, 200)
	})
}

func TestStoredInputs(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		d.read("stored", "act_1", "").want(t, 200, resultCode, "action.input_schema_invalid")
		d.read("stored", "act_2", "  ").want(t, 400, code, "connector.hermes_agent.configuration_or_input")
		d.read("stored", "act_3", "..").wantNotFound(t)
		d.read("stored", "act_4", "resp with a space").wantNotFound(t)
		more := fields{"capability_id": "cap:hermes_agent:stored:response_get", "input": fields{"response_id": "resp_1"}}
		for _, mode := range []string{"async", "streaming"} {
			more["mode"] = mode
			d.submit("stored", "act_5", more).want(t, 200, resultCode, "execution.mode_unsupported")
		}
		d.submit("chat-stop", "act_6", fields{"capability_id": "cap:hermes_agent:chat-stop:response_get", "mode": "sync"}).
			want(t, 400, code, "resource.not_found")
	})
}

// TestDeleteNeedsAKey: and the key comes before the approval.
func TestDeleteNeedsAKey(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		d.submit("delete", "act_1", fields{"idempotency_key": nil}).want(t, 200, resultCode, "idempotency.required")
		d.submit("delete", "act_2", nil).want(t, 200, resultCode, "policy.human_approval_required",
			"/body/action_result/error/details/risk", "high")
		if n := d.server.Deletes("delete"); n != 0 {
			t.Errorf("%d deletions before an approval", n)
		}
	})
}
