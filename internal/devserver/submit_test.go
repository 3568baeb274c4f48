package devserver

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestStreamingSubmitBlocksUntilTheEnd(t *testing.T) {
	for _, mode := range []any{"streaming", "sync", nil} {
		t.Run(fmt.Sprint("mode ", mode), func(t *testing.T) {
			withDaemon(t, Options{Speed: 1}, func(t *testing.T, d *daemon) {
				done := d.submitting(t.Context(), "demo", "act_1", fields{"mode": mode})
				sleep(2500 * time.Millisecond)
				select {
				case <-done:
					t.Fatal("the submit came back before the last frame")
				default:
				}
				sleep(58 * time.Millisecond) // the recording ends at 2558 ms
				(<-done).want(t, 200, "/body/action_result/status", "completed")
			})
		})
	}
}

func TestAnswerIsAnEnvelopeAddressedToTheSender(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		env := d.wrap("action", fields{
			"id": "act_1", "capability_id": "cap:hermes_agent:chat-stop:chat_stream", "input": fields{"prompt": "x"},
		})
		env["session_id"], env["correlation_id"] = "sess_1", "corr_1"
		r := d.post("/aip/v1/actions", string(encode(env)))
		r.want(t, 200,
			"/aip_version", "1.0", "/message_type", "aip.core.v1.action_result",
			"/in_response_to", env["message_id"].(string),
			"/session_id", "sess_1", "/correlation_id", "corr_1",
			"/to/id", "agent:test:cli", "/from/kind", "agent")
		d.get("/aip/v1/actions/act_1").want(t, 200,
			"/action_status/session_id", "sess_1", "/action_status/correlation_id", "corr_1")
		d.get("/aip/v1/actions/act_1/events").want(t, 200,
			"/action_events/events/0/session_id", "sess_1", "/action_events/events/0/correlation_id", "corr_1")
	})
}

func TestDroppedSubmitDoesNotStopTheAction(t *testing.T) {
	withDaemon(t, Options{Speed: 1}, func(t *testing.T, d *daemon) {
		ctx, drop := context.WithCancel(t.Context())
		done := d.submitting(ctx, "demo", "act_1", nil)
		sleep(time.Second)
		drop()
		<-done
		before := len(d.chunksOf("act_1"))
		sleep(time.Minute)
		if after := len(d.chunksOf("act_1")); before == 0 || before >= after || after != 29 {
			t.Errorf("%d chunks at the drop, %d afterwards", before, after)
		}
		d.get("/aip/v1/actions/act_1/result").want(t, 200, "/action_result/status", "completed")
		if n := d.server.Executions("act_1"); n != 1 {
			t.Errorf("%d executions", n)
		}
	})
}

func TestRunningActionReadsUnknown(t *testing.T) {
	withGate(t, 1, func(t *testing.T, d *daemon, g *gate) {
		done := d.submitting(t.Context(), "chat-stop", "act_1", nil)
		<-g.held
		d.get("/aip/v1/actions/act_1").want(t, 200,
			"/action_status/state", "unknown", "/action_status/capability_id", "<nil>")
		d.get("/aip/v1/actions/act_1?include_chunks=true").want(t, 200,
			"/action_status/state", "streaming", "/action_status/chunks/0/sequence", "0", "/action_status/chunks/1", "<nil>")
		d.get("/aip/v1/actions/act_1/result").want(t, 400,
			code, "action.not_found", "/body/error/error/details/action_id", "act_1")
		d.get("/aip/v1/actions").want(t, 200, "/action_list/total_size", "0")
		close(g.open)
		<-done
	})
}

func TestStatusBeforeTheFirstChunkIsUnknownEvenWithChunks(t *testing.T) {
	withGate(t, 0, func(t *testing.T, d *daemon, g *gate) {
		done := d.submitting(t.Context(), "chat-stop", "act_1", nil)
		<-g.held
		d.get("/aip/v1/actions/act_1?include_chunks=true").want(t, 200, "/action_status/state", "unknown")
		close(g.open)
		<-done
	})
}

func TestFinishedStatus(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		d.submit("chat-stop", "act_1", nil).want(t, 200)
		r := d.get("/aip/v1/actions/act_1?include_result=true")
		r.want(t, 200,
			"/action_status/state", "completed", "/action_status/queued_state", "completed",
			"/action_status/result_status", "completed", "/action_status/retry/attempts", "1",
			"/action_status/result/status", "completed", "/action_status/lease", "<nil>",
			"/action_status/capability_id", "cap:hermes_agent:chat-stop:chat_stream",
			"/action_status/links/self", "/aip/v1/actions/act_1",
			"/action_status/links/result", "/aip/v1/actions/act_1/result",
			"/action_status/links/events", "/aip/v1/actions/act_1/events",
			"/action_status/links/chunks", "/aip/v1/actions/act_1/chunks",
			"/action_status/links/cancel", "/aip/v1/actions/act_1/cancel")
		// The record is written at the end, so the start is the end too.
		started, completed := r.at(t, "/action_status/started_at"), r.at(t, "/action_status/completed_at")
		if started == nil || started != completed || completed != r.at(t, "/action_status/updated_at") {
			t.Errorf("started %v, completed %v", started, completed)
		}
		if !strings.Contains(r.body, `"policy":null,"next_attempt_at":null,"last_error":null,"dead_letter_reason":null`) {
			t.Errorf("the nulls of retry are not written")
		}
		if d.get("/aip/v1/actions/act_1").at(t, "/action_status/result") != nil {
			t.Errorf("the result is there without being asked for")
		}
	})
}

func TestUnknownActionIsAnswered(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		d.get("/aip/v1/actions/act_never").want(t, 200,
			"/action_status/state", "unknown", "/action_status/links/self", "/aip/v1/actions/act_never")
		d.get("/aip/v1/actions/act_never/result").want(t, 400, code, "action.not_found")
	})
}

func TestHandlerErrorStoresNothingButChunks(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		d.submit("chat-handler-failed", "act_1", nil).want(t, 503,
			code, "runtime.handler_failed", "/body/error/error/retryable", "true")
		d.get("/aip/v1/actions/act_1").want(t, 200, "/action_status/state", "unknown")
		d.get("/aip/v1/actions/act_1?include_chunks=true").want(t, 200, "/action_status/state", "streaming")
		r := d.get("/aip/v1/actions/act_1/events")
		r.want(t, 200, "/action_events/terminal", "false", "/action_events/events/4/kind", "aip.stream.chunk", "/action_events/events/5", "<nil>")
	})
}

func TestEarlyRejectionIsStoredNowhere(t *testing.T) {
	for _, tc := range []struct{ rule, scenario, input string }{
		{"scenario", "chat-early-rejection", `{"prompt":"x"}`},
		{"two of prompt, query, messages", "chat-stop", `{"prompt":"x","messages":[{}]}`},
		{"none of them", "chat-stop", `{"model":"m"}`},
		{"no object", "chat-stop", `[]`},
		{"null", "chat-stop", `null`},
		{"empty prompt", "chat-stop", `{"prompt":""}`},
		{"empty messages", "chat-stop", `{"messages":[]}`},
		{"max_events of 0", "chat-stop", `{"prompt":"x","max_events":0}`},
		{"max_events too large", "chat-stop", `{"prompt":"x","max_events":100001}`},
		{"max_events as text", "chat-stop", `{"prompt":"x","max_events":"5"}`},
		{"max_events as a huge exponent", "chat-stop", `{"prompt":"x","max_events":1e999999999}`},
		{"fraction for max_tokens", "chat-stop", `{"prompt":"x","max_tokens":1.5}`},
		{"session_id as number", "chat-stop", `{"prompt":"x","session_id":1}`},
		{"body as text", "responses-stop", `{"body":"x"}`},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
				d.submit(tc.scenario, "act_1", fields{"input": json.RawMessage(tc.input)}).want(t, 200,
					"/body/action_result/status", "failed",
					"/body/action_result/error/code", "action.input_schema_invalid",
					"/body/action_result/error/category", "permanent",
					"/body/action_result/error/details/violations/16", "<nil>")
				d.get("/aip/v1/actions/act_1").want(t, 200, "/action_status/state", "unknown")
				d.get("/aip/v1/actions/act_1/result").want(t, 400, code, "action.not_found")
				d.get("/aip/v1/actions/act_1/events").want(t, 200, "/action_events/events/0", "<nil>")
				if n := d.server.Executions("act_1"); n != 0 {
					t.Errorf("%d executions", n)
				}
			})
		})
	}
}

func TestUnknownCapability(t *testing.T) {
	for _, id := range []string{
		"cap:hermes_agent:chat-stop:responses_stream", // the operation of another scenario
		"cap:hermes_agent:chat-stop:response_get",
		"cap:hermes_agent:nobody:chat_stream",
		"cap:hermes_agent::chat_stream",
		"cap:hermes_agent:CHAT-STOP:chat_stream",
		"demo",
	} {
		t.Run(id, func(t *testing.T) {
			withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
				d.submit("demo", "act_1", fields{"capability_id": id}).want(t, 400, code, "resource.not_found")
			})
		})
	}
}

func TestRepeatedIDRunsAgain(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		d.submit("chat-stop", "act_1", nil).want(t, 200)
		// The second run meets the chunks of the first one: a provider never
		// writes the same ids twice.
		d.submit("chat-stop", "act_1", nil).want(t, 502,
			code, "connector.hermes_agent.stream_publication", "/body/error/error/details/uncertain_outcome", "true")
		if n := d.server.Executions("act_1"); n != 2 {
			t.Errorf("%d executions, want 2", n)
		}
		// The first result stays, and there is one result event.
		d.get("/aip/v1/actions/act_1/result").want(t, 200, "/action_result/status", "completed")
		d.get("/aip/v1/actions/act_1/events?kind=aip.action.result").want(t, 200,
			"/action_events/events/0/data/status", "completed", "/action_events/events/1", "<nil>")
		if got := d.server.Submits(); len(got) != 2 || got[0] != "act_1" || got[1] != "act_1" {
			t.Errorf("submits are %v", got)
		}
	})
}

func TestRepeatedIDRunsTwiceAtOnce(t *testing.T) {
	withGate(t, 0, func(t *testing.T, d *daemon, g *gate) {
		first := d.submitting(t.Context(), "chat-stop", "act_1", nil)
		<-g.held
		second := d.submitting(t.Context(), "chat-stop", "act_1", nil)
		synctest.Wait()
		if n := d.server.Executions("act_1"); n != 2 {
			t.Errorf("%d executions, want 2 at once", n)
		}
		close(g.open)
		// Their chunks collide, so one of them completes and the other is refused.
		one, other := <-first, <-second
		if got := []int{one.status, other.status}; !slices.Contains(got, 200) || !slices.Contains(got, 502) {
			t.Errorf("statuses %v", got)
		}
	})
}

// TestResultIsReplacedByTheNextRun: a run that ends before its first chunk
// collides with nothing, so its result replaces the one before. The event is
// written once.
func TestResultIsReplacedByTheNextRun(t *testing.T) {
	withGate(t, 0, func(t *testing.T, d *daemon, g *gate) {
		defer close(g.open)
		var ends []any
		for range 2 {
			d.submit("chat-stop", "act_1", fields{"timeout_ms": 1000}).want(t, 200, "/body/action_result/error/code", "sla.timeout_exceeded")
			ends = append(ends, d.get("/aip/v1/actions/act_1").at(t, "/action_status/completed_at"))
		}
		if ends[0] == ends[1] || d.server.Executions("act_1") != 2 {
			t.Errorf("the record ended at %v", ends)
		}
		d.get("/aip/v1/actions/act_1/events").want(t, 200,
			"/action_events/events/0/kind", "aip.action.result", "/action_events/events/1", "<nil>")
	})
}

func TestSameIDWithAnotherContractIsRefused(t *testing.T) {
	for _, tc := range []struct {
		rule string
		more fields
		http int
	}{
		{"other input", fields{"input": fields{"prompt": "other"}}, 400},
		{"other mode", fields{"mode": "sync"}, 400},
		{"other key", fields{"idempotency_key": "k2"}, 400},
		{"null is absent", fields{"observability": json.RawMessage("null")}, 502},
		{"approval does not count", fields{"approval": fields{"decision_id": "x"}}, 502},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
				d.submit("chat-stop", "act_1", nil).want(t, 200)
				r := d.submit("chat-stop", "act_1", tc.more)
				if r.want(t, tc.http); tc.http == 400 {
					r.want(t, 400, code, "action.id_conflict", "/body/error/error/category", "permanent")
				}
			})
		})
	}
}

func TestTimeout(t *testing.T) {
	for _, tc := range []struct {
		rule string
		more fields
		want time.Duration
	}{
		{"the action's own, when it is shorter", fields{"timeout_ms": 2000}, 2 * time.Second},
		{"the contract's, when the action wants more", fields{"timeout_ms": 3600000}, 300 * time.Second},
		{"the contract's, when the action says nothing", nil, 300 * time.Second},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			withGate(t, 2, func(t *testing.T, d *daemon, g *gate) {
				defer close(g.open)
				start := time.Now()
				d.submit("chat-stop", "act_1", tc.more).want(t, 200,
					"/body/action_result/status", "failed",
					"/body/action_result/error/code", "sla.timeout_exceeded",
					"/body/action_result/error/category", "temporary",
					"/body/action_result/error/retryable", "false",
					"/body/action_result/error/details/timeout_ms", fmt.Sprint(tc.want.Milliseconds()),
					"/body/action_result/error/details/remote_cancel_error", "<nil>")
				if got := time.Since(start); got != tc.want {
					t.Errorf("after %v, want %v", got, tc.want)
				}
				d.get("/aip/v1/actions/act_1").want(t, 200, "/action_status/state", "failed")
			})
		})
	}
}

// TestAbandonedHandlerStoresNothingMore: a handler that the runtime gave up on
// may go on, but not into the store.
func TestAbandonedHandlerStoresNothingMore(t *testing.T) {
	withGate(t, 2, func(t *testing.T, d *daemon, g *gate) {
		d.submit("chat-stop", "act_1", fields{"timeout_ms": 1000}).want(t, 200)
		close(g.open)
		synctest.Wait()
		if got := len(d.chunksOf("act_1")); got != 2 {
			t.Errorf("%d chunks, want the 2 before the deadline", got)
		}
	})
}

func TestCloseEndsEverything(t *testing.T) {
	withDaemon(t, Options{Speed: 1}, func(t *testing.T, d *daemon) {
		frames := d.follow(t.Context(), "/aip/v1/actions/act_1/events?follow=true")
		done := d.submitting(t.Context(), "chat-slow", "act_1", nil)
		d.submit("chat-slow", "act_2", fields{"mode": "async", "timeout_ms": 60000}).want(t, 200)
		d.submit("chat-approval", "act_3", nil).want(t, 200)
		sleep(3200 * time.Millisecond)
		d.server.Close()
		(<-done).wantPlain(t, 503)
		if got := names(rest(frames)); strings.Contains(got, "terminal") || !strings.Contains(got, "aip.stream.chunk") {
			t.Errorf("the follow stream brought %s", got)
		}
		d.get("/health").wantPlain(t, 503)
		d.server.Close()
	})
}

// TestNothingRunsAfterClose: a submission that got past the door is turned away.
func TestNothingRunsAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{})
		s.Close()
		ans := s.submit(t.Context(), &envelope{Body: messageBody{Action: &action{ID: "act_1", CapabilityID: "cap:hermes_agent:demo:chat_stream", Input: json.RawMessage(`{"prompt":"x"}`)}}})
		if !ans.gone || s.Executions("act_1") != 0 {
			t.Errorf("got %+v", ans)
		}
	})
}
