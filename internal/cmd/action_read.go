package cmd

import (
	"context"
	"time"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/cursor"
	"github.com/aipctl/aipctl/internal/engine"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/hermes"
	"github.com/aipctl/aipctl/internal/identity"
	"github.com/aipctl/aipctl/internal/render"
	"github.com/aipctl/aipctl/internal/sanitize"
	"github.com/aipctl/aipctl/internal/state"
	"github.com/aipctl/aipctl/internal/verdict"
	"github.com/spf13/cobra"
)

// target is one action at one daemon.
type target struct {
	urlArg string
	id     string
}

// takeTarget reads [URL] ACTION. Only where env is set may AIP_ACTION_ID
// stand in for the action.
func (r *run) takeTarget(cmd *cobra.Command, args []string, env bool) (target, error) {
	raw, rest := takeURL(args)
	if len(rest) == 0 && env {
		if id := r.Env(envAction); id != "" {
			rest = []string{id}
		}
	}
	if err := argCount(cmd, rest, 1, 1, "the action id"); err != nil {
		return target{}, err
	}
	return target{raw, rest[0]}, identity.ParseActionID(rest[0])
}

// targetArgs refuses what is not [URL] ACTION.
func (r *run) targetArgs(env bool) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		_, err := r.takeTarget(cmd, args, env)
		return err
	}
}

// session is a command's way to one action: the daemon, what the state file
// knows of it, and where to show it.
type session struct {
	target
	*daemon
	known known
	out   *render.Renderer
}

// onAction resolves [URL] ACTION, connects, reads the state file, and does
// the command's own work.
func (r *run) onAction(cmd *cobra.Command, args []string, env bool, do func(context.Context, session) error) error {
	t, err := r.takeTarget(cmd, args, env)
	if err != nil {
		return err
	}
	out := r.renderer()
	d, err := r.connect(t.urlArg, out)
	if err != nil {
		return err
	}
	defer d.client.Close()
	k := r.readState(cmd)
	return r.exact(do(cmd.Context(), session{target: t, daemon: d, known: k, out: out}), d, k)
}

// settle runs an engine call and takes its exit code from the outcome.
func (r *run) settle(ctx context.Context, out *render.Renderer, call func() (*verdict.Outcome, error)) error {
	return r.drive(ctx, out, func() (int, error) {
		outcome, err := call()
		if err != nil {
			return 0, err
		}
		return outcome.ExitCode, nil
	})
}

// eventsOptions are the flags of action events.
type eventsOptions struct {
	follow bool
	chunks bool
	from   string
}

func newEventsCmd(r *run) *cobra.Command {
	o := &eventsOptions{}
	c := r.leaf(&cobra.Command{
		Use:  "events [URL] ACTION [--follow] [--include-chunks]",
		Args: r.targetArgs(true), ValidArgsFunction: r.completeAction,
		RunE: func(cmd *cobra.Command, args []string) error {
			return r.onAction(cmd, args, true, func(ctx context.Context, s session) error { return r.runEvents(ctx, s, o) })
		},
	}, page{
		Purpose: "Read or follow the durable events of an action",
		About: `Reads the events of an action that exists. With --follow it waits for the end
and settles like a call; with --follow --include-chunks it shows the answer like
one too, from where the last reading stopped. The action may come from
AIP_ACTION_ID.

Without --wait it follows without a bound, and waits for an approval too. It
gives up by itself only where the daemon says unknown and nothing new came for
16 minutes; for an id that may be mistyped, ask ` + "`aipctl action status`" + ` first.`,
		Never: `It never submits or cancels anything, and never prints twice what was written
out before, unless told to with --from start.`,
		Examples: []example{
			{"come back to an answer, from any terminal", "aipctl action events act_0198c0ffee --follow --include-chunks"},
			{"the whole stream again, as records", "aipctl action events act_0198c0ffee --follow --include-chunks --from start \\\n  -o jsonl"},
			{"only what there is now", "aipctl action events http://127.0.0.1:8700 act_0198c0ffee"},
		},
		Exits: verdictExits(
			exit{fault.Accepted, "every applicable check passed; without --follow, the pages were read"},
			exit{fault.Unavailable, "the daemon was not reached, and no submit is recorded"},
		),
		See: []string{"action result", "action status", "action cancel", "help exit-codes"},
	})
	f := c.Flags()
	f.BoolVar(&o.follow, "follow", false, "wait for the end, and settle")
	f.BoolVar(&o.chunks, "include-chunks", false, "show the answer too")
	f.StringVar(&o.from, "from", engine.FromSaved, "where to begin: saved, start, or a `CURSOR`")
	return c
}

func (r *run) runEvents(ctx context.Context, s session, o *eventsOptions) error {
	if o.from == "" {
		return usageError("usage.from", "--from is empty, and is saved, start, or a cursor").
			WithHint("write --from saved to read on, --from start for everything, or --from with a cursor that was printed")
	}
	plan := engine.FollowPlan{ActionID: s.id, Known: s.action(), View: s.known.view, Chunks: o.chunks, Follow: o.follow, From: o.from, Wait: r.opts.waitGiven()}
	cfg := r.config(s.daemon, s.out, s.known, s.id, o.chunks)
	cfg.Warnings = s.known.warnings()
	if _, written, ok := cursor.Saved(s.known.view, cfg.Binding); ok && written != nil && o.from == engine.FromSaved {
		s.out.Note(sanitize.Format("reading on after chunk %s, which was shown before; --from start shows everything", sanitize.Uint(*written)))
	}
	if !o.follow {
		return r.listEvents(ctx, s.out, cfg, plan)
	}
	if !o.chunks && r.opts.output == "text" {
		cfg.Sink = &eventLines{s.out}
	}
	return r.settle(ctx, s.out, func() (*verdict.Outcome, error) { return engine.Events(ctx, cfg, plan) })
}

// warnings are what is amiss with the state file, or what it means that there
// is none.
func (k known) warnings() []verdict.Warning {
	w := warnings("state.damaged", k.report.Warnings())
	if k.warn != "" {
		w = append(w, verdict.Warning{Code: "state.unusable", Message: k.warn + "; the cursor cannot be kept, and the last one is printed at the end"})
	}
	return w
}

func warnings(code string, messages []string) []verdict.Warning {
	var out []verdict.Warning
	for _, m := range messages {
		out = append(out, verdict.Warning{Code: code, Message: m})
	}
	return out
}

func newStatusCmd(r *run) *cobra.Command {
	return r.leaf(&cobra.Command{
		Use:  "status [URL] ACTION",
		Args: r.targetArgs(true), ValidArgsFunction: r.completeAction,
		RunE: func(cmd *cobra.Command, args []string) error {
			return r.onAction(cmd, args, true, r.runStatus)
		},
	}, page{
		Purpose: "Read the durable view of an action",
		About: `Reads the state of an action as the daemon reports it. A streaming action that
runs reads unknown until it has ended, and so does one that was never seen:
unknown is no proof that nothing ran. The action may come from AIP_ACTION_ID.`,
		Never: "It never judges a result; `aipctl action result` does. It never submits anything.",
		Examples: []example{
			{"how it stands", "aipctl action status act_0198c0ffee"},
			{"for a script", "aipctl action status http://127.0.0.1:8700 act_0198c0ffee -o json"},
		},
		Exits: []exit{
			{fault.Accepted, "the state was read"},
			{fault.Unavailable, "the daemon was not reached, or nothing ran because the submit never left"},
			{fault.Auth, "the token was refused, or cannot be read"},
			{fault.Unknown, "the daemon says unknown, which proves nothing"},
		},
		See: []string{"action result", "action events", "help exit-codes"},
	})
}

func (r *run) runStatus(ctx context.Context, s session) error {
	if err := engine.RefuseNotSent(s.action(), s.id); err != nil {
		return err
	}
	st, err := engine.WaitStatus(ctx, s.client, s.id, r.opts.waitGiven(), r.Now)
	if err != nil {
		return err
	}
	if err := s.out.Status(st); err != nil {
		return err
	}
	if a := s.action(); st.State == aip.StatePendingApproval && st.ApprovalID == "" && a != nil && len(a.ApprovalIDs) > 0 {
		s.out.Note(sanitize.Format("it waits for approval %s, as the state file has it", sanitize.LineMax(a.ApprovalIDs[len(a.ApprovalIDs)-1], 160)))
	}
	if st.State == aip.StateUnknown {
		s.out.Note(sanitize.Static("unknown is no proof that nothing ran: a running stream reads so until it has ended"))
		return ended(fault.Unknown.Code())
	}
	return nil
}

func newResultCmd(r *run) *cobra.Command {
	return r.leaf(&cobra.Command{
		Use:  "result [URL] ACTION [--wait TIME]",
		Args: r.targetArgs(true), ValidArgsFunction: r.completeAction,
		RunE: func(cmd *cobra.Command, args []string) error {
			return r.onAction(cmd, args, true, r.runResult)
		},
	}, page{
		Purpose: "Read and judge the stored result of an action",
		About: `Reads the stored result and judges it like a call, with the chunks that the
daemon keeps as evidence. With --wait it polls until there is one. The action
may come from AIP_ACTION_ID.`,
		Never: `It never moves the saved cursor and never submits anything.`,
		Examples: []example{
			{"how it ended", "aipctl action result act_0198c0ffee"},
			{"wait for the end, then one document", "aipctl action result act_0198c0ffee --wait 2m -o json"},
		},
		Exits: verdictExits(
			exit{fault.Unavailable, "the daemon was not reached, and no submit is recorded"},
			exit{fault.Pending, "there is no result yet"},
			exit{fault.Unknown, "the daemon does not know the action, or nobody can tell how it ended"},
		),
		See: []string{"action events", "action status", "help exit-codes"},
	})
}

func (r *run) runResult(ctx context.Context, s session) error {
	cfg := r.config(s.daemon, s.out, s.known, s.id, true)
	cfg.Warnings = warnings("state.damaged", s.known.report.Warnings())
	plan := engine.ResultPlan{ActionID: s.id, Known: s.action(), Wait: r.opts.waitGiven()}
	return r.settle(ctx, s.out, func() (*verdict.Outcome, error) { return engine.Result(ctx, cfg, plan) })
}

func newCancelCmd(r *run) *cobra.Command {
	reason := ""
	c := r.leaf(&cobra.Command{
		Use:  "cancel [URL] ACTION [--reason TEXT] [--wait TIME]",
		Args: r.targetArgs(false), ValidArgsFunction: r.completeUnsettled,
		RunE: func(cmd *cobra.Command, args []string) error {
			return r.onAction(cmd, args, false, func(ctx context.Context, s session) error { return r.runCancel(ctx, s, reason) })
		},
	}, page{
		Purpose: "Ask for the end of an action, and read what became of it",
		About: `Requests the cancellation, then reads the state as the daemon reports it: the
answer to the request is an acknowledgement and no outcome. Without --wait it
waits 10 seconds for the end; --wait 0 does not wait.`,
		Never: `It never undoes anything: model calls, messages and memory writes that were made
stay. It never takes an action from AIP_ACTION_ID: what is to be stopped is
named.`,
		Examples: []example{
			{"stop it, and say why", "aipctl action cancel act_0198c0ffee --reason 'no longer needed'"},
			{"give it half a minute to end", "aipctl action cancel http://127.0.0.1:8700 act_0198c0ffee --wait 30s"},
		},
		Exits: []exit{
			{fault.Accepted, "cancelled, or acknowledged and not waited for"},
			{fault.Auth, "refused: the token, a scope or the tenant"},
			{fault.Pending, "acknowledged, but not ended within the wait"},
			{fault.Unknown, "no answer, or one that says nothing; the action may stop all the same"},
			{fault.Rejected, "it had ended otherwise; its verdict is in the record"},
			{fault.NotFound, "the daemon does not know the action"},
		},
		See: []string{"action status", "action result", "help exit-codes"},
	})
	c.Flags().StringVar(&reason, "reason", "", "why, as a `TEXT` for the daemon's record")
	return c
}

// cancelWait is how long a cancel waits for the end without --wait.
const cancelWait = 10 * time.Second

func (r *run) runCancel(ctx context.Context, s session, reason string) error {
	if s.operation(ctx) == "run_events" {
		s.out.Note(sanitize.Static("this action follows a run: cancelling it stops the run itself"))
		if err := r.confirm(ctx, "cancel the following of a run, which stops the run itself"); err != nil {
			return err
		}
	}
	plan := engine.CancelPlan{ActionID: s.id, Reason: reason, Known: s.action(), Wait: cancelWait}
	if given := r.opts.waitGiven(); given != nil {
		plan.Wait = *given
	}
	cfg := r.config(s.daemon, &cancelSink{s.out}, s.known, s.id, true)
	return r.settle(ctx, s.out, func() (*verdict.Outcome, error) { return engine.Cancel(ctx, cfg, plan) })
}

// action is what the state file says of the session's action; nil when it
// says nothing.
func (s session) action() *state.Action { return s.known.action(s.id) }

// operation names the operation of the action: from the record of its submit,
// else as the daemon's durable view has it, else from the first chunk, since
// the view of an action that runs names no capability. Empty when none tells.
func (s session) operation(ctx context.Context) string {
	if a := s.action(); a != nil && a.Intent != nil {
		return a.Intent.Operation
	}
	st, err := s.client.Status(ctx, s.id)
	if err != nil {
		return "" // the cancel itself will say what is amiss
	}
	if c, err := identity.ParseCapability(st.CapabilityID); err == nil {
		return c.Operation
	}
	page, err := s.client.Page(ctx, aip.EventsQuery{ActionID: s.id, IncludeChunks: true, Limit: firstChunks}, aip.Decoding{})
	if err != nil {
		return ""
	}
	for i := range page.Chunks {
		if op := hermes.Operation(&page.Chunks[i]); op != "" {
			return op
		}
	}
	return ""
}

// firstChunks is how much of a stream is read to learn which operation wrote
// it: events share the page with the chunks.
const firstChunks = 20

// cancelSink shows the outcome as what became of the cancellation.
type cancelSink struct{ *render.Renderer }

// Outcome implements the engine's sink.
func (s *cancelSink) Outcome(o *verdict.Outcome) error { return s.CancelOutcome(o) }
