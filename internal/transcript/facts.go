package transcript

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// ToolFact is what is known of one tool call.
type ToolFact struct {
	CallID string
	Name   string
	Status string // running when no end was seen
	First  uint64 // AIP sequences of the first and the last update
	Last   uint64
}

// ItemFact is one output item that an event opened or closed.
type ItemFact struct {
	ItemID      string
	OutputIndex int
	Kind        string
	CallID      string
	Name        string
	Status      string
	Closed      bool
	Payload     jsontext.Value
}

// Ref names the item; its parts of text have content indexes of their own.
func (f ItemFact) Ref() ItemRef { return ItemRef{ItemID: f.ItemID, OutputIndex: f.OutputIndex} }

// TextFact is the joined text of one item.
type TextFact struct {
	Item    ItemRef
	Text    string // valid UTF-8; halves of characters joined
	Differs bool   // a done text was seen and is another one
}

// Facts is what a stream has said, for the verdict and the outcome record.
type Facts struct {
	Texts    []TextFact       // by output index, then content index, then choice
	Finishes map[int][]string // by choice index: distinct reasons, sorted; empty when none was seen
	Tools    []ToolFact       // in the order in which they started
	Items    []ItemFact       // in the order in which they opened
	Errors   []ProviderError  // by sequence
	Hermes   *Hermes          // the last one
	Failed   bool             // some frame said hermes.failed: true
	Response *Response        // last known id and status of the response object
	Events   map[string]bool  // provider event names that spoke of the response
	Session  string
	Usage    jsontext.Value // of the last frame that had one
	Named    string         // name of the last frame that had one
	Done     bool           // [DONE]
	Closed   string         // the connector's reason for a missing end; empty when there was an end
	// Differs says that the final object's messages are other words than the
	// deltas of all message items, joined.
	Differs bool
	Unknown int  // frames that this client does not know
	FromEnd bool // the text was taken from a final event, no delta was seen
}

// total completes the facts.
func (s *sum) total() Facts {
	f := s.facts
	for _, x := range s.textOrder {
		joined := join(x.deltas...)
		f.Texts = append(f.Texts, TextFact{Item: x.ref, Text: joined, Differs: x.done != nil && join(*x.done) != joined})
	}
	if len(f.Texts) == 0 {
		for _, x := range s.finalOrder {
			f.Texts = append(f.Texts, TextFact{Item: x.ref, Text: join(x.text)})
			f.FromEnd = true
		}
	}
	slices.SortStableFunc(f.Texts, func(a, b TextFact) int {
		return cmp.Or(cmp.Compare(a.Item.OutputIndex, b.Item.OutputIndex), cmp.Compare(a.Item.ContentIndex, b.Item.ContentIndex),
			cmp.Compare(a.Item.Choice, b.Item.Choice))
	})
	if r := f.Response; r != nil && len(r.Messages) > 0 && !f.FromEnd {
		// The final object lists messages without their ids, and a provider may
		// cut items differently there: the words in all are what must agree.
		var words strings.Builder
		for _, x := range f.Texts {
			words.WriteString(x.Text)
		}
		f.Differs = words.String() != join(r.Messages...)
	}
	f.Finishes = map[int][]string{}
	for choice, reasons := range s.finishes {
		f.Finishes[choice] = slices.AppendSeq([]string{}, maps.Keys(reasons))
		slices.Sort(f.Finishes[choice])
	}
	for _, x := range s.tools {
		f.Tools = append(f.Tools, *x)
	}
	for _, x := range s.items {
		f.Items = append(f.Items, *x)
	}
	return f
}

// Answer is the text a person reads: for chat the text of choice 0, for items
// each text in its order, with one newline between two items.
func (f *Facts) Answer() string {
	out := ""
	var last ItemRef
	for _, x := range f.Texts {
		if x.Item.Choice != 0 || x.Text == "" {
			continue
		}
		if out != "" && !x.Item.SameItem(last) {
			out += "\n"
		}
		out += x.Text
		last = x.Item
	}
	return out
}

// OtherChoices reports whether a choice other than 0 was seen.
func (f *Facts) OtherChoices() bool {
	for c := range f.Finishes {
		if c != 0 {
			return true
		}
	}
	return false
}
