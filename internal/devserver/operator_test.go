package devserver

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"testing"
	"testing/synctest"
)

// operated runs the operator over run events, one frame each.
func operated(name, actionID string, events ...string) ([]chunk, outcome) {
	sc := &Scenario{Name: name, Operation: "operator"}
	for _, e := range events {
		sc.play.frames = append(sc.play.frames, block{data: []byte("data: " + e + "\n\n")})
	}
	return invokeBytes(sc, actionID, `{}`)
}

// TestOperatorMatchesTheModel plays a run whose chunks and result were written
// down from the connector's rules, and expects exactly those.
func TestOperatorMatchesTheModel(t *testing.T) {
	raw, err := os.ReadFile("testdata/operator/complete.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(raw), []byte("\n"))
	last := lines[len(lines)-1]
	var events []string
	for _, line := range lines[:len(lines)-1] {
		events = append(events, string(members(members(line)["data"])["hermes_operator"]))
	}
	actionID, _ := stringValue(members(last)["action_id"])
	endpoint, _ := stringValue(members(members(last)["output"])["endpoint_id"])
	chunks, out := operated(endpoint, actionID, events...)
	if out.err != nil || len(chunks) != len(events) || len(events) == 0 {
		t.Fatalf("%d chunks and error %v, want %d chunks", len(chunks), out.err, len(events))
	}
	for i, c := range chunks {
		if got, want := decoded(t, encode(c)), decoded(t, lines[i]); !reflect.DeepEqual(got, want) {
			t.Errorf("chunk %d\n got %v\nwant %v", i, got, want)
		}
	}
	if got, want := decoded(t, encode(out.result)), decoded(t, last); !reflect.DeepEqual(got, want) {
		t.Errorf("result\n got %v\nwant %v", got, want)
	}
}

// TestOperatorChunks: kind and part of each event, and whether the action ends
// with it.
func TestOperatorChunks(t *testing.T) {
	for _, tc := range []struct {
		rule, event      string
		kind, part, ends string // ends: the result's status, empty when it goes on
	}{
		{"a text delta is data with a part", `{"event":"message.delta","delta":"a"}`, "data", "a", ""},
		{"an empty delta makes no part", `{"event":"message.delta","delta":""}`, "data", "", ""},
		{"reasoning is a thought without a part", `{"event":"reasoning.available","text":"hm"}`, "thought", "", ""},
		{"a tool starts", `{"event":"tool.started","tool":"t"}`, "tool", "", ""},
		{"a tool completes", `{"event":"tool.completed","tool":"t"}`, "tool", "", ""},
		{"tool.failed is unknown to the operator", `{"event":"tool.failed","tool":"t"}`, "progress", "", ""},
		{"a decision is progress", `{"event":"approval.responded","choice":"once"}`, "progress", "", ""},
		{"what nobody knows is progress", `{"event":"x.y","delta":"no part"}`, "progress", "", ""},
		{"an event without a name is progress", `{"a":1}`, "progress", "", ""},
		{"an approval request ends in the wait for a human", `{"event":"approval.request","command":"c"}`, "pending_approval", "", "requires_human"},
		{"a completed run, whose output is no part", `{"event":"run.completed","output":"o"}`, "done", "", "completed"},
		{"a failed run", `{"event":"run.failed","error":"e"}`, "error", "", "failed"},
		{"a cancelled run is published as done", `{"event":"run.cancelled"}`, "done", "", "cancelled"},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			chunks, out := operated("e", "act_1", tc.event)
			if len(chunks) != 1 {
				t.Fatalf("%d chunks", len(chunks))
			}
			part := ""
			if p := chunks[0].Part; p != nil {
				part = p.Text
			}
			if chunks[0].Kind != tc.kind || part != tc.part || out.result.Status != tc.ends {
				t.Errorf("kind %s, part %q, status %q", chunks[0].Kind, part, out.result.Status)
			}
			// A run that nobody sees the end of may have done anything.
			if lost := tc.ends == ""; lost != (out.err != nil) {
				t.Fatalf("error %v", out.err)
			} else if lost && (out.err.Code != "connector.hermes_agent.operator_outcome_unknown" || out.err.Category != temporary || out.err.Retryable) {
				t.Errorf("error %+v", out.err)
			}
		})
	}
}

func TestOperatorOutput(t *testing.T) {
	for _, tc := range []struct{ scenario, status, state, last, pending, code string }{
		{"operator-complete", "completed", "completed", "run.completed", "<nil>", "<nil>"},
		{"operator-human", "requires_human", "waiting_for_approval", "approval.request", "rm -rf build", "<nil>"},
		{"operator-failed", "failed", "failed", "run.failed", "<nil>", "connector.hermes_agent.operator_failed"},
	} {
		t.Run(tc.scenario, func(t *testing.T) {
			withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
				r := d.submit(tc.scenario, "act_1", nil)
				r.want(t, 200,
					"/body/action_result/status", tc.status,
					"/body/action_result/output/endpoint_id", tc.scenario,
					"/body/action_result/output/session_id", "aip-operator-act_1",
					"/body/action_result/output/source_action_id", "act_1",
					"/body/action_result/output/status", tc.state,
					"/body/action_result/output/last_event", tc.last,
					"/body/action_result/output/pending_approval/command", tc.pending,
					"/body/action_result/error/code", tc.code)
				out := r.at(t, "/body/action_result/output").(map[string]any)
				if out["run_id"] != out["provider"].(map[string]any)["run_id"] || len(out) != 10 {
					t.Errorf("output %v", out)
				}
				for _, null := range []string{"delegation_id", "parent_action_id"} {
					if v, written := out[null]; !written || v != nil {
						t.Errorf("%s is %v, want a null that is written", null, v)
					}
				}
				if tc.code != "<nil>" {
					r.want(t, 200, "/body/action_result/error/category", "connector", "/body/action_result/error/retryable", "false",
						"/body/action_result/error/source/connector", "hermes-agent", "/body/action_result/error/source/operation", "operator")
				}
			})
		})
	}
}

// TestWaitForAHumanIsNoEnd: the result is stored and can be read, and yet the
// action is pending: a follower hears no end, whatever the mode.
func TestWaitForAHumanIsNoEnd(t *testing.T) {
	for _, mode := range []string{"streaming", "sync", "async"} {
		t.Run(mode, func(t *testing.T) {
			withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
				frames := d.follow(t.Context(), "/aip/v1/actions/act_1/events?follow=true&include_chunks=true")
				d.submit("operator-human", "act_1", fields{"mode": mode}).want(t, 200)
				synctest.Wait()
				d.get("/aip/v1/actions/act_1").want(t, 200,
					"/action_status/state", "pending_approval", "/action_status/queued_state", "requires_human",
					"/action_status/result_status", "requires_human", "/action_status/retry/dead_letter_reason", "<nil>")
				d.get("/aip/v1/actions?state=pending_approval").want(t, 200, "/action_list/total_size", "1")
				d.get("/aip/v1/actions/act_1/result").want(t, 200, "/action_result/status", "requires_human")
				d.get("/aip/v1/actions/act_1/events?kinds=aip.action.result").want(t, 200,
					"/action_events/terminal", "false", "/action_events/events/0/data/status", "requires_human")
				// The approval is the provider's own; the daemon knows of none.
				d.get("/aip/v1/actions/act_1/events?kinds=aip.approval.requested").want(t, 200, "/action_events/events/0", "<nil>")
				sleep(defaultApprovalTTL)
				// A stored result decides the state, also after a cancel request.
				d.post("/aip/v1/actions/act_1/cancel", "").want(t, 200)
				d.get("/aip/v1/actions/act_1").want(t, 200,
					"/action_status/state", "pending_approval", "/action_status/queued_state", "cancelled")
				for _, f := range arrived(frames) {
					if f.name == "aip.stream.terminal" {
						t.Errorf("the follower was told of an end")
					}
				}
			})
		})
	}
}

func TestOperatorResumesNothing(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		d.submit("operator-human", "act_1", nil).want(t, 200)
		in := json.RawMessage(`{"resume":{"source_action_id":"act_1","choice":"once"}}`)
		d.submit("operator-human", "act_2", fields{"input": in}).want(t, 400,
			code, "connector.hermes_agent.operator_policy", "/body/error/error/details/uncertain_outcome", "false")
		if n := len(d.chunksOf("act_2")); n != 0 {
			t.Errorf("%d chunks", n)
		}
	})
}
