package render

import (
	"strings"
	"time"

	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/record"
	"github.com/aipctl/aipctl/internal/sanitize"
	"github.com/aipctl/aipctl/internal/transcript"
	"github.com/aipctl/aipctl/internal/verdict"
)

// How much of a field of the provider or the daemon one line shows, in runes.
const (
	nameMax    = 64 // names, ids, codes, kinds
	idMax      = 160
	labelMax   = 120
	reasonMax  = 500
	messageMax = 1000
)

// narration is the mode of text: the answer on stdout, and beside it on stderr
// what a person wants to know while it is written.
type narration struct {
	opts   Options
	con    *console
	log    bool // lines have the time, since no clock runs beside them
	answer *answer
	status status
	calls  *calls
	// functions holds the ids of calls that the provider made known as output
	// items; they go by name and call id.
	functions map[string]bool
	errors    map[transcript.ProviderError]bool
	thought   thought
	held      []heldLine
}

// heldLine is a line that waits for the end of a line of text.
type heldLine struct {
	s style
	t sanitize.Text
}

// breath is how long no text may have come when a line that waits for the end
// of a line of text waits no longer.
const breath = time.Second

func newNarration(o Options, con *console) *narration {
	calls := newCalls()
	return &narration{
		opts:      o,
		con:       con,
		log:       !con.live,
		answer:    newAnswer(con),
		status:    status{con: con, now: o.Now, tools: calls.running},
		calls:     calls,
		functions: map[string]bool{},
		errors:    map[transcript.ProviderError]bool{},
	}
}

// say writes a line to stderr, unless less was asked for.
func (n *narration) say(s style, t sanitize.Text) {
	n.flushThought()
	n.release()
	if !n.opts.Quiet {
		n.con.line(s, t)
	}
}

// aside writes a line that can wait until the line of text ends in which it
// would come, with the time when it happened.
func (n *narration) aside(s style, t sanitize.Text) {
	if n.log {
		t = sanitize.Format("%s %s", stamp(n.opts.Now()), t)
	}
	if !n.con.inText() {
		n.say(s, t)
		return
	}
	n.held = append(n.held, heldLine{s, t})
}

// release writes what was held.
func (n *narration) release() {
	held := n.held
	n.held = nil
	for _, l := range held {
		if !n.opts.Quiet {
			n.con.line(l.s, l.t)
		}
	}
}

// tell writes a line about something that happened now.
func (n *narration) tell(s style, t sanitize.Text) {
	if n.log {
		t = sanitize.Format("%s %s", stamp(n.opts.Now()), t)
	}
	n.say(s, t)
}

func (n *narration) Identity(v record.Identity) error {
	n.status.begin()
	t := sanitize.Format("action %s", sanitize.LineMax(v.ActionID, idMax))
	if v.CapabilityID != "" {
		t = sanitize.Format("%s (%s)", t, sanitize.LineMax(v.CapabilityID, idMax))
	}
	n.say(plain, t)
	if n.opts.Verbose {
		for _, f := range []Field{
			{sanitize.Static("url"), sanitize.Line(v.URL)},
			{sanitize.Static("idempotency key"), sanitize.Line(v.IdempotencyKey)},
			{sanitize.Static("state file"), sanitize.Line(v.StateFile)},
		} {
			if !f.Value.IsEmpty() {
				n.say(dim, sanitize.Format("%s: %s", f.Name, f.Value))
			}
		}
	}
	if len(v.Resume) > 0 {
		n.say(dim, sanitize.Format("come back: %s", Command(v.Resume)))
	}
	if len(v.Cancel) > 0 {
		n.say(dim, sanitize.Format("cancel: %s", Command(v.Cancel)))
	}
	return nil
}

func (n *narration) State(v record.State) error {
	if !n.status.change(v) {
		return nil
	}
	if v.Approval != nil {
		n.pending(*v.Approval)
	}
	switch {
	case n.log && listening(v.State), n.log && ending(v.State):
		n.aside(dim, words(v))
	case n.log:
		n.tell(dim, words(v))
	case n.opts.Verbose:
		n.say(dim, sanitize.Format("%s %s", stamp(n.opts.Now()), words(v)))
	}
	n.status.draw(n.opts.Now())
	return nil
}

// pending says what the action waits for, and gives the command to whoever may
// decide. It is shown also where little was asked for: nothing goes on without.
func (n *narration) pending(a record.Approval) {
	n.flushThought()
	t := sanitize.Format("waits for approval %s", sanitize.LineMax(a.ApprovalID, idMax))
	if a.ExpiresAt != "" {
		t = sanitize.Format("%s, until %s", t, moment(a.ExpiresAt))
	}
	n.con.line(attention, t)
	if len(a.Approve) > 0 {
		n.con.line(plain, sanitize.Format("approver: %s", Command(a.Approve)))
	}
}

// resultEvents say that a result was stored, which the last line says too: and
// they come before the rest of the answer does.
var resultEvents = map[string]bool{"aip.action.result": true, "aip.action.worker_result": true, "aip.action.async_result": true}

// Event shows lifecycle events. Those that only say that a chunk was stored
// are as many as the chunks.
func (n *narration) Event(v record.Event) error {
	if !n.opts.Verbose && (strings.HasPrefix(v.Kind, "aip.stream.") || resultEvents[v.Kind]) {
		return nil
	}
	n.status.news()
	t := sanitize.Format("event %s", sanitize.LineMax(v.Kind, nameMax))
	if n.opts.Verbose && v.OccurredAt != "" {
		t = sanitize.Format("%s at %s", t, sanitize.LineMax(v.OccurredAt, nameMax))
	}
	n.tell(dim, t)
	return nil
}

func (n *narration) Warning(v record.Warning) error {
	t := sanitize.Format("warning: %s", sanitize.LineMax(v.Message, messageMax))
	if v.Code != "" {
		t = sanitize.Format("%s (%s)", t, sanitize.LineMax(v.Code, nameMax))
	}
	n.aside(attention, t)
	return nil
}

func (n *narration) Gap(v record.Gap) error {
	t := sanitize.Format("gap: sequence %s was not delivered", sanitize.Uint(v.From))
	if v.From != v.To {
		t = sanitize.Format("gap: sequences %s to %s were not delivered", sanitize.Uint(v.From), sanitize.Uint(v.To))
	}
	n.tell(attention, t)
	return nil
}

func (n *narration) Deliver(d record.Delivery) error {
	n.status.news()
	n.status.flows = true
	for _, op := range d.Ops {
		n.op(d, op)
	}
	if !n.con.inText() {
		n.release()
	}
	return n.con.out.failure()
}

// op shows one operation. An error of stdout stays and is read by Deliver.
func (n *narration) op(d record.Delivery, op transcript.Op) {
	switch o := op.(type) {
	case transcript.Text:
		if o.Item.Choice == 0 {
			n.flushThought()
			_ = n.answer.delta(o.Item, o.Text)
		}
	case transcript.TextDone:
		_ = n.answer.done(o.Item)
	case transcript.FinalText:
		if o.Item.Choice == 0 {
			_ = n.answer.final(o.Item, o.Text)
		}
	case transcript.Thought:
		n.think(o.Text)
	case transcript.Item:
		n.item(d, o)
	case transcript.Tool:
		n.tool(o)
	case transcript.ProviderError:
		n.providerError(o)
	case transcript.Approval:
		n.approval(o)
	case transcript.Closed:
		n.tell(attention, sanitize.Format("the provider closed its stream without an end: %s", sanitize.LineMax(o.Reason, reasonMax)))
	case transcript.Note:
		t := sanitize.Format("unknown frame: kind %s, sequence %s", sanitize.LineMax(d.Chunk.Kind, nameMax), sanitize.Uint(d.Chunk.Sequence))
		if o.Name != "" {
			t = sanitize.Format("%s, name %s", t, sanitize.LineMax(o.Name, nameMax))
		}
		n.tell(dim, t)
	}
}

func (n *narration) item(d record.Delivery, o transcript.Item) {
	if !o.Open {
		_ = n.answer.itemDone(transcript.ItemRef{ItemID: o.ItemID, OutputIndex: o.OutputIndex})
	}
	if o.Kind != "function_call" || n.functions[o.CallID] {
		return
	}
	n.functions[o.CallID] = true
	if n.calls.seen(o.CallID) || startsTool(d.Ops, o.CallID) {
		return // the line of the tool says it
	}
	n.tell(plain, sanitize.Format("function call %s (%s)", toolName(o.Name), sanitize.LineMax(o.CallID, nameMax)))
}

func startsTool(ops []transcript.Op, callID string) bool {
	for _, op := range ops {
		if t, ok := op.(transcript.Tool); ok && t.CallID == callID {
			return true
		}
	}
	return false
}

func toolName(name string) sanitize.Text {
	if name == "" {
		return sanitize.Static("without a name")
	}
	return sanitize.LineMax(name, nameMax)
}

func (n *narration) tool(o transcript.Tool) {
	ch, ok := n.calls.update(o, n.opts.Now())
	if !ok {
		return
	}
	t := sanitize.Format("tool %s %s", toolName(ch.name), sanitize.LineMax(o.Status, nameMax))
	if ch.timed {
		t = sanitize.Format("%s %s", t, sanitize.Duration(ch.after))
	}
	if o.CallID != "" && n.functions[o.CallID] {
		t = sanitize.Format("%s (%s)", t, sanitize.LineMax(o.CallID, nameMax))
	}
	s := plain
	if o.Status == transcript.ToolFailed {
		s = bad
	}
	n.tell(s, n.labelled(t, o.Label))
}

// labelled adds a label, which is a raw command or a file name, where it may
// be shown; on a terminal as much of it as the line holds.
func (n *narration) labelled(t sanitize.Text, label string) sanitize.Text {
	if label == "" || !n.opts.StderrTTY && !n.opts.ShowLabels {
		return t
	}
	shown := sanitize.LineMax(label, labelMax)
	if n.opts.StderrTTY {
		const least = 12 // cells; a shorter piece says nothing
		room := n.opts.Width() - 1 - most(t.String()) - len(": ")
		shown = sanitize.Line(cut(shown.String(), max(room, least)))
	}
	return sanitize.Format("%s: %s", t, shown)
}

// providerError shows type and code of an error, once; the message may repeat
// prompts and keys.
func (n *narration) providerError(o transcript.ProviderError) {
	if n.errors[o] {
		return
	}
	n.errors[o] = true
	var parts []sanitize.Text
	for _, s := range []string{o.Type, o.Code} {
		if s != "" {
			parts = append(parts, sanitize.LineMax(s, nameMax))
		}
	}
	if len(parts) == 0 {
		parts = append(parts, sanitize.Static("without a type"))
	}
	t := sanitize.Format("provider error: %s", sanitize.Join(", ", parts...))
	if o.Message != "" && (n.opts.StderrTTY || n.opts.ShowProviderErrors) {
		t = sanitize.Format("%s: %s", t, sanitize.LineMax(o.Message, reasonMax))
	}
	n.tell(bad, t)
}

func (n *narration) approval(o transcript.Approval) {
	var choices []sanitize.Text
	for _, c := range o.Choices {
		choices = append(choices, sanitize.LineMax(c, nameMax))
	}
	t := sanitize.Static("the provider asks for an approval")
	if len(choices) > 0 {
		t = sanitize.Format("%s: %s", t, sanitize.Join(", ", choices...))
	}
	n.tell(attention, t)
}

// tick shows the time in the status line, or that all is well where stderr was
// silent for long.
func (n *narration) tick(now time.Time) {
	n.flushThought()
	if !n.con.inText() || now.Sub(n.con.wrote) >= breath {
		n.release()
	}
	if n.con.live {
		n.status.draw(now)
		return
	}
	if n.status.set && now.Sub(n.con.said) >= beat {
		n.say(dim, sanitize.Format("%s still %s, %s so far", stamp(now), n.status.line(now), elapsed(now.Sub(n.status.start))))
	}
}

func (n *narration) end() error {
	n.flushThought()
	err := n.answer.end()
	n.release()
	return err
}

func (n *narration) Outcome(o *verdict.Outcome) error {
	failed := n.end()
	v := *o
	if failed != nil {
		v.ExitCode = exitAfter(v.ExitCode, failed)
	}
	for _, x := range v.Tools {
		if ended(x.Status) {
			continue
		}
		t := sanitize.Format("tool %s: no completion reported", toolName(x.Name))
		if x.CallID != "" && n.functions[x.CallID] {
			t = sanitize.Format("%s (%s)", t, sanitize.LineMax(x.CallID, nameMax))
		}
		n.say(attention, t)
	}
	accepted := v.Verdict == fault.Accepted.String() && v.ExitCode == fault.Accepted.Code()
	if n.opts.Quiet && accepted {
		return failed
	}
	s := bad
	switch {
	case accepted:
		s = good
	case v.Verdict == fault.Accepted.String(), v.Verdict == fault.Pending.String(), v.Verdict == fault.Unknown.String():
		s = attention
	}
	n.con.line(s, summary(&v))
	if v.Stored != nil {
		for _, c := range v.Stored.Absent {
			n.say(plain, sanitize.Format("possible: %s", sanitize.LineMax(c.Message, reasonMax)))
		}
	}
	for _, argv := range v.Next {
		n.con.line(plain, sanitize.Format("next: %s", Command(argv)))
	}
	return failed
}

// moment is a time of the daemon to the second, or what stands in its place.
func moment(at string) sanitize.Text {
	t, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return sanitize.LineMax(at, nameMax)
	}
	return sanitize.Line(t.UTC().Format(time.RFC3339))
}
