package cmd

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/engine"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/identity"
	"github.com/aipctl/aipctl/internal/record"
	"github.com/aipctl/aipctl/internal/render"
	"github.com/aipctl/aipctl/internal/sanitize"
	"github.com/spf13/cobra"
)

// decideOptions are the flags of approval approve and approval deny.
type decideOptions struct {
	decision string
	reason   string
	as       string
}

func newDecideCmd(r *run, decision string) *cobra.Command {
	o := &decideOptions{decision: decision}
	p := approvePage
	verb := "approve"
	if decision == aip.ApprovalDenied {
		p, verb = denyPage, "deny"
	}
	c := r.leaf(&cobra.Command{
		Use:  verb + " [URL] APPROVAL --as KIND:ID [--reason TEXT]",
		Args: approvalArgs, ValidArgsFunction: r.completeApproval,
		RunE: func(cmd *cobra.Command, args []string) error { return r.decide(cmd.Context(), o, args) },
	}, p)
	c.Flags().StringVar(&o.reason, "reason", "", "why, as a `TEXT` for the daemon's record; some policies want one")
	c.Flags().StringVar(&o.as, "as", "", "who decides, as `KIND:ID`; the daemon compares it with the token (the principal of the context)")
	return c
}

// decideExits are the codes that both decisions share.
func decideExits() []exit {
	return []exit{
		{fault.Accepted, "the decision is recorded at the daemon, however the action ended"},
		{fault.Unavailable, "the daemon was not reached, and nothing was decided"},
		{fault.Auth, "the token, or who it belongs to, may not decide this"},
		{fault.Unknown, "the answer was lost, and the record does not hold the decision"},
		{fault.Rejected, "expired, decided already, changed, or a request of your own"},
		{fault.NotFound, "no such approval, or not for this token"},
		{fault.State, "the decision could not be recorded here; nothing was sent"},
	}
}

var approvePage = page{
	Purpose: "Approve an action that waits",
	About: `Reads the record, shows what will run as far as the record shows it, asks, and
posts the decision once, under an id that is in the state file before it leaves.
Without a terminal it needs --yes. A lost answer is read back.

Approving runs the action inside this call, which therefore takes as long as the
action does; then its result is read. --wait bounds the waiting, and nothing else.

No route tells whom a token belongs to, so --as says who decides, by kind and id;
without it, the principal of the context. Where the ids of a daemon begin with
their kind, writing it once is enough.`,
	Never: `It never approves an expired request, your own, or one whose hashes are not those
that its submitter was told, and never posts a decision a second time.`,
	Examples: []example{
		{"look first, then decide", "aipctl approval get appr_0198c0ffee\naipctl approval approve appr_0198c0ffee --as human:example:reviewer \\\n  --reason 'retention period is over'"},
		{"in a script, with the approver's own token", "aipctl approval approve https://aipd.example.net appr_0198c0ffee --yes \\\n  --as human:example:reviewer --token-file ~/.config/approver-token -o json"},
	},
	Exits: decideExits(),
	See:   []string{"approval get", "approval deny", "response delete", "help exit-codes"},
}

var denyPage = page{
	Purpose: "Deny an action that waits",
	About: `Reads the record, shows what it is about, asks, and posts the decision once, under
an id that is in the state file before it leaves. Without a terminal it needs
--yes. A lost answer is read back. The action ends as rejected, and nothing runs.`,
	Never: "It never cancels an action that runs, and never posts a decision a second time.",
	Examples: []example{
		{"with a reason for the record", "aipctl approval deny appr_0198c0ffee --as human:example:reviewer \\\n  --reason 'wrong response'"},
		{"in a script", "aipctl approval deny https://aipd.example.net appr_0198c0ffee --yes \\\n  --as human:example:reviewer --token-file ~/.config/approver-token"},
	},
	Exits: decideExits(),
	See:   []string{"approval get", "approval approve", "action cancel", "help exit-codes"},
}

func (r *run) decide(ctx context.Context, o *decideOptions, args []string) error {
	if o.as != "" { // refused before anything is looked at
		if _, err := identity.ParsePrincipal(o.as); err != nil {
			return err
		}
	}
	reason := strings.TrimSpace(o.reason)
	if !utf8.ValidString(reason) {
		return usageError("usage.reason", "--reason is not valid UTF-8").WithHint("write plain text")
	}
	return r.daemonOf(args, func(d *daemon, out *render.Renderer, rest []string) error {
		as, err := decidesAs(o, d)
		if err != nil {
			return err
		}
		file, flag, err := r.journal()
		if err != nil {
			return err
		}
		if file == nil {
			return stateRequired("a decision cannot be made without a state file: its id must be on disk before it is sent")
		}
		view, _, err := file.Load(ctx)
		if err != nil {
			return err
		}
		plan := engine.DecisionPlan{
			ApprovalID: rest[0], Decision: o.decision, As: as, Reason: reason, View: view, Wait: r.opts.waitGiven(),
			Show: func(v *aip.ApprovalView, as aip.Principal) error { return r.showRequest(ctx, out, o.decision, v, as) },
		}
		done, err := engine.Decide(ctx, engine.DecisionConfig{
			Net: d.client, Journal: file, Now: r.Now, MessageID: identity.NewMessageID, Commands: r.commands(d, flag),
		}, plan)
		if err != nil {
			return err
		}
		if err := out.Record(done); err != nil {
			return err
		}
		if err := out.Fields(decisionFields(done)...); err != nil {
			return err
		}
		for _, argv := range done.Next {
			out.Next(argv)
		}
		return nil
	})
}

// decidesAs names who decides: the flag, else the principal of the context.
func decidesAs(o *decideOptions, d *daemon) (identity.Principal, error) {
	switch {
	case o.as != "":
		return identity.ParsePrincipal(o.as)
	case d.named.Principal == "":
		return identity.Principal{}, usageError("usage.principal", "nobody is named who decides, and no route of a daemon tells whom a token belongs to").
			WithHint("give --as KIND:ID, such as --as human:example:reviewer, or give the context a principal")
	}
	p, err := identity.ParsePrincipal(d.named.Principal)
	if err != nil {
		return p, fault.As(err).WithHint("it is the principal of context %s; give --as KIND:ID", d.named.Context.Text)
	}
	return p, nil
}

// showRequest shows what is to be decided on stderr, and asks.
func (r *run) showRequest(ctx context.Context, out *render.Renderer, decision string, v *aip.ApprovalView, as aip.Principal) error {
	a := approvalRecord(v, r.Now())
	for _, f := range approvalFields(a) {
		if !f.Value.IsEmpty() {
			out.Note(sanitize.Format("%s: %s", f.Name, f.Value))
		}
	}
	out.Note(sanitize.Format("decides: %s (%s)", sanitize.LineMax(as.ID, 160), sanitize.LineMax(as.Kind, 20)))
	what := "deny " + a.CapabilityID + " for " + a.Requester.ID
	if decision == aip.ApprovalApproved {
		what = "approve " + a.CapabilityID + " for " + a.Requester.ID + ", which runs it now"
		out.Note(sanitize.Static("approving runs the action inside this call, which takes as long as the action does"))
	}
	return r.confirm(ctx, what)
}

// decisionFields are what a person reads after a decision.
func decisionFields(d *record.Decision) []render.Field {
	field := func(name, value string) render.Field {
		return render.Field{Name: sanitize.Line(name), Value: sanitize.LineMax(value, 300)}
	}
	known := map[string]string{
		record.KnownReply: "recorded", record.KnownRead: "recorded; the answer was lost, and the record was read back",
		record.KnownEarlier: "recorded before; nothing was posted", record.KnownVote: "recorded as one vote; the approval is still pending",
	}
	return []render.Field{
		field("approval", d.ApprovalID), field("decision", d.Decision+", "+known[d.Known]), field("decision id", d.DecisionID),
		field("by", d.Approver.ID+" ("+d.Approver.Kind+")"), field("status", d.Status), field("action", d.ActionID), field("state", d.ActionState),
		field("result", d.ActionStatus), field("error", d.ActionError), field("verdict", d.Verdict),
	}
}
