package render

import (
	"strings"

	"github.com/aipctl/aipctl/internal/sanitize"
	"github.com/aipctl/aipctl/internal/transcript"
)

// answer is the text of choice 0 on its way to stdout. Each item is cleaned by
// its own filter, for the halves of a character belong to one item even where
// the deltas of several alternate.
//
// It ends in exactly one line end, whatever the text ends in. So a line end
// goes out at once where it ends a line, for a reader that works by lines, and
// is held back after another one until more text follows.
type answer struct {
	con     *console
	filters map[transcript.ItemRef]*sanitize.Stream
	order   []transcript.ItemRef // of the filters, by their first delta
	last    transcript.ItemRef   // of what was written last
	begun   bool                 // something was written
	ended   bool                 // what was written ends in a line end
	held    int                  // line ends held back
	deltas  bool                 // a delta was seen
	finals  map[transcript.ItemRef]bool
}

func newAnswer(con *console) *answer {
	return &answer{
		con:     con,
		filters: map[transcript.ItemRef]*sanitize.Stream{},
		finals:  map[transcript.ItemRef]bool{},
	}
}

// delta shows the next piece of an item.
func (a *answer) delta(ref transcript.ItemRef, s string) error {
	if s == "" {
		return a.con.out.failure()
	}
	a.deltas = true
	f := a.filters[ref]
	if f == nil {
		f = &sanitize.Stream{}
		a.filters[ref] = f
		a.order = append(a.order, ref)
	}
	return a.write(ref, f.Write(s))
}

// final shows a whole answer, once, and only where no delta was seen.
func (a *answer) final(ref transcript.ItemRef, s string) error {
	if s == "" || a.deltas || a.finals[ref] {
		return a.con.out.failure()
	}
	a.finals[ref] = true
	return a.write(ref, sanitize.Block(s))
}

// done ends one part of an item.
func (a *answer) done(ref transcript.ItemRef) error {
	if f := a.filters[ref]; f != nil {
		return a.write(ref, f.Flush())
	}
	return a.con.out.failure()
}

// itemDone ends all parts of an item.
func (a *answer) itemDone(item transcript.ItemRef) error {
	for _, ref := range a.order {
		if ref.SameItem(item) {
			if err := a.done(ref); err != nil {
				return err
			}
		}
	}
	return a.con.out.failure()
}

// end ends the answer and its last line.
func (a *answer) end() error {
	for _, ref := range a.order {
		if err := a.done(ref); err != nil {
			return err
		}
	}
	if a.begun && !a.ended {
		a.ended = true
		return a.con.clean("\n")
	}
	return a.con.out.failure()
}

// write hands on a piece of an item, with a line end before it where the item
// is not the one that was written last.
func (a *answer) write(ref transcript.ItemRef, t sanitize.Text) error {
	if t.IsEmpty() {
		return a.con.out.failure()
	}
	s := t.String()
	if a.begun && !ref.SameItem(a.last) {
		s = "\n" + s
	}
	a.last = ref
	body := strings.TrimRight(s, "\n")
	ends := len(s) - len(body)
	if body != "" {
		body = strings.Repeat("\n", a.held) + body
		a.held, a.ended = 0, false
	}
	if ends > 0 && !a.ended {
		body += "\n"
		ends--
		a.ended = true
	}
	a.held += ends
	a.begun = true
	return a.con.clean(body)
}
