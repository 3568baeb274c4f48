package e2estored_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aipctl/aipctl/internal/devserver"
)

const (
	submitterToken = "token-of-the-submitter"
	approverToken  = "token-of-the-approver"
)

// governed is an embedded daemon with two principals, and a world whose
// environment has the submitter's token.
func governed(t testing.TB, opts devserver.Options) (*daemon, *world) {
	t.Helper()
	opts.Token, opts.ApproverToken = submitterToken, approverToken
	w := newWorld(t)
	w.env["AIP_TOKEN"] = submitterToken
	return embedded(t, opts), w
}

// other is a world of its own whose environment has the approver's token.
func other(t testing.TB) *world {
	w := newWorld(t)
	w.env["AIP_TOKEN"] = approverToken
	return w
}

// as names who decides at an embedded daemon.
func as() string { return devserver.Approver().Kind + ":" + devserver.Approver().ID }

// remove submits a deletion.
func (w *world) remove(d string, id string, more ...string) shot {
	w.t.Helper()
	return w.run(append([]string{"response", "delete", d, id, "--yes", "-o", "json"}, more...)...)
}

func TestDeletionFromRequestToReceipt(t *testing.T) {
	t.Parallel()
	tab := loadTable(t, "responses.tsv", "delete")
	id := devserver.SeededResponses()["completed"]

	t.Run("the whole way", func(t *testing.T) {
		d, w := governed(t, devserver.Options{})
		tab.holds(t, "delete not-confirmed", w.run("response", "delete", d.URL, id, "--endpoint", "delete"), d.count())
		if n := len(w.state("intent")); n != 0 {
			t.Errorf("%d intents of a deletion that nobody confirmed", n)
		}
		s := w.remove(d.URL, id, "--endpoint", "delete")
		tab.holds(t, "delete pending", s, d.count())
		o := document[outcome](t, s)
		intents, approvals := w.state("intent"), w.state("approval")
		if len(intents) != 1 || len(intents[0].Intent.IdempotencyKey) != 32 || intents[0].Intent.ResponseID != id {
			t.Fatalf("intents %+v, want one with a key of 128 bits", intents)
		}
		if len(approvals) != 1 || approvals[0].Approval.ApprovalID != o.ApprovalID || approvals[0].Approval.PolicyHash == "" || approvals[0].Approval.InputHash == "" {
			t.Fatalf("approvals %+v, want the one of the outcome %q with its hashes", approvals, o.ApprovalID)
		}
		if len(o.Approve) < 5 || !slices.Equal(o.Approve[1:5], []string{"approval", "approve", d.URL, o.ApprovalID}) || slices.Contains(o.Approve, submitterToken) {
			t.Errorf("the approver's command is %v", o.Approve)
		}
		for _, argv := range o.Next {
			if slices.Contains(argv, "call") || slices.Contains(argv, "delete") {
				t.Errorf("next is a submission: %v", argv)
			}
		}

		// The daemon's count proves it: a second one does not leave.
		second := w.run("response", "delete", d.URL, id, "--endpoint", "delete", "--yes")
		tab.holds(t, "delete second", second, d.count())
		if !strings.Contains(second.stderr, o.ActionID) {
			t.Errorf("the refusal does not name the original:\n%s", second.stderr)
		}

		// The approver's command works as it stands, its words filled in.
		file := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(file, []byte(approverToken), 0o600); err != nil {
			t.Fatal(err)
		}
		argv := slices.Clone(o.Approve[1:])
		for i, word := range argv {
			switch word {
			case "FILE":
				argv[i] = file
			case "KIND:ID":
				argv[i] = as()
			case "TEXT":
				argv[i] = "retention period is over"
			}
		}
		approver := newWorld(t)
		if s := approver.run(append(argv, "--yes")...); s.code != 0 || d.count() != 1 {
			t.Fatalf("approve: exit code %d; stdout %s\nstderr:\n%s", s.code, s.stdout, s.stderr)
		}

		s = w.run("action", "result", d.URL, o.ActionID, "-o", "json")
		if got := document[outcome](t, s); s.code != 0 || got.Receipt == nil || !got.Receipt.Deleted || got.Receipt.ResponseID != id {
			t.Errorf("the result: exit code %d, %+v; stderr:\n%s", s.code, got, s.stderr)
		}
		decided := approver.state("decision")
		settled := w.state("settled")
		audit := settled[len(settled)-1].Settled
		if audit.Verdict != "accepted" || audit.Receipt == nil || audit.Receipt.ApprovalID != o.ApprovalID || len(decided) != 1 || audit.Receipt.DecisionID != decided[0].Decision.DecisionID {
			t.Errorf("the audit record is %+v, the decision %+v", audit.Receipt, decided)
		}
		shown := w.run("state", "show", o.ActionID)
		for _, want := range []string{id, o.ApprovalID, decided[0].Decision.DecisionID, "deleted"} {
			if !strings.Contains(shown.stdout, want) {
				t.Errorf("state show does not show %s:\n%s", want, shown.stdout)
			}
		}
		d.count()
		if s := w.run("response", "get", d.URL, id, "--endpoint", "delete"); s.code != 13 {
			t.Errorf("reading it afterwards: exit code %d, want 13; stderr:\n%s", s.code, s.stderr)
		}
		d.count()
		if s := w.run("response", "delete", d.URL, id, "--endpoint", "delete", "--yes"); s.code != 2 || d.count() != 0 {
			t.Errorf("deleting it again: exit code %d, want 2 and nothing posted", s.code)
		}
	})

	t.Run("waited for", func(t *testing.T) {
		t.Parallel()
		d, w := governed(t, devserver.Options{})
		done := make(chan shot)
		go func() { done <- w.remove(d.URL, id, "--endpoint", "delete", "--wait", "30s") }()
		decideWhenAsked(t, d, "approve")
		s := <-done
		tab.holds(t, "delete waited", s, posts(d, `"action"`))
		if o := document[outcome](t, s); o.Verdict != "accepted" || o.Receipt == nil || o.Receipt.DecisionID == "" {
			t.Errorf("%+v", o)
		}
	})

	t.Run("denied, and asked for again", func(t *testing.T) {
		t.Parallel()
		d, w := governed(t, devserver.Options{})
		done := make(chan shot)
		go func() { done <- w.remove(d.URL, id, "--endpoint", "delete", "--wait", "30s") }()
		decideWhenAsked(t, d, "deny")
		s := <-done
		tab.holds(t, "delete denied", s, posts(d, `"action"`))
		d.count()
		tab.holds(t, "delete second-after-denial", w.remove(d.URL, id, "--endpoint", "delete"), d.count())
	})

	t.Run("expired", func(t *testing.T) {
		t.Parallel()
		d, w := governed(t, devserver.Options{ApprovalTTL: 50 * time.Millisecond})
		tab.holds(t, "delete expired", w.remove(d.URL, id, "--endpoint", "delete", "--wait", "30s"), d.count())
	})

	for row, endpoint := range map[string]string{"delete receipt-other-id": "delete-wrong-id", "delete receipt-not-deleted": "delete-not-deleted", "delete provider-503": "delete-answer-lost"} {
		t.Run(row, func(t *testing.T) {
			t.Parallel()
			d, w := governed(t, devserver.Options{})
			done := make(chan shot)
			go func() { done <- w.remove(d.URL, id, "--endpoint", endpoint, "--wait", "30s") }()
			decideWhenAsked(t, d, "approve")
			s := <-done
			tab.holds(t, row, s, posts(d, `"action"`))
			onlyReads(t, document[outcome](t, s))
		})
	}

	t.Run("answers no daemon should give", func(t *testing.T) {
		receipt := func(output string) func(int, action) answer {
			return func(_ int, a action) answer {
				return result(`{"action_id":%q,"status":"completed","output":%s}`, a.ID, output)
			}
		}
		always := func(a answer) func(int, action) answer { return func(int, action) answer { return a } }
		for row, act := range map[string]func(int, action) answer{
			"delete receipt-other-object": receipt(`{"id":"resp_a","object":"conversation","deleted":true}`),
			"delete receipt-silent":       receipt(`{"id":"resp_a","object":"response"}`),
			"delete replayed":             always(result(`{"action_id":"act_first","status":"completed","output":{"id":"resp_a","object":"response","deleted":true,"idempotent_replay":true}}`)),
			"delete gone":                 always(refusal(400, "connector.hermes_agent.remote_rejected", "permanent", false, `{"remote_status":404,"uncertain_outcome":false}`)),
			"delete endpoint-401":         always(refusal(401, "connector.hermes_agent.authentication", "auth", false, `{"remote_status":401,"uncertain_outcome":false}`)),
		} {
			t.Run(row, func(t *testing.T) {
				t.Parallel()
				d, w := serveScript(t, &script{act: act}), newWorld(t)
				s := w.remove(d.URL, "resp_a", "--endpoint", "lab")
				tab.holds(t, row, s, d.submitted())
				o := document[outcome](t, s)
				onlyReads(t, o)
				if row == "delete replayed" {
					if o.ReplayOf != "act_first" || !slices.ContainsFunc(o.Warnings, func(w struct {
						Code string `json:"code"`
					}) bool {
						return w.Code == "idempotent.replay"
					}) {
						t.Errorf("a replay is not said to be one: %+v", o)
					}
					if rec := w.state("settled"); len(rec) != 1 || rec[0].Settled.ReplayOf != "act_first" {
						t.Errorf("settled %+v", rec)
					}
				}
			})
		}
	})

	t.Run("the reply is lost", func(t *testing.T) {
		t.Parallel()
		d, w := serveScript(t, &script{act: func(int, action) answer { return answer{} }}), newWorld(t)
		s := w.remove(d.URL, "resp_a", "--endpoint", "lab", "--wait", "1s")
		tab.holds(t, "delete lost-reply", s, d.submitted())
		o := document[outcome](t, s)
		onlyReads(t, o)
		if !slices.ContainsFunc(o.Next, func(argv []string) bool {
			return slices.Contains(argv, "response") && slices.Contains(argv, "get") && slices.Contains(argv, "resp_a")
		}) {
			t.Errorf("next does not read the response: %v", o.Next)
		}
		if s := w.remove(d.URL, "resp_a", "--endpoint", "lab"); s.code != 2 || d.submitted() != 1 {
			t.Errorf("deleting it again: exit code %d after %d submits", s.code, d.submitted())
		}
	})

	t.Run("killed between intent and answer", func(t *testing.T) {
		t.Parallel()
		release := make(chan struct{})
		d, w := serveScript(t, &script{act: func(int, action) answer { <-release; return answer{} }}), newWorld(t)
		t.Cleanup(func() { close(release) })
		state := w.env["AIPCTL_STATE"]
		p := exec.Command("aipctl", "response", "delete", d.URL, "resp_a", "--endpoint", "lab", "--yes", "--state", state)
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		for until := time.Now().Add(patience); d.submitted() == 0 && time.Now().Before(until); {
			time.Sleep(time.Millisecond)
		}
		_ = p.Process.Kill()
		_ = p.Wait()
		if n := len(w.state("intent")); n != 1 || d.submitted() != 1 || len(w.state("settled")) != 0 {
			t.Fatalf("%d intents, %d submits and %d ends are there when the process was killed", n, d.submitted(), len(w.state("settled")))
		}
		s := w.remove(d.URL, "resp_a", "--endpoint", "lab")
		tab.holds(t, "delete killed", s, d.submitted()-1)
	})
}

// onlyReads fails where a way on would submit anything.
func onlyReads(t testing.TB, o outcome) {
	t.Helper()
	for _, argv := range o.Next {
		if slices.Contains(argv, "call") || slices.Contains(argv, "delete") || slices.Contains(argv, "approve") {
			t.Errorf("next is no reading: %v", argv)
		}
	}
}

// decideWhenAsked decides about the one approval that comes up.
func decideWhenAsked(t testing.TB, d *daemon, verb string) {
	t.Helper()
	w := other(t)
	for until := time.Now().Add(patience); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		s := w.run("approval", "list", d.URL, "--status", "pending", "-o", "jsonl", "--jq", ".approval_id")
		if id := strings.Trim(strings.TrimSpace(s.stdout), `"`); id != "" {
			if s := w.run("approval", verb, d.URL, id, "--as", as(), "--reason", "decided in a test", "--yes"); s.code != 0 {
				t.Errorf("%s: exit code %d; stderr:\n%s", verb, s.code, s.stderr)
			}
			return
		}
	}
	t.Error("no approval came up")
}

// posts counts the envelopes of one kind that were posted.
func posts(d *daemon, kind string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for _, body := range d.posts {
		if strings.Contains(body, `"body":{`+kind) {
			n++
		}
	}
	return n
}
