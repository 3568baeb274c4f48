package verdict

import (
	"maps"
	"slices"
	"strings"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/transcript"
)

// Integrity is what ordering and comparing the chunks has shown.
type Integrity struct {
	Conflicts     int  // sequences with two contents
	Strays        int  // chunks of another action
	AboveTerminal int  // chunks above a terminal chunk's sequence
	ForeignResult bool // the result is another action's, and no replay
	FrameDiffers  int  // chunks that differ from their frame in the aggregate
	Holes         int  // sequences that nothing filled
	CountsDiffer  bool // frames can only be matched by order, and their number is another
	FromStart     bool // the stream was read from its start
	Seen          int  // chunks seen
}

// Evidence is everything a judgement rests on.
type Evidence struct {
	Operation string
	Result    *aip.ActionResult
	// Reply is the error body of a submit that stored nothing; it is the only
	// copy of the outcome.
	Reply *SubmitReading
	// ReplyError is the typed error of Reply.
	ReplyError *aip.ProtocolError
	// State is the terminal state of an action without a readable result.
	State string
	// Unsettled is set when neither result, reply nor terminal state is known:
	// pending or unknown.
	Unsettled     Reading
	Facts         transcript.Facts
	Integrity     Integrity
	RequiredTools []string
	EffectChecks  []EffectCheck
	// ResponseID is the stored response that the action was to read or delete;
	// empty where nobody knows it.
	ResponseID string
}

// EffectCheck is the outcome of one command that confirms an effect.
type EffectCheck struct {
	Ran      bool
	ExitCode int
}

// Judgement is a verdict with its reasons.
type Judgement struct {
	Verdict Reading
	Checks  Checks
	// FinishReason is the provider's own word: the one of choice 0, or the
	// worst of several; empty when there was none.
	FinishReason string
	// Reasons names what spoke against acceptance, strongest first.
	Reasons []string
}

// family groups the operations by the rule that says how they finish.
type family int

const (
	other family = iota
	chatFamily
	responsesFamily
	runFamily
	operatorFamily
)

func familyOf(operation string) family {
	switch operation {
	case "chat", "chat_stream":
		return chatFamily
	case "responses", "responses_stream":
		return responsesFamily
	case "run_events", "session_chat_stream":
		return runFamily
	case "operator":
		return operatorFamily
	}
	return other
}

// JudgedByResult reports whether the result alone tells how an operation ended:
// it has no stream and no finish of its own.
func JudgedByResult(operation string) bool {
	return operation != "" && familyOf(operation) == other && !Streams(operation)
}

// Streams reports whether the operation publishes chunks and ends in an
// aggregate of them.
func Streams(operation string) bool {
	return strings.HasSuffix(operation, "_stream") || operation == "run_events"
}

// judge carries the readings while the checks are made.
type judge struct {
	ev       Evidence
	out      Judgement
	readings []Reading
	reasons  []string // of the reading at the same index
}

// read takes one reading. A class that is no verdict of an action (usage,
// state, a signal) has no place in the order and says nothing about the
// action: it is unknown, for the order must not let it fall through to
// accepted.
func (j *judge) read(r Reading, why string) {
	if !slices.Contains(precedence, r) {
		r = fault.Unknown
	}
	j.readings = append(j.readings, r)
	j.reasons = append(j.reasons, why)
}

// settle takes the strongest reading and orders the reasons by it. Of an action
// that was not let run, or not to its end, nobody expects the evidence of an
// end: that it is missing stands in the checks and is no reason.
func (j *judge) settle() Judgement {
	j.out.Verdict = strongest(j.readings)
	cut := slices.Contains([]Reading{fault.Pending, fault.Auth, fault.NotFound, fault.Rejected, fault.Cancelled}, j.out.Verdict)
	for _, p := range precedence {
		if cut && p == fault.Incomplete {
			continue
		}
		for i, r := range j.readings {
			if r == p && r != fault.Accepted {
				j.out.Reasons = append(j.out.Reasons, j.reasons[i])
			}
		}
	}
	return j.out
}

// Judge makes every check and returns the verdict.
func Judge(ev Evidence) Judgement {
	j := &judge{ev: ev}
	j.aipStatus()
	j.aggregate()
	j.finish()
	j.providerError()
	j.integrity()
	j.requiredTools()
	j.effectChecks()
	return j.settle()
}

func (j *judge) aipStatus() {
	c := &j.out.Checks
	res := j.ev.Result
	cx := CodeContext{Operation: j.ev.Operation, LastNamed: j.ev.Facts.Named}
	switch {
	case res != nil && res.Status == aip.StatusPendingApproval:
		c.AIPStatus = Missing
		j.read(fault.Pending, "the action waits for a human")
	case res != nil && res.Status == aip.StatusRequiresHuman:
		c.AIPStatus = Missing
		j.read(fault.Pending, "the provider's run waits for a human to choose; another operator action goes on with it, "+
			"whose input has resume with this action as source_action_id and the choice")
	case res != nil && res.Status == aip.StatusCompleted:
		c.AIPStatus = Pass
	case res != nil && res.Status == aip.StatusCancelled:
		c.AIPStatus = Fail
		j.read(fault.Cancelled, "the action was cancelled")
	case res != nil && res.Status != aip.StatusFailed:
		// Not read as failed: whoever reads that may run the action again.
		c.AIPStatus = Fail
		j.read(fault.Unknown, "the result has a status that is not known")
	case res != nil:
		c.AIPStatus = Fail
		why := "the action failed"
		if res.Error != nil && res.Error.Code != "" {
			why = "the action failed with " + res.Error.Code
		}
		j.read(ReadCode(res.Error, cx), why)
	case j.ev.Reply != nil:
		c.AIPStatus = Fail
		why := "the submit was answered with an error"
		if j.ev.ReplyError != nil {
			why = "the submit was answered with " + j.ev.ReplyError.Code
		}
		r := j.ev.Reply.Reading
		if r == fault.Accepted { // the zero value: no error accepts anything
			r = fault.Unknown
		}
		j.read(r, why)
	case j.ev.State == aip.StateCancelled:
		c.AIPStatus = Fail
		j.read(fault.Cancelled, "the action was cancelled")
	case j.ev.State == aip.StateExpired || j.ev.State == aip.StateDeadLettered || j.ev.State == aip.StateFailed:
		c.AIPStatus = Fail
		j.read(fault.Failed, "the action's state is "+j.ev.State)
	case j.ev.State == aip.StateCompleted:
		c.AIPStatus = Missing
		j.read(fault.Incomplete, "the state is completed, but the result cannot be read")
	default:
		c.AIPStatus = Missing
		r := j.ev.Unsettled
		if r == fault.Accepted { // the zero value: without evidence nothing is accepted
			r = fault.Unknown
		}
		j.read(r, "no result is known")
	}
}

func (j *judge) aggregate() {
	c := &j.out.Checks
	if !Streams(j.ev.Operation) {
		c.Terminal, c.Truncated = NotApplicable, NotApplicable
		return
	}
	var out *aip.Output
	if j.ev.Result != nil {
		out = j.ev.Result.Output
	}
	if !out.Aggregate() {
		c.Terminal, c.Truncated = Missing, Missing
		j.read(fault.Incomplete, "there is no aggregate of the stream")
		return
	}
	switch {
	case out.Terminal == nil:
		c.Terminal = Missing
		j.read(fault.Incomplete, "the aggregate does not say that it is terminal")
	case *out.Terminal:
		c.Terminal = Pass
	default:
		c.Terminal = Fail
		j.read(fault.Incomplete, "the aggregate is not terminal")
	}
	c.Truncated = Pass
	if out.Truncated != nil && *out.Truncated {
		c.Truncated = Fail
		j.read(fault.Partial, "the aggregate was truncated at the event limit")
	}
}

func (j *judge) finish() {
	switch familyOf(j.ev.Operation) {
	case chatFamily:
		j.finishChat()
	case responsesFamily:
		j.finishResponses()
	case runFamily:
		j.out.FinishReason = j.ev.Facts.Named
		j.finishBy(j.ev.Facts.Named, map[string]Reading{"run.completed": fault.Accepted}, "the last named frame is no run.completed")
	case operatorFamily:
		status := ""
		if j.ev.Result != nil {
			status = j.ev.Result.Output.String("status")
		}
		j.out.FinishReason = status
		j.finishBy(status, map[string]Reading{"completed": fault.Accepted}, "the operator's status is not completed")
	default:
		j.out.Checks.FinishReason = NotApplicable
	}
}

func (j *judge) finishBy(word string, table map[string]Reading, why string) {
	c := &j.out.Checks.FinishReason
	if word == "" {
		*c = Missing
		j.read(fault.Incomplete, why)
		return
	}
	r, ok := table[word]
	if !ok {
		r = fault.Incomplete
	}
	if r == fault.Accepted {
		*c = Pass
		return
	}
	*c = Fail
	j.read(r, why)
}

// finishChat wants one stop, and nothing but stop, of every choice seen.
func (j *judge) finishChat() {
	f := j.ev.Facts
	c := &j.out.Checks.FinishReason
	worst := fault.Accepted
	some := false
	for _, choice := range slices.Sorted(maps.Keys(f.Finishes)) {
		reasons := f.Finishes[choice]
		if len(reasons) == 0 {
			worst = strongest([]Reading{worst, fault.Incomplete})
			continue
		}
		for _, reason := range reasons {
			some = true
			r := readFinish(reason)
			if r != fault.Accepted && strongest([]Reading{worst, r}) == r || j.out.FinishReason == "" && choice == 0 {
				j.out.FinishReason = reason
			}
			worst = strongest([]Reading{worst, r})
		}
	}
	switch {
	case !some:
		*c = Missing
		j.read(fault.Incomplete, "no finish_reason was seen")
	case worst == fault.Accepted:
		*c = Pass
	default:
		*c = Fail
		j.read(worst, "finish_reason is not stop for every choice")
	}
}

func readFinish(reason string) Reading {
	switch reason {
	case "stop":
		return fault.Accepted
	case "error":
		return fault.Failed
	case "length", "content_filter":
		return fault.Partial
	default:
		return fault.Incomplete
	}
}

// finishResponses wants the completed event, where there are events, and the
// object's own status, and that both agree with the result.
func (j *judge) finishResponses() {
	f := j.ev.Facts
	status := ""
	if f.Response != nil {
		status = f.Response.Status
	}
	j.out.FinishReason = status
	table := map[string]Reading{"completed": fault.Accepted, "incomplete": fault.Partial, "failed": fault.Failed}
	if j.ev.Operation == "responses_stream" && status == "completed" && !f.Events["response.completed"] {
		j.out.Checks.FinishReason = Missing
		j.read(fault.Incomplete, "no response.completed event was seen")
		return
	}
	j.finishBy(status, table, "the response object's status is not completed")
}

func (j *judge) providerError() {
	c := &j.out.Checks.ProviderError
	if familyOf(j.ev.Operation) == other && len(j.ev.Facts.Errors) == 0 && !j.ev.Facts.Failed {
		*c = NotApplicable
		return
	}
	*c = Pass
	for _, e := range j.ev.Facts.Errors {
		if !e.Explains {
			*c = Fail
			j.read(fault.Failed, "a provider error was retained")
			break
		}
	}
	if j.ev.Facts.Failed {
		*c = Fail
		j.read(fault.Failed, "the provider says hermes.failed")
	}
}

func (j *judge) integrity() {
	c := &j.out.Checks.Integrity
	in := j.ev.Integrity
	differing := j.ev.Facts.Differs
	for _, t := range j.ev.Facts.Texts {
		differing = differing || t.Differs
	}
	switch {
	case in.Conflicts > 0:
		*c = Fail
		j.read(fault.Conflict, "one sequence came with two contents")
	case in.Strays > 0:
		*c = Fail
		j.read(fault.Conflict, "a chunk of another action was delivered")
	case in.ForeignResult:
		*c = Fail
		j.read(fault.Conflict, "the result that was read is another action's")
	case in.AboveTerminal > 0:
		*c = Fail
		j.read(fault.Conflict, "a chunk stands above the terminal one")
	case in.FrameDiffers > 0 && in.FromStart:
		*c = Fail
		j.read(fault.Conflict, "a chunk differs from its frame in the result")
	case in.FrameDiffers > 0:
		*c = Missing
		j.read(fault.Incomplete, "a chunk differs from its frame, and the stream could not be read from its start")
	case in.CountsDiffer:
		*c = Missing
		j.read(fault.Incomplete, "chunks and frames can only be matched by order, and their numbers differ")
	case in.Holes > 0:
		*c = Missing
		j.read(fault.Incomplete, "a chunk is missing and nothing filled its place")
	case differing:
		*c = Fail
		j.read(fault.Incomplete, "an item's deltas do not add up to its done text")
	case j.storedIntegrity():
	case in.Seen == 0 && (j.ev.Result == nil || j.ev.Result.Output == nil || !j.ev.Result.Output.HasEvents):
		*c = NotApplicable
	default:
		*c = Pass
	}
}

// requiredTools and effectChecks are judged only when the action completed.
func (j *judge) requiredTools() {
	c := &j.out.Checks.RequiredTools
	*c = NotApplicable
	if len(j.ev.RequiredTools) == 0 || j.out.Checks.AIPStatus != Pass {
		return
	}
	*c = Pass
	for _, want := range j.ev.RequiredTools {
		if !toolCompleted(j.ev.Facts.Tools, want) {
			*c = Fail
			j.read(fault.Failed, "a required tool was not seen completed")
			return
		}
	}
}

func toolCompleted(tools []transcript.ToolFact, name string) bool {
	for _, t := range tools {
		if t.Name == name && t.Status == transcript.ToolCompleted {
			return true
		}
	}
	return false
}

func (j *judge) effectChecks() {
	c := &j.out.Checks.EffectCheck
	*c = NotApplicable
	if len(j.ev.EffectChecks) == 0 || j.out.Checks.AIPStatus != Pass {
		return
	}
	*c = Pass
	for _, e := range j.ev.EffectChecks {
		switch {
		case !e.Ran && *c == Pass:
			*c = Missing
			j.read(fault.Incomplete, "an effect check was not run")
		case e.Ran && e.ExitCode != 0:
			*c = Fail
			j.read(fault.Failed, "an effect check failed")
		}
	}
}
