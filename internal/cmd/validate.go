package cmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/contract"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/identity"
	"github.com/aipctl/aipctl/internal/render"
	"github.com/aipctl/aipctl/internal/sanitize"
	"github.com/aipctl/aipctl/internal/verdict"
)

// Words of --validate.
const (
	validateOff     = "off"
	validateAuto    = "auto"
	validateRequire = "require"
)

// How long a discovery may take, and then the judging of an input. In auto they
// are in the way of a call that goes on without them; required, the call is worth
// nothing without them.
const (
	discoverInAuto   = 2 * time.Second
	discoverRequired = 20 * time.Second
	judging          = 2 * time.Second
)

// discovered is what a daemon publishes of the capability of a call.
type discovered struct {
	source    contract.Source
	published *aip.Capability // nil for the built-in contract
}

// checkContract asks the daemon what it publishes of the capability, when
// --validate says so, and holds the call to it. Nothing of the call has left by
// then, and nothing is recorded.
func (r *run) checkContract(ctx context.Context, o *callOptions, p *prepared, d *daemon, out *render.Renderer) ([]verdict.Warning, error) {
	if o.validate == validateOff {
		return nil, nil
	}
	a := &p.plan.Action
	found, err := r.discover(ctx, o, d, out, a.CapabilityID)
	if err != nil || found.published == nil {
		return nil, err
	}
	c := contract.Builtin(p.plan.Operation).With(*found.published, found.source)
	if err := o.agree(p, c); err != nil {
		return nil, err
	}
	p.plan.Intent.IdempotencyKey, p.plan.Intent.Mode = a.IdempotencyKey, a.Mode
	if c.Approval {
		out.Aside(sanitize.Static("this capability needs an approval: the action waits for it, and this call does not, unless --wait says so"))
	}
	return o.checkSchema(ctx, found, a.CapabilityID, a.Input)
}

// discover looks for the contract of a capability. In auto nothing that goes
// wrong here stops a call: the built-in contract is left, and that is said.
func (r *run) discover(ctx context.Context, o *callOptions, d *daemon, out *render.Renderer, id string) (discovered, error) {
	built := discovered{source: contract.BuiltIn}
	if o.dryRun {
		// A dry run sends nothing, discovery included.
		if o.validate == validateRequire {
			return built, usageError("usage.validate", "--validate require asks the daemon, and --dry-run asks nobody").
				WithHint("leave one of the two out; `aipctl capability describe` shows the contract")
		}
		sayContract(out, "the built-in contract, since a dry run asks nobody")
		return built, nil
	}
	limit := discoverRequired
	if o.validate == validateAuto {
		limit = discoverInAuto
	}
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	l, err := contract.Find(bounded, d.client, id)
	switch {
	case ctx.Err() != nil:
		return built, context.Cause(ctx)
	case err == nil:
		word := "the daemon's " + string(l.Source)
		if l.Missed != nil {
			word += ": " + l.Missed.Message
		}
		if l.Source != contract.Catalogue || r.opts.verbose {
			sayContract(out, word)
		}
		return discovered{l.Source, &l.Capabilities[0]}, nil
	case o.validate == validateAuto:
		sayContract(out, "the built-in contract: "+err.Error())
		return built, nil
	}
	f := fault.As(err)
	if f.Class == fault.NotFound {
		return built, fault.New(fault.Rejected, "validate.no_contract", "no contract was found, and --validate require wants one: %s", f.Message).
			WithHint("`aipctl capability list` shows what there is; --validate auto goes on with the built-in contract")
	}
	return built, f
}

// sayContract says on stderr which contract a call is checked against.
func sayContract(out *render.Renderer, which string) {
	out.Aside(sanitize.Format("checked against %s", sanitize.LineMax(which, sheetValue)))
}

// checkSchema refuses an input that breaks the schema of its capability, with
// the place in it. What cannot be judged is a warning, or a refusal where
// judging is required.
func (o *callOptions) checkSchema(ctx context.Context, found discovered, id string, input []byte) ([]verdict.Warning, error) {
	if found.published == nil {
		return nil, nil
	}
	broken, err := judgeInput(ctx, found.published.InputSchema, input)
	if err != nil {
		why := fmt.Sprintf("the input schema of %s cannot be used: %s", id, err)
		if o.validate == validateRequire {
			return nil, fault.New(fault.Rejected, "validate.schema", "%s", why).
				WithHint("--validate auto goes on without it; the daemon checks the input too")
		}
		return []verdict.Warning{{Code: "validate.schema", Message: why}}, nil
	}
	if len(broken) == 0 {
		return nil, nil
	}
	const most = 4
	var places []string
	for i, v := range broken {
		if i == most {
			places = append(places, fmt.Sprintf("and %d more", len(broken)-most))
			break
		}
		places = append(places, place(v.Pointer)+" "+v.Why)
	}
	return nil, inputError("schema", "the input does not fit the schema of %s: %s", id, strings.Join(places, "; ")).
		WithHint("`aipctl capability describe %s` shows the input", id)
}

// judgeInput bounds the judging in time: a schema comes from a daemon.
func judgeInput(ctx context.Context, schema, input []byte) ([]contract.Violation, error) {
	if len(schema) == 0 {
		return nil, errors.New("the daemon publishes none")
	}
	s, err := contract.Compile(schema)
	if err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, judging)
	defer cancel()
	return s.Check(bounded, input)
}

// place is a JSON pointer as a sentence wants it.
func place(pointer string) string {
	if pointer == "" {
		return "the whole"
	}
	return pointer
}

// agree settles what the contract decides about a call: the key, the mode, and
// how long it can run.
func (o *callOptions) agree(p *prepared, c contract.Contract) error {
	a := &p.plan.Action
	switch {
	case o.keyGiven:
		a.IdempotencyKey = o.key
	case c.KeyRequired && a.IdempotencyKey == "":
		a.IdempotencyKey = identity.NewIdempotencyKey()
	case !c.KeyRequired:
		a.IdempotencyKey = ""
	}
	var err error
	if a.Mode, err = callMode(o, c); err != nil {
		return err
	}
	if !c.Allows(a.Mode) {
		flag := "--mode " + a.Mode
		if o.detach {
			flag = "--detach, which submits async,"
		}
		return usageError("usage.mode", "%s is not what the contract of %s offers: %s", flag, a.CapabilityID, listed(c.Modes())).
			WithHint("leave it out, or see `aipctl capability describe %s`", a.CapabilityID)
	}
	p.plan.RunsAtMost = c.RunsAtMost(a.TimeoutMS)
	return nil
}
