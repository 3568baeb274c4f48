package render

import (
	"slices"
	"strings"
	"time"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/record"
	"github.com/aipctl/aipctl/internal/transcript"
	"github.com/aipctl/aipctl/internal/verdict"
)

// lines is the mode of JSON Lines. Records that come before the identity are
// held until it is written, for it is the first one.
type lines struct {
	con     *console
	raw     bool
	now     func() time.Time
	calls   *calls
	texts   map[transcript.ItemRef]*half
	order   []transcript.ItemRef
	deltas  bool
	finals  map[transcript.ItemRef]bool
	named   bool // the identity was written
	waiting [][]byte
}

// half joins the halves of characters of one item, and knows where its last
// delta came from.
type half struct {
	aip.Surrogates
	seq    uint64
	source string
}

// write writes one record, or holds it back.
func (l *lines) write(v any) error {
	b, err := encode(v)
	if err != nil {
		return err
	}
	if !l.named {
		l.waiting = append(l.waiting, b)
		return l.con.out.failure()
	}
	return l.con.record(b)
}

// release writes what was held back.
func (l *lines) release() error {
	l.named = true
	for _, b := range l.waiting {
		if err := l.con.record(b); err != nil {
			return err
		}
	}
	l.waiting = nil
	return l.con.out.failure()
}

func (l *lines) Identity(v record.Identity) error {
	v.Head = record.NewHead(record.TypeIdentity)
	b, err := encode(v)
	if err != nil {
		return err
	}
	if err := l.con.record(b); err != nil {
		return err
	}
	return l.release()
}

func (l *lines) State(v record.State) error {
	v.Head = record.NewHead(record.TypeState)
	return l.write(v)
}

func (l *lines) Event(v record.Event) error {
	v.Head = record.NewHead(record.TypeEvent)
	return l.write(v)
}

func (l *lines) Warning(v record.Warning) error {
	v.Head = record.NewHead(record.TypeWarning)
	return l.write(v)
}

func (l *lines) Gap(v record.Gap) error {
	v.Head = record.NewHead(record.TypeGap)
	return l.write(v)
}

// Deliver writes the chunk, then what it means.
func (l *lines) Deliver(d record.Delivery) error {
	c := d.Chunk
	c.Head = record.NewHead(record.TypeChunk)
	if !l.raw {
		c.RawData = ""
	}
	if err := l.write(c); err != nil {
		return err
	}
	for _, op := range d.Ops {
		if err := l.op(&d.Chunk, op); err != nil {
			return err
		}
	}
	return l.con.out.failure()
}

func (l *lines) op(c *record.Chunk, op transcript.Op) error {
	switch o := op.(type) {
	case transcript.Text:
		l.deltas = true
		h := l.half(o.Item)
		h.seq, h.source = c.Sequence, c.Source
		return l.text(o.Item, h, h.Join(o.Text))
	case transcript.FinalText:
		if l.deltas || l.finals[o.Item] {
			return nil
		}
		if l.finals == nil {
			l.finals = map[transcript.ItemRef]bool{}
		}
		l.finals[o.Item] = o.Text != ""
		return l.text(o.Item, &half{seq: c.Sequence, source: c.Source}, o.Text)
	case transcript.TextDone:
		return l.flush(func(ref transcript.ItemRef) bool { return ref == o.Item })
	case transcript.Tool:
		return l.tool(c, o)
	case transcript.Item:
		if !o.Open {
			item := transcript.ItemRef{ItemID: o.ItemID, OutputIndex: o.OutputIndex}
			if err := l.flush(item.SameItem); err != nil {
				return err
			}
		}
		v := record.Item{
			Head:        record.NewHead(record.TypeItem),
			Sequence:    c.Sequence,
			ItemID:      o.ItemID,
			OutputIndex: o.OutputIndex,
			Kind:        o.Kind,
			CallID:      o.CallID,
			Name:        o.Name,
			Status:      o.Status,
			Open:        o.Open,
			Item:        o.Payload,
		}
		if _, err := encode(v); err != nil {
			v.Item = nil // nested too deep to stand in a record
		}
		return l.write(v)
	}
	return nil
}

func (l *lines) half(ref transcript.ItemRef) *half {
	h := l.texts[ref]
	if h == nil {
		if l.texts == nil {
			l.texts = map[transcript.ItemRef]*half{}
		}
		h = &half{}
		l.texts[ref] = h
		l.order = append(l.order, ref)
	}
	return h
}

// text writes a piece of an item; a piece that was held back whole is none.
func (l *lines) text(ref transcript.ItemRef, h *half, s string) error {
	if s == "" {
		return nil
	}
	return l.write(record.Text{
		Head:         record.NewHead(record.TypeText),
		Sequence:     h.seq,
		Choice:       ref.Choice,
		ItemID:       ref.ItemID,
		OutputIndex:  ref.OutputIndex,
		ContentIndex: ref.ContentIndex,
		Text:         s,
		Source:       h.source,
	})
}

// flush writes what the items held back for a half that never came.
func (l *lines) flush(which func(transcript.ItemRef) bool) error {
	for _, ref := range l.order {
		if !which(ref) {
			continue
		}
		h := l.texts[ref]
		if err := l.text(ref, h, h.Flush()); err != nil {
			return err
		}
	}
	return nil
}

func (l *lines) tool(c *record.Chunk, o transcript.Tool) error {
	if l.calls == nil {
		l.calls = newCalls()
	}
	ch, ok := l.calls.update(o, l.now())
	if !ok {
		return nil
	}
	v := record.Tool{
		Head:     record.NewHead(record.TypeTool),
		Sequence: c.Sequence,
		Name:     ch.name,
		CallID:   o.CallID,
		Status:   o.Status,
		Label:    o.Label,
	}
	if ch.timed {
		ms := ch.after.Milliseconds()
		v.MS = &ms
	}
	return l.write(v)
}

func (l *lines) Outcome(o *verdict.Outcome) error {
	// A failure here is seen again below.
	_ = l.end()
	return writeOutcome(l.con, o, false)
}

func (l *lines) end() error {
	if err := l.release(); err != nil {
		return err
	}
	return l.flush(func(transcript.ItemRef) bool { return true })
}

func (l *lines) tick(time.Time) {}

// writeOutcome writes the outcome to stdout, and where stdout cannot take it,
// to stderr. There, and in JSON Lines, it has no text and no items.
func writeOutcome(con *console, o *verdict.Outcome, full bool) error {
	short := *o
	short.Text, short.Items = "", nil
	failed := con.out.failure()
	if failed == nil {
		shown := short
		if full {
			shown = *o
		}
		b, err := encodeOutcome(shown)
		if err != nil {
			return err
		}
		if failed = con.record(b); failed == nil {
			return nil
		}
	}
	short.ExitCode = exitAfter(short.ExitCode, failed)
	if f := fault.As(failed); f.Class == fault.Output && !strings.Contains(short.Reason, f.Message) {
		short.Reason = strings.TrimSuffix(f.Message+"; "+short.Reason, "; ")
	}
	b, err := encodeOutcome(short)
	if err != nil {
		return err
	}
	con.raw(string(b))
	return failed
}

// exitAfter is the exit code of a run whose end stdout could not take. A run
// that was left by a signal stays so.
func exitAfter(code int, failed error) int {
	if code >= fault.HangUp.Code() {
		return code
	}
	return fault.ClassOf(failed).Code()
}

// encodeOutcome leaves out what a provider has nested too deep to stand in a
// record, for a run has an outcome whatever its provider sent.
func encodeOutcome(o verdict.Outcome) ([]byte, error) {
	if b, err := encode(&o); err == nil {
		return b, nil
	}
	o.Usage = nil
	o.Items = slices.Clone(o.Items)
	for i := range o.Items {
		o.Items[i].Item = nil
	}
	return encode(&o)
}

// document is the mode of JSON: nothing until the outcome.
type document struct {
	con    *console
	status status
}

func (d *document) Identity(record.Identity) error { d.status.begin(); return nil }

func (d *document) State(v record.State) error {
	if d.status.change(v) {
		d.status.draw(d.status.now())
	}
	return nil
}

func (d *document) Event(record.Event) error         { return nil }
func (d *document) Deliver(record.Delivery) error    { return nil }
func (d *document) Warning(record.Warning) error     { return nil }
func (d *document) Gap(record.Gap) error             { return nil }
func (d *document) tick(now time.Time)               { d.status.draw(now) }
func (d *document) end() error                       { return nil }
func (d *document) Outcome(o *verdict.Outcome) error { return writeOutcome(d.con, o, true) }
