package e2estored_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/aipctl/aipctl/internal/devserver"
	"github.com/aipctl/aipctl/internal/fault"
)

// A stored response reconciles what a person knows, and changes no verdict.
func TestStoredResponseMakesNoActionAccepted(t *testing.T) {
	t.Parallel()
	d, w := embedded(t, devserver.Options{}), newWorld(t)
	s := w.run("action", "call", d.URL, "responses_stream", "--endpoint", "responses-upstream-close", "--prompt", "n", "-o", "json")
	o := document[outcome](t, s)
	if s.code != 9 || o.ResponseID == "" {
		t.Fatalf("exit code %d, %+v; stderr:\n%s", s.code, o, s.stderr)
	}
	got := w.run("response", "get", d.URL, o.ResponseID, "-o", "json")
	if r := document[outcome](t, got); r.Stored == nil || r.Stored.Status == "" || r.ActionID == o.ActionID {
		t.Errorf("exit code %d, %+v; stderr:\n%s", got.code, r, got.stderr)
	}
	if again := w.run("action", "result", d.URL, o.ActionID); again.code != 9 {
		t.Errorf("the action is judged anew: exit code %d, want 9; stderr:\n%s", again.code, again.stderr)
	}
	probes := w.state("probe")
	if len(probes) != 1 || probes[0].Probe.ParentActionID != o.ActionID {
		t.Errorf("the read is recorded as %+v, want a probe of %s", probes, o.ActionID)
	}
}

// The waiting for an answer can be bounded; the decision stays posted once.
func TestApproverStopsWaiting(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		rule string
		view request // after the post
		exit int
	}{
		{"the record has it meanwhile", request{status: "approved"}, 0},
		{"the record does not have it", request{}, 9},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			t.Parallel()
			release := make(chan struct{})
			d, w := serveScript(t, &script{view: shows(request{}, request{}, tc.view), decide: func(int, decision) answer { <-release; return answer{} }}), newWorld(t)
			t.Cleanup(func() { close(release) }) // before the daemon waits for its handlers
			s := w.run("approval", "approve", d.URL, "appr_a", "--as", "human:dana", "--yes", "--wait", "200ms")
			if s.code != tc.exit || d.decided() != 1 {
				t.Errorf("exit code %d after %d decisions, want %d after one; stderr:\n%s", s.code, d.decided(), tc.exit, s.stderr)
			}
		})
	}
	t.Run("a signal", func(t *testing.T) {
		t.Parallel()
		release := make(chan struct{})
		d, w := serveScript(t, &script{view: shows(request{}), decide: func(int, decision) answer { <-release; return answer{} }}), newWorld(t)
		t.Cleanup(func() { close(release) }) // before the daemon waits for its handlers
		ctx, interrupt := context.WithCancelCause(t.Context())
		go func() {
			for until := time.Now().Add(patience); d.decided() == 0 && time.Now().Before(until); {
				time.Sleep(time.Millisecond)
			}
			interrupt(fault.New(fault.Interrupt, "signal", "interrupted"))
		}()
		s := w.runContext(ctx, "approval", "approve", d.URL, "appr_a", "--as", "human:dana", "--yes")
		if s.code != 130 || !strings.Contains(s.stderr, "may be recorded") || !strings.Contains(s.stderr, "approval get "+d.URL+" appr_a") {
			t.Errorf("exit code %d; stderr:\n%s", s.code, s.stderr)
		}
	})
}

// What stands in a record, a receipt or a stored response drives no terminal.
func TestHostileWordsDriveNoTerminal(t *testing.T) {
	t.Parallel()
	const evil = "\x1b[2J\x1b]52;c;QUFB\x07\u009b31m\u202e\x00\r\x08\U000e0041"
	q, err := json.Marshal("seen" + evil)
	if err != nil {
		t.Fatal(err)
	}
	word := string(q)
	principal := `{"id":` + word + `,"kind":` + word + `}`
	view := fmt.Sprintf(`{"request":{"id":"appr_a","action_id":"act_a","capability_id":%[1]s,"requester":%[2]s,"subject":%[2]s,"operator":%[2]s,`+
		`"approver_selector":{"type":%[1]s,"name":%[1]s},"reason":%[1]s,"risk":%[1]s,"evidence":[{"id":%[1]s,"kind":%[1]s,"hash":%[1]s}],"expires_at":%[1]s,"policy_hash":%[1]s,`+
		`"policy_snapshot":{"evidence_requirements":[%[1]s]}},"status":"pending","created_at":%[1]s,"updated_at":%[1]s,`+
		`"decision":{"decision":%[1]s,"decision_id":%[1]s,"approver":%[2]s,"decided_at":%[1]s},`+
		`"action_status":{"state":%[1]s,"result":{"action_id":"act_a","status":%[1]s,"error":{"code":%[1]s}}},"evidence_payload":{"input":{"x":%[1]s}}}`, word, principal)
	record := answer{0, `{"approval_record_view":` + view + `}`}
	d := serveScript(t, &script{
		view: func(int) answer { return record }, list: answer{0, `{"approval_list":{"approvals":[` + view + `]}}`}, decide: granted("aip.approval.granted"),
		events: `{"id":` + word + `,"kind":` + word + `,"occurred_at":` + word + `,"action_id":"act_a","data":{"x":` + word + `}}`,
		act: func(_ int, a action) answer {
			if strings.HasSuffix(a.CapabilityID, ":response_delete") {
				return result(`{"action_id":%q,"status":"completed","output":{"id":%s,"object":%s,"deleted":true}}`, a.ID, word, word)
			}
			return result(`{"action_id":%q,"status":"completed","output":{"id":"resp_a","object":"response","status":%s,"output":[{"type":"message","content":[{"type":"output_text","text":%s}]},`+
				`{"type":"function_call","name":%s,"call_id":%s}],"error":{"type":%s,"code":%s,"message":%s}}}`, a.ID, word, word, word, word, word, word, word)
		},
	})
	for _, args := range [][]string{
		{"approval", "list", d.URL},
		{"approval", "get", d.URL, "appr_a"},
		{"approval", "approve", d.URL, "appr_a", "--as", "human:dana", "--yes"},
		{"approval", "approve", d.URL, "appr_a", "--as", "human:dana"},
		{"response", "get", d.URL, "resp_a", "--endpoint", "lab"},
		{"response", "delete", d.URL, "resp_a", "--endpoint", "lab", "--yes"},
	} {
		for _, form := range []string{"text", "jsonl"} {
			w := newWorld(t)
			w.terminal = args[0] == "approval" // which has no status line of our own
			s := w.run(append(slices.Clone(args), "-o", form, "--color", "never")...)
			if !strings.Contains(s.stdout+s.stderr, "seen") {
				t.Errorf("%v: the words are not shown, so nothing is tested; exit code %d, stderr:\n%s", args, s.code, s.stderr)
			}
			streams := map[string]string{"stdout": s.stdout}
			if form == "text" {
				streams["stderr"] = s.stderr
			}
			for name, out := range streams {
				for _, r := range out {
					if r != '\n' && (unicode.IsControl(r) || r == '\u202e') {
						t.Errorf("%v: %s as %s passes %q on: %q", args, name, form, r, out)
						break
					}
				}
			}
		}
	}
}

// A caller that was killed before its answer knows the intent and nothing more.
// The events of the action tell which approval it waits for.
func TestApprovalWhoseAnswerWasLost(t *testing.T) {
	t.Parallel()
	d, w := governed(t, devserver.Options{})
	asked := document[outcome](t, w.remove(d.URL, devserver.SeededResponses()["completed"], "--endpoint", "delete"))
	content, err := os.ReadFile(w.env["AIPCTL_STATE"])
	if err != nil {
		t.Fatal(err)
	}
	intent, _, _ := strings.Cut(string(content), "\n")
	if err := os.WriteFile(w.env["AIPCTL_STATE"], []byte(intent+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := w.run("action", "result", d.URL, asked.ActionID, "-o", "json")
	o, approvals := document[outcome](t, s), w.state("approval")
	if s.code != 8 || o.ApprovalID != asked.ApprovalID || len(o.Approve) < 5 || o.Approve[4] != asked.ApprovalID {
		t.Errorf("exit code %d, approval %q, approver's command %q; want %q", s.code, o.ApprovalID, o.Approve, asked.ApprovalID)
	}
	if len(approvals) != 1 || approvals[0].Approval.ApprovalID != asked.ApprovalID {
		t.Errorf("recorded: %+v", approvals)
	}
}
