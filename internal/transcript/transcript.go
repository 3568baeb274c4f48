package transcript

import (
	"sort"
	"strconv"
	"strings"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/go-json-experiment/json/jsontext"
)

// Transcript gathers the operations of one stream. The zero value is not
// ready; use [New].
type Transcript struct {
	texts    map[ItemRef]*text
	order    []ItemRef
	finals   map[ItemRef]piece
	finishes map[int]map[string]bool
	choices  map[int]bool
	tools    []*ToolFact
	byCall   map[string]*ToolFact
	errors   []seqError
	hermes   seqHermes
	failed   bool
	response seqResponse
	events   map[string]bool
	session  string
	usage    seqValue
	named    seqName
	done     bool
	closed   string
	items    []*ItemFact
	byItem   map[string]*ItemFact
	notes    int
	thoughts bool
}

type (
	piece struct {
		seq  uint64
		text string
	}
	seqError struct {
		seq uint64
		ProviderError
	}
	seqHermes struct {
		seq uint64
		set bool
		Hermes
	}
	seqResponse struct {
		seq uint64
		set bool
		Response
	}
	seqValue struct {
		seq   uint64
		value jsontext.Value
	}
	seqName struct {
		seq  uint64
		name string
	}
)

type text struct {
	first  uint64 // sequence of the first delta
	pieces []piece
	done   *piece
}

// New returns an empty transcript.
func New() *Transcript {
	return &Transcript{
		texts:    map[ItemRef]*text{},
		finals:   map[ItemRef]piece{},
		finishes: map[int]map[string]bool{},
		choices:  map[int]bool{},
		byCall:   map[string]*ToolFact{},
		events:   map[string]bool{},
		byItem:   map[string]*ItemFact{},
	}
}

// Apply takes the operations of the chunk with the given AIP sequence. Each
// sequence must be applied at most once.
func (t *Transcript) Apply(seq uint64, ops []Op) {
	for _, op := range ops {
		switch o := op.(type) {
		case Text:
			t.choices[o.Item.Choice] = true
			x := t.text(o.Item, seq)
			x.pieces = append(x.pieces, piece{seq, o.Text})
		case TextDone:
			x := t.text(o.Item, seq)
			x.done = &piece{seq, o.Text}
		case FinalText:
			t.finals[o.Item] = piece{seq, o.Text}
		case Finish:
			t.choices[o.Choice] = true
			if o.Reason != "" {
				if t.finishes[o.Choice] == nil {
					t.finishes[o.Choice] = map[string]bool{}
				}
				t.finishes[o.Choice][o.Reason] = true
			}
		case Tool:
			t.tool(seq, o)
		case Item:
			t.item(seq, o)
		case Usage:
			if t.usage.value == nil || seq >= t.usage.seq {
				t.usage = seqValue{seq, o.Value}
			}
		case ProviderError:
			t.errors = append(t.errors, seqError{seq, o})
		case Hermes:
			if o.Failed != nil && *o.Failed {
				t.failed = true
			}
			if !t.hermes.set || seq >= t.hermes.seq {
				t.hermes = seqHermes{seq, true, o}
			}
		case Response:
			t.events[o.Event] = true
			t.applyResponse(seq, o)
		case Session:
			t.session = o.ID
		case Named:
			if t.named.name == "" || seq >= t.named.seq {
				t.named = seqName{seq, o.Name}
			}
		case Done:
			t.done = true
		case Closed:
			t.closed = o.Reason
		case Thought:
			t.thoughts = true
		case Note:
			t.notes++
		}
	}
}

func (t *Transcript) applyResponse(seq uint64, o Response) {
	if t.response.set && seq < t.response.seq {
		if t.response.ID == "" {
			t.response.ID = o.ID
		}
		return
	}
	id, status := t.response.ID, t.response.Status
	t.response = seqResponse{seq, true, o}
	if o.ID == "" {
		t.response.ID = id
	}
	if o.Status == "" {
		t.response.Status = status
	}
}

func (t *Transcript) text(ref ItemRef, seq uint64) *text {
	x := t.texts[ref]
	if x == nil {
		x = &text{first: seq}
		t.texts[ref] = x
		t.order = append(t.order, ref)
	}
	x.first = min(x.first, seq)
	return x
}

func (t *Transcript) tool(seq uint64, o Tool) {
	var f *ToolFact
	if o.CallID != "" {
		f = t.byCall[o.CallID]
	} else if o.Status != ToolRunning {
		// Runs give no call id: the oldest running call of that name ended.
		for _, c := range t.tools {
			if c.CallID == "" && c.Name == o.Name && c.Status == ToolRunning {
				f = c
				break
			}
		}
	}
	if f == nil {
		f = &ToolFact{CallID: o.CallID, Name: o.Name, Status: o.Status, First: seq, Last: seq}
		t.tools = append(t.tools, f)
		if o.CallID != "" {
			t.byCall[o.CallID] = f
		}
	}
	f.First, f.Last = min(f.First, seq), max(f.Last, seq)
	if f.Name == "" {
		f.Name = o.Name
	}
	// An end is never undone by a start that was applied later.
	if o.Status != ToolRunning {
		f.Status = o.Status
	}
}

func (t *Transcript) item(seq uint64, o Item) {
	key := itemKey(o)
	f := t.byItem[key]
	if f == nil {
		f = &ItemFact{ItemID: o.ItemID, OutputIndex: o.OutputIndex, Kind: o.Kind, CallID: o.CallID, Name: o.Name, first: seq}
		t.byItem[key] = f
		t.items = append(t.items, f)
	}
	f.first = min(f.first, seq)
	if f.Name == "" {
		f.Name = o.Name
	}
	if f.CallID == "" {
		f.CallID = o.CallID
	}
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

func (x *text) join() string {
	sort.SliceStable(x.pieces, func(i, j int) bool { return x.pieces[i].seq < x.pieces[j].seq })
	var b strings.Builder
	var s aip.Surrogates
	for _, p := range x.pieces {
		b.WriteString(s.Join(p.text))
	}
	b.WriteString(s.Flush())
	return b.String()
}

// ResponseID is the id of the response object, as soon as any event has told
// it; empty before.
func (t *Transcript) ResponseID() string { return t.response.ID }
