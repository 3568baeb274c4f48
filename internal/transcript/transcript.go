package transcript

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/aipctl/aipctl/internal/aip"
)

// Transcript gathers the operations of one stream. Use [New].
//
// It keeps them as a log and adds them up in the order of their sequences when
// [Transcript.Facts] is asked for: chunks come late, from pages and from the
// final aggregate, and which came first must not show.
type Transcript struct {
	log        []entry
	responseID string
}

type entry struct {
	seq uint64
	ops []Op
}

// New returns an empty transcript.
func New() *Transcript { return new(Transcript) }

// Apply takes the operations of the chunk with the given AIP sequence. Each
// sequence must be applied at most once.
func (t *Transcript) Apply(seq uint64, ops []Op) {
	t.log = append(t.log, entry{seq, ops})
	for _, op := range ops {
		if r, ok := op.(Response); ok && t.responseID == "" {
			t.responseID = r.ID
		}
	}
}

// ResponseID is the id of the response object, as soon as any event has told
// it; empty before.
func (t *Transcript) ResponseID() string { return t.responseID }

// Facts returns what the operations applied so far come to.
func (t *Transcript) Facts() Facts {
	log := slices.Clone(t.log)
	slices.SortStableFunc(log, func(a, b entry) int { return cmp.Compare(a.seq, b.seq) })
	s := sum{
		texts:    map[ItemRef]*text{},
		finals:   map[ItemRef]*final{},
		finishes: map[int]map[string]bool{},
		byCall:   map[string]*ToolFact{},
		byItem:   map[string]*ItemFact{},
		facts:    Facts{Events: map[string]bool{}},
	}
	for _, e := range log {
		for _, op := range e.ops {
			s.add(e.seq, op)
		}
	}
	return s.total()
}

// sum adds operations up. It is given them in the order of their sequences.
type sum struct {
	texts      map[ItemRef]*text
	textOrder  []*text
	finals     map[ItemRef]*final
	finalOrder []*final
	finishes   map[int]map[string]bool // by choice seen
	tools      []*ToolFact
	byCall     map[string]*ToolFact
	items      []*ItemFact
	byItem     map[string]*ItemFact
	facts      Facts // what is complete as it is added
}

type text struct {
	ref    ItemRef
	deltas []string
	done   *string
}

type final struct {
	ref  ItemRef
	text string
}

func (s *sum) add(seq uint64, op Op) {
	f := &s.facts
	switch o := op.(type) {
	case Text:
		s.choice(o.Item.Choice)
		x := s.text(o.Item)
		x.deltas = append(x.deltas, o.Text)
	case TextDone:
		s.text(o.Item).done = &o.Text
	case FinalText:
		s.final(o)
	case Finish:
		reasons := s.choice(o.Choice)
		if o.Reason != "" {
			reasons[o.Reason] = true
		}
	case Tool:
		s.tool(seq, o)
	case Item:
		s.item(o)
	case Usage:
		f.Usage = o.Value
	case ProviderError:
		f.Errors = append(f.Errors, o)
	case Hermes:
		f.Failed = f.Failed || o.Failed != nil && *o.Failed
		f.Hermes = &o
	case Response:
		f.Events[o.Event] = true
		if f.Response != nil {
			// An event that leaves id or status out takes neither back.
			o.ID, o.Status = cmp.Or(o.ID, f.Response.ID), cmp.Or(o.Status, f.Response.Status)
			if o.Messages == nil {
				o.Messages = f.Response.Messages
			}
		}
		f.Response = &o
	case Session:
		f.Session = o.ID
	case Named:
		f.Named = o.Name
	case Done:
		f.Done = true
	case Closed:
		f.Closed = o.Reason
	case Note:
		f.Unknown++
	}
}

func (s *sum) choice(n int) map[string]bool {
	if s.finishes[n] == nil {
		s.finishes[n] = map[string]bool{}
	}
	return s.finishes[n]
}

func (s *sum) text(ref ItemRef) *text {
	x := s.texts[ref]
	if x == nil {
		x = &text{ref: ref}
		s.texts[ref] = x
		s.textOrder = append(s.textOrder, x)
	}
	return x
}

func (s *sum) final(o FinalText) {
	x := s.finals[o.Item]
	if x == nil {
		x = &final{ref: o.Item}
		s.finals[o.Item] = x
		s.finalOrder = append(s.finalOrder, x)
	}
	x.text = o.Text
}

func (s *sum) tool(seq uint64, o Tool) {
	var f *ToolFact
	if o.CallID != "" {
		f = s.byCall[o.CallID]
	} else if o.Status != ToolRunning {
		// Runs give no call id: the oldest running call of that name ended.
		for _, c := range s.tools {
			if c.CallID == "" && c.Name == o.Name && c.Status == ToolRunning {
				f = c
				break
			}
		}
	}
	if f == nil {
		f = &ToolFact{CallID: o.CallID, Name: o.Name, Status: o.Status, First: seq}
		s.tools = append(s.tools, f)
		if o.CallID != "" {
			s.byCall[o.CallID] = f
		}
	}
	f.Last = seq
	f.Name = cmp.Or(f.Name, o.Name)
	// An end is never undone by another start.
	if o.Status != ToolRunning {
		f.Status = o.Status
	}
}

func (s *sum) item(o Item) {
	key := itemKey(o)
	f := s.byItem[key]
	if f == nil {
		f = &ItemFact{ItemID: o.ItemID, OutputIndex: o.OutputIndex, Kind: o.Kind}
		s.byItem[key] = f
		s.items = append(s.items, f)
	}
	f.Name, f.CallID = cmp.Or(f.Name, o.Name), cmp.Or(f.CallID, o.CallID)
	if !o.Open || f.Status == "" {
		f.Status = o.Status
	}
	if !o.Open {
		f.Closed = true
	}
	if len(o.Payload) > 0 && (!o.Open || f.Payload == nil) {
		f.Payload = o.Payload
	}
}

func itemKey(o Item) string {
	if o.ItemID != "" {
		return "id:" + o.ItemID
	}
	return "ix:" + strconv.Itoa(o.OutputIndex) + ":" + o.Kind + ":" + o.CallID
}

// join puts the deltas together, halves of characters included.
func join(deltas ...string) string {
	var b strings.Builder
	var s aip.Surrogates
	for _, d := range deltas {
		b.WriteString(s.Join(d))
	}
	b.WriteString(s.Flush())
	return b.String()
}
