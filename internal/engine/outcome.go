package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/record"
	"github.com/aipctl/aipctl/internal/state"
	"github.com/aipctl/aipctl/internal/transcript"
	"github.com/aipctl/aipctl/internal/verdict"
	"github.com/go-json-experiment/json/jsontext"
)

// judge completes the evidence with what this run has seen.
func (r *run) judge(ev verdict.Evidence) verdict.Judgement {
	ev.Operation = r.operation
	ev.Facts = r.script.Facts()
	ev.Integrity = r.integrity
	ev.RequiredTools = r.cfg.RequiredTools
	ev.ResponseID = r.asked
	if r.fol != nil {
		ev.Integrity.FromStart = r.fol.FromStart()
		ev.Integrity.Seen = r.fol.Order().Count()
	}
	return verdict.Judge(ev)
}

// outcome fills the record from the judgement and from what was seen.
func (r *run) outcome(j verdict.Judgement) *verdict.Outcome {
	facts := r.script.Facts()
	now := r.cfg.Now()
	o := &verdict.Outcome{
		V: record.Version, Type: record.TypeOutcome,
		ActionID: r.id, CapabilityID: r.cap, Operation: r.operation,
		Verdict: j.Verdict.String(), ExitCode: j.Verdict.Code(), Checks: j.Checks,
		Reason: strings.Join(j.Reasons, "; "), State: r.state, FinishReason: j.FinishReason,
		HermesSessionID: facts.Session, Usage: facts.Usage,
		Reconnects: r.reconnects, Duplicates: r.duplicates, Gaps: r.gaps,
		Conflicts: r.integrity.Conflicts + r.integrity.Strays + r.integrity.AboveTerminal + r.integrity.FrameDiffers,
		Cursor:    r.cursorAt, StartedAt: r.started.UTC().Format(time.RFC3339Nano), TotalMS: now.Sub(r.started).Milliseconds(),
		Tools: []verdict.Tool{}, ToolEffects: "none",
	}
	answer := facts.Answer()
	o.TextBytes = len(answer)
	if facts.Response != nil {
		o.ResponseID, o.ProviderStatus = facts.Response.ID, facts.Response.Status
	}
	if n := len(facts.Errors); n > 0 {
		o.ProviderError = &verdict.ProviderError{Type: facts.Errors[n-1].Type, Code: facts.Errors[n-1].Code}
	}
	if h := facts.Hermes; h != nil {
		o.Hermes = &verdict.Hermes{Completed: h.Completed, Partial: h.Partial, Failed: h.Failed, ErrorCode: h.ErrorCode}
	}
	if r.firstText != nil {
		ms := r.firstText.Sub(r.started).Milliseconds()
		o.FirstTextMS = &ms
	}
	for _, t := range facts.Tools {
		tool := verdict.Tool{Name: t.Name, CallID: t.CallID, Status: t.Status}
		if ms, ok := r.toolMS[t.CallID]; ok && t.CallID != "" {
			tool.MS = &ms
		}
		o.Tools = append(o.Tools, tool)
	}
	switch {
	case r.confirmed:
		o.ToolEffects = "confirmed"
	case len(o.Tools) > 0:
		o.ToolEffects = "unconfirmed"
	}
	if r.cfg.Document {
		o.Text, o.Items = answer, items(facts)
	}
	return o
}

// items lists what the stream held in the order in which it was opened. A text
// whose item no event opened stands before the first item of a higher index; a
// chat opens its message with the first frame of the choice, words or not.
func items(f transcript.Facts) []verdict.ItemText {
	var out []verdict.ItemText
	texts := slices.Clone(f.Texts)
	take := func(which func(transcript.ItemRef) bool) bool {
		n := len(out)
		texts = slices.DeleteFunc(texts, func(t transcript.TextFact) bool {
			if !which(t.Item) {
				return false
			}
			out = append(out, verdict.ItemText{
				ItemID: t.Item.ItemID, OutputIndex: t.Item.OutputIndex, ContentIndex: t.Item.ContentIndex, Choice: t.Item.Choice,
				Kind: "message", Text: t.Text,
			})
			return true
		})
		return len(out) > n
	}
	opened := func(ref transcript.ItemRef) bool {
		return slices.ContainsFunc(f.Items, func(it transcript.ItemFact) bool { return ref.SameItem(it.Ref()) })
	}
	for _, it := range f.Items {
		take(func(ref transcript.ItemRef) bool { return !opened(ref) && ref.OutputIndex < it.OutputIndex })
		if it.Kind == "message" && (take(it.Ref().SameItem) || f.FromEnd) {
			continue // its words, if only the end has them, name no item
		}
		out = append(out, verdict.ItemText{
			ItemID: it.ItemID, OutputIndex: it.OutputIndex, Kind: it.Kind, CallID: it.CallID, Name: it.Name, Status: it.Status, Item: it.Payload,
		})
	}
	for _, choice := range slices.Sorted(maps.Keys(f.Finishes)) {
		if !take(func(ref transcript.ItemRef) bool { return ref.Choice == choice }) && len(f.Items) == 0 {
			out = append(out, verdict.ItemText{Choice: choice, Kind: "message"})
		}
	}
	take(func(transcript.ItemRef) bool { return true })
	return out
}

// finishing is what only a settled end knows.
type finishing struct {
	result   *aip.ActionResult
	closed   bool
	recorded bool // the state file says it already
}

// finish adds warnings and the way on, records the verdict, and shows the
// outcome. It is the only place that does, so there is exactly one.
func (r *run) finish(ctx context.Context, o *verdict.Outcome, f *finishing) *verdict.Outcome {
	if f == nil {
		f = &finishing{}
	}
	if f.result != nil {
		r.describe(o, f.result)
	}
	if f.result != nil || f.closed {
		r.adviceFor(o)
	}
	r.governed(ctx, o, f.result)
	if r.amend != nil {
		r.amend(o, f.result)
	}
	if r.cfg.FailOnWarning && o.Verdict == fault.Accepted.String() && o.ExitCode == 0 && len(r.warnings) > 0 {
		o.Verdict, o.ExitCode = fault.Incomplete.String(), fault.Incomplete.Code()
		o.Reason = "there are warnings, and --fail-on-warning was given"
	}
	if r.stdout != nil && !left(o) {
		o.ExitCode = fault.ClassOf(r.stdout).Code()
		if fault.ClassOf(r.stdout) == fault.Output {
			o.Reason = strings.TrimSuffix("stdout could not be written in full; "+o.Reason, "; ")
		}
	}
	o.Warnings = r.warnings
	r.over = r.over || f.closed
	r.next(o)
	if !f.recorded {
		r.record(ctx, o, f)
	}
	if !r.cfg.CursorAtEnd {
		r.flush(ctx)
	}
	r.sayCursor()
	o.Warnings = r.warnings
	if o.Warnings == nil {
		o.Warnings = []verdict.Warning{}
	}
	if err := r.cfg.Sink.Outcome(o); err != nil && r.stdout == nil {
		r.stdout = err
		if !left(o) {
			o.ExitCode = fault.ClassOf(err).Code()
		}
	}
	if r.cfg.CursorAtEnd && r.stdout == nil {
		r.flush(ctx)
	}
	return o
}

// left reports whether a signal ended the watching of a run. It stays so where
// stdout is lost too; a run that had settled by then has lost its answer.
func left(o *verdict.Outcome) bool { return o.ExitCode >= fault.HangUp.Code() }

// describe copies what the result says of itself.
func (r *run) describe(o *verdict.Outcome, res *aip.ActionResult) {
	o.AIPStatus = res.Status
	if e := res.Error; e != nil {
		o.ErrorCode, o.UncertainOutcome = e.Spelled(), e.Uncertain()
		if strings.HasSuffix(e.Code, ".stream_failed") {
			o.UncertainOutcome = nil // its details are the provider's own frame
		}
	}
	if id := approvalID(res); id != "" {
		o.ApprovalID = id
	}
	r.owner = r.keyOwner(res.Error)
	if !r.foreign(res) && (res.ActionID != "" && res.ActionID != r.id || replayed(res)) {
		o.ReplayOf = res.ActionID
		r.owner = r.another(res.ActionID)
		_ = r.warn("idempotent.replay", "this is the first result of the idempotency key, under the first action's id; nothing new ran")
	}
}

// adviceFor adds the warnings that never change a verdict.
func (r *run) adviceFor(o *verdict.Outcome) {
	facts := r.script.Facts()
	text := o.TextBytes > 0
	tokens, known := outputTokens(facts.Usage)
	switch {
	case text && known && tokens == 0 && countsNothing(facts.Usage):
		_ = r.warn("usage.zero", "there is text, but the provider counts no tokens; Hermes does so after a failure")
	case !text && known && tokens > 0:
		_ = r.warn("usage.without_text", "the provider counts tokens, but there is no text")
	}
	for _, t := range o.Tools {
		if t.Status == transcript.ToolRunning {
			_ = r.warn("tool.unfinished", "a tool never reported completion")
		}
	}
	if o.FinishReason == "stop" && !text {
		_ = r.warn("text.none", "the provider finished with stop and without any text")
	}
	if len(o.Tools) > 0 && o.ToolEffects != "confirmed" {
		_ = r.warn("tools.unconfirmed", "tools ran; that their effects took place is not confirmed")
	}
	if facts.OtherChoices() {
		_ = r.warn("choices.hidden", "the provider sent more than one choice; choice 0 is shown")
	}
}

// countsNothing reports whether every count of a usage is zero. A provider that
// has counted the prompt and no output was asked, and said nothing.
func countsNothing(usage jsontext.Value) bool {
	for _, v := range aip.Members(usage) {
		if n, err := strconv.ParseFloat(string(v), 64); err == nil && n != 0 {
			return false
		}
	}
	return true
}

func outputTokens(usage jsontext.Value) (n int64, known bool) {
	for _, name := range []string{"completion_tokens", "output_tokens"} {
		if v := aip.Member(usage, name); v != nil {
			var k int64
			if _, err := fmt.Sscan(string(v), &k); err == nil {
				return k, true
			}
		}
	}
	return 0, false
}

// next adds the commands that a person can go on with: for what is not
// settled. None of them submits anything.
func (r *run) next(o *verdict.Outcome) {
	if r.cfg.Commands == nil || o.Next != nil {
		return
	}
	switch o.Verdict {
	case fault.Pending.String():
		if r.owner != "" { // another action holds the key: its end is the answer
			o.Next = [][]string{r.cfg.Commands.Follow(r.owner)}
			return
		}
		o.Next = [][]string{r.cfg.Commands.Follow(r.id)}
		if o.ExitCode != fault.Pending.Code() {
			o.Next = append(o.Next, r.cfg.Commands.Cancel(r.id))
		}
	case fault.Rejected.String():
		if r.owner != "" { // whose result the key stands for
			o.Next = [][]string{r.cfg.Commands.Result(r.owner)}
		}
	case fault.Unknown.String():
		defer r.readStored(o)
		if r.owner != "" { // the unknown one is the action whose result was replayed
			o.Next = [][]string{r.cfg.Commands.Result(r.owner), r.cfg.Commands.Status(r.owner)}
			return
		}
		if r.over { // following would wait for an end that never comes
			o.Next = [][]string{r.cfg.Commands.Result(r.id), r.cfg.Commands.Status(r.id)}
			return
		}
		o.Next = [][]string{r.cfg.Commands.Follow(r.id), r.cfg.Commands.Status(r.id)}
	case fault.Incomplete.String(), fault.Conflict.String():
		o.Next = [][]string{r.cfg.Commands.Result(orElse(r.owner, r.id))}
		r.readStored(o)
	}
}

// record keeps the verdict. A failure is a warning: the action has ended as
// it has ended.
func (r *run) record(ctx context.Context, o *verdict.Outcome, f *finishing) {
	if r.cfg.Journal == nil {
		return
	}
	rctx, done := lastly(ctx)
	defer done()
	code := o.ErrorCode
	if !aip.IsCode(code) {
		code = "" // it is text, and none is kept
	}
	s := &state.Settled{
		Verdict: o.Verdict, ExitCode: o.ExitCode, Checks: o.Checks.Map(), AIPStatus: o.AIPStatus, ErrorCode: code,
		FinishReason: recordable(o.FinishReason), ReplayOf: o.ReplayOf, Missing: o.Checks.MissingCount(), Closed: f.closed,
		UncertainOutcome: o.UncertainOutcome != nil && *o.UncertainOutcome, Receipt: recordedReceipt(o.Receipt),
	}
	_ = r.append(rctx, false, state.Record{Type: state.TypeSettled, ActionID: r.id, Settled: s})
}

// recordable keeps a finish reason out of the state file unless it is one
// word of the protocol: anything else is provider text.
func recordable(reason string) string {
	switch reason {
	case "stop", "length", "error", "content_filter", "tool_calls", "function_call", "completed", "incomplete", "failed", "cancelled", "in_progress",
		"run.completed", "run.failed", "run.cancelled":
		return reason
	case "":
		return ""
	}
	return "other"
}

func capabilityParts(id string) (endpoint, operation string) {
	parts := strings.Split(id, ":")
	if len(parts) == 4 && parts[0] == "cap" {
		return parts[2], parts[3]
	}
	return "", ""
}

func differText(seq uint64) string {
	return fmt.Sprintf("chunk %d is not what the result retains for it", seq)
}
