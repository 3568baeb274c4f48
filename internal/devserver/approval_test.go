package devserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const (
	second   = "another-test-token"
	decider  = "Bearer " + second
	denyCode = "auth.not_authorized"
)

// withApprover is withDaemon with a second principal that may decide.
func withApprover(t *testing.T, opts Options, f func(t *testing.T, d *daemon)) {
	t.Helper()
	opts.ApproverToken = second
	withDaemon(t, opts, f)
}

// asking submits a deletion that waits for an approval, and returns its id and
// the hash of its policy.
func (d *daemon) asking(endpoint, actionID string) (approvalID, policyHash string) {
	d.t.Helper()
	r := d.submit(endpoint, actionID, nil)
	r.want(d.t, 200, "/body/action_result/status", "pending_approval")
	request := r.at(d.t, "/body/action_result/output/approval_request").(map[string]any)
	return request["id"].(string), request["policy_hash"].(string)
}

// decision is the envelope of the approver's decision, with what is given
// changed.
func (d *daemon) decision(approvalID, policyHash, decision string, more fields) string {
	body := fields{
		"approval_id": approvalID, "decision": decision, "approver": approverPrincipal,
		"decided_at": timestamp(d.server.now()), "reason": "retention is over",
		"decision_id": "decision-1", "policy_hash": policyHash,
	}
	for k, v := range more {
		if body[k] = v; v == nil {
			delete(body, k)
		}
	}
	return string(encode(d.wrap("approval_decision", body)))
}

func (d *daemon) decide(approvalID, policyHash, decision string, more fields) reply {
	d.t.Helper()
	return d.post("/aip/v1/messages", d.decision(approvalID, policyHash, decision, more), "Authorization", decider)
}

func TestApprovedDeletionRunsInsideTheDecision(t *testing.T) {
	withApprover(t, Options{}, func(t *testing.T, d *daemon) {
		id, hash := d.asking("delete", "act_1")
		r := d.decide(id, hash, "approved", nil)
		r.want(t, 200, "/message_type", "aip.discovery.v1.event_stream_response",
			"/body/event_stream/events/0/kind", "aip.approval.granted",
			"/body/event_stream/events/0/data/approval_id", id,
			"/body/event_stream/events/0/data/approver/id", approverPrincipal.ID,
			"/body/event_stream/events/1/kind", "aip.action.resumed_result",
			"/body/event_stream/events/1/data/status", "completed")
		response := SeededResponses()["completed"]
		for _, who := range []string{"Bearer " + token, decider} {
			d.get("/aip/v1/actions/act_1/result", "Authorization", who).want(t, 200, "/action_result/status", "completed",
				"/action_result/output/id", response, "/action_result/output/object", "response", "/action_result/output/deleted", "true")
		}
		d.get("/aip/v1/actions/act_1").want(t, 200, "/action_status/state", "completed", "/action_status/approval_id", "<nil>")
		d.read("delete", "act_2", response).wantNotFound(t)
		if d.server.Deletes("delete") != 1 || d.server.Executions("act_1") != 1 {
			t.Errorf("%d deletions, %d executions", d.server.Deletes("delete"), d.server.Executions("act_1"))
		}
		// The key now brings back what was done, under the first action's id.
		d.submit("delete", "act_3", fields{"idempotency_key": "key-of-act_1"}).want(t, 200, "/body/action_result/action_id", "act_1",
			"/body/action_result/output/deleted", "true", "/body/action_result/output/idempotent_replay", "true")
		d.get("/aip/v1/approvals/"+id).want(t, 200, "/approval_record_view/status", "approved",
			"/approval_record_view/decision/decision_id", "decision-1", "/approval_record_view/decision/reason", "retention is over")
	})
}

// TestSecondDeletionFindsNothing: a new key is a new deletion, and the provider
// has no replay. The failure is dead-lettered, result and all.
func TestSecondDeletionFindsNothing(t *testing.T) {
	withApprover(t, Options{}, func(t *testing.T, d *daemon) {
		for i := range 2 {
			id, hash := d.asking("delete", fmt.Sprint("act_", i))
			d.decide(id, hash, "approved", nil).want(t, 200)
		}
		d.get("/aip/v1/actions/act_1").want(t, 200, "/action_status/state", "dead_lettered", "/action_status/result_status", "failed")
		d.get("/aip/v1/actions/act_1/result").want(t, 200, "/action_result/error/code", "connector.hermes_agent.remote_rejected",
			"/action_result/error/details/remote_status", "404", "/action_result/error/details/uncertain_outcome", "false")
		if n := d.server.Deletes("delete"); n != 1 {
			t.Errorf("%d deletions", n)
		}
	})
}

func TestReceiptsThatCannotBeTrusted(t *testing.T) {
	const result = "/action_result/"
	for _, tc := range []struct {
		endpoint string
		want     []string
	}{
		{"delete-wrong-id", []string{result + "output/id", otherResponse, result + "output/deleted", "true"}},
		{"delete-not-deleted", []string{result + "output/id", SeededResponses()["completed"], result + "output/deleted", "false"}},
		{"delete-answer-lost", []string{result + "error/code", "connector.hermes_agent.remote_temporary", result + "error/details/uncertain_outcome", "true",
			result + "error/retryable", "false", result + "error/details/remote_status", "503"}},
	} {
		t.Run(tc.endpoint, func(t *testing.T) {
			withApprover(t, Options{}, func(t *testing.T, d *daemon) {
				id, hash := d.asking(tc.endpoint, "act_1")
				d.decide(id, hash, "approved", nil).want(t, 200)
				d.get("/aip/v1/actions/act_1/result").want(t, 200, tc.want...)
				if n := d.server.Deletes(tc.endpoint); n != 1 {
					t.Errorf("%d deletions", n)
				}
				d.read(tc.endpoint, "act_2", SeededResponses()["completed"]).wantNotFound(t)
			})
		})
	}
}

func TestDeniedApproval(t *testing.T) {
	withApprover(t, Options{}, func(t *testing.T, d *daemon) {
		id, hash := d.asking("delete", "act_1")
		d.decide(id, hash, "denied", nil).want(t, 200, "/body/event_stream/events/0/kind", "aip.approval.denied",
			"/body/event_stream/events/0/data/reason", "retention is over",
			"/body/event_stream/events/2/kind", "aip.action.approval_terminal", "/body/event_stream/events/2/data/status", "failed")
		d.get("/aip/v1/actions/act_1").want(t, 200, "/action_status/state", "failed")
		d.get("/aip/v1/actions/act_1/result").want(t, 200, "/action_result/error/code", "policy.approval_denied")
		d.submit("delete", "act_2", fields{"idempotency_key": "key-of-act_1"}).want(t, 200, resultCode, "policy.approval_denied",
			"/body/action_result/action_id", "act_1")
		if d.server.Executions("act_1") != 0 {
			t.Error("a denied action ran")
		}
	})
}

// TestDecisionsThatAreRefused: nothing is changed by one, and all of them look
// alike from outside unless the daemon tells its rules.
func TestDecisionsThatAreRefused(t *testing.T) {
	mine := fields{"approver": edgePrincipal}
	for _, tc := range []struct {
		rule, decision string
		more           fields
		own            bool // with the requester's token
		code           string
	}{
		{"one's own action", "approved", mine, true, "separation_of_duties.requester"},
		{"one's own action, denied", "denied", mine, true, "separation_of_duties.requester"},
		{"another one's name", "approved", nil, true, "approver_identity_mismatch"},
		{"the right name of the wrong kind", "approved", fields{"approver": fields{"id": approverPrincipal.ID, "kind": "agent"}}, false, "approver_identity_mismatch"},
		{"no decision id", "approved", fields{"decision_id": nil}, false, "approval_decision_id_required"},
		{"a blank decision id", "denied", fields{"decision_id": " "}, false, "approval_decision_id_required"},
		{"no reason", "approved", fields{"reason": nil}, false, "approval_evidence_missing"},
		{"a blank reason", "denied", fields{"reason": " "}, false, "approval_evidence_missing"},
		{"another hash", "approved", fields{"policy_hash": "00"}, false, "approval_hash_mismatch"},
		{"no hash", "approved", fields{"policy_hash": nil}, false, "approval_hash_mismatch"},
		{"expiry is the daemon's", "expired", nil, false, "approver_unauthorized"},
		{"a revocation of nothing", "revoked", nil, false, "approval_revocation_target_required"},
		{"a revocation of what was never decided", "revoked", fields{"target_decision_id": "x"}, false, "approval_revocation_target_missing"},
		{"constraints", "approved", fields{"constraints": []any{fields{"field": "/response_id", "operator": "eq", "value": "x"}}}, false, "approval_constraint_failed"},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			for _, told := range []bool{false, true} {
				withApprover(t, Options{PolicyCodes: told}, func(t *testing.T, d *daemon) {
					id, hash := d.asking("delete", "act_1")
					who := decider
					if tc.own {
						who = "Bearer " + token
					}
					r := d.post("/aip/v1/messages", d.decision(id, hash, tc.decision, tc.more), "Authorization", who)
					if told {
						r.want(t, 403, code, "policy."+tc.code)
					} else {
						r.want(t, 401, code, denyCode)
					}
					d.get("/aip/v1/approvals/"+id).want(t, 200, "/approval_record_view/status", "pending")
					d.get("/aip/v1/actions/act_1").want(t, 200, "/action_status/state", "pending_approval")
					if d.server.Executions("act_1") != 0 || len(d.server.Decisions()) != 1 {
						t.Errorf("%d executions, decisions %q", d.server.Executions("act_1"), d.server.Decisions())
					}
				})
			}
		})
	}
}

// TestOnlyOneDecisionCounts: the same one again is refused like any other.
func TestOnlyOneDecisionCounts(t *testing.T) {
	for _, again := range []fields{nil, {"decision_id": "decision-2"}, {"decision": "denied"}} {
		withApprover(t, Options{PolicyCodes: true}, func(t *testing.T, d *daemon) {
			id, hash := d.asking("delete", "act_1")
			d.decide(id, hash, "approved", nil).want(t, 200)
			d.decide(id, hash, "approved", again).want(t, 403, code, "policy.approval_not_pending")
			if n := d.server.Deletes("delete"); n != 1 {
				t.Errorf("%d deletions", n)
			}
		})
	}
}

func TestDecisionsAboutNothing(t *testing.T) {
	withApprover(t, Options{}, func(t *testing.T, d *daemon) {
		// A handler that knows no such approval fails; that it may be tried again
		// is not true of it.
		d.decide("appr_0", "00", "approved", nil).want(t, 503, code, "runtime.handler_failed", "/body/error/error/retryable", "true")
		d.get("/aip/v1/approvals/appr_0").want(t, 400, code, "approval.not_found")
		d.get("/aip/v1/approvals/act_1").want(t, 400, code, "query.invalid")
		for _, more := range []fields{{"decision": "maybe"}, {"decided_at": nil}, {"approver": "me"}, {"verdict": "x"}} {
			d.decide("appr_0", "00", "approved", more).want(t, 400, code, "schema.envelope.invalid")
		}
		d.decide("appr_0", "00", "approved", fields{"decided_at": "today"}).want(t, 400, code, "envelope.decode.invalid")
		d.post("/aip/v1/messages", d.decision("appr_0", "00", "approved", nil), "Authorization", "").want(t, 401, code, denyCode)
		d.post("/aip/v1/messages", d.decision("appr_0", "00", "approved", nil), "Authorization", "Bearer x").
			want(t, 401, code, "auth.native_http_unauthorized")
	})
}

// TestChatApprovalAsksNoReason: what evidence a decision needs is the policy's.
func TestChatApprovalAsksNoReason(t *testing.T) {
	withApprover(t, Options{}, func(t *testing.T, d *daemon) {
		id, hash := d.asking("chat-approval", "act_1")
		d.get("/aip/v1/approvals/"+id).want(t, 200, "/approval_record_view/request/policy_snapshot/evidence_requirements", "[input_snapshot policy_decision]")
		d.decide(id, hash, "approved", fields{"reason": nil}).want(t, 200)
		d.get("/aip/v1/actions/act_1/result").want(t, 200, "/action_result/status", "completed", "/action_result/output/text", hello)
		if n := len(d.chunksOf("act_1")); n != 10 {
			t.Errorf("%d chunks", n)
		}
	})
}

func TestExpiredApprovalTakesNoDecision(t *testing.T) {
	withApprover(t, Options{ApprovalTTL: time.Minute, PolicyCodes: true}, func(t *testing.T, d *daemon) {
		id, hash := d.asking("delete", "act_1")
		sleep(time.Minute)
		d.get("/aip/v1/approvals/"+id).want(t, 200, "/approval_record_view/status", "expired", "/approval_record_view/decision", "<nil>")
		d.decide(id, hash, "approved", nil).want(t, 403, code, "policy.approval_expired")
		d.get("/aip/v1/actions/act_1/result").want(t, 200, "/action_result/error/code", "policy.approval_expired")
		d.submit("delete", "act_2", fields{"idempotency_key": "key-of-act_1"}).want(t, 200, resultCode, "policy.approval_expired")
		if n := d.server.Deletes("delete"); n != 0 {
			t.Errorf("%d deletions", n)
		}
	})
}

// TestApprovalOutlivesACancel: the approval stays pending, and granting it runs
// nothing.
func TestApprovalOutlivesACancel(t *testing.T) {
	withApprover(t, Options{}, func(t *testing.T, d *daemon) {
		id, hash := d.asking("delete", "act_1")
		d.post("/aip/v1/actions/act_1/cancel", "").want(t, 200)
		d.get("/aip/v1/approvals/"+id).want(t, 200, "/approval_record_view/status", "pending")
		d.decide(id, hash, "approved", nil).want(t, 200,
			"/body/event_stream/events/0/kind", "aip.approval.granted", "/body/event_stream/events/1", "<nil>")
		d.get("/aip/v1/actions/act_1").want(t, 200, "/action_status/state", "cancelled")
		if n := d.server.Deletes("delete"); n != 0 {
			t.Errorf("%d deletions", n)
		}
	})
}

// TestRecordWithOtherHashes: what the submitter was told and what is on record
// differ, and only the latter can be decided about.
func TestRecordWithOtherHashes(t *testing.T) {
	withApprover(t, Options{PolicyCodes: true}, func(t *testing.T, d *daemon) {
		id, hash := d.asking("delete-hash-changed", "act_1")
		d.decide(id, hash, "approved", nil).want(t, 403, code, "policy.approval_hash_mismatch")
		now := d.get("/aip/v1/approvals/"+id).at(t, "/approval_record_view/request/policy_hash").(string)
		d.server.ChangeApproval(id)
		d.decide(id, now, "approved", nil).want(t, 403, code, "policy.approval_hash_mismatch")
		now = d.get("/aip/v1/approvals/"+id).at(t, "/approval_record_view/request/policy_hash").(string)
		d.decide(id, now, "approved", nil).want(t, 200)
	})
}

// TestLostReplyOfADecision: it is recorded and the action has run.
func TestLostReplyOfADecision(t *testing.T) {
	lose := func(t *testing.T, d *daemon, endpoint, actionID string, lost bool) {
		id, hash := d.asking(endpoint, actionID)
		_, err := d.do(t.Context(), "POST", "/aip/v1/messages", d.decision(id, hash, "approved", nil), "Authorization", decider)
		if errors.Is(err, io.ErrUnexpectedEOF) != lost || err != nil && !lost {
			t.Errorf("the error is %v", err)
		}
		d.get("/aip/v1/approvals/"+id).want(t, 200, "/approval_record_view/status", "approved", "/approval_record_view/decision/decision_id", "decision-1")
		d.get("/aip/v1/actions/"+actionID).want(t, 200, "/action_status/state", "completed")
	}
	withApprover(t, Options{}, func(t *testing.T, d *daemon) {
		lose(t, d, "delete-decision-lost", "act_1", true)
		d.server.LoseDecisionReplies(1)
		lose(t, d, "delete", "act_2", true)
		lose(t, d, "delete-not-deleted", "act_3", false)
	})
}

// TestDroppedDecisionGoesOn: the approver may leave; what was approved runs, and
// a cancel request ends it like any other.
func TestDroppedDecisionGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runDaemon(t, Options{Speed: 1, ApproverToken: second}, func(t *testing.T, d *daemon) {
			id, hash := d.asking("chat-approval", "act_1")
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if _, err := d.do(ctx, "POST", "/aip/v1/messages", d.decision(id, hash, "approved", nil), "Authorization", decider); err == nil {
				t.Error("the decision did not wait for the action")
			}
			d.get("/aip/v1/actions/act_1").want(t, 200, "/action_status/state", "running")
			sleep(time.Minute)
			d.get("/aip/v1/actions/act_1").want(t, 200, "/action_status/state", "completed")

			id, hash = d.asking("chat-approval", "act_2")
			done := make(chan reply, 1)
			go func() {
				r, _ := d.do(t.Context(), "POST", "/aip/v1/messages", d.decision(id, hash, "approved", nil), "Authorization", decider)
				done <- r
			}()
			sleep(100 * time.Millisecond)
			d.post("/aip/v1/actions/act_2/cancel", "").want(t, 200)
			(<-done).want(t, 200, "/body/event_stream/events/0/kind", "aip.approval.granted", "/body/event_stream/events/1", "<nil>")
			d.get("/aip/v1/actions/act_2").want(t, 200, "/action_status/state", "cancelled")
		})
	})
}

func TestListOfApprovals(t *testing.T) {
	withApprover(t, Options{}, func(t *testing.T, d *daemon) {
		var ids []string
		for i := range 5 {
			id, hash := d.asking("delete", fmt.Sprint("act_", i))
			ids = append(ids, id)
			sleep(time.Second)
			if i == 1 {
				d.decide(id, hash, "denied", nil).want(t, 200)
			}
		}
		for _, tc := range []struct{ rule, query, want string }{
			{"all, oldest first", "", "0 1 2 3 4 then <nil>"},
			{"pending", "?status=pending", "0 2 3 4 then <nil>"},
			{"denied", "?status=denied", "1 then <nil>"},
			{"a status nobody knows matches nothing", "?status=odd", "then <nil>"},
			{"by requester", "?requester=" + edgePrincipal.ID, "0 1 2 3 4 then <nil>"},
			{"by another requester", "?requester=x", "then <nil>"},
			{"by who decided", "?approver=" + approverPrincipal.ID, "1 then <nil>"},
			{"a page", "?limit=2", "0 1 then offset:2"},
			{"the next", "?limit=2&cursor=offset:2", "2 3 then offset:4"},
			{"the last", "?limit=2&cursor=offset:4", "4 then <nil>"},
			{"beyond", "?cursor=offset:9", "then <nil>"},
			{"a filtered page", "?limit=3&status=pending", "0 2 3 then offset:3"},
		} {
			r := d.get("/aip/v1/approvals" + tc.query)
			r.want(t, 200)
			var got []string
			for _, v := range r.at(t, "/approval_list/approvals").([]any) {
				id := v.(map[string]any)["request"].(map[string]any)["id"].(string)
				got = append(got, fmt.Sprint(slices.Index(ids, id)))
			}
			got = append(got, "then", fmt.Sprint(r.at(t, "/approval_list/cursor")))
			if s := strings.Join(got, " "); s != tc.want {
				t.Errorf("%s: got %s, want %s", tc.rule, s, tc.want)
			}
		}
		d.get("/aip/v1/approvals?cursor=5").want(t, 400, code, "query.invalid_cursor", "/body/error/error/details/expected_format", "offset:<n>")
		d.get("/aip/v1/approvals?tenant_id=x").want(t, 401, code, "auth.tenant_required")
		d.get("/aip/v1/approvals?limit=many").wantPlain(t, 400)
		d.get("/aip/v1/approvals?include_action_status=true").want(t, 200,
			"/approval_list/approvals/1/action_status/state", "failed",
			"/approval_list/approvals/1/action_status/result/error/code", "policy.approval_denied",
			"/approval_list/approvals/0/action_status/state", "pending_approval")
	})
}

// TestWhoSeesWhat: reads go by scope and ownership, and every refusal is 401.
func TestWhoSeesWhat(t *testing.T) {
	who := func(approver bool) []string {
		if approver {
			return []string{"Authorization", decider}
		}
		return nil
	}
	const path = "/approval_record_view/"
	for _, tc := range []struct {
		rule           string
		mine, other    []string // scopes; nil is the default
		approver       bool     // asks
		query, refused string   // operation that is missing
	}{
		{"the requester reads its own", nil, nil, false, "", ""},
		{"but not what will run", nil, nil, false, "?include_evidence_payload=true", "Export"},
		{"both scopes reveal it", []string{"action:read", "approval:read", "approval:export", "approval:sensitive"}, nil, false, "?include_evidence_payload=true", ""},
		{"one of them does not", []string{"approval:read", "approval:export"}, nil, false, "?include_evidence_payload=true", "Sensitive"},
		{"the approver may", nil, nil, true, "?include_evidence_payload=true", ""},
		{"unless its scopes lack it", nil, []string{"approval:read"}, true, "?include_evidence_payload=true", "Export"},
		{"authority is enough to see a foreign one", nil, []string{"approval:read"}, true, "", ""},
		{"without the scope nobody reads", []string{"action:read"}, nil, false, "", "Read"},
		{"everything", []string{"*"}, nil, false, "?include_evidence_payload=true", ""},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			withApprover(t, Options{Scopes: tc.mine, ApproverScopes: tc.other}, func(t *testing.T, d *daemon) {
				id, _ := d.asking("delete", "act_1")
				r := d.get("/aip/v1/approvals/"+id+tc.query, who(tc.approver)...)
				if tc.refused != "" {
					r.want(t, 401, code, denyCode, "/body/error/error/details/object", "approval", "/body/error/error/details/operation", tc.refused)
					return
				}
				r.want(t, 200, path+"request/action_id", "act_1", path+"request/requester/id", edgePrincipal.ID, path+"request/risk", "high",
					path+"request/evidence/0/kind", "input_snapshot", path+"request/evidence/0/redacted", "true")
				input, revealed := r.at(t, path+"evidence_payload/input/response_id"), tc.query != ""
				if (input == SeededResponses()["completed"]) != revealed {
					t.Errorf("the input is %v", input)
				}
				if revealed && r.at(t, path+"evidence_payload/input_hash") != r.at(t, path+"request/evidence/0/hash") {
					t.Error("the hashes of the input differ")
				}
				if !revealed && strings.Contains(r.body, SeededResponses()["completed"]) {
					t.Error("the input is told")
				}
			})
		})
	}
}

// TestForeignActions: the approver reads the actions of others by its scope; the
// requester does not.
func TestForeignActions(t *testing.T) {
	theirs := []string{"Authorization", decider}
	withApprover(t, Options{}, func(t *testing.T, d *daemon) {
		d.submit("chat-stop", "act_mine", nil).want(t, 200)
		d.post("/aip/v1/messages", d.envelope("chat-stop", "act_theirs", nil), theirs...).want(t, 200)
		for _, verb := range []string{"", "/result", "/events", "/chunks"} {
			d.get("/aip/v1/actions/act_mine"+verb, theirs...).want(t, 200)
			d.get("/aip/v1/actions/act_theirs"+verb).want(t, 401, code, denyCode, "/body/error/error/details/required_scope", "action:read:any")
		}
		d.post("/aip/v1/actions/act_theirs/cancel", "").want(t, 401, "/body/error/error/details/required_scope", "action:write:any")
		d.post("/aip/v1/actions/act_mine/cancel", "", theirs...).want(t, 401, code, denyCode)
		frames := rest(d.follow(t.Context(), "/aip/v1/actions/act_theirs/events?follow=true"))
		if len(frames) != 1 || frames[0].name != "aip.error" || !strings.Contains(frames[0].data, denyCode) {
			t.Errorf("frames %v", frames)
		}
		d.get("/aip/v1/actions").want(t, 200, "/action_list/total_size", "1", "/action_list/actions/0/action_id", "act_mine")
		d.get("/aip/v1/actions", theirs...).want(t, 200, "/action_list/total_size", "2")
		d.get("/aip/v1/actions/act_never").want(t, 200, "/action_status/state", "unknown")
		// One id belongs to one principal.
		d.submit("chat-stop", "act_theirs", nil).want(t, 400, code, "action.id_conflict")
	})
	withDaemon(t, Options{Scopes: []string{"approval:read"}}, func(t *testing.T, d *daemon) {
		d.submit("chat-stop", "act_1", nil).want(t, 200)
		for _, path := range []string{"/aip/v1/actions", "/aip/v1/actions/act_1", "/aip/v1/actions/act_1/result"} {
			d.get(path).want(t, 401, code, denyCode, "/body/error/error/details/object", "action", "/body/error/error/details/operation", "Read")
		}
		d.post("/aip/v1/actions/act_1/cancel", "").want(t, 401, "/body/error/error/details/operation", "Write")
	})
}

// TestNobodyDecidesWithoutASecondToken: the one principal there is has no
// authority, and neither has the daemon's own agent.
func TestNobodyDecidesWithoutASecondToken(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		id, hash := d.asking("delete", "act_1")
		d.decide(id, hash, "approved", nil).want(t, 401, code, "auth.native_http_unauthorized")
	})
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{ApproverToken: second})
		defer s.Close()
		d := &daemon{t: t, server: s, client: &http.Client{Transport: memoryTransport{s.Handler()}}}
		r := d.post("/aip/v1/messages", d.envelope("delete", "act_1", nil), "Authorization", "")
		id := r.at(t, "/body/action_result/output/approval_id").(string)
		hash := r.at(t, "/body/action_result/output/approval_request/policy_hash").(string)
		d.post("/aip/v1/messages", d.decision(id, hash, "approved", fields{"approver": daemonPrincipal}), "Authorization", "").want(t, 401, code, denyCode)
		d.decide(id, hash, "approved", nil).want(t, 200)
	})
}
