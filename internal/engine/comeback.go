package engine

import (
	"context"
	"errors"
	"time"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/cursor"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/follow"
	"github.com/aipctl/aipctl/internal/record"
	"github.com/aipctl/aipctl/internal/state"
	"github.com/aipctl/aipctl/internal/verdict"
)

// FollowPlan comes back to an action that exists, or may.
type FollowPlan struct {
	ActionID string
	// Known is what the state file says of the action; nil when it says
	// nothing or is not read.
	Known  *state.Action
	View   *state.View // for the saved cursor; nil reads from the start
	Chunks bool
	Follow bool           // until the action ends; otherwise one pass over the pages
	From   string         // saved, start, or a cursor
	Wait   *time.Duration // nil waits without a bound
}

// From values that are no cursors.
const (
	FromSaved = "saved"
	FromStart = "start"
)

// Events reads or follows an existing action. With Follow it settles like a
// call; without, it shows what the pages hold and gives no verdict, so the
// outcome is nil.
func Events(ctx context.Context, cfg Config, p FollowPlan) (*verdict.Outcome, error) {
	if err := RefuseNotSent(p.Known, p.ActionID); err != nil {
		return nil, err
	}
	r := comeback(cfg, p.ActionID, p.Known, p.Chunks)
	at, begin := position(cfg, p)
	r.listen(at, begin)
	if err := r.announce(); err != nil {
		return r.interrupted(ctx), nil
	}
	if !p.Follow {
		return nil, r.readPages(ctx)
	}
	w := &watcher{run: r, plan: p}
	if w.closed() {
		return w.reopen(ctx)
	}
	return w.watch(ctx)
}

func comeback(cfg Config, id string, known *state.Action, chunks bool) *run {
	capability, operation := "", ""
	key, keyless := "", false
	if known != nil && known.Intent != nil {
		key, keyless = known.Intent.IdempotencyKey, known.Intent.IdempotencyKey == ""
		capability, operation = known.Intent.CapabilityID, known.Intent.Operation
		if operation == "" {
			_, operation = capabilityParts(capability)
		}
	}
	r := newRun(cfg, id, capability, operation, chunks)
	r.key, r.keyless = key, keyless
	if known != nil {
		if known.Intent != nil {
			r.asked = known.Intent.ResponseID
		}
		if n := len(known.ApprovalIDs); n > 0 {
			r.approval = known.ApprovalIDs[n-1]
		}
	}
	return r
}

// RefuseNotSent is the error for an id whose submit is known not to have been
// sent: nothing ran under it, so there is nothing to read. nil for any other.
func RefuseNotSent(known *state.Action, id string) error {
	if known == nil || known.NotSent == nil {
		return nil
	}
	return fault.New(fault.Unavailable, "action.not_sent", "nothing ran under this action id: its submit was not sent (%s)", known.NotSent.Code).
		WithAction(id).WithHint("submit it again with `aipctl action call`")
}

// position says where the reading begins. A cursor that belongs to another
// binding is simply not found.
func position(cfg Config, p FollowPlan) (at string, begin follow.Begin) {
	switch p.From {
	case FromStart:
		return "", follow.Begin{}
	case FromSaved, "":
		if p.View == nil {
			return "", follow.Begin{}
		}
		saved, written, ok := cursor.Saved(p.View, cfg.Binding)
		if !ok {
			return "", follow.Begin{}
		}
		return saved, follow.Begin{Written: written}
	default:
		return p.From, follow.Begin{Anywhere: true}
	}
}

// readPages shows what the pages hold, until one brings nothing new.
func (r *run) readPages(ctx context.Context) error {
	var own error
	err := r.fol.Drain(ctx, func(it follow.Item) error {
		own = r.item(ctx, it)
		return own
	})
	if !r.cfg.CursorAtEnd {
		// The document of this reading is written by whoever asked for it.
		r.flush(ctx)
	}
	r.sayCursor()
	switch {
	case r.stdout != nil:
		return r.stdout
	case signalOf(ctx) != 0:
		return context.Cause(ctx)
	case err != nil:
		return ReadFault(err).WithAction(r.id)
	}
	return nil
}

// watcher follows without a submit of its own.
type watcher struct {
	*run
	plan FollowPlan
}

// statePoll is how often a follow without a submit reads the state: a stream
// whose submit failed in the handler never ends by itself.
const statePoll = 15 * time.Second

func (w *watcher) watch(ctx context.Context) (*verdict.Outcome, error) {
	f := w.startFeed(ctx)
	var deadline *time.Timer
	if w.plan.Wait != nil {
		deadline = time.NewTimer(*w.plan.Wait)
		defer deadline.Stop()
		w.until = w.cfg.Now().Add(*w.plan.Wait)
	}
	poll := time.NewTimer(pollFirst)
	defer poll.Stop()
	w.lastNew = time.Time{}
	begun := w.cfg.Now()
	done, feedc := ctx.Done(), f.items
	for {
		select {
		case <-done:
			_ = f.halt(nil)
			return w.interrupted(ctx), nil
		case it, more := <-feedc:
			if !more {
				f.finish()
				feedc = nil
				if f.err == nil {
					return w.end(ctx, f)
				}
				if ctx.Err() != nil {
					continue
				}
				if o, err := w.refused(ctx, f); o != nil || err != nil {
					return o, err
				}
				continue
			}
			if err := w.item(ctx, it); err != nil {
				_ = f.halt(nil)
				return w.interrupted(ctx), nil
			}
		case <-poll.C:
			end := w.readState(ctx)
			if end == atTerminal {
				return w.end(ctx, f)
			}
			since := w.cfg.Now().Sub(latest(w.lastNew, begun))
			if deadline == nil && since >= unknownMost && (w.run.state == aip.StateUnknown || w.run.state == "") {
				return w.waited(ctx, f)
			}
			poll.Reset(statePoll)
		case <-timerC(deadline):
			return w.waited(ctx, f)
		}
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (w *watcher) end(ctx context.Context, f *feed) (*verdict.Outcome, error) {
	if err := f.halt(func(it follow.Item) error { return w.item(ctx, it) }); err != nil {
		return w.interrupted(ctx), nil
	}
	return w.terminated(ctx, 10*time.Second), nil
}

// terminated settles an action that has ended.
func (w *watcher) terminated(ctx context.Context, patience time.Duration) *verdict.Outcome {
	if err := w.drain(ctx); err != nil {
		return w.interrupted(ctx)
	}
	return w.conclude(ctx, w.readResult(ctx, patience))
}

func (w *watcher) waited(ctx context.Context, f *feed) (*verdict.Outcome, error) {
	if err := f.halt(func(it follow.Item) error { return w.item(ctx, it) }); err != nil {
		return w.interrupted(ctx), nil
	}
	reading, why := w.waitedOut(ctx, false)
	if aip.TerminalState(w.run.state) {
		return w.terminated(ctx, 0), nil
	}
	if err := w.unstreamed(ctx, f, w.plan.Wait); err != nil {
		return w.interrupted(ctx), nil
	}
	if !w.opened && w.run.state == "" && w.lost != nil && !w.submitted() {
		return w.unreached(ctx, ReadFault(w.lost)), nil
	}
	return w.conclude(ctx, found{reading: reading, why: why}), nil
}

// submitted reports whether the state file says that this action was submitted.
func (w *watcher) submitted() bool { return w.plan.Known != nil && w.plan.Known.Intent != nil }

// unreached ends a run that has learnt nothing of the action. The verdict is
// unknown and is not recorded; the exit code says what was in the way.
func (w *watcher) unreached(ctx context.Context, f *fault.Error) *verdict.Outcome {
	o := w.outcome(w.judge(verdict.Evidence{Unsettled: fault.Unknown}))
	o.ExitCode, o.ErrorCode, o.Reason = f.Class.Code(), f.Code, f.Message
	if f.Hint != "" {
		o.Reason += "; " + f.Hint
	}
	return w.finish(ctx, o, &finishing{recorded: true})
}

// refused handles a stream that can not be followed. Where what answered is no
// daemon of ours, or one that does not know this caller, no other answer of it
// counts. Else the action settles without a stream where the result can be
// read; where it cannot, an action that this client has submitted is unknown,
// and any other was not reached.
func (w *watcher) refused(ctx context.Context, f *feed) (*verdict.Outcome, error) {
	if !w.opened && noDaemon(f.err) {
		return w.unreachable(ctx, f.err), nil
	}
	_ = w.warn("follow.refused", "the stream cannot be followed: "+f.err.Error()+"; the outcome is read without it")
	found := w.readResult(ctx, 0)
	switch {
	case found.result != nil || found.state != "":
		if err := w.drain(ctx); err != nil {
			return w.interrupted(ctx), nil
		}
		return w.conclude(ctx, found), nil
	case found.reading == fault.Pending && w.plan.Wait == nil, tooLarge(f.err):
		return nil, nil // it runs, or may: the state goes on being read
	case found.reading == fault.Pending, found.reading == fault.Unknown && w.run.state == aip.StateUnknown:
		return w.conclude(ctx, found), nil
	}
	return w.unreachable(ctx, f.err), nil
}

// unstreamed reads by pages what our own bound kept from the stream, before a
// run gives up waiting. A bound that a person set is kept.
func (r *run) unstreamed(ctx context.Context, f *feed, wait *time.Duration) error {
	if wait != nil || !tooLarge(f.err) {
		return nil
	}
	return r.drain(ctx)
}

// tooLarge reports whether it was our own bound that ended the stream: the
// daemon is there, and has more to say.
func tooLarge(err error) bool {
	var large *follow.ErrEventTooLarge
	return errors.As(err, &large)
}

// noDaemon reports whether an answer to the follow shows that nothing behind
// this URL will speak of the action to this caller: a refused token, a page of
// something on the way, a redirect, a path that is not there.
func noDaemon(err error) bool {
	var remote *aip.RemoteError
	if !errors.As(err, &remote) {
		return false
	}
	switch remote.Status {
	case 200:
		return remote.NotStream
	case 401, 403:
		return true
	case 404:
		return !remote.AIP()
	}
	return remote.Redirect != ""
}

// unreachable ends a run that nobody answered: by what refused the caller; else
// unknown for an action of this state file, or a recorded verdict, and not
// reached for any other.
func (w *watcher) unreachable(ctx context.Context, cause error) *verdict.Outcome {
	f := ReadFault(cause)
	var remote *aip.RemoteError
	refused := errors.As(cause, &remote) && (remote.Status == 401 || remote.Status == 403)
	switch {
	case refused:
		f.Class = fault.Auth
	case w.submitted():
		return w.conclude(ctx, found{reading: fault.Unknown, why: f.Message})
	default:
		f.Class = fault.Unavailable
	}
	return w.unreached(ctx, f)
}

// conclude settles what was found, or gives the recorded verdict back where
// the daemon has no result any more.
func (w *watcher) conclude(ctx context.Context, f found) *verdict.Outcome {
	if f.result == nil && f.state == "" && signalOf(ctx) == 0 && w.recorded() {
		return w.giveBack(ctx, f)
	}
	return w.settle(ctx, f)
}

// closed reports whether the submit was answered with an error that stored
// nothing: its stream never ends, and only what is there already can be read.
func (w *watcher) closed() bool {
	k := w.plan.Known
	return k != nil && k.Settled != nil && k.Settled.Closed
}

// reopen reads what the daemon has of an action whose submit was closed, and
// gives the recorded verdict back unless a result is there after all.
func (w *watcher) reopen(ctx context.Context) (*verdict.Outcome, error) {
	if err := w.drain(ctx); err != nil {
		return w.interrupted(ctx), nil
	}
	return w.conclude(ctx, w.readResult(ctx, 0)), nil
}

// recorded reports whether the state file holds a verdict that stands.
func (w *watcher) recorded() bool {
	k := w.plan.Known
	if k == nil || k.Settled == nil {
		return false
	}
	switch k.Settled.Verdict {
	case fault.Pending.String():
		return false
	case fault.Unknown.String():
		return k.Settled.Closed
	}
	return true
}

func (w *watcher) giveBack(ctx context.Context, f found) *verdict.Outcome {
	w.over = w.closed()
	s := w.plan.Known.Settled
	o := w.outcome(w.judge(verdict.Evidence{Unsettled: fault.Unknown}))
	o.Verdict, o.Recorded, o.AIPStatus, o.ErrorCode, o.FinishReason, o.ReplayOf = s.Verdict, true, s.AIPStatus, s.ErrorCode, s.FinishReason, s.ReplayOf
	o.Checks = checksFrom(s.Checks)
	if s.UncertainOutcome {
		yes := true
		o.UncertainOutcome = &yes
	}
	o.ExitCode = classOf(s.Verdict).Code()
	o.Reason = "recorded verdict of " + w.plan.Known.SettledAt.UTC().Format(time.RFC3339) + "; the daemon has no result now (" + f.why + ")"
	return w.finish(ctx, o, &finishing{recorded: true})
}

func classOf(name string) fault.Class {
	for _, e := range fault.Exits() {
		if e.Name == name {
			return e.Class
		}
	}
	return fault.Unknown
}

func checksFrom(m map[string]string) verdict.Checks {
	get := func(name string) verdict.Status {
		if s, ok := m[name]; ok {
			return verdict.Status(s)
		}
		return verdict.Missing
	}
	return verdict.Checks{
		AIPStatus: get("aip_status"), Terminal: get("terminal"), Truncated: get("truncated"), FinishReason: get("finish_reason"),
		ProviderError: get("provider_error"), Integrity: get("integrity"), RequiredTools: get("required_tools"), EffectCheck: get("effect_check"),
	}
}

// ResultPlan reads the stored result of an action.
type ResultPlan struct {
	ActionID string
	Known    *state.Action
	Wait     *time.Duration // nil reads once; otherwise polls that long
}

// Result judges a stored result like a call: with the chunks that the daemon
// keeps as evidence beside it. It never moves a cursor.
func Result(ctx context.Context, cfg Config, p ResultPlan) (*verdict.Outcome, error) {
	if err := RefuseNotSent(p.Known, p.ActionID); err != nil {
		return nil, err
	}
	journal := cfg.Journal
	cfg.Journal = nil // no cursor is kept
	r := comeback(cfg, p.ActionID, p.Known, true)
	r.listen("", follow.Begin{})
	r.cfg.Journal = journal
	r.keeper, r.unkept = nil, false
	w := &watcher{run: r, plan: FollowPlan{ActionID: p.ActionID, Known: p.Known, Chunks: true}}
	if err := r.announce(); err != nil {
		return r.interrupted(ctx), nil
	}
	f, err := w.pollResult(ctx, p.Wait)
	if err != nil {
		return w.unreached(ctx, fault.As(err)), nil
	}
	if f.result != nil || f.state != "" || f.reading != 0 {
		if err := w.drain(ctx); err != nil {
			return w.interrupted(ctx), nil
		}
	}
	return w.conclude(ctx, f), nil
}

// pollResult reads the result once, or until wait has run out.
func (w *watcher) pollResult(ctx context.Context, wait *time.Duration) (found, error) {
	_ = w.show(w.cfg.Sink.State(record.State{Head: record.NewHead(record.TypeState), State: record.StateSettling}))
	var until time.Time
	if wait != nil {
		until = w.cfg.Now().Add(*wait)
	}
	delay := pollFirst
	for {
		var frames []aip.Frame
		res, err := w.cfg.Net.Result(ctx, w.id, w.collect(&frames))
		if err == nil {
			return found{result: res, frames: frames}, nil
		}
		if signalOf(ctx) != 0 {
			return found{}, nil
		}
		f, again := w.noResult(ctx, err)
		left := until.Sub(w.cfg.Now())
		if f.reading == 0 || f.state != "" && (!again || left <= 0) {
			return f, nil
		}
		if wait == nil || left <= 0 || f.refused {
			return w.unread(err, f)
		}
		if err := follow.Pause(ctx, min(delay, left)); err != nil {
			return found{}, nil
		}
		delay = min(delay*2, pollMost)
	}
}

// unread says what a result that could not be read means: an id that this
// client has submitted is unknown, any other was not reached.
func (w *watcher) unread(err error, f found) (found, error) {
	rf := ReadFault(err)
	switch rf.Class {
	case fault.Unknown, fault.Pending:
		return f, nil
	case fault.Auth:
		return found{}, rf.WithAction(w.id)
	}
	if w.submitted() || w.run.state != "" {
		return f, nil
	}
	return found{}, rf.WithAction(w.id)
}
