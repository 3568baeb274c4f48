package cmd

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/contract"
	"github.com/aipctl/aipctl/internal/engine"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/identity"
	"github.com/aipctl/aipctl/internal/record"
	"github.com/aipctl/aipctl/internal/render"
	"github.com/aipctl/aipctl/internal/sanitize"
	"github.com/aipctl/aipctl/internal/state"
	"github.com/aipctl/aipctl/internal/verdict"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
)

// callOptions are the flags of action call.
type callOptions struct {
	urlArg        string
	capability    string
	endpoint      string
	endpointGiven bool
	input         string
	prompt        string
	inputGiven    bool
	promptGiven   bool
	actionID      string
	actionGiven   bool
	key           string
	keyGiven      bool
	mode          string
	timeout       time.Duration
	timeGiven     bool
	detach        bool
	dryRun        bool
	onInterrupt   string
	tools         []string
	effects       []string
	failOnWarn    bool
	validate      string
}

// Words of the flags of action call.
const (
	modeAuto        = "auto"
	interruptDetach = "detach"
	interruptCancel = "cancel"
)

func newCallCmd(r *run) *cobra.Command {
	o := &callOptions{}
	c := r.leaf(&cobra.Command{
		Use:  "call [URL] CAPABILITY (--input JSON|@FILE|- | --prompt TEXT|@FILE|-)",
		Args: func(cmd *cobra.Command, args []string) error { return o.takeArgs(r, cmd, args) }, ValidArgsFunction: r.completeCapability,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f := cmd.Flags()
			o.endpointGiven = f.Changed("endpoint")
			o.inputGiven, o.promptGiven = f.Changed("input"), f.Changed("prompt")
			o.actionGiven, o.keyGiven, o.timeGiven = f.Changed("action-id"), f.Changed("idempotency-key"), f.Changed("timeout")
			return r.runCall(cmd.Context(), cmd, o)
		},
	}, page{
		Purpose: "Submit an action, follow it, and exit by how it ended",
		About: `Records the intent in the state file, submits the action once, follows its
stream, shows the answer, and settles. The daemon is the URL, or --url, or
AIP_URL, or that of the context; the capability may come from AIP_CAPABILITY_ID.

The input is sent as it is given with --input, or is the smallest right one for
the text of --prompt. Whatever a daemon would refuse is refused before anything
is sent.

Without --wait there is no bound while the submit is open. Once its reply was
lost or was an acknowledgement, the bound is a minute past the time the action
can still run. An approval that is pending is not waited for, unless --wait is
given.

With --validate auto the daemon is asked for the capability's contract first:
one request, two where it has no catalogue, and two seconds at most. An input
that does not fit is refused with its place, and the contract decides about key,
mode and timeout. Without an answer the built-in contract is left, and that is
said. With --validate require there is no call without a contract.`,
		Never: `It never submits the same intent again by itself: after a lost reply it only
reads. Ctrl-C stops the watching, not the action. The end of a text or of a
stream is never taken for success.`,
		Examples: []example{
			{"ask, and watch the answer", "aipctl action call cap:hermes_agent:lab:chat_stream --prompt 'Say hello'"},
			{"in a script: records on stdout, one outcome at the end", "aipctl action call http://127.0.0.1:8700 chat_stream --endpoint lab \\\n  --input @request.json -o jsonl"},
			{"accept only when a tool ran and a file is there", "aipctl action call cap:hermes_agent:lab:chat_stream --prompt @task.txt \\\n  --require-tool write_file --effect-check 'test -s report.md'"},
			{"see what would be sent", "aipctl action call chat_stream --endpoint lab --prompt Hello --dry-run"},
		},
		Exits: verdictExits(
			exit{fault.Accepted, "every applicable check passed; with --detach, the action was queued; with --dry-run, it could be sent"},
			exit{fault.Unavailable, "the daemon was not reached, and nothing ran because of this call"},
			exit{fault.Rejected, "refused before anything ran because of this call"},
		),
		See: []string{"action events", "action cancel", "action result", "demo", "help exit-codes"},
	})
	f := c.Flags()
	f.StringVar(&o.input, "input", "", "the action's input: a `JSON` object, @FILE, or - for stdin; sent as given")
	f.StringVar(&o.prompt, "prompt", "", "a `TEXT` to build the smallest right input from, @FILE, or - (@@ for a leading @)")
	f.StringVar(&o.endpoint, "endpoint", "", "the `ENDPOINT` of a bare operation such as chat_stream; else that of the context")
	f.StringVar(&o.actionID, "action-id", "", "the action's `ID`; a new one is made when absent")
	f.StringVar(&o.key, "idempotency-key", "", "one `KEY` for exactly this intent; sent only when given or required")
	f.Var(oneOf(&o.mode, modeAuto, aip.ModeSync, aip.ModeAsync, aip.ModeStreaming), "mode", "how the daemon runs it; auto takes what the operation is made for")
	f.DurationVar(&o.timeout, "timeout", 0, "the action's own time limit; the daemon takes the smaller of it and the contract's")
	f.BoolVar(&o.detach, "detach", false, "submit async and return on the acknowledgement, which promises only queued")
	f.BoolVar(&o.dryRun, "dry-run", false, "check everything and print the redacted envelope; nothing is sent or written")
	f.Var(oneOf(&o.onInterrupt, interruptDetach, interruptCancel), "on-interrupt", "what Ctrl-C does to the action")
	f.StringArrayVar(&o.tools, "require-tool", nil, "a tool, by its `NAME`, that must have completed; may be repeated")
	f.StringArrayVar(&o.effects, "effect-check", nil, "a shell `COMMAND` that must exit 0 once all other checks passed; it gets the outcome on stdin; may be repeated")
	f.Var(oneOf(&o.validate, validateOff, validateAuto, validateRequire), "validate", "ask the daemon for the contract first, and check the input against it; auto goes on without one")
	f.BoolVar(&o.failOnWarn, "fail-on-warning", false, "a warning makes the verdict incomplete")
	return c
}

// takeArgs reads [URL] CAPABILITY; AIP_CAPABILITY_ID may stand in for the
// second.
func (o *callOptions) takeArgs(r *run, cmd *cobra.Command, args []string) error {
	raw, rest := takeURL(args)
	if len(rest) == 0 {
		if env := r.Env(envCapability); env != "" {
			rest = []string{env}
		}
	}
	if err := argCount(cmd, rest, 1, 1, "the capability"); err != nil {
		return err
	}
	o.urlArg, o.capability = raw, rest[0]
	return nil
}

// prepared is a call that has passed every check.
type prepared struct{ plan engine.CallPlan }

func (r *run) runCall(ctx context.Context, cmd *cobra.Command, o *callOptions) error {
	var err error
	if o.endpoint, err = r.endpointOf(o.urlArg, o.capability, o.endpoint, o.endpointGiven); err != nil {
		return err
	}
	p, err := r.prepareCall(o)
	if err != nil {
		return err
	}
	out := r.renderer()
	d, err := r.connect(o.urlArg, out)
	if err != nil {
		return err
	}
	defer d.client.Close()
	file, flag, err := r.journal()
	if err != nil {
		return err
	}
	if file == nil && !o.dryRun {
		return stateRequired("a call cannot run without a state file: its id must be on disk before it is sent")
	}
	k := known{file: file, flag: flag}
	if file != nil {
		if k.view, k.report, err = file.Load(ctx); err != nil {
			return err
		}
	}
	facts, err := checkInput(p.plan.Operation, p.plan.Action.Input)
	if err != nil {
		return err
	}
	facts.warnConversation(k.view)
	r.completeIntent(p, d, facts)
	p.plan.Intent.RequiredTools, p.plan.Intent.EffectChecks = o.tools, len(o.effects)
	envelope, err := p.plan.Action.Envelope("msg_dry_run", r.Now())
	if err != nil {
		return inputError("json", "the input cannot be put into an envelope").WithHint("check the input with a JSON tool")
	}
	if len(envelope) > aip.MaxEnvelopeBytes {
		return inputError("too_large", "the envelope is %d bytes; a daemon takes at most %d (2 MiB)", len(envelope), aip.MaxEnvelopeBytes).WithHint("shorten the input")
	}
	if err := unused(p, k); err != nil {
		return r.exact(err, d, k)
	}
	said := append(warnings("input", facts.warnings), k.warnings()...)
	judged, err := r.checkContract(ctx, o, p, d, out)
	if err != nil {
		return err
	}
	said = append(said, judged...)
	if o.dryRun {
		return r.dryRun(out, p, said)
	}
	cfg := r.config(d, out, k, p.plan.Action.ID, true)
	cfg.RequiredTools, cfg.FailOnWarning = o.tools, o.failOnWarn
	cfg.EffectChecks = r.effectChecks(o.effects, out)
	cfg.Warnings = said
	return r.exact(r.settle(ctx, out, func() (*verdict.Outcome, error) { return engine.Call(ctx, cfg, p.plan) }), d, k)
}

// endpointOf is the endpoint of a capability on the command line: the one that
// was given, else that of the context for a bare operation.
func (r *run) endpointOf(urlArg, capability, endpoint string, given bool) (string, error) {
	if given || capability == "" || strings.Contains(capability, ":") {
		return endpoint, nil
	}
	s, err := r.settings(urlArg, true)
	return s.Endpoint.Text, err
}

// unused refuses an id that has an intent in this state file, a key that
// belongs to another intent, and a second deletion, before the daemon is asked
// about it. It is looked at again, under the lock, when the intent is written.
func unused(p *prepared, k known) error {
	if err := k.view.Claimed(p.plan.Action.ID, &p.plan.Intent); err != nil {
		return err
	}
	old := k.action(p.plan.Action.ID)
	if old == nil || old.Intent == nil || old.NotSent != nil && old.NotSent.InputHash == p.plan.Intent.InputHash {
		return nil
	}
	return usageError("state.duplicate_intent", "this state file has an intent under this action id already, and an intent is submitted at most once").
		WithHint("read it with `aipctl action events %s --follow --include-chunks`, or choose another id", p.plan.Action.ID).WithAction(p.plan.Action.ID)
}

// drive runs an engine call beside the renderer's clock.
func (r *run) drive(ctx context.Context, out *render.Renderer, do func() (int, error)) error {
	tctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	ticking := make(chan struct{})
	go func() {
		defer close(ticking)
		out.Run(tctx)
	}()
	code, err := do()
	stop()
	<-ticking
	if err != nil {
		_ = out.Close()
		return err
	}
	return ended(code)
}

// prepareCall makes every check that needs neither disk nor network.
func (r *run) prepareCall(o *callOptions) (*prepared, error) {
	capability, err := identity.QualifyCapability(o.capability, o.endpoint)
	if err != nil {
		return nil, err
	}
	p := &prepared{}
	a := &p.plan.Action
	a.CapabilityID = capability.ID
	p.plan.Operation = capability.Operation
	if a.Input, err = r.callInput(o, capability.Operation); err != nil {
		return nil, err
	}
	a.ID = identity.NewActionID()
	if o.actionGiven {
		if err := identity.ParseActionID(o.actionID); err != nil {
			return nil, err
		}
		a.ID, p.plan.Explicit = o.actionID, true
	}
	if o.keyGiven && strings.TrimSpace(o.key) == "" {
		return nil, usageError("usage.key", "--idempotency-key is blank, which protects nothing").WithHint("give one key for exactly this intent, or leave the flag out")
	}
	if o.timeGiven {
		ms := o.timeout.Milliseconds()
		if ms < 1 {
			return nil, usageError("usage.duration", "--timeout must be at least a millisecond").
				WithHint("write a time such as --timeout 2m, or leave it out")
		}
		u := uint64(ms)
		a.TimeoutMS = &u
	}
	if err := o.agree(p, contract.Builtin(capability.Operation)); err != nil {
		return nil, err
	}
	p.plan.CancelOnInterrupt = o.onInterrupt == interruptCancel
	if err := requiredTools(o.tools); err != nil {
		return nil, err
	}
	for _, command := range o.effects {
		if strings.TrimSpace(command) == "" {
			return nil, usageError("usage.effect_check", "--effect-check is no command").WithHint("a shell variable may be empty; write a command, or leave it out")
		}
	}
	if o.detach && len(o.effects) > 0 {
		return nil, usageError("usage.effect_check", "--effect-check cannot run with --detach, which does not wait for the end").
			WithHint("leave --detach out, or check the effect after `aipctl action result`")
	}
	p.plan.Detach = o.detach
	p.plan.Wait = r.opts.waitGiven()
	return p, nil
}

func (r *run) callInput(o *callOptions, operation string) (jsontext.Value, error) {
	switch {
	case o.inputGiven && o.promptGiven:
		return nil, usageError("usage.input", "--input and --prompt cannot stand together").
			WithHint("give the whole input with --input, or a text with --prompt")
	case !o.inputGiven && !o.promptGiven:
		return nil, usageError("usage.input", "the action has no input").WithHint("give --input JSON|@FILE|- or --prompt TEXT|@FILE|-")
	case o.promptGiven:
		raw, err := r.readSource(o.prompt, "prompt")
		if err != nil {
			return nil, err
		}
		return promptInput(operation, raw)
	}
	raw, err := r.readSource(o.input, "input")
	return jsontext.Value(raw), err
}

func callMode(o *callOptions, built contract.Contract) (string, error) {
	mode := o.mode
	switch mode {
	case modeAuto:
		mode = built.Mode
		if o.detach {
			mode = aip.ModeAsync
		}
	case aip.ModeSync, aip.ModeStreaming:
		if o.detach {
			return "", usageError("usage.mode", "--detach submits async; --mode %s contradicts it", mode).
				WithHint("leave one of the two out")
		}
	}
	return mode, nil
}

func (r *run) completeIntent(p *prepared, d *daemon, facts *inputFacts) {
	a := p.plan.Action
	c, _ := identity.ParseCapability(a.CapabilityID)
	p.plan.Intent = state.Intent{
		CapabilityID: a.CapabilityID, Endpoint: c.Endpoint, Operation: c.Operation,
		IdempotencyKey: a.IdempotencyKey, Mode: a.Mode, TimeoutMS: a.TimeoutMS,
		InputHash: identity.InputHash(a.Input),
		SessionID: facts.sessionID, SessionKey: facts.sessionKey, Conversation: facts.conversation,
		PreviousResponseID: facts.previousResponseID, ResponseID: facts.responseID, Store: facts.store, MaxEvents: facts.maxEvents,
	}
	d.sign(&p.plan.Intent)
}

// dryRunRecord is what a call would have submitted.
type dryRunRecord struct {
	record.Head
	ActionID string            `json:"action_id"`          // a minted one is another in the next call
	Envelope jsontext.Value    `json:"envelope"`           // with the length of each string of the input in its place
	Warnings []verdict.Warning `json:"warnings,omitempty"` // about the input and the state file
}

// dryRun prints the envelope without the words of the input.
func (r *run) dryRun(out *render.Renderer, p *prepared, said []verdict.Warning) error {
	a := p.plan.Action
	a.Input = redactInput(a.Input)
	envelope, err := a.Envelope("msg_dry_run", r.Now())
	if err != nil {
		return fault.New(fault.Internal, "dry_run", "the envelope cannot be built")
	}
	for _, w := range said {
		out.Note(sanitize.Format("warning: %s", sanitize.Line(w.Message)))
	}
	if err := out.Record(dryRunRecord{Head: record.NewHead("dry_run"), ActionID: a.ID, Envelope: envelope, Warnings: said}); err != nil {
		return err
	}
	line, err := render.Marshal(jsontext.Value(envelope))
	if err != nil {
		return err
	}
	return out.Line(sanitize.Line(strings.TrimSuffix(string(line), "\n")))
}

// redactInput keeps the shape of an input: names, and how long each string
// is.
func redactInput(v jsontext.Value) jsontext.Value {
	switch v.Kind() {
	case '"':
		s, _ := aip.Unquote(v)
		q, _ := jsontext.AppendQuote(nil, fmt.Sprintf("[redacted, %d bytes]", len(s)))
		return q
	case '[':
		list, _ := aip.Elements(v)
		out := []byte{'['}
		for i, e := range list {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(out, redactInput(e)...)
		}
		return append(out, ']')
	case '{':
		out := []byte{'{'}
		for i, name := range memberNames(v) {
			if i > 0 {
				out = append(out, ',')
			}
			out, _ = jsontext.AppendQuote(out, name)
			out = append(append(out, ':'), redactInput(aip.Members(v)[name])...)
		}
		return append(out, '}')
	}
	return v
}
