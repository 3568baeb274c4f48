package transcript

import (
	"sort"

	"github.com/aipctl/aipctl/internal/aip"
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
	first       uint64
}

// TextFact is the joined text of one item.
type TextFact struct {
	Item    ItemRef
	Text    string // valid UTF-8; halves of characters joined
	Differs bool   // a done text was seen and is another one
	first   uint64
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
	Unknown  int            // frames that this client does not know
	FromEnd  bool           // the text was taken from a final event, no delta was seen
}

// Facts returns a snapshot that shares nothing with the transcript.
func (t *Transcript) Facts() Facts {
	f := Facts{
		Finishes: map[int][]string{},
		Failed:   t.failed,
		Events:   map[string]bool{},
		Session:  t.session,
		Usage:    t.usage.value,
		Named:    t.named.name,
		Done:     t.done,
		Closed:   t.closed,
		Unknown:  t.notes,
	}
	for e := range t.events {
		f.Events[e] = true
	}
	for _, ref := range t.order {
		x := t.texts[ref]
		joined := x.join()
		differs := false
		if x.done != nil {
			var s aip.Surrogates
			differs = s.Join(x.done.text)+s.Flush() != joined
		}
		f.Texts = append(f.Texts, TextFact{Item: ref, Text: joined, Differs: differs, first: x.first})
	}
	if len(f.Texts) == 0 {
		for ref, p := range t.finals {
			var s aip.Surrogates
			f.Texts = append(f.Texts, TextFact{Item: ref, Text: s.Join(p.text) + s.Flush(), first: p.seq})
			f.FromEnd = true
		}
	}
	sort.SliceStable(f.Texts, func(i, j int) bool {
		a, b := f.Texts[i], f.Texts[j]
		if a.Item.OutputIndex != b.Item.OutputIndex {
			return a.Item.OutputIndex < b.Item.OutputIndex
		}
		if a.Item.ContentIndex != b.Item.ContentIndex {
			return a.Item.ContentIndex < b.Item.ContentIndex
		}
		if a.Item.Choice != b.Item.Choice {
			return a.Item.Choice < b.Item.Choice
		}
		return a.first < b.first
	})
	for c := range t.choices {
		reasons := []string{}
		for r := range t.finishes[c] {
			reasons = append(reasons, r)
		}
		sort.Strings(reasons)
		f.Finishes[c] = reasons
	}
	for _, x := range t.tools {
		f.Tools = append(f.Tools, *x)
	}
	sort.SliceStable(f.Tools, func(i, j int) bool { return f.Tools[i].First < f.Tools[j].First })
	for _, x := range t.items {
		f.Items = append(f.Items, *x)
	}
	sort.SliceStable(f.Items, func(i, j int) bool { return f.Items[i].first < f.Items[j].first })
	sort.SliceStable(t.errors, func(i, j int) bool { return t.errors[i].seq < t.errors[j].seq })
	for _, e := range t.errors {
		f.Errors = append(f.Errors, e.ProviderError)
	}
	if t.hermes.set {
		h := t.hermes.Hermes
		f.Hermes = &h
	}
	if t.response.set {
		r := t.response.Response
		f.Response = &r
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
