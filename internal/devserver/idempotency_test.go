package devserver

import (
	"encoding/json"
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

// keyTerms are options that change the terms of one capability.
func keyTerms(terms KeyTerms, ids ...string) Options {
	opts := Options{Keys: map[string]KeyTerms{}}
	for _, id := range ids {
		opts.Keys[id] = terms
	}
	return opts
}

const stopID = "cap:hermes_agent:chat-stop:chat_stream"

// TestCollisions: what a settled key is answered with is the contract's; no
// answer is stored under the new id, and nothing runs.
func TestCollisions(t *testing.T) {
	same, other := fields{"input": json.RawMessage(`{ "prompt" : "hello" }`)}, fields{"input": fields{"prompt": "other"}}
	for _, tc := range []struct {
		rule, collision string
		more            fields
		want            string // code; empty is a replay
	}{
		{"the original, whatever the input", "return_original_result", other, ""},
		{"never again", "reject_conflict", same, "idempotency.conflict"},
		{"never again, with another input", "reject_conflict", other, "idempotency.conflict"},
		{"the original for the same input, spelt otherwise", "revalidate_input_hash", same, ""},
		{"a refusal for another input", "revalidate_input_hash", other, "idempotency.input_hash_mismatch"},
		{"a refusal for another transaction", "revalidate_input_hash", fields{"transaction": fields{"mode": "execute"}}, "idempotency.input_hash_mismatch"},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			withDaemon(t, keyTerms(KeyTerms{Collision: tc.collision}, stopID), func(t *testing.T, d *daemon) {
				d.submit("chat-stop", "act_1", keyed("k", nil)).want(t, 200, "/body/action_result/status", "completed")
				r := d.submit("chat-stop", "act_2", keyed("k", tc.more))
				if tc.want == "" {
					r.want(t, 200, "/body/action_result/action_id", "act_1", "/body/action_result/output/idempotent_replay", "true")
				} else {
					r.want(t, 200, "/body/action_result/action_id", "act_2", "/body/action_result/status", "failed", resultCode, tc.want,
						"/body/action_result/error/category", "policy", "/body/action_result/error/retryable", "false",
						"/body/action_result/error/details/key", "k", "/body/action_result/error/details/original_action_id", "act_1")
				}
				d.get("/aip/v1/actions/act_2").want(t, 200, "/action_status/state", "unknown")
				if n := d.server.Executions("act_2"); n != 0 {
					t.Errorf("%d executions", n)
				}
			})
		})
	}
}

// TestKeyScopes: what two keys are told apart by.
func TestKeyScopes(t *testing.T) {
	const emptyID = "cap:hermes_agent:chat-empty:chat_stream"
	for _, tc := range []struct {
		scope                           string
		otherID, otherCaller, otherCapa bool // whether each is another key
	}{
		{"action", true, true, true},
		{"capability", false, false, true},
		{"principal", false, true, false},
	} {
		t.Run(tc.scope, func(t *testing.T) {
			opts := keyTerms(KeyTerms{Scope: tc.scope}, stopID, emptyID)
			opts.ApproverToken = second
			withDaemon(t, opts, func(t *testing.T, d *daemon) {
				d.submit("chat-stop", "act_1", keyed("k", nil)).want(t, 200)
				for name, ask := range map[string]struct {
					apart bool
					reply reply
				}{
					"another id":         {tc.otherID, d.submit("chat-stop", "act_2", keyed("k", nil))},
					"another caller":     {tc.otherCaller, d.post("/aip/v1/messages", d.envelope("chat-stop", "act_3", keyed("k", nil)), "Authorization", decider)},
					"another capability": {tc.otherCapa, d.submit("chat-empty", "act_4", keyed("k", nil))},
				} {
					ask.reply.want(t, 200)
					if replayed := ask.reply.at(t, "/body/action_result/action_id") == "act_1"; replayed == ask.apart {
						t.Errorf("%s: a replay is %v", name, replayed)
					}
				}
			})
		})
	}
	for _, scope := range []string{"tenant", "external_account"} {
		withDaemon(t, keyTerms(KeyTerms{Scope: scope}, stopID), func(t *testing.T, d *daemon) {
			d.submit("chat-stop", "act_1", keyed("k", nil)).want(t, 200, resultCode, "idempotency.scope_missing")
			d.get("/aip/v1/actions/act_1").want(t, 200, "/action_status/state", "unknown")
			d.submit("chat-stop", "act_2", nil).want(t, 200, "/body/action_result/status", "completed")
		})
	}
}

func TestRequirements(t *testing.T) {
	withDaemon(t, keyTerms(KeyTerms{Requirement: "required"}, stopID), func(t *testing.T, d *daemon) {
		d.submit("chat-stop", "act_1", nil).want(t, 200, resultCode, "idempotency.required")
		d.submit("chat-stop", "act_2", keyed("k", nil)).want(t, 200, "/body/action_result/status", "completed")
		d.get(capabilitiesPath+"?capability_id="+stopID).want(t, 200, "/capabilities/0/capability/contract/idempotency/requirement", "required")
	})
	withDaemon(t, keyTerms(KeyTerms{Requirement: "unsupported"}, stopID), func(t *testing.T, d *daemon) {
		for _, id := range []string{"act_1", "act_2"} {
			d.submit("chat-stop", id, keyed("k", nil)).want(t, 200, "/body/action_result/action_id", id)
		}
	})
	// A blank key meets the requirement and protects from nothing.
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		for _, id := range []string{"act_1", "act_2"} {
			d.submit("operator-complete", id, keyed(" ", nil)).want(t, 200, "/body/action_result/action_id", id)
		}
	})
}

// TestSettledKeysExpire: after the time of the contract, counted from the end;
// without one never.
func TestSettledKeysExpire(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		d.submit("delete", "act_1", nil).want(t, 200)
		d.submit("chat-stop", "act_c", keyed("k", nil)).want(t, 200)
		again := func(actionID string) reply {
			return d.submit("delete", actionID, fields{"idempotency_key": "key-of-act_1"})
		}
		sleep(defaultApprovalTTL + 24*time.Hour - time.Second)
		again("act_2").want(t, 200, "/body/action_result/action_id", "act_1", resultCode, "policy.approval_expired")
		sleep(time.Second)
		again("act_3").want(t, 200, "/body/action_result/action_id", "act_3", "/body/action_result/status", "pending_approval")
		sleep(365 * 24 * time.Hour)
		d.submit("chat-stop", "act_d", keyed("k", nil)).want(t, 200, "/body/action_result/action_id", "act_c")
	})
}

// TestKeyOfAPendingApproval: while nobody has decided, the key brings back the
// request, under the same approval id; without a key there are two requests.
func TestKeyOfAPendingApproval(t *testing.T) {
	withApprover(t, Options{}, func(t *testing.T, d *daemon) {
		id, _ := d.asking("delete", "act_1")
		d.submit("delete", "act_2", fields{"idempotency_key": "key-of-act_1"}).want(t, 200, "/body/action_result/action_id", "act_1",
			"/body/action_result/status", "pending_approval", "/body/action_result/output/approval_id", id,
			"/body/action_result/output/idempotent_replay", "true")
		d.asking("chat-approval", "act_3")
		d.asking("chat-approval", "act_3")
		if n := len(d.get("/aip/v1/approvals").at(t, "/approval_list/approvals").([]any)); n != 3 {
			t.Errorf("%d approvals", n)
		}
	})
}

func TestKeyScenarios(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		for endpoint, codes := range map[string][2]string{
			"stored-key-once": {"idempotency.conflict", "idempotency.conflict"},
			"stored-key-same": {"", "idempotency.input_hash_mismatch"},
			"stored":          {"", ""},
		} {
			ask := func(actionID, state string) any {
				return d.submit(endpoint, actionID, keyed("k", fields{"input": fields{"response_id": SeededResponses()[state]}})).at(t, resultCode)
			}
			first, same, other := ask("act_1"+endpoint, "completed"), ask("act_2"+endpoint, "completed"), ask("act_3"+endpoint, "failed")
			for i, got := range []any{same, other} {
				if want := codes[i]; first != nil || got != any(want) && (want != "" || got != nil) {
					t.Errorf("%s: %v, %v, %v", endpoint, first, same, other)
				}
			}
		}
	})
}
