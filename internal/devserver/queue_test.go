package devserver

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"
)

func async(more fields) fields {
	out := fields{"mode": "async"}
	for k, v := range more {
		out[k] = v
	}
	return out
}

func TestAsyncActionGoesThroughTheQueue(t *testing.T) {
	withDaemon(t, Options{Speed: 1}, func(t *testing.T, d *daemon) {
		d.submit("demo", "act_1", async(nil)).want(t, 200,
			"/message_type", "aip.core.v1.ack", "/body/ack/status", "queued",
			"/body/ack/action_id", "act_1", "/body/ack/queue/scheduler", "aip-runtime")
		d.get("/aip/v1/actions/act_1").want(t, 200,
			"/action_status/state", "queued", "/action_status/queued_state", "queued", "/action_status/started_at", "<nil>")
		d.get("/aip/v1/actions/act_1/result").want(t, 503,
			code, "action.result_not_ready", "/body/error/error/category", "temporary", "/body/error/error/retryable", "false",
			"/body/error/error/details/state", "queued")
		sleep(time.Second)
		r := d.get("/aip/v1/actions/act_1")
		r.want(t, 200, "/action_status/state", "running", "/action_status/lease/worker_id", workerID, "/action_status/retry/attempts", "1")
		if n := len(r.at(t, "/action_status/lease/expires_at").([]any)); n != 9 {
			t.Errorf("a time in free JSON has %d numbers, want 9", n)
		}
		d.get("/aip/v1/actions/act_1?include_chunks=true").want(t, 200, "/action_status/state", "streaming")
		d.get("/aip/v1/actions/act_1/result").want(t, 503, "/body/error/error/details/state", "running")
		sleep(time.Minute)
		d.get("/aip/v1/actions/act_1").want(t, 200, "/action_status/state", "completed", "/action_status/lease", "<nil>")
		d.get("/aip/v1/actions/act_1/result").want(t, 200, "/action_result/status", "completed")
		d.get("/aip/v1/actions/act_1/events?kinds=aip.action.result,aip.action.worker_result").want(t, 200,
			"/action_events/events/0/kind", "aip.action.result",
			"/action_events/events/1/kind", "aip.action.worker_result",
			"/action_events/events/1/data/worker_id", workerID)
	})
}

func TestAsyncFailuresAreDeadLettered(t *testing.T) {
	for name, want := range map[string]string{
		"chat-rate-limited":          "connector.hermes_agent.remote_temporary",
		"chat-endpoint-unauthorized": "connector.hermes_agent.authentication",
		"chat-transport-break":       "connector.hermes_agent.transport",
		"chat-handler-failed":        "runtime.handler_failed",
		"chat-publication":           "connector.hermes_agent.stream_publication",
		"chat-upstream-close":        "connector.hermes_agent.stream_incomplete",
		"chat-timeout":               "sla.timeout_exceeded",
		"chat-output-schema":         "action.output_schema_invalid",
		"chat-early-rejection":       "action.input_schema_invalid",
	} {
		t.Run(name, func(t *testing.T) {
			withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
				d.submit(name, "act_1", async(nil)).want(t, 200, "/body/ack/status", "queued")
				synctest.Wait()
				r := d.get("/aip/v1/actions/act_1")
				r.want(t, 200, "/action_status/state", "dead_lettered", "/action_status/queued_state", "failed",
					"/action_status/result_status", "failed", "/action_status/retry/last_error/code", want)
				if reason, _ := r.at(t, "/action_status/retry/dead_letter_reason").(string); reason == "" {
					t.Errorf("there is no dead-letter reason")
				}
				d.get("/aip/v1/actions/act_1/result").want(t, 200, "/action_result/status", "failed", "/action_result/error/code", want)
				d.get("/aip/v1/actions/act_1/events").want(t, 200, "/action_events/terminal", "true")
			})
		})
	}
}

func TestAsyncInputIsCheckedByTheWorker(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		d.submit("chat-stop", "act_1", async(fields{"input": json.RawMessage(`{}`)})).want(t, 200, "/body/ack/status", "queued")
		synctest.Wait()
		d.get("/aip/v1/actions/act_1/result").want(t, 200, "/action_result/error/code", "action.input_schema_invalid")
		if n := d.server.Executions("act_1"); n != 0 {
			t.Errorf("%d executions", n)
		}
	})
}

func TestWorkerTakesOneActionAtATimeOldestFirst(t *testing.T) {
	withDaemon(t, Options{Speed: 1}, func(t *testing.T, d *daemon) {
		ids := []string{"act_3", "act_1", "act_4", "act_2"}
		for _, id := range ids { // all in the same instant
			d.submit("chat-stop", id, async(nil)).want(t, 200)
		}
		sleep(time.Second)
		d.get("/aip/v1/actions?state=running").want(t, 200, "/action_list/total_size", "1", "/action_list/actions/0/action_id", "act_3")
		d.get("/aip/v1/actions?state=queued").want(t, 200, "/action_list/total_size", "3")
		sleep(time.Minute)
		var last time.Time
		for _, id := range ids {
			r := d.get("/aip/v1/actions/" + id)
			r.want(t, 200, "/action_status/state", "completed")
			started, err := time.Parse(time.RFC3339Nano, r.at(t, "/action_status/started_at").(string))
			if err != nil || !started.After(last) {
				t.Errorf("%s started at %v, the one before it at %v: %v", id, started, last, err)
			}
			last = started
		}
	})
}

func TestQueueDelay(t *testing.T) {
	withGate(t, 1, func(t *testing.T, d *daemon, g *gate) {
		d.submit("chat-stop", "act_1", async(nil)).want(t, 200)
		<-g.held
		d.submit("chat-stop", "act_late", async(nil)).want(t, 200)
		sleep(6 * time.Second)
		d.submit("chat-stop", "act_fine", async(nil)).want(t, 200)
		sleep(5 * time.Second)
		close(g.open)
		synctest.Wait()
		d.get("/aip/v1/actions/act_late").want(t, 200, "/action_status/state", "dead_lettered")
		d.get("/aip/v1/actions/act_late/result").want(t, 200,
			"/action_result/error/code", "sla.queue_delay_exceeded", "/action_result/error/category", "policy")
		d.get("/aip/v1/actions/act_fine/result").want(t, 200, "/action_result/status", "completed")
		if n := d.server.Executions("act_late"); n != 0 {
			t.Errorf("%d executions", n)
		}
	})
}

func TestExpiryInTheQueue(t *testing.T) {
	withGate(t, 1, func(t *testing.T, d *daemon, g *gate) {
		d.submit("chat-stop", "act_1", async(nil)).want(t, 200)
		<-g.held
		d.submit("chat-stop", "act_2", async(fields{"timeout_ms": 2000, "idempotency_key": "k"})).want(t, 200)
		frames := d.follow(t.Context(), "/aip/v1/actions/act_2/events?follow=true")
		sleep(1999 * time.Millisecond)
		d.get("/aip/v1/actions/act_2").want(t, 200, "/action_status/state", "queued")
		sleep(time.Millisecond)
		d.get("/aip/v1/actions/act_2").want(t, 200, "/action_status/state", "expired", "/action_status/queued_state", "expired")
		d.get("/aip/v1/actions/act_2/result").want(t, 400,
			code, "action.gone", "/body/error/error/details/state", "expired")
		if got := rest(frames); names(got) != "aip.stream.terminal" {
			t.Errorf("the stream is %s", names(got))
		}
		close(g.open)
		synctest.Wait()
		if n := d.server.Executions("act_2"); n != 0 {
			t.Errorf("%d executions", n)
		}
		// The key is free again.
		d.submit("chat-stop", "act_3", fields{"idempotency_key": "k"}).want(t, 200, "/body/action_result/action_id", "act_3")
	})
}

func TestAnActionThatRunsDoesNotExpire(t *testing.T) {
	withDaemon(t, Options{Speed: 1}, func(t *testing.T, d *daemon) {
		d.submit("chat-slow", "act_1", async(fields{"timeout_ms": 2000})).want(t, 200)
		sleep(time.Minute)
		d.get("/aip/v1/actions/act_1/result").want(t, 200, "/action_result/error/code", "sla.timeout_exceeded")
	})
}

func TestRepeatedAsyncIDIsQueuedAgain(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		d.submit("chat-stop", "act_1", async(nil)).want(t, 200)
		synctest.Wait()
		d.submit("chat-stop", "act_1", async(nil)).want(t, 200, "/body/ack/status", "queued")
		synctest.Wait()
		if n := d.server.Executions("act_1"); n != 2 {
			t.Errorf("%d executions", n)
		}
		d.get("/aip/v1/actions/act_1/result").want(t, 200, "/action_result/error/code", "connector.hermes_agent.stream_publication")
	})
}

func TestApproval(t *testing.T) {
	for _, mode := range []string{"streaming", "sync", "async"} {
		t.Run(mode, func(t *testing.T) {
			withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
				r := d.submit("chat-approval", "act_1", fields{"mode": mode})
				r.want(t, 200,
					"/body/action_result/status", "pending_approval",
					"/body/action_result/error/code", "policy.human_approval_required",
					"/body/action_result/output/requires_human_approval", "true",
					"/body/action_result/output/approval_request/action_id", "act_1")
				id := r.at(t, "/body/action_result/output/approval_id").(string)
				if len(id) != len("appr_")+32 || id != r.at(t, "/body/action_result/error/details/approval_id") ||
					id != r.at(t, "/body/action_result/output/approval_request/id") {
					t.Errorf("approval id %q", id)
				}
				d.get("/aip/v1/actions/act_1?include_result=true").want(t, 200,
					"/action_status/state", "pending_approval", "/action_status/queued_state", "requires_human",
					"/action_status/approval_id", "<nil>", "/action_status/result", "<nil>")
				d.get("/aip/v1/actions/act_1/result").want(t, 503,
					code, "action.result_not_ready", "/body/error/error/details/state", "pending_approval")
				d.get("/aip/v1/actions/act_1/events").want(t, 200,
					"/action_events/events/0/kind", "aip.approval.requested",
					"/action_events/events/0/data/approval_id", id, "/action_events/terminal", "false")
				d.get("/aip/v1/actions?approval_id="+id).want(t, 200, "/action_list/total_size", "0")
				if n := d.server.Executions("act_1"); n != 0 {
					t.Errorf("%d executions", n)
				}
			})
		})
	}
}

func TestApprovalExpires(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		d.submit("chat-approval", "act_1", nil).want(t, 200)
		sleep(899 * time.Second)
		d.get("/aip/v1/actions/act_1").want(t, 200, "/action_status/state", "pending_approval")
		sleep(time.Second)
		d.get("/aip/v1/actions/act_1").want(t, 200,
			"/action_status/state", "failed", "/action_status/queued_state", "expired", "/action_status/result_status", "failed")
		d.get("/aip/v1/actions/act_1/result").want(t, 200, "/action_result/error/code", "policy.approval_expired")
		d.get("/aip/v1/actions/act_1/events?kinds=aip.approval.expired,aip.action.approval_terminal").want(t, 200,
			"/action_events/events/0/kind", "aip.approval.expired",
			"/action_events/events/1/kind", "aip.action.approval_terminal", "/action_events/terminal", "true")
	})
}

func TestCancelledApproval(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		d.submit("chat-approval", "act_1", nil).want(t, 200)
		d.post("/aip/v1/actions/act_1/cancel", "").want(t, 200)
		sleep(time.Hour)
		d.get("/aip/v1/actions/act_1").want(t, 200, "/action_status/state", "cancelled", "/action_status/result_status", "<nil>")
		d.get("/aip/v1/actions/act_1/result").want(t, 503, code, "action.result_not_ready")
	})
}
