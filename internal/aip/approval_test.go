package aip

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const aView = `{
	"request": {
		"id": "appr_1", "action_id": "act_1", "capability_id": "cap:hermes_agent:lab:response_delete",
		"requester": {"id": "service:reports", "kind": "service", "display_name": "Reports"}, "subject": {"id": "human:kim", "kind": "human"},
		"operator": {"id": "service:ops", "kind": "service"}, "approver_selector": {"type": "role", "name": "keeper"}, "reason": "why",
		"evidence": [{"id": "e1", "kind": "input_snapshot", "hash": "aa", "redacted": true}, {"id": "e2", "kind": "policy_decision", "hash": "bb"}, 7],
		"expires_at": "2030-01-15T09:45:00Z", "policy_hash": "cc", "risk": "high",
		"policy_snapshot": {"required": true, "evidence_requirements": ["reason", "input_snapshot"], "separation_of_duties": {"requester_must_differ": true, "allow_self_approval": false}}
	},
	"status": "approved", "created_at": "2030-01-15T09:30:00Z", "updated_at": "2030-01-15T09:31:00Z",
	"decision": {"approval_id": "appr_1", "decision": "approved", "approver": {"id": "human:dana", "kind": "human"}, "decision_id": "d1", "decided_at": "2030-01-15T09:31:00Z", "reason": "private"},
	"action_status": {"action_id": "act_1", "state": "completed", "result": {"action_id": "act_1", "status": "completed", "output": {"deleted": true}}},
	"evidence_payload": {"action_id": "act_1", "input": {"response_id": "resp_1"}}
}`

func TestAnApprovalRecord(t *testing.T) {
	v, err := DecodeApproval(strings.NewReader(`{"approval_record_view":` + aView + `}`))
	if err != nil {
		t.Fatal(err)
	}
	want := &ApprovalView{
		Status: "approved", CreatedAt: "2030-01-15T09:30:00Z", UpdatedAt: "2030-01-15T09:31:00Z",
		Request: ApprovalRequest{
			ID: "appr_1", ActionID: "act_1", CapabilityID: "cap:hermes_agent:lab:response_delete",
			Requester: Principal{"service:reports", "service"}, Subject: Principal{"human:kim", "human"}, Operator: &Principal{"service:ops", "service"},
			Selector: "role keeper", Reason: "why", Risk: "high", ExpiresAt: "2030-01-15T09:45:00Z", PolicyHash: "cc",
			Evidence: []Evidence{{ID: "e1", Kind: "input_snapshot", Hash: "aa", Redacted: true}, {ID: "e2", Kind: "policy_decision", Hash: "bb"}, {}},
			Policy:   &ApprovalPolicy{Requires: []string{"reason", "input_snapshot"}, RequesterMustDiffer: true},
		},
		Decision: &ApprovalDecision{DecisionID: "d1", Decision: "approved", Approver: Principal{"human:dana", "human"}, DecidedAt: "2030-01-15T09:31:00Z"},
		Action:   &ActionStatus{ActionID: "act_1", State: "completed"},
		Result:   &ActionResult{ActionID: "act_1", Status: "completed", Output: &Output{Rest: Members(raw(`{"deleted":true}`))}},
		Input:    raw(`{"response_id": "resp_1"}`),
	}
	if diff := cmp.Diff(want, v); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if got := v.Request.EvidenceHash(EvidenceInput); got != "aa" {
		t.Errorf("the hash of the input is %q", got)
	}
}

func TestApprovalsComeInPages(t *testing.T) {
	for _, tc := range []struct {
		body   string
		ids    []string
		cursor string
	}{
		{`{"approval_list":{"approvals":[` + aView + `,{"status":"pending"},null,{"request":{"id":"appr_2"},"status":"pending"}],"cursor":"offset:2"}}`, []string{"appr_1", "appr_2"}, "offset:2"},
		{`{"approval_list":{"approvals":[]}}`, nil, ""},
		{`{"approval_list":{"approvals":[],"cursor":null}}`, nil, ""},
	} {
		views, cursor, err := DecodeApprovals(strings.NewReader(tc.body))
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, v := range views {
			ids = append(ids, v.Request.ID)
		}
		if diff := cmp.Diff(tc.ids, ids); diff != "" || cursor != tc.cursor {
			t.Errorf("%s\ncursor %q", diff, cursor)
		}
	}
}

func TestWhatIsNoApproval(t *testing.T) {
	for _, body := range []string{``, `{`, `[]`, `{}`, `{"approval_record_view":null}`, `{"approval_record_view":{"request":{},"status":"pending"}}`, `{"approval_record_view":{"request":{"id":"appr_1"}}}`} {
		if v, err := DecodeApproval(strings.NewReader(body)); err == nil {
			t.Errorf("%s is read as %+v", body, v)
		}
		if _, _, err := DecodeApprovals(strings.NewReader(body)); err == nil {
			t.Errorf("%s is read as a list", body)
		}
	}
}

func TestTheRequestThatComesWithAPendingResult(t *testing.T) {
	r, err := DecodeReply(strings.NewReader(`{"body":{"action_result":{"action_id":"act_1","status":"pending_approval","output":{"approval_request":{"id":"appr_1","policy_hash":"cc"}}}}}`), ResultDecoding{})
	if err != nil {
		t.Fatal(err)
	}
	if req := RequestedApproval(r.Result); req == nil || req.ID != "appr_1" || req.PolicyHash != "cc" {
		t.Errorf("request %+v", req)
	}
	for _, res := range []*ActionResult{nil, {}, {Output: &Output{}}} {
		if req := RequestedApproval(res); req != nil {
			t.Errorf("%+v has the request %+v", res, req)
		}
	}
}

func TestADecision(t *testing.T) {
	at := time.Date(2030, 1, 15, 9, 32, 0, 0, time.UTC)
	d := Decision{
		ApprovalID: "appr_1", Decision: ApprovalApproved, Approver: Principal{"human:dana", "human"},
		DecisionID: "d1", PolicyHash: "cc", Reason: "period \"over\"\n",
	}
	got, err := d.Envelope("msg_1", at)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"aip_version":"1.0","message_type":"aip.policy.v1.approval_decision","message_id":"msg_1","sent_at":"2030-01-15T09:32:00Z",` +
		`"from":{"id":"human:dana","kind":"human"},"body":{"approval_decision":{"approval_id":"appr_1","decision":"approved","decided_at":"2030-01-15T09:32:00Z",` +
		`"decision_id":"d1","policy_hash":"cc","reason":"period \"over\"\n","approver":{"id":"human:dana","kind":"human"}}}}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	// What is not there is left out, and never null.
	d.Reason, d.PolicyHash = "", ""
	if got, err = d.Envelope("msg_1", at); err != nil || strings.Contains(string(got), "reason") || strings.Contains(string(got), "policy_hash") || !json.Valid(got) {
		t.Errorf("%s (%v)", got, err)
	}
}

func TestTheAnswerToADecision(t *testing.T) {
	for body, kinds := range map[string][]string{
		`{"body":{"event_stream":{"events":[{"id":"e","kind":"aip.approval.granted"},{"kind":"aip.action.resumed_result"}]}}}`: {"aip.approval.granted", "aip.action.resumed_result"},
		`{"body":{"event_stream":{"events":[7,null,{"kind":"aip.approval.denied"}]}}}`:                                         {"aip.approval.denied"},
		`{"body":{"event_stream":{"events":"none"}}}`:                                                                          nil,
		`{"body":{"event_stream":null}}`:                                                                                       nil,
		`{"event_stream":{}}`:                                                                                                  nil,
	} {
		r, err := DecodeReply(strings.NewReader(body), ResultDecoding{})
		if err != nil || !r.EventStream {
			t.Errorf("%s: %+v, %v", body, r, err)
			continue
		}
		var got []string
		for _, e := range r.Events {
			got = append(got, e.Kind)
		}
		if diff := cmp.Diff(kinds, got); diff != "" {
			t.Errorf("%s:\n%s", body, diff)
		}
	}
}
