package devserver

import (
	"testing"
	"testing/synctest"
	"time"
)

func keyed(key string, more fields) fields {
	out := fields{"idempotency_key": key}
	for k, v := range more {
		out[k] = v
	}
	return out
}

func TestKeyReplaysTheOriginalResult(t *testing.T) {
	for _, tc := range []struct {
		rule, second string
		more         fields
	}{
		{"same action id", "act_1", nil},
		{"another action id", "act_2", nil},
		{"another input is not compared", "act_2", fields{"input": fields{"prompt": "other"}}},
		{"async too answers with the result", "act_2", fields{"mode": "async"}},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
				first := d.submit("chat-stop", "act_1", keyed("k", nil))
				first.want(t, 200, "/body/action_result/output/idempotent_replay", "<nil>")
				r := d.submit("chat-stop", tc.second, keyed("k", tc.more))
				r.want(t, 200, "/body/action_result/action_id", "act_1", "/body/action_result/status", "completed",
					"/body/action_result/output/idempotent_replay", "true", "/body/action_result/output/text", hello)
				if n := d.server.Executions("act_1") + d.server.Executions("act_2"); n != 1 {
					t.Errorf("%d executions", n)
				}
				if tc.second != "act_1" {
					d.get("/aip/v1/actions/"+tc.second).want(t, 200, "/action_status/state", "unknown")
				}
				// The stored result is not marked.
				d.get("/aip/v1/actions/act_1/result").want(t, 200, "/action_result/output/idempotent_replay", "<nil>")
			})
		})
	}
}

func TestReplayReplacesAnOutputThatIsNoObject(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		d.submit("chat-output-schema", "act_1", keyed("k", nil)).want(t, 200, "/body/action_result/output", "<nil>")
		d.submit("chat-output-schema", "act_2", keyed("k", nil)).want(t, 200,
			"/body/action_result/action_id", "act_1", "/body/action_result/output", "map[idempotent_replay:true]",
			"/body/action_result/error/code", "action.output_schema_invalid")
	})
}

func TestKeyInProgress(t *testing.T) {
	withGate(t, 2, func(t *testing.T, d *daemon, g *gate) {
		done := d.submitting(t.Context(), "chat-stop", "act_1", keyed("k", fields{"timeout_ms": 100000}))
		<-g.held
		sleep(time.Minute)
		for _, id := range []string{"act_1", "act_2"} {
			r := d.submit("chat-stop", id, keyed("k", fields{"timeout_ms": 100000}))
			r.want(t, 200, "/body/action_result/status", "failed", "/body/action_result/action_id", id,
				"/body/action_result/error/code", "idempotency.in_progress",
				"/body/action_result/error/category", "temporary", "/body/action_result/error/retryable", "true",
				"/body/action_result/error/retry_after_ms", "100000", // 100 s + 60 s - 60 s
				"/body/action_result/error/details/key", "k", "/body/action_result/error/details/owner_action_id", "act_1")
			if n := len(r.at(t, "/body/action_result/error/details/reservation_expires_at").([]any)); n != 9 {
				t.Errorf("a time in free JSON has %d numbers, want 9", n)
			}
		}
		close(g.open)
		(<-done).want(t, 200, "/body/action_result/status", "completed")
		if n := d.server.Executions("act_1"); n != 1 {
			t.Errorf("%d executions", n)
		}
	})
}

func TestWhatSettlesAKey(t *testing.T) {
	for _, tc := range []struct {
		rule, scenario, second string
	}{
		{"a failed result settles", "chat-timeout", "act_1"},
		{"a cancelled result settles", "chat-cancelled", "act_1"},
		{"a pending approval settles", "chat-approval", "act_1"},
		{"a handler error frees", "chat-handler-failed", "error"},
		{"a connector error frees", "chat-rate-limited", "error"},
		{"an early rejection never took it", "chat-early-rejection", "act_2"},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
				d.submit(tc.scenario, "act_1", keyed("k", nil))
				r := d.submit(tc.scenario, "act_2", keyed("k", nil))
				if tc.second == "error" {
					if r.status == 200 || d.server.Executions("act_2") != 1 {
						t.Errorf("status %d, %d executions", r.status, d.server.Executions("act_2"))
					}
					return
				}
				r.want(t, 200, "/body/action_result/action_id", tc.second)
				if n := d.server.Executions("act_2"); n != 0 {
					t.Errorf("%d executions", n)
				}
			})
		})
	}
}

// TestRetryableResultFreesTheKey: only an async run has such a result.
func TestRetryableResultFreesTheKey(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		d.submit("chat-handler-failed", "act_1", keyed("k", async(nil))).want(t, 200, "/body/ack/status", "queued")
		synctest.Wait()
		d.get("/aip/v1/actions/act_1/result").want(t, 200, "/action_result/error/retryable", "true")
		d.submit("chat-handler-failed", "act_2", keyed("k", nil)).want(t, 503)
		if n := d.server.Executions("act_2"); n != 1 {
			t.Errorf("%d executions", n)
		}
	})
}

func TestKeyScope(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		d.submit("chat-stop", "act_1", keyed("k", nil)).want(t, 200)
		d.submit("chat-empty", "act_2", keyed("k", nil)).want(t, 200, "/body/action_result/action_id", "act_2")
		d.submit("chat-stop", "act_3", keyed("K", nil)).want(t, 200, "/body/action_result/action_id", "act_3")
	})
}

func TestBlankKeyIsNoKey(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		d.submit("chat-stop", "act_1", keyed("  ", nil)).want(t, 200)
		d.submit("chat-stop", "act_2", keyed("  ", nil)).want(t, 200, "/body/action_result/action_id", "act_2")
	})
}

// TestEnvelopeKeyAndHeaderDoNotDeduplicate: only the action's own key counts.
func TestEnvelopeKeyAndHeaderDoNotDeduplicate(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		for _, id := range []string{"act_1", "act_2"} {
			env := d.wrap("action", fields{
				"id": id, "capability_id": "cap:hermes_agent:chat-stop:chat_stream", "input": fields{"prompt": "x"},
			})
			env["idempotency_key"] = "k"
			d.post("/aip/v1/messages", string(encode(env)), "Idempotency-Key", "k").want(t, 200, "/body/action_result/action_id", id)
		}
	})
}

func TestReservationLapses(t *testing.T) {
	withGate(t, 1, func(t *testing.T, d *daemon, g *gate) {
		// An async action that was cancelled while it ran never settles its key.
		d.submit("chat-stop", "act_1", keyed("k", fields{"mode": "async", "timeout_ms": 10000})).want(t, 200)
		<-g.held
		d.post("/aip/v1/actions/act_1/cancel", "").want(t, 200)
		close(g.open)
		synctest.Wait()
		d.submit("chat-stop", "act_2", keyed("k", nil)).want(t, 200, "/body/action_result/error/code", "idempotency.in_progress")
		sleep(70 * time.Second)
		d.submit("chat-stop", "act_2", keyed("k", nil)).want(t, 200, "/body/action_result/status", "completed")
	})
}
