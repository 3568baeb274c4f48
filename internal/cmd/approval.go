package cmd

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/engine"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/identity"
	"github.com/aipctl/aipctl/internal/record"
	"github.com/aipctl/aipctl/internal/render"
	"github.com/aipctl/aipctl/internal/sanitize"
	"github.com/spf13/cobra"
)

func newApprovalCmd(r *run) *cobra.Command {
	return group("approval", "See what waits for a decision, and decide",
		"An action of high risk waits for somebody else to approve it. Its submitter gets\nan approval id (appr_…); whoever may decide does so with a token of their own.",
		newApprovalListCmd(r), newApprovalGetCmd(r), newDecideCmd(r, aip.ApprovalApproved), newDecideCmd(r, aip.ApprovalDenied))
}

// approvalArgs refuses what is not [URL] APPROVAL.
func approvalArgs(cmd *cobra.Command, args []string) error {
	return oneID(cmd, args, "the approval id", identity.ParseApprovalID)
}

func newApprovalListCmd(r *run) *cobra.Command {
	status := ""
	c := r.leaf(&cobra.Command{
		Use: "list [URL]",
		Args: func(cmd *cobra.Command, args []string) error {
			_, rest := takeURL(args)
			return argCount(cmd, rest, 0, 0, "")
		},
		RunE: func(cmd *cobra.Command, args []string) error { return r.listApprovals(cmd.Context(), args, status) },
	}, page{
		Purpose: "List the approvals that this token may see",
		About: `Lists approvals with their age and the time that is left to decide: pending ones
first, and of those the one that expires soonest. Times are counted by this
machine's clock.`,
		Never: "It never decides anything, and never reads the input of an action.",
		Examples: []example{
			{"what waits", "aipctl approval list --status pending"},
			{"the ids of what waits, for a script", "aipctl approval list --status pending -o jsonl --jq .approval_id"},
		},
		Exits: []exit{
			{fault.Accepted, "the list was read"},
			{fault.Unavailable, "the daemon was not reached"},
			{fault.Auth, "the token was refused, or may not read approvals"},
		},
		See: []string{"approval get", "approval approve", "help exit-codes"},
	})
	c.Flags().Var(maybeOf(&status, aip.ApprovalPending, aip.ApprovalApproved, aip.ApprovalDenied, aip.ApprovalExpired, aip.ApprovalRevoked), "status", "only those that stand so")
	return c
}

// daemonOf connects to the daemon that the arguments name.
func (r *run) daemonOf(args []string, do func(d *daemon, out *render.Renderer, rest []string) error) error {
	raw, rest := takeURL(args)
	out := r.renderer()
	d, err := r.connect(raw, out)
	if err != nil {
		return err
	}
	defer d.client.Close()
	return do(d, out, rest)
}

func (r *run) listApprovals(ctx context.Context, args []string, status string) error {
	return r.daemonOf(args, func(d *daemon, out *render.Renderer, _ []string) error {
		views, err := engine.ListApprovals(ctx, d.client, status)
		if err != nil {
			return err
		}
		doc := record.ApprovalDocument{Head: record.NewHead(record.TypeApprovals), Approvals: []record.ApprovalRecord{}}
		for _, v := range views {
			doc.Approvals = append(doc.Approvals, approvalRecord(v, r.Now()))
		}
		slices.SortStableFunc(doc.Approvals, soonest)
		if r.opts.output == "json" {
			return out.Record(doc)
		}
		for _, a := range doc.Approvals {
			if err := out.Record(a); err != nil {
				return err
			}
			if err := out.Line(approvalLine(a)); err != nil {
				return err
			}
		}
		if len(doc.Approvals) == 0 {
			out.Note(sanitize.Static("no approval that this token may see"))
		}
		return nil
	})
}

// soonest puts what waits first, by the time that is left, and the rest behind
// it, the latest first.
func soonest(a, b record.ApprovalRecord) int {
	left := func(x record.ApprovalRecord) int64 {
		if x.LeftMS == nil {
			return 1 << 62
		}
		return *x.LeftMS
	}
	waits := func(x record.ApprovalRecord) int {
		if x.Status == aip.ApprovalPending {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(waits(a), waits(b)), cmp.Compare(left(a), left(b)), strings.Compare(b.UpdatedAt, a.UpdatedAt), strings.Compare(a.ApprovalID, b.ApprovalID))
}

func approvalLine(a record.ApprovalRecord) sanitize.Text {
	t := sanitize.Format("%s  %s  age %s", sanitize.Line(pad(a.Status, 8)), sanitize.LineMax(a.ApprovalID, 130), since(a.AgeMS))
	if a.LeftMS != nil {
		t = sanitize.Format("%s  left %s", t, since(a.LeftMS))
	}
	return sanitize.Format("%s  %s  by %s", t, sanitize.LineMax(a.CapabilityID, 160), sanitize.LineMax(a.Requester.ID, 160))
}

// since shows a number of milliseconds as far as a person cares.
func since(ms *int64) sanitize.Text {
	if ms == nil {
		return sanitize.Static("unknown")
	}
	d := time.Duration(*ms) * time.Millisecond
	if d < 0 {
		return sanitize.Static("none")
	}
	return sanitize.Line(d.Round(time.Second).String())
}

// approvalRecord is the record of a view, with what this machine's clock adds.
func approvalRecord(v *aip.ApprovalView, now time.Time) record.ApprovalRecord {
	req := v.Request
	a := record.ApprovalRecord{
		Head: record.NewHead(record.TypeApproval), ApprovalID: req.ID, ActionID: req.ActionID, CapabilityID: req.CapabilityID, Status: v.Status,
		Requester: req.Requester, Subject: req.Subject, Operator: req.Operator, Approvers: req.Selector, Reason: req.Reason, Risk: req.Risk,
		CreatedAt: v.CreatedAt, UpdatedAt: v.UpdatedAt, ExpiresAt: req.ExpiresAt, PolicyHash: req.PolicyHash, Policy: req.Policy,
		Evidence: req.Evidence, Decision: v.Decision, Input: v.Input,
	}
	if v.Action != nil {
		a.ActionState = v.Action.State
	}
	a.AgeMS = between(v.CreatedAt, now, 1)
	if v.Status == aip.ApprovalPending {
		a.LeftMS = between(req.ExpiresAt, now, -1)
	}
	return a
}

// between counts milliseconds from a time of the daemon to now, or with sign -1
// from now to it; nil when it is no time.
func between(at string, now time.Time, sign int64) *int64 {
	t, err := time.Parse(time.RFC3339Nano, at)
	if err != nil {
		return nil
	}
	ms := sign * now.Sub(t).Milliseconds()
	return &ms
}

func newApprovalGetCmd(r *run) *cobra.Command {
	return r.leaf(&cobra.Command{
		Use:  "get [URL] APPROVAL",
		Args: approvalArgs, ValidArgsFunction: r.completeApproval,
		RunE: func(cmd *cobra.Command, args []string) error { return r.getApproval(cmd.Context(), args) },
	}, page{
		Purpose: "Show what an approval is about",
		About: `Shows the request, its risk, the hashes of its evidence, how it was decided, and
what the events of the action tell. The input of the action is shown only where
the scopes of the token reveal it (approval:export and approval:sensitive).`,
		Never: "It never decides anything.",
		Examples: []example{
			{"before a decision", "aipctl approval get appr_0198c0ffee"},
			{"whether it was decided", "aipctl approval get appr_0198c0ffee -o json --jq .status"},
		},
		Exits: []exit{
			{fault.Accepted, "the record was read"},
			{fault.Unavailable, "the daemon was not reached"},
			{fault.Auth, "the token was refused, or may not read approvals"},
			{fault.NotFound, "no such approval, or not for this token"},
		},
		See: []string{"approval approve", "approval deny", "action status", "help exit-codes"},
	})
}

func (r *run) getApproval(ctx context.Context, args []string) error {
	return r.daemonOf(args, func(d *daemon, out *render.Renderer, rest []string) error {
		v, err := engine.ReadApproval(ctx, d.client, rest[0])
		if err != nil {
			return err
		}
		a := approvalRecord(v, r.Now())
		page, err := d.client.Page(ctx, aip.EventsQuery{ActionID: a.ActionID, Kinds: aip.LifecycleKinds, Limit: 1000}, aip.Decoding{})
		if err != nil {
			out.Note(sanitize.Format("the events of the action cannot be read with this token: %s", sanitize.Line(err.Error())))
		} else {
			for _, e := range page.Events {
				a.Events = append(a.Events, record.Event{Head: record.NewHead(record.TypeEvent), ID: e.ID, Kind: e.Kind, OccurredAt: e.OccurredAt, Data: e.Data})
			}
		}
		if err := out.Record(a); err != nil {
			return err
		}
		fields := approvalFields(a)
		for _, e := range a.Events {
			fields = append(fields, render.Field{Name: sanitize.Static("event"), Value: sanitize.Format("%s  %s", sanitize.LineMax(e.OccurredAt, 40), sanitize.LineMax(e.Kind, 60))})
		}
		return out.Fields(fields...)
	})
}

// effects says in words what an operation that usually needs an approval does.
var effects = map[string]string{
	"response_delete": "deletes a stored response, with no way back",
	"run_approval":    "answers a question of a provider's run, which goes on with it",
	"session_delete":  "deletes a session, with no way back",
	"job_delete":      "deletes a job, with no way back",
}

// approvalFields are what a person looks at before a decision.
func approvalFields(a record.ApprovalRecord) []render.Field {
	field := func(name, value string) render.Field {
		return render.Field{Name: sanitize.Line(name), Value: sanitize.LineMax(value, 300)}
	}
	who := func(p *aip.Principal) string {
		if p == nil || p.ID == "" {
			return ""
		}
		return p.ID + " (" + p.Kind + ")"
	}
	capability, _ := identity.ParseCapability(a.CapabilityID)
	fields := []render.Field{
		field("approval", a.ApprovalID), field("status", a.Status), field("action", a.ActionID), field("state", a.ActionState),
		field("capability", a.CapabilityID), field("effect", effects[capability.Operation]), field("risk", a.Risk),
		field("requester", who(&a.Requester)), field("subject", who(&a.Subject)), field("operator", who(a.Operator)), field("approvers", a.Approvers),
		field("reason", a.Reason), field("created", a.CreatedAt), field("expires", a.ExpiresAt),
	}
	if a.AgeMS != nil {
		fields = append(fields, render.Field{Name: sanitize.Static("age"), Value: since(a.AgeMS)})
	}
	if a.LeftMS != nil {
		fields = append(fields, render.Field{Name: sanitize.Static("time left"), Value: since(a.LeftMS)})
	}
	fields = append(fields, field("policy hash", a.PolicyHash))
	if a.Policy != nil {
		fields = append(fields, field("evidence wanted", strings.Join(a.Policy.Requires, ", ")))
	}
	for _, e := range a.Evidence {
		fields = append(fields, field("evidence", strings.TrimSpace(e.Kind+" "+e.Hash)))
	}
	if len(a.Input) > 0 {
		fields = append(fields, field("input", string(a.Input)))
	}
	if d := a.Decision; d != nil {
		fields = append(fields, field("decision", strings.TrimSpace(d.Decision+" by "+d.Approver.ID+" "+d.DecidedAt)), field("decision id", d.DecisionID))
	}
	return fields
}
