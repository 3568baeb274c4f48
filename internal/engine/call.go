package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/client"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/follow"
	"github.com/aipctl/aipctl/internal/record"
	"github.com/aipctl/aipctl/internal/state"
	"github.com/aipctl/aipctl/internal/verdict"
)

// CallPlan is one intent, checked and complete.
type CallPlan struct {
	Action    aip.Action
	Operation string
	Intent    state.Intent
	Explicit  bool // the id was given, so the daemon is asked for it first
	// RunsAtMost is how long the action can run after its submit.
	RunsAtMost time.Duration
	// Wait bounds the client's waiting; nil takes the defaults: no bound while
	// the submit is open, then a minute past the time the action can still run.
	Wait              *time.Duration
	Detach            bool
	CancelOnInterrupt bool
	// AfterLoss bounds the reading after a lost reply, where less than the
	// default will do; 0 takes the default.
	AfterLoss time.Duration
	// Probe is recorded when the action is run only to learn about another one.
	Probe *state.Probe
}

// Call records, submits, follows, shows and settles one action. An error says
// that the run never began and nothing was sent; everything after that is in
// the outcome, whose ExitCode is the command's.
func Call(ctx context.Context, cfg Config, p CallPlan) (*verdict.Outcome, error) {
	c, err := prepare(ctx, cfg, p)
	if err != nil {
		return nil, err
	}
	return c.perform(ctx), nil
}

// prepare records the intent; nothing has been sent.
func prepare(ctx context.Context, cfg Config, p CallPlan) (*call, error) {
	if p.Explicit {
		if err := probe(ctx, cfg.Net, p.Action.ID); err != nil {
			return nil, err
		}
	}
	if err := cfg.Journal.RecordIntent(ctx, p.Action.ID, p.Intent, p.Explicit); err != nil {
		return nil, err
	}
	r := newRun(cfg, p.Action.ID, p.Action.CapabilityID, p.Operation, true)
	r.key, r.keyless = p.Action.IdempotencyKey, p.Action.IdempotencyKey == ""
	r.asked = p.Intent.ResponseID
	return &call{run: r, plan: p}, nil
}

// perform submits, follows, shows and settles.
func (c *call) perform(ctx context.Context) *verdict.Outcome {
	c.listen("", follow.Begin{})
	if err := c.announce(); err != nil || c.stdout != nil {
		class := fault.ClassOf(c.stdout)
		if left := signalOf(ctx); left != 0 {
			class = left // stdout was given up for the signal's sake
		}
		return c.notSent(ctx, class, "output.write", "stdout was gone before anything was sent")
	}
	if c.plan.Probe != nil {
		_ = c.append(ctx, false, state.Record{Type: state.TypeProbe, ActionID: c.id, Probe: c.plan.Probe})
	}
	if c.plan.Detach {
		return c.detach(ctx)
	}
	return c.watch(ctx)
}

// probe asks the daemon for an id that a person gave. A running stream reads
// unknown while its chunks show, so the state alone proves nothing.
func probe(ctx context.Context, net Network, id string) error {
	inUse := func() error {
		return fault.New(fault.Rejected, "action.id_in_use", "the daemon already knows this action id; this call sent nothing").
			WithAction(id).WithHint("read it with `aipctl action events %s --follow --include-chunks`, or choose another id", id)
	}
	st, err := net.Status(ctx, id)
	if err != nil {
		return probeFault(ctx, err, id)
	}
	if st.State != aip.StateUnknown {
		return inUse()
	}
	page, err := net.Page(ctx, aip.EventsQuery{ActionID: id, IncludeChunks: true, Limit: 1, Kinds: []string{"aip.action.result"}}, aip.Decoding{})
	if err != nil {
		return probeFault(ctx, err, id)
	}
	if len(page.Events) > 0 || len(page.Chunks) > 0 {
		return inUse()
	}
	return nil
}

func probeFault(ctx context.Context, err error, id string) error {
	if class := signalOf(ctx); class != 0 {
		return fault.New(class, "interrupted", "stopped before the daemon said whether it knows this action id; nothing was sent or recorded").WithAction(id)
	}
	f := ReadFault(err)
	if f.Class != fault.Auth && f.Class != fault.Usage {
		f.Class = fault.Unavailable
	}
	f.Message = "the daemon could not be asked whether it knows this action id (" + f.Message + "); nothing was sent or recorded"
	return f.WithAction(id)
}

// ReadFault classifies a failed read for a person: not reached is
// unavailable, refused is auth, unknown ids read by their codes.
func ReadFault(err error) *fault.Error {
	if f := fault.As(err); f != nil {
		c := *f
		return &c
	}
	var remote *aip.RemoteError
	if !errors.As(err, &remote) {
		return fault.New(fault.Unavailable, "daemon.unreachable", "the daemon was not reached: %s", err.Error()).Wrap(err).
			WithHint("check the URL and that the daemon runs")
	}
	code := remote.Code()
	class := fault.Unavailable
	switch {
	case remote.Status == 401 || remote.Status == 403:
		class = fault.Auth
	case code == "action.not_found":
		class = fault.Unknown
	case code == "action.result_not_ready":
		class = fault.Pending
	case remote.AIP() && remote.Proto != nil:
		class = verdict.ReadCode(remote.Proto, verdict.CodeContext{})
		if class == fault.Failed || class == fault.Unknown {
			class = fault.Unavailable
		}
	}
	if code == "" {
		code = "daemon.answer"
	}
	f := fault.New(class, code, "the daemon answered %s", remote.Error()).Wrap(err)
	switch {
	case class == fault.Auth:
		return f.WithHint("check the token (--token-file or AIP_TOKEN) and its scopes")
	case class == fault.Unavailable && !remote.AIP() && remote.Status < 500:
		return f.WithHint("is the URL the daemon's own, with its path prefix? `aipctl doctor` looks at each part")
	case class == fault.Unavailable:
		return f.WithHint("try again; `aipctl doctor` looks at each part")
	}
	return f
}

// call is a run with a submit.
type call struct {
	*run
	plan   CallPlan
	replyc chan reply
	reply  *reply
	abort  context.CancelFunc // gives the open submit up
}

// reply is what became of the submit.
type reply struct {
	at     time.Time
	body   *aip.Reply
	frames []aip.Frame
	err    error
}

func (r *run) identity() record.Identity {
	id := record.Identity{Head: record.NewHead(record.TypeIdentity), ActionID: r.id, CapabilityID: r.cap, URL: r.cfg.Binding.URL, IdempotencyKey: r.key, StateFile: r.cfg.StateFile}
	if r.cfg.Commands != nil {
		id.Resume = r.cfg.Commands.Follow(r.id)
		id.Cancel = r.cfg.Commands.Cancel(r.id)
	}
	return id
}

// open waits for the follow to stand before the post: what the follow is
// refused for proves that nothing ran. refused is the reason not to post.
func (c *call) open(ctx context.Context, f *feed) (refused error) {
	_ = c.show(c.cfg.Sink.State(record.State{Head: record.NewHead(record.TypeState), State: record.StateConnecting}))
	limit := time.NewTimer(openWait)
	defer limit.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-limit.C:
			return nil
		case it, more := <-f.items:
			if !more {
				f.finish()
				return c.refusedBeforePost(f.err)
			}
			if err := c.item(ctx, it); err != nil {
				return err
			}
			switch it.(type) {
			case follow.Opened, follow.Lost, follow.Trouble:
				return nil
			}
		}
	}
}

// refusedBeforePost says whether a follow that ended for good speaks against
// posting. Answers that speak of the action or of our cursor do not.
func (c *call) refusedBeforePost(err error) error {
	if err == nil {
		return nil // terminal already: the reply will say the rest
	}
	var remote *aip.RemoteError
	if !errors.As(err, &remote) {
		return nil
	}
	switch {
	case remote.Redirect != "", remote.NotStream, remote.Status == 401, remote.Status == 403, remote.Status == 404:
		return err
	}
	_ = c.warn("follow.refused", "the stream was refused ("+remote.Error()+"); the answer to the submit decides")
	return nil
}

// post sends the submit from its own goroutine.
func (c *call) post(ctx context.Context) error {
	envelope, err := c.plan.Action.Envelope(c.cfg.MessageID(), c.cfg.Now())
	if err != nil {
		return err
	}
	pctx, abort := context.WithCancel(ctx)
	c.abort = abort
	c.replyc = make(chan reply, 1)
	c.sent = make(chan struct{})
	sent := sync.OnceFunc(func() { close(c.sent) })
	go func() {
		rep := reply{}
		rep.body, rep.err = c.cfg.Net.Submit(pctx, envelope, sent, c.collect(&rep.frames))
		rep.at = c.cfg.Now()
		c.replyc <- rep
	}()
	return c.show(c.cfg.Sink.State(record.State{Head: record.NewHead(record.TypeState), State: record.StateSubmitted}))
}

// collect gathers the frames of an aggregate, with raw_data where it was asked for.
func (r *run) collect(into *[]aip.Frame) aip.ResultDecoding {
	return aip.ResultDecoding{Decoding: aip.Decoding{Raw: r.cfg.Raw}, OnFrame: func(_ int, f aip.Frame) error {
		*into = append(*into, f)
		return nil
	}}
}

// notSent ends a call whose submit provably ran nothing.
func (c *call) notSent(ctx context.Context, class fault.Class, code, why string) *verdict.Outcome {
	rctx, done := lastly(ctx)
	defer done()
	_ = c.append(rctx, true, state.Record{Type: state.TypeNotSent, ActionID: c.id, NotSent: &state.NotSent{
		Class: class.Code(), Code: code, Reason: why, InputHash: c.plan.Intent.InputHash,
	}})
	o := c.outcome(verdict.Judgement{Verdict: notSentVerdict(class), Checks: noChecks()})
	o.ExitCode = class.Code()
	o.ErrorCode, o.Reason = code, why+wayOn(class)
	// The not_sent record is the last word: a verdict behind it would keep the
	// same intent from being tried again.
	return c.finish(ctx, o, &finishing{recorded: true})
}

// wayOn says what to do about a call that ran nothing.
func wayOn(class fault.Class) string {
	switch class {
	case fault.Auth:
		return "; check the token (--token-file, AIP_TOKEN_FILE or AIP_TOKEN) and its scopes, then call again"
	case fault.Unavailable:
		return "; check the URL and that the daemon runs, then call again"
	case fault.NotFound:
		return "; check the capability id and its endpoint, then call again"
	case fault.Rejected:
		return "; correct the request, then call again"
	}
	return ""
}

// notSentVerdict names what became of an action that never left: a signal or
// a closed pipe is no verdict about it.
func notSentVerdict(class fault.Class) fault.Class {
	switch class {
	case fault.Auth, fault.Rejected, fault.NotFound, fault.Usage, fault.State:
		return class
	}
	return fault.Unavailable
}

func noChecks() verdict.Checks {
	n := verdict.NotApplicable
	return verdict.Checks{AIPStatus: verdict.Missing, Terminal: n, Truncated: n, FinishReason: n, ProviderError: n, Integrity: n, RequiredTools: n, EffectCheck: n}
}

// answer reads an error of the submit by the table of answers.
func (c *call) answer(err error) verdict.SubmitReading {
	return verdict.ReadSubmit(answerOf(err, c.reply.at), verdict.CodeContext{Operation: c.operation, LastNamed: c.script.Facts().Named})
}

// answerOf says what an error of a request that must not be repeated proves,
// when it came at that time.
func answerOf(err error, at time.Time) verdict.Answer {
	a := verdict.Answer{Now: at}
	var te *client.TransportError
	switch {
	case errors.As(err, &a.Remote):
	case errors.As(err, &te) && te.NoConnection:
		a.NoConnection = true
	default:
		a.Lost = true
	}
	return a
}
