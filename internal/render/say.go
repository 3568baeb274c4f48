package render

import (
	"strings"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/record"
	"github.com/aipctl/aipctl/internal/sanitize"
	"github.com/aipctl/aipctl/internal/verdict"
)

// Error shows an error on stderr: in text the message, and one line that names
// the next step; in JSON and JSON Lines one object. An error that no room has
// classified is shown as class fault.Internal. Nothing is shown for nil, and
// for a reader of stdout that went away, for it has no use for a message.
func (r *Renderer) Error(err error) {
	if err == nil {
		return
	}
	e := fault.As(err)
	if e == nil {
		e = fault.New(fault.Internal, "internal", "%s", err.Error())
	}
	if e.Class == fault.BrokenPipe {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.opts.Format != Text {
		b, encErr := encode(record.Error{
			Head:     record.NewHead(record.TypeError),
			Code:     e.Code,
			Class:    e.Class.String(),
			ExitCode: e.Class.Code(),
			Message:  e.Error(),
			Hint:     e.Hint,
			ActionID: e.ActionID,
			Next:     e.Next,
		})
		if encErr == nil { // strings and numbers always encode
			r.con.raw(string(b))
		}
		return
	}
	t := sanitize.Format("aipctl: %s", sanitize.LineMax(e.Error(), messageMax))
	if e.ActionID != "" && !strings.Contains(e.Error(), e.ActionID) {
		t = sanitize.Format("%s (action %s)", t, sanitize.LineMax(e.ActionID, idMax))
	}
	if r.opts.Verbose && e.Code != "" {
		t = sanitize.Format("%s [%s]", t, sanitize.LineMax(e.Code, idMax))
	}
	r.beside(bad, t)
	var next []sanitize.Text
	if e.Hint != "" {
		next = append(next, sanitize.LineMax(e.Hint, messageMax))
	}
	if len(e.Next) > 0 {
		next = append(next, Command(e.Next))
	}
	if len(next) > 0 {
		r.con.line(plain, sanitize.Format("next: %s", sanitize.Join(": ", next...)))
	}
}

// Note writes a line to stderr, in text and unless quiet.
func (r *Renderer) Note(t sanitize.Text) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.opts.Format == Text && !r.opts.Quiet {
		r.beside(plain, t)
	}
}

// Next names a command to go on with, as [Renderer.Note] does.
func (r *Renderer) Next(argv []string) { r.Note(sanitize.Format("next: %s", Command(argv))) }

// Line writes t and a line end to stdout in text, and nothing in JSON and JSON
// Lines; there [Renderer.Record] says the same. The text may have several
// lines.
func (r *Renderer) Line(t sanitize.Text) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.opts.Format != Text {
		return nil
	}
	return r.con.text(sanitize.Format("%s\n", t))
}

// Record writes v as one line of JSON to stdout in JSON and JSON Lines, and
// nothing in text. v has the tags of encoding/json, and v and type first. What
// cannot be written as JSON is a *fault.Error of class fault.Internal.
func (r *Renderer) Record(v any) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.record(v)
}

func (r *Renderer) record(v any) error {
	if r.opts.Format == Text {
		return nil
	}
	b, err := encode(v)
	if err != nil {
		return err
	}
	return r.con.record(b)
}

// Field is one line of a small table: a name and what it is.
type Field struct{ Name, Value sanitize.Text }

// Fields writes a table to stdout in text, and nothing in JSON and JSON Lines.
// Fields without a value are left out. Values stand below each other, counted
// in cells of a terminal.
func (r *Renderer) Fields(fields ...Field) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fields(fields)
}

func (r *Renderer) fields(fields []Field) error {
	if r.opts.Format != Text {
		return nil
	}
	width := 0
	for _, f := range fields {
		if !f.Value.IsEmpty() {
			width = max(width, cells(f.Name.String()))
		}
	}
	var b strings.Builder
	for _, f := range fields {
		if f.Value.IsEmpty() {
			continue
		}
		name := sanitize.Line(f.Name.String()).String()
		b.WriteString(name)
		b.WriteString(strings.Repeat(" ", max(width-cells(name), 0)+2))
		b.WriteString(sanitize.Line(f.Value.String()).String())
		b.WriteByte('\n')
	}
	return r.con.text(sanitize.Block(b.String()))
}

// Status shows the durable view of an action on stdout: fields in text, one
// record of type status in JSON and JSON Lines. Times are as the daemon wrote
// them; of an error only the code is shown.
func (r *Renderer) Status(s *aip.ActionStatus) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := record.Status{Head: record.NewHead(record.TypeStatus), ActionStatus: *s}
	v.Retry = retryShown(s.Retry)
	if s.Error != nil {
		v.ErrorCode = s.Error.Spelled()
	}
	fields := []Field{
		field("action", s.ActionID),
		field("capability", s.CapabilityID),
		field("state", s.State),
		field("queue", s.QueuedState),
		field("result", s.ResultStatus),
		field("error", v.ErrorCode),
		field("approval", s.ApprovalID),
		field("started", s.StartedAt),
		field("updated", s.UpdatedAt),
		field("completed", s.CompletedAt),
	}
	if r.opts.Verbose {
		fields = append(fields, field("retry", string(v.Retry)), field("lease", string(s.Lease)))
	}
	if err := r.fields(fields); err != nil {
		return err
	}
	return r.record(v)
}

func field(name, value string) Field {
	return Field{sanitize.Line(name), sanitize.LineMax(value, idMax)}
}

// CancelOutcome shows on stdout what became of a cancellation: fields in text,
// the outcome in JSON and JSON Lines. o speaks of the action as it was read
// after the request; its exit code speaks of the request. In text, next steps
// stand on stderr. Like [Renderer.Outcome] it ends the run.
func (r *Renderer) CancelOutcome(o *verdict.Outcome) error {
	if r.opts.Format != Text {
		return r.Outcome(o)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return nil
	}
	r.ended = true
	r.con.stop()
	fields := []Field{
		field("action", o.ActionID),
		field("state", o.State),
		field("verdict", o.Verdict),
		{sanitize.Static("reason"), sanitize.LineMax(o.Reason, reasonMax)},
		field("error", o.ErrorCode),
		field("approval", o.ApprovalID),
		field("response", o.ResponseID),
	}
	if o.Verdict == fault.Cancelled.String() {
		fields = append(fields, Field{sanitize.Static("effects"),
			sanitize.Static("what happened before the cancellation took hold is not undone")})
	}
	err := r.fields(fields)
	if err != nil {
		// Whoever reads stderr still learns what is known.
		short := *o
		short.ExitCode = exitAfter(short.ExitCode, err)
		r.con.line(bad, summary(&short))
	}
	for _, argv := range o.Next {
		r.con.line(plain, sanitize.Format("next: %s", Command(argv)))
	}
	return err
}
