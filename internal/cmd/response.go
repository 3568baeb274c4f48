package cmd

import (
	"context"
	"slices"
	"strings"

	"github.com/aipctl/aipctl/internal/contract"
	"github.com/aipctl/aipctl/internal/engine"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/identity"
	"github.com/aipctl/aipctl/internal/state"
	"github.com/aipctl/aipctl/internal/verdict"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newResponseCmd(r *run) *cobra.Command {
	return group("response", "Read and delete stored responses",
		"A Responses call whose input says store: true leaves an object at the provider.\nReading and deleting it are actions like any other.",
		newResponseGetCmd(r), newResponseDeleteCmd(r))
}

// storedOptions say which store has the response.
type storedOptions struct {
	operation  string
	endpoint   string
	capability string
}

func (o *storedOptions) bind(f *pflag.FlagSet) {
	f.StringVar(&o.endpoint, "endpoint", "", "the `ENDPOINT` whose store has the response")
	f.StringVar(&o.capability, "capability", "", "the whole capability `ID`, in the place of --endpoint")
}

// storedArgs refuses what is not [URL] RESPONSE_ID.
func storedArgs(cmd *cobra.Command, args []string) error {
	return oneID(cmd, args, "the response id", identity.ParseResponseID)
}

func newResponseGetCmd(r *run) *cobra.Command {
	o := &storedOptions{operation: verdict.OpResponseGet}
	c := r.leaf(&cobra.Command{
		Use:  "get [URL] RESPONSE_ID",
		Args: storedArgs, ValidArgsFunction: r.completeResponse,
		RunE: func(cmd *cobra.Command, args []string) error { return r.runResponseGet(cmd.Context(), o, args) },
	}, page{
		Purpose: "Read a stored response",
		About: `Submits response_get and shows what the store has: the text on stdout, calls and
tools on stderr, with -o json the object too. The endpoint is the one that is
named, else that of the state record that saved the id, else the context's.
` + "`aipctl state show ACTION`" + ` names the response that an action created.

A read counts as a use: it moves the response to the front of the 100 that a
store keeps, and so another one may be forgotten sooner.

This is the one operation that is safe to repeat. Where the daemon's error says
that another try may help there are at most three, each an action of its own. A
store answers 404 for what was never stored, deleted, forgotten, or is at another
instance; the possible reasons are listed, those first that the state file knows
something of.`,
		Never: `It never says how the action that created the response ended: a stored response
makes no action accepted. It never tries again after an error that does not
allow it.`,
		Examples: []example{
			{"the text of a response that this machine created", "aipctl response get resp_0123456789abcdef0123456789ab"},
			{"the whole object", "aipctl response get --endpoint lab resp_0123456789abcdef0123456789ab -o json \\\n  --jq .stored.object"},
		},
		Exits: []exit{
			{fault.Accepted, "the stored response is completed"},
			{fault.Unavailable, "the daemon was not reached, and nothing was sent"},
			{fault.Auth, "the token, or the endpoint's own credential, was refused"},
			{fault.Failed, "the stored response is failed"},
			{fault.Partial, "the stored response is incomplete"},
			{fault.Pending, "the stored response is in_progress, or --wait ran out"},
			{fault.Unknown, "it could not be read in three tries"},
			{fault.Incomplete, "the object that came is another response"},
			{fault.Rejected, "the daemon refused the read before it ran"},
			{fault.NotFound, "the store has no such response"},
			{fault.State, "the read could not be recorded; nothing was sent"},
		},
		See: []string{"response delete", "action result", "state list", "help exit-codes"},
	})
	o.bind(c.Flags())
	return c
}

func newResponseDeleteCmd(r *run) *cobra.Command {
	o := &storedOptions{operation: verdict.OpResponseDelete}
	c := r.leaf(&cobra.Command{
		Use:  "delete [URL] RESPONSE_ID [--wait TIME]",
		Args: storedArgs, ValidArgsFunction: r.completeResponse,
		RunE: func(cmd *cobra.Command, args []string) error { return r.runResponseDelete(cmd.Context(), o, args) },
	}, page{
		Purpose: "Delete a stored response, with an approval",
		About: `Submits response_delete, under an idempotency key that is made and recorded
before anything is sent. Policy wants an approval of somebody else, so the usual
end is exit 8, with the approval's id and the command for the approver. --wait
follows the approval to the result.

It removes the stored object and any conversation name that points to it. Model
calls, tool effects, memory and session history stay, and there is no way back.
It asks before it sends; without a terminal it needs --yes.

The receipt of the store is checked and kept in the state file with the approval
and the decision, as the audit record. After any doubt the way on is to read,
with ` + "`aipctl response get` or `aipctl action result`" + `; a 404 then is no proof that
this deletion ran.`,
		Never: `It never deletes a response twice: a second attempt from the same state file is
refused, unless the first one was not sent, or ended rejected or cancelled. It
never approves anything.`,
		Examples: []example{
			{"ask for it, and leave the decision to somebody else", "aipctl response delete resp_0123456789abcdef0123456789ab --yes"},
			{"wait for the decision and the receipt", "aipctl response delete --endpoint lab resp_0123456789abcdef0123456789ab \\\n  --yes --wait 15m -o json"},
		},
		Exits: []exit{
			{fault.Accepted, "it is deleted, and the receipt says so"},
			{fault.Usage, "a second attempt, nobody said yes, or the command line is wrong; nothing was sent"},
			{fault.Unavailable, "the daemon was not reached, and nothing was sent"},
			{fault.Auth, "the token, or the endpoint's own credential, was refused"},
			{fault.Failed, "the deletion failed"},
			{fault.Cancelled, "the action was cancelled"},
			{fault.Pending, "it waits for an approval"},
			{fault.Unknown, "whether it was deleted is not known: read, do not delete again"},
			{fault.Conflict, "the daemon contradicted itself"},
			{fault.Incomplete, "the receipt contradicts, or does not say that it was deleted"},
			{fault.Rejected, "the approval was denied or expired, or the daemon refused the action"},
			{fault.NotFound, "the store has no such response, which is no proof of a deletion"},
			{fault.State, "the intent could not be recorded; nothing was sent"},
		},
		See: []string{"approval approve", "response get", "action result", "help exit-codes"},
	})
	o.bind(c.Flags())
	return c
}

// stored is one stored response at one endpoint of one daemon, with the action
// that is about to be run on it.
type stored struct {
	session
	plan engine.CallPlan
}

// onResponse resolves [URL] RESPONSE_ID and does the command's own work, once
// everything that can be refused without the network has been.
func (r *run) onResponse(ctx context.Context, o *storedOptions, args []string, do func(stored) error) error {
	raw, rest := takeURL(args)
	out := r.renderer()
	d, err := r.connect(raw, out)
	if err != nil {
		return err
	}
	defer d.client.Close()
	file, flag, err := r.journal()
	if err != nil {
		return err
	}
	if file == nil {
		return stateRequired("a stored response cannot be used without a state file: the action must be on disk before it is sent")
	}
	s := stored{session: session{target: target{raw, rest[0]}, daemon: d, known: known{file: file, flag: flag}, out: out}}
	if s.known.view, s.known.report, err = file.Load(ctx); err != nil {
		return err
	}
	capability, err := o.resolve(s.known.view, s.id, d)
	if err != nil {
		return err
	}
	s.plan = r.storedPlan(capability, s.id, d)
	return r.exact(do(s), d, s.known)
}

// storedPlan is the call of one operation on one stored response.
func (r *run) storedPlan(c identity.Capability, id string, d *daemon) engine.CallPlan {
	built := contract.Builtin(c.Operation)
	p := engine.CallPlan{Operation: c.Operation, Wait: r.opts.waitGiven(), RunsAtMost: built.RunsAtMost(nil)}
	a := &p.Action
	a.ID, a.CapabilityID, a.Mode = identity.NewActionID(), c.ID, built.Mode
	a.Input = jsontext.Value(`{"response_id":"` + id + `"}`)
	if built.KeyRequired {
		a.IdempotencyKey = identity.NewIdempotencyKey()
	}
	p.Intent = state.Intent{
		CapabilityID: a.CapabilityID, Endpoint: c.Endpoint, Operation: c.Operation, IdempotencyKey: a.IdempotencyKey, Mode: a.Mode,
		InputHash: identity.InputHash(a.Input), ResponseID: id,
	}
	d.sign(&p.Intent)
	return p
}

// resolve finds the capability: as it was given, else by the endpoint of the
// state record that saved the response id, else by the one of the context.
func (o *storedOptions) resolve(view *state.View, id string, d *daemon) (identity.Capability, error) {
	switch {
	case o.capability != "" && o.endpoint != "":
		return identity.Capability{}, usageError("usage.endpoint", "--endpoint and --capability cannot stand together").WithHint("give one of them")
	case o.capability != "":
		c, err := identity.ParseCapability(o.capability)
		if err == nil && c.Operation != o.operation {
			err = usageError("usage.capability", "--capability is not one of %s", o.operation).WithHint("give --endpoint ENDPOINT, or a capability id that ends in :%s", o.operation)
		}
		return c, err
	case o.endpoint != "":
		return identity.QualifyCapability(o.operation, o.endpoint)
	}
	switch names := savedEndpoints(view, id, d.url); len(names) {
	case 0:
		if own := d.named.Endpoint.Text; own != "" {
			return identity.QualifyCapability(o.operation, own)
		}
		return identity.Capability{}, usageError("usage.endpoint", "no endpoint is named, and the state file does not know which one has this response").
			WithHint("name it with --endpoint ENDPOINT, or give the context one")
	case 1:
		return identity.QualifyCapability(o.operation, names[0])
	default:
		return identity.Capability{}, usageError("usage.endpoint", "the state file knows this response at several endpoints: %s", strings.Join(names, ", ")).
			WithHint("choose one with --endpoint ENDPOINT")
	}
}

// savedEndpoints are the endpoints that the state file knows a response at:
// those of this daemon, or where it knows none of it, those of any.
func savedEndpoints(view *state.View, id, url string) []string {
	var here, anywhere []string
	add := func(a *state.Action, endpoint string) {
		if endpoint == "" {
			return
		}
		anywhere = append(anywhere, endpoint)
		if a.Intent != nil && a.Intent.URL == url {
			here = append(here, endpoint)
		}
	}
	for _, a := range view.Actions() {
		for _, resp := range a.Responses {
			if resp.ResponseID == id {
				add(a, resp.Endpoint)
			}
		}
	}
	if len(here) > 0 {
		anywhere = here
	}
	slices.Sort(anywhere)
	return slices.Compact(anywhere)
}

func (r *run) runResponseGet(ctx context.Context, o *storedOptions, args []string) error {
	return r.onResponse(ctx, o, args, func(s stored) error {
		cfg := r.config(s.daemon, s.out, s.known, s.plan.Action.ID, true)
		cfg.Warnings = s.known.warnings()
		plan := engine.ResponsePlan{Call: s.plan, NewID: identity.NewActionID, View: s.known.view}
		return r.settle(ctx, s.out, func() (*verdict.Outcome, error) { return engine.GetResponse(ctx, cfg, plan) })
	})
}

func (r *run) runResponseDelete(ctx context.Context, o *storedOptions, args []string) error {
	return r.onResponse(ctx, o, args, func(s stored) error {
		in := &s.plan.Intent
		if err := s.known.view.Claimed(s.plan.Action.ID, in); err != nil {
			return err
		}
		what := "delete the stored response " + s.id + " at endpoint " + in.Endpoint +
			", with no way back; model calls, tool effects, memory and session history stay"
		if err := r.confirm(ctx, what); err != nil {
			return err
		}
		cfg := r.config(s.daemon, s.out, s.known, s.plan.Action.ID, true)
		cfg.Warnings = s.known.warnings()
		return r.settle(ctx, s.out, func() (*verdict.Outcome, error) { return engine.Call(ctx, cfg, s.plan) })
	})
}

// Response reads a stored response.
func (c nextCommands) Response(id, capability string) []string {
	argv := []string{c.name, "response", "get", c.url, id}
	if capability != "" {
		argv = append(argv, "--capability", capability)
	}
	return append(argv, c.flags...)
}

// Approval reads the record of an approval.
func (c nextCommands) Approval(id string) []string {
	return append([]string{c.name, "approval", "get", c.url, id}, c.flags...)
}

// Approve is the approver's command. It repeats no token file and no state
// file: both are the submitter's.
func (c nextCommands) Approve(id string, reason bool) []string {
	argv := []string{c.name, "approval", "approve", c.url, id, "--as", "KIND:ID", "--token-file", "FILE"}
	if reason {
		argv = append(argv, "--reason", "TEXT")
	}
	for i := 0; i+1 < len(c.flags); i++ {
		if c.flags[i] == "--ca-file" {
			argv = append(argv, c.flags[i], c.flags[i+1])
		}
	}
	return argv
}
