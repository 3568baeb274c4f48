package e2estored_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aipctl/aipctl/internal/devserver"
)

// request is what a scripted daemon shows of an approval.
type request struct {
	status     string // pending when empty
	policyHash string // cc when empty
	inputHash  string // aa when empty
	expires    string // in an hour when empty
	policy     string // members of policy_snapshot; asks for no reason when empty
	requester  string // service:edge when empty
	decision   string // the decision object, if any
	result     string // of the action, if any
}

func orElse(s, instead string) string {
	if s == "" {
		return instead
	}
	return s
}

func (q request) view() answer {
	requester := orElse(q.requester, "service:edge")
	kind, _, _ := strings.Cut(requester, ":")
	more := ""
	if q.decision != "" {
		more += `,"decision":` + q.decision
	}
	if q.result != "" {
		more += `,"action_status":{"action_id":"act_a","state":"completed","result":` + q.result + `}`
	}
	return answer{0, fmt.Sprintf(`{"approval_record_view":{"request":{"id":"appr_a","action_id":"act_a","capability_id":"cap:hermes_agent:lab:response_delete",`+
		`"requester":{"id":%q,"kind":%q},"subject":{"id":%q,"kind":%q},"approver_selector":{"type":"tenant_policy"},"reason":"deletes a response","risk":"high",`+
		`"evidence":[{"id":"e","kind":"input_snapshot","hash":%q,"redacted":true}],"expires_at":%q,"policy_hash":%q,"policy_snapshot":{%s}},`+
		`"status":%q,"created_at":%q,"updated_at":%q%s}}`,
		requester, kind, requester, kind, orElse(q.inputHash, "aa"), orElse(q.expires, time.Now().Add(time.Hour).UTC().Format(time.RFC3339)), orElse(q.policyHash, "cc"),
		orElse(q.policy, `"evidence_requirements":["input_snapshot"]`), orElse(q.status, "pending"), time.Now().Add(-time.Minute).UTC().Format(time.RFC3339), time.Now().UTC().Format(time.RFC3339), more)}
}

func shows(views ...request) func(int) answer {
	return func(n int) answer { return views[min(n, len(views))-1].view() }
}

// granted is the answer to a decision that was taken.
func granted(kind string) func(int, decision) answer {
	return func(int, decision) answer {
		return answer{0, `{"aip_version":"1.0","body":{"event_stream":{"events":[{"id":"evt_1","kind":"` + kind + `","action_id":"act_a"}]}}}`}
	}
}

func always(a answer) func(int, decision) answer { return func(int, decision) answer { return a } }

const deleted = `{"action_id":"act_a","status":"completed","output":{"id":"resp_a","object":"response","deleted":true}}`

// decided is the record of a decision, as far as the tests look at it.
type decided struct {
	Type       string `json:"type"`
	ApprovalID string `json:"approval_id"`
	ActionID   string `json:"action_id"`
	Decision   string `json:"decision"`
	DecisionID string `json:"decision_id"`
	Known      string `json:"known"`
	Status     string `json:"status"`
	Verdict    string `json:"action_verdict"`
}

// told writes what a submitter's state file says of the approval.
func (w *world) told(t testing.TB, policyHash, inputHash string) {
	t.Helper()
	d := serveScript(t, &script{act: func(_ int, a action) answer {
		return result(`{"action_id":%q,"status":"pending_approval","output":{"requires_human_approval":true,"approval_id":"appr_a","approval_request":{"id":"appr_a","action_id":%q,`+
			`"policy_hash":%q,"evidence":[{"kind":"input_snapshot","hash":%q}]}}}`, a.ID, a.ID, policyHash, inputHash)
	}})
	if s := w.run("response", "delete", d.URL, "resp_a", "--endpoint", "lab", "--yes"); s.code != 8 {
		t.Fatalf("exit code %d; stderr:\n%s", s.code, s.stderr)
	}
}

func TestDecisions(t *testing.T) {
	t.Parallel()
	tab := loadTable(t, "approvals.tsv", "approve", "deny", "get", "list")
	for _, tc := range []struct {
		row   string
		play  *script
		setup func(t *testing.T, w *world)
		args  []string // in the place of the usual ones
		check func(t *testing.T, w *world, d *script, s shot)
	}{
		{row: "approve approved", play: &script{view: shows(request{}, request{}, request{status: "approved", result: deleted}), decide: granted("aip.approval.granted")}, check: func(t *testing.T, w *world, d *script, s shot) {
			got, sent, noted := document[decided](t, s), d.decisions[0], w.state("decision")
			if got.Known != "reply" || got.Verdict != "accepted" || got.ActionID != "act_a" || got.DecisionID != sent.DecisionID {
				t.Errorf("%+v", got)
			}
			if sent.Decision != "approved" || sent.PolicyHash != "cc" || sent.Reason != "because" || sent.Approver.ID != "human:dana" || sent.Approver.Kind != "human" {
				t.Errorf("posted %+v", sent)
			}
			if len(noted) != 1 || noted[0].Decision.DecisionID != sent.DecisionID || noted[0].Decision.Decision != "approve" || noted[0].ActionID != "act_a" {
				t.Errorf("recorded %+v", noted)
			}
		}},
		{row: "deny denied", play: &script{view: shows(request{}, request{}, request{status: "denied", result: `{"action_id":"act_a","status":"failed","error":{"code":"policy.approval_denied","category":"policy"}}`}), decide: granted("aip.approval.denied")}, check: func(t *testing.T, w *world, d *script, s shot) {
			if got := document[decided](t, s); got.Verdict != "rejected" || got.Status != "denied" || d.decisions[0].Decision != "denied" {
				t.Errorf("%+v, posted %+v", got, d.decisions)
			}
		}},
		{row: "approve vote", play: &script{view: shows(request{}), decide: granted("aip.approval.vote_recorded")}, check: func(t *testing.T, _ *world, _ *script, s shot) {
			if got := document[decided](t, s); got.Known != "vote" || got.Status != "pending" {
				t.Errorf("%+v", got)
			}
		}},
		{row: "approve action-failed", play: &script{
			view: shows(request{}, request{}, request{status: "approved", decision: `{"decision":"approved"}`, result: `{"action_id":"act_a","status":"failed","error":{"code":"connector.hermes_agent.remote_rejected","details":{"remote_status":404}}}`}),
			// The handler's error is the answer to who runs it, not to the decision.
			decide: always(refusal(400, "connector.hermes_agent.remote_rejected", "permanent", false, `{"remote_status":404}`)),
		}, check: func(t *testing.T, _ *world, _ *script, s shot) {
			if got := document[decided](t, s); got.Verdict != "not_found" {
				t.Errorf("%+v", got)
			}
		}},
		{row: "approve expired", play: &script{view: shows(request{expires: "2020-01-01T00:00:00Z"})}},
		{row: "approve expired-there", play: &script{view: shows(request{}, request{}, request{status: "expired"}), decide: always(refusal(401, "auth.not_authorized", "auth", false, ""))}, check: says("expired")},
		{row: "approve own", play: &script{view: shows(request{requester: "human:dana"})}, check: says("human:dana is who asks")},
		{row: "approve own-allowed", play: &script{
			view:   shows(request{requester: "human:dana", policy: `"separation_of_duties":{"requester_must_differ":false,"allow_self_approval":true}`}, request{requester: "human:dana", policy: `"separation_of_duties":{"requester_must_differ":false,"allow_self_approval":true}`}, request{status: "approved", result: deleted}),
			decide: granted("aip.approval.granted"),
		}},
		{row: "approve hash-changed", play: &script{view: shows(request{})}, setup: func(t *testing.T, w *world) { w.told(t, "other", "aa") }, check: says("policy hash")},
		{row: "approve input-changed", play: &script{view: shows(request{})}, setup: func(t *testing.T, w *world) { w.told(t, "cc", "other") }, check: says("hash of the input")},
		{row: "approve changed-while-asked", play: &script{view: shows(request{}, request{inputHash: "bb"})}, check: says("no longer the one that was shown")},
		{row: "approve decided", play: &script{view: shows(request{status: "denied", decision: `{"decision":"denied","decision_id":"theirs","approver":{"id":"human:kim","kind":"human"}}`})}, check: says("denied by human:kim")},
		{row: "approve decided-meanwhile", play: &script{
			view:   shows(request{}, request{}, request{status: "approved", decision: `{"decision":"approved","decision_id":"theirs","approver":{"id":"human:kim","kind":"human"}}`}),
			decide: always(refusal(403, "policy.approval_not_pending", "policy", false, "")),
		}, check: says("approved by human:kim")},
		{row: "approve reply-lost", play: &script{view: shows(request{}, request{}, request{}, request{status: "approved", result: deleted}), decide: always(answer{})}, check: func(t *testing.T, _ *world, _ *script, s shot) {
			if got := document[decided](t, s); got.Known != "read_back" || got.Verdict != "accepted" {
				t.Errorf("%+v", got)
			}
		}},
		{row: "approve reply-lost-unrecorded", play: &script{view: shows(request{}), decide: always(answer{})}, check: func(t *testing.T, w *world, d *script, s shot) {
			says(`"approval","get"`)(t, w, d, s)
			if strings.Contains(s.stderr, `"approve"`) {
				t.Errorf("the way on is another decision:\n%s", s.stderr)
			}
		}},
		{row: "approve reason-missing", play: &script{view: shows(request{policy: `"evidence_requirements":["reason"]`})}, args: []string{"--as", "human:dana", "--yes"}, check: says("--reason")},
		{row: "deny reason-missing", play: &script{view: shows(request{policy: `"evidence_requirements":["reason"]`})}, args: []string{"--as", "human:dana", "--yes", "--reason", " "}, check: says("--reason")},
		{row: "approve nobody", play: &script{view: shows(request{})}, args: []string{"--yes"}, check: says("--as KIND:ID")},
		{row: "approve not-confirmed", play: &script{view: shows(request{})}, args: []string{"--as", "human:dana", "--reason", "because"}, check: says("--yes")},
		{row: "approve not-authorised", play: &script{view: shows(request{}), decide: always(refusal(401, "auth.not_authorized", "auth", false, ""))}, check: says("human:dana")},
		{row: "approve token-refused", play: &script{view: func(int) answer { return refusal(401, "auth.native_http_unauthorized", "auth", false, "") }}},
		{row: "approve unknown", play: &script{view: func(int) answer { return refusal(400, "approval.not_found", "permanent", false, "") }}},
		{row: "get unknown", play: &script{view: func(int) answer { return refusal(400, "approval.not_found", "permanent", false, "") }}, args: []string{}},
		{row: "list token-refused", play: &script{list: refusal(401, "auth.native_http_unauthorized", "auth", false, "")}, args: []string{}},
		{row: "approve clock", play: &script{view: shows(request{}), decide: always(refusal(401, "replay.message_id", "auth", false, ""))}, setup: func(_ *testing.T, w *world) {
			w.now = func() time.Time { return time.Now().Add(-10 * time.Minute) }
		}, check: says("clock")},
	} {
		t.Run(tc.row, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if tc.setup != nil {
				tc.setup(t, w)
			}
			d := serveScript(t, tc.play)
			verb, _, _ := strings.Cut(tc.row, " ")
			args := []string{"approval", verb, d.URL}
			if verb != "list" {
				args = append(args, "appr_a")
			}
			more := tc.args
			if more == nil {
				more = []string{"--as", "human:dana", "--reason", "because", "--yes"}
			}
			s := w.run(append(append(args, more...), "-o", "json")...)
			tab.holds(t, tc.row, s, d.decided())
			if s.code != 0 && s.stdout != "" {
				t.Errorf("stdout %q of a command that decided nothing", s.stdout)
			}
			if s.code == 2 || s.code == 12 && d.decided() == 0 {
				if n := len(w.state("decision")); n != 0 {
					t.Errorf("%d decisions are recorded that were not posted", n)
				}
			}
			if tc.check != nil {
				tc.check(t, w, d, s)
			}
		})
	}
	t.Run("no daemon", func(t *testing.T) {
		w := newWorld(t)
		const away = "http://127.0.0.1:1"
		tab.holds(t, "approve no-daemon", w.run("approval", "approve", away, "appr_a", "--as", "human:dana", "--yes"), 0)
		tab.holds(t, "list no-daemon", w.run("approval", "list", away), 0)
	})
	t.Run("repeated", func(t *testing.T) {
		// The id of the first attempt is kept, and a second one sends the same.
		w := newWorld(t)
		first := serveScript(t, &script{view: shows(request{}), decide: always(answer{})})
		approve := func(d *script) shot {
			return w.run("approval", "approve", d.URL, "appr_a", "--as", "human:dana", "--yes", "-o", "json")
		}
		if s := approve(first); s.code != 9 {
			t.Fatalf("exit code %d; stderr:\n%s", s.code, s.stderr)
		}
		id := first.decisions[0].DecisionID
		held := serveScript(t, &script{view: shows(request{status: "approved", decision: `{"decision":"approved","decision_id":"` + id + `","approver":{"id":"human:dana","kind":"human"}}`, result: deleted})})
		s := approve(held)
		tab.holds(t, "approve repeated", s, held.decided())
		if got := document[decided](t, s); got.Known != "earlier" || got.DecisionID != id {
			t.Errorf("%+v", got)
		}
		never := serveScript(t, &script{view: shows(request{}, request{}, request{status: "approved", result: deleted}), decide: granted("aip.approval.granted")})
		if s := approve(never); s.code != 0 || never.decisions[0].DecisionID != id || len(w.state("decision")) != 1 {
			t.Errorf("exit code %d, posted %+v, recorded %d", s.code, never.decisions, len(w.state("decision")))
		}
	})
}

// Runs at one time record a decision each, and the daemon takes one of them. Any
// of them that it took was taken, whichever stands last in the state file.
func TestDecisionThatOneOfSeveralRunsMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	taken := "dec_" + strings.Repeat("1", 32)
	var content strings.Builder
	for i, id := range []string{taken, "dec_" + strings.Repeat("2", 32)} {
		fmt.Fprintf(&content, `{"v":1,"id":"%032d","type":"decision","at":"2030-01-15T12:00:0%dZ","action_id":"act_a","decision":{"approval_id":"appr_a","decision_id":%q,"decision":"approve","approver":"human:dana"}}`+"\n", i, i, id)
	}
	file := filepath.Join(t.TempDir(), "state.jsonl")
	if err := os.WriteFile(file, []byte(content.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	w.env["AIPCTL_STATE"] = file
	d := serveScript(t, &script{view: shows(request{status: "approved", decision: `{"decision":"approved","decision_id":"` + taken + `","approver":{"id":"human:dana","kind":"human"}}`, result: deleted})})
	s := w.run("approval", "approve", d.URL, "appr_a", "--as", "human:dana", "--yes", "-o", "json")
	if s.code != 0 || d.decided() != 0 {
		t.Fatalf("exit code %d, %d posts; stderr:\n%s", s.code, d.decided(), s.stderr)
	}
	if got := document[decided](t, s); got.Known != "earlier" || got.DecisionID != taken {
		t.Errorf("%+v", got)
	}
}

// says checks what stderr says.
func says(what string) func(*testing.T, *world, *script, shot) {
	return func(t *testing.T, _ *world, _ *script, s shot) {
		t.Helper()
		if !strings.Contains(s.stderr, what) {
			t.Errorf("stderr does not say %q:\n%s", what, s.stderr)
		}
	}
}

func TestApprovalsAreListedAndShown(t *testing.T) {
	t.Parallel()
	id := devserver.SeededResponses()["completed"]
	d, w := governed(t, devserver.Options{})
	o := document[outcome](t, w.remove(d.URL, id, "--endpoint", "delete"))
	approver := other(t)

	s := approver.run("approval", "list", d.URL)
	if s.code != 0 || !strings.HasPrefix(s.stdout, "pending ") || !strings.Contains(s.stdout, o.ApprovalID) || !strings.Contains(s.stdout, "left 1") {
		t.Errorf("exit code %d, stdout %q; stderr:\n%s", s.code, s.stdout, s.stderr)
	}
	type entry struct {
		ApprovalID string          `json:"approval_id"`
		Status     string          `json:"status"`
		AgeMS      *int64          `json:"age_ms"`
		LeftMS     *int64          `json:"left_ms"`
		Risk       string          `json:"risk"`
		Input      json.RawMessage `json:"input"`
		Evidence   []struct {
			Kind, Hash string
		} `json:"evidence"`
		Events []struct {
			Kind string `json:"kind"`
		} `json:"events"`
	}
	list := document[struct {
		Approvals []entry `json:"approvals"`
	}](t, approver.run("approval", "list", d.URL, "-o", "json"))
	if len(list.Approvals) != 1 || list.Approvals[0].Status != "pending" || list.Approvals[0].AgeMS == nil || *list.Approvals[0].LeftMS < int64(14*time.Minute/time.Millisecond) {
		t.Errorf("%+v", list)
	}

	got := document[entry](t, approver.run("approval", "get", d.URL, o.ApprovalID, "-o", "json"))
	if got.Risk != "high" || len(got.Evidence) == 0 || got.Evidence[0].Hash == "" {
		t.Errorf("%+v", got)
	}
	own := w.run("approval", "get", d.URL, o.ApprovalID, "-o", "json")
	mine := document[entry](t, own)
	if len(mine.Input) != 0 || strings.Contains(own.stdout, id) {
		t.Errorf("the submitter's token has no scope for the input, and it is shown: %s", own.stdout)
	}
	if !slices.ContainsFunc(mine.Events, func(e struct {
		Kind string `json:"kind"`
	}) bool {
		return e.Kind == "aip.approval.requested"
	}) {
		t.Errorf("the events of the action are %+v", mine.Events)
	}
	for _, want := range []string{"evidence", "input_snapshot", "risk", "time left", "deletes a stored response"} {
		if s := approver.run("approval", "get", d.URL, o.ApprovalID); !strings.Contains(s.stdout, want) {
			t.Errorf("approval get does not show %q:\n%s", want, s.stdout)
		}
	}
}

// A person is shown what is to be decided, and asked.
func TestApproverIsAsked(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		typed string
		exit  int
		posts int
	}{{"y\n", 0, 1}, {"n\n", 2, 0}, {"", 2, 0}} {
		w := newWorld(t)
		w.terminal, w.stdin = true, tc.typed
		d := serveScript(t, &script{view: shows(request{}, request{}, request{status: "approved", result: deleted}), decide: granted("aip.approval.granted")})
		s := w.run("approval", "approve", d.URL, "appr_a", "--as", "human:dana")
		if s.code != tc.exit || d.decided() != tc.posts {
			t.Errorf("%q: exit code %d after %d decisions; stderr:\n%s", tc.typed, s.code, d.decided(), s.stderr)
		}
		for _, want := range []string{"approve cap:hermes_agent:lab:response_delete for service:edge", "[y/N]", "input_snapshot aa", "runs the action inside this call", "human:dana"} {
			if !strings.Contains(s.stderr, want) {
				t.Errorf("%q is not shown before the question:\n%s", want, s.stderr)
			}
		}
	}
}

// The rules of the embedded daemon, which were written apart from this client.
func TestDecisionsAtTheEmbeddedDaemon(t *testing.T) {
	t.Parallel()
	id := devserver.SeededResponses()["completed"]
	for _, tc := range []struct {
		name  string
		codes bool
	}{{"one code for all refusals", false}, {"a code for each rule", true}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d, w := governed(t, devserver.Options{PolicyCodes: tc.codes})
			o := document[outcome](t, w.remove(d.URL, id, "--endpoint", "delete"))
			decide := func(w *world, as string) shot {
				return w.run("approval", "approve", d.URL, o.ApprovalID, "--as", as, "--reason", "because", "--yes")
			}
			requester := devserver.Requester()
			if s := decide(w, requester.Kind+":"+requester.ID); s.code != 12 || !strings.Contains(s.stderr, "may not give it") {
				t.Errorf("self-approval: exit code %d; stderr:\n%s", s.code, s.stderr)
			}
			if n := posts(d, `"approval_decision"`); n != 0 {
				t.Errorf("self-approval was posted %d times", n)
			}
			// Another name does not help: the daemon knows whose token it is.
			if s := decide(w, "human:somebody:else"); s.code != 4 {
				t.Errorf("the wrong token: exit code %d, want 4; stderr:\n%s", s.code, s.stderr)
			}
			if s := decide(other(t), as()); s.code != 0 || !strings.Contains(s.stdout, "accepted") {
				t.Errorf("the approver: exit code %d, stdout %s; stderr:\n%s", s.code, s.stdout, s.stderr)
			}
			if s := decide(other(t), as()); s.code != 12 {
				t.Errorf("once more: exit code %d, want 12; stderr:\n%s", s.code, s.stderr)
			}
		})
	}
}
