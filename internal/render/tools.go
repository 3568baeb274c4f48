package render

import (
	"slices"
	"time"

	"github.com/aipctl/aipctl/internal/sanitize"
	"github.com/aipctl/aipctl/internal/transcript"
)

// call is one tool call as far as it was seen.
type call struct {
	id, name, status string
	first            time.Time
}

// calls pairs the updates of tool calls, by the rules of the transcript: by
// call id, and where a provider gives none, an end belongs to the oldest
// running call of that name.
type calls struct {
	byID  map[string]*call
	noIDs []*call // running calls without an id, oldest first
	open  []*call // running calls, oldest first
}

func newCalls() *calls { return &calls{byID: map[string]*call{}} }

// change is an update that says something new.
type change struct {
	name  string
	after time.Duration // since the call was first seen
	timed bool          // after is known: it was seen before
}

// update takes one update; ok is false where it only repeats what is known.
func (c *calls) update(op transcript.Tool, now time.Time) (ch change, ok bool) {
	x := c.find(op)
	if x == nil {
		x = &call{id: op.CallID, name: op.Name, status: op.Status, first: now}
		c.keep(x)
		return change{name: x.name}, true
	}
	if x.name == "" {
		x.name = op.Name
	}
	if ended(x.status) || op.Status == transcript.ToolRunning || op.Status == x.status {
		return change{}, false
	}
	x.status = op.Status
	c.open = without(c.open, x)
	if x.id == "" {
		c.noIDs = without(c.noIDs, x)
	}
	return change{name: x.name, after: now.Sub(x.first), timed: true}, true
}

func (c *calls) find(op transcript.Tool) *call {
	if op.CallID != "" {
		return c.byID[op.CallID]
	}
	if op.Status != transcript.ToolRunning {
		for _, x := range c.noIDs {
			if x.name == op.Name {
				return x
			}
		}
	}
	return nil
}

func (c *calls) keep(x *call) {
	runs := x.status == transcript.ToolRunning
	if runs {
		c.open = append(c.open, x)
	}
	switch {
	case x.id != "":
		c.byID[x.id] = x
	case runs:
		c.noIDs = append(c.noIDs, x)
	}
}

func without(list []*call, x *call) []*call {
	return slices.DeleteFunc(list, func(y *call) bool { return y == x })
}

// running says which tools run and how long they have, oldest first; none is
// the empty text.
func (c *calls) running(now time.Time) sanitize.Text {
	var all []sanitize.Text
	for _, x := range c.open {
		all = append(all, sanitize.Format("%s %s", toolName(x.name), elapsed(now.Sub(x.first))))
	}
	switch len(all) {
	case 0:
		return sanitize.Text{}
	case 1:
		return sanitize.Format("tool running: %s", all[0])
	default:
		return sanitize.Format("%s tools running: %s", sanitize.Int(int64(len(all))), sanitize.Join(", ", all...))
	}
}

// seen reports whether a call with the id was seen.
func (c *calls) seen(id string) bool { return c.byID[id] != nil }

// ended reports whether a tool in this state is over.
func ended(status string) bool {
	return status == transcript.ToolCompleted || status == transcript.ToolFailed
}
