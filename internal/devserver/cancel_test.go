package devserver

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestCancelOfARunningStream(t *testing.T) {
	withGate(t, 3, func(t *testing.T, d *daemon, g *gate) {
		done := d.submitting(t.Context(), "chat-stop", "act_1", nil)
		<-g.held
		d.post("/aip/v1/actions/act_1/cancel", `{"reason":"not needed"}`).want(t, 200,
			"/action_result/status", "cancelled", "/action_result/action_id", "act_1",
			"/action_result/output", "map[cancelled:true]")
		// The submitter gets the runtime's own result, with its fixed reason.
		r := <-done
		r.want(t, 200, "/body/action_result/status", "cancelled",
			"/body/action_result/output/cancelled", "true",
			"/body/action_result/output/reason", "action cancellation requested",
			"/body/action_result/error", "<nil>")
		d.get("/aip/v1/actions/act_1/result").want(t, 200, "/action_result/output/reason", "action cancellation requested")
		d.get("/aip/v1/actions/act_1").want(t, 200,
			"/action_status/state", "cancelled", "/action_status/queued_state", "cancelled", "/action_status/result_status", "cancelled")
		// Chunks stay, none is added; the caller's reason is in the event only.
		close(g.open)
		synctest.Wait()
		if got := d.chunksOf("act_1"); len(got) != 3 || got[2].Kind != "data" {
			t.Errorf("%d chunks", len(got))
		}
		d.get("/aip/v1/actions/act_1/events?kind=aip.action.cancelled").want(t, 200,
			"/action_events/events/0/data/target", "action",
			"/action_events/events/0/data/action_id", "act_1",
			"/action_events/events/0/data/reason", "not needed")
	})
}

func TestCancelOfAFinishedActionSaysCancelledToo(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		d.submit("chat-stop", "act_1", nil).want(t, 200)
		for range 2 {
			d.post("/aip/v1/actions/act_1/cancel", "").want(t, 200,
				"/action_result/status", "cancelled", "/action_result/output", "map[cancelled:true]")
		}
		d.get("/aip/v1/actions/act_1").want(t, 200,
			"/action_status/state", "completed", "/action_status/queued_state", "cancelled", "/action_status/result_status", "completed")
		d.get("/aip/v1/actions/act_1/result").want(t, 200, "/action_result/status", "completed")
		d.get("/aip/v1/actions/act_1/events?kind=aip.action.cancelled").want(t, 200,
			"/action_events/events/1/kind", "aip.action.cancelled", "/action_events/events/2", "<nil>")
	})
}

func TestCancelOfAnUnknownAction(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		d.post("/aip/v1/actions/act_1/cancel", "").want(t, 400,
			code, "resource.not_found", "/body/error/error/message", "act_1")
		// A handler that failed left no record either, only chunks.
		d.submit("chat-handler-failed", "act_2", nil).want(t, 503)
		d.post("/aip/v1/actions/act_2/cancel", "").want(t, 400, code, "resource.not_found")
		d.get("/aip/v1/actions/act_1/events").want(t, 200, "/action_events/events/0", "<nil>")
	})
}

func TestCancelOfAQueuedActionLeavesNoResult(t *testing.T) {
	withDaemon(t, Options{Speed: 1}, func(t *testing.T, d *daemon) {
		d.submit("chat-stop", "act_1", fields{"mode": "async"}).want(t, 200, "/body/ack/status", "queued")
		d.post("/aip/v1/actions/act_1/cancel", "{}").want(t, 200)
		sleep(time.Hour)
		d.get("/aip/v1/actions/act_1").want(t, 200, "/action_status/state", "cancelled", "/action_status/result_status", "<nil>")
		d.get("/aip/v1/actions/act_1/result").want(t, 503,
			code, "action.result_not_ready", "/body/error/error/details/state", "cancelled")
		if n := d.server.Executions("act_1"); n != 0 {
			t.Errorf("%d executions", n)
		}
	})
}

func TestCancelOfARunningAsyncActionLeavesNoResult(t *testing.T) {
	withGate(t, 3, func(t *testing.T, d *daemon, g *gate) {
		d.submit("chat-stop", "act_1", fields{"mode": "async"}).want(t, 200)
		<-g.held
		d.get("/aip/v1/actions/act_1").want(t, 200, "/action_status/state", "running")
		d.post("/aip/v1/actions/act_1/cancel", "").want(t, 200)
		close(g.open)
		sleep(time.Hour)
		d.get("/aip/v1/actions/act_1").want(t, 200,
			"/action_status/state", "cancelled", "/action_status/lease", "<nil>", "/action_status/result_status", "<nil>")
		d.get("/aip/v1/actions/act_1/result").want(t, 503, code, "action.result_not_ready")
		d.get("/aip/v1/actions/act_1/events?kinds=aip.action.result,aip.action.worker_result").want(t, 200,
			"/action_events/events/0", "<nil>", "/action_events/terminal", "true")
		// The worker is free again.
		d.submit("chat-empty", "act_2", fields{"mode": "async"}).want(t, 200)
		sleep(time.Second)
		d.get("/aip/v1/actions/act_2").want(t, 200, "/action_status/state", "completed")
	})
}

func TestCancelOfADeadLetteredAction(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		d.submit("chat-rate-limited", "act_1", fields{"mode": "async"}).want(t, 200)
		synctest.Wait()
		d.post("/aip/v1/actions/act_1/cancel", "").want(t, 200)
		d.get("/aip/v1/actions/act_1").want(t, 200, "/action_status/state", "dead_lettered", "/action_status/queued_state", "cancelled")
	})
}

func TestCancelWinsOverAResultOfTheSameMoment(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		// The runtime cancels while the handler is at its last frame: both are
		// there when the runtime looks.
		d.submit("chat-cancelled", "act_1", nil).want(t, 200, "/body/action_result/status", "cancelled")
		d.get("/aip/v1/actions/act_1/events?kind=aip.action.cancelled").want(t, 200, "/action_events/events/0/kind", "aip.action.cancelled")
	})
}

func TestCancelBody(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		d.submit("chat-empty", "act_1", nil).want(t, 200)
		for _, tc := range []struct {
			rule, body, contentType string
			http                    int
		}{
			{"no content type needs no body", "", "", 200},
			{"empty object", "{}", "application/json", 200},
			{"null reason, extra key", `{"reason":null,"x":1}`, "application/json", 200},
			{"empty body with a JSON type", "", "application/json", 400},
			{"broken JSON", "{", "application/json", 400},
			{"reason of another type", `{"reason":5}`, "application/json", 422},
			{"a list", `[]`, "application/json", 422},
			{"another type", `reason=x`, "application/x-www-form-urlencoded", 415},
			{"too large", `{"reason":"` + strings.Repeat("x", maxRequestBody) + `"}`, "application/json", 413},
		} {
			r := d.post("/aip/v1/actions/act_1/cancel", tc.body, "Content-Type", tc.contentType)
			if r.status != tc.http {
				t.Errorf("%s: status %d, want %d", tc.rule, r.status, tc.http)
			}
			if tc.http != 200 {
				r.wantPlain(t, tc.http)
			}
		}
	})
}

func TestCancelAsAnEnvelope(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		d.submit("chat-empty", "act_1", nil).want(t, 200)
		env := d.wrap("cancel", fields{"target": fields{"action": "act_1"}, "reason": "enough"})
		d.post("/aip/v1/messages", string(encode(env))).want(t, 200,
			"/message_type", "aip.core.v1.action_result", "/body/action_result/status", "cancelled",
			"/in_response_to", env["message_id"].(string))
		d.get("/aip/v1/actions/act_1/events?kind=aip.action.cancelled").want(t, 200, "/action_events/events/0/data/reason", "enough")
		for _, target := range []string{`{"action":"act_2"}`, `{"session":"sess_1"}`} {
			env := d.wrap("cancel", fields{"target": json.RawMessage(target)})
			d.post("/aip/v1/messages", string(encode(env))).want(t, 400, code, "resource.not_found")
		}
		if got := d.server.Submits(); len(got) != 1 {
			t.Errorf("cancels count as submits: %v", got)
		}
	})
}
