package state

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aipctl/aipctl/internal/fault"
)

// View is what a state file says, action by action. It is the same for every
// order of the lines, so a file may be two files put one behind the other.
type View struct {
	actions map[string]*Action
	sorted  []*Action
}

// Action is everything the file says of one action.
type Action struct {
	ID string

	// Intent is the first intent, save that one known not to have been sent
	// gives way to the intent that came after it. Nil for an action that this
	// client only followed.
	Intent   *Intent
	IntentAt time.Time

	// Last is the latest record of the action by its time.
	Last Record

	// NotSent is set only when it is the last word: no record of the action
	// is later, and no intent is without a not_sent of its own.
	NotSent *NotSent

	Submitted   bool       // a submitted record exists
	Cursors     []Cursor   // the furthest of each binding, sorted by binding
	ResponseIDs []string   // distinct, by time first seen
	Responses   []Response // the same with their endpoints
	ApprovalIDs []string   // distinct, by time first seen
	Approvals   []Approval // the same with what else is known of them
	Decisions   []Decision // by time
	Probe       *Probe     // set when the action was run to learn about another

	// Settled is the verdict with the best evidence: of several the one with
	// fewer missing checks, then conflict before others, then the later.
	Settled   *Settled
	SettledAt time.Time

	// Receipt is the receipt of a deletion, put together from all verdicts: one
	// that was reached without its approval does not hide the decision.
	Receipt *Receipt

	firstAt time.Time
}

// Action returns the action of that id; nil when the file does not know it.
func (v *View) Action(id string) *Action {
	if v == nil {
		return nil
	}
	return v.actions[id]
}

// Actions returns every action, by the time of its intent. One without an
// intent stands where its first record does.
func (v *View) Actions() []*Action {
	if v == nil {
		return nil
	}
	return slices.Clone(v.sorted)
}

// Cursor returns the furthest cursor of exactly that binding.
func (a *Action) Cursor(url, principal, route, filter string) (Cursor, bool) {
	if a == nil {
		return Cursor{}, false
	}
	for _, c := range a.Cursors {
		if c.binding() == (binding{url, principal, route, filter}) {
			return c, true
		}
	}
	return Cursor{}, false
}

type binding struct{ url, principal, route, filter string }

func (c *Cursor) binding() binding { return binding{c.URL, c.Principal, c.Route, c.Filter} }

// Compare orders two cursors of the same binding by how far they are: by the
// last sequence written out, then by the event offset and the chunk sequence
// inside the cursor (aev_cursor_<offset>_<sequence or none>). It is 0 where
// they do not say which is further. A cursor without readable numbers stands
// behind those that have them, so that the order is total.
func (c *Cursor) Compare(d *Cursor) int {
	cOffset, cSeq := numbers(c.Cursor)
	dOffset, dSeq := numbers(d.Cursor)
	return cmp.Or(
		compareOptional(c.LastSequence, d.LastSequence),
		compareOptional(cOffset, dOffset),
		compareOptional(cSeq, dSeq),
	)
}

// compareOptional orders nil before every number.
func compareOptional(a, b *uint64) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	}
	return cmp.Compare(*a, *b)
}

// numbers reads the event offset and the chunk sequence of a cursor; nil for
// what it does not hold. Cursors are opaque otherwise: nothing but the choice
// between two saved ones depends on this.
func numbers(cursor string) (offset, seq *uint64) {
	rest, ok := strings.CutPrefix(cursor, "aev_cursor_")
	if !ok {
		rest, ok = strings.CutPrefix(cursor, "evt_cursor_")
		if !ok {
			return nil, nil
		}
	}
	o, s, _ := strings.Cut(rest, "_")
	if n, err := strconv.ParseUint(o, 10, 64); err == nil {
		offset = &n
	}
	if n, err := strconv.ParseUint(s, 10, 64); err == nil {
		seq = &n
	}
	return offset, seq
}

// newView sorts records into actions. Repeats are dropped by their record id;
// it returns how many distinct records there were.
func newView(recs []*Record) (*View, int) {
	seen := make(map[string]struct{}, len(recs))
	byAction := make(map[string][]*Record)
	for _, r := range recs {
		if _, again := seen[r.ID]; again {
			continue
		}
		seen[r.ID] = struct{}{}
		byAction[r.ActionID] = append(byAction[r.ActionID], r)
	}
	v := &View{actions: make(map[string]*Action, len(byAction))}
	for id, rs := range byAction {
		v.actions[id] = newAction(id, rs)
	}
	v.sorted = slices.SortedFunc(maps.Values(v.actions), func(a, b *Action) int {
		return cmp.Or(a.begin().Compare(b.begin()), strings.Compare(a.ID, b.ID))
	})
	return v, len(seen)
}

func (a *Action) begin() time.Time {
	if a.Intent != nil {
		return a.IntentAt
	}
	return a.firstAt
}

// newAction folds the records of one action. It sorts them first, by time, then
// by [rank], then by record id, so that their order in the file cannot matter.
func newAction(id string, recs []*Record) *Action {
	slices.SortFunc(recs, func(a, b *Record) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(rank(a.Type), rank(b.Type)), strings.Compare(a.ID, b.ID))
	})
	a := &Action{ID: id, Last: *recs[len(recs)-1], firstAt: recs[0].At}
	cursors := make(map[binding]*Cursor)
	// A clock that was set back must not make a sent action look unsent, so
	// not_sent has to be the last record and to answer every intent as well.
	intents, unsent, answered := 0, 0, false
	for _, r := range recs {
		switch r.Type {
		case TypeIntent:
			intents++
			if a.Intent == nil || answered {
				a.Intent, a.IntentAt = r.Intent, r.At
			}
			answered = false
		case TypeNotSent:
			unsent++
			answered = true
		case TypeSubmitted:
			a.Submitted = true
		case TypeCursor:
			b := r.Cursor.binding()
			if c := cursors[b]; c == nil || r.Cursor.Compare(c) >= 0 {
				cursors[b] = r.Cursor
			}
		case TypeResponse:
			a.addResponse(*r.Response)
		case TypeApproval:
			a.addApproval(*r.Approval)
		case TypeDecision:
			a.Decisions = append(a.Decisions, *r.Decision)
			a.addApproval(Approval{ApprovalID: r.Decision.ApprovalID})
		case TypeProbe:
			if a.Probe == nil {
				a.Probe = r.Probe
			}
		case TypeSettled:
			if a.Settled == nil || betterEvidence(r.Settled, a.Settled) {
				a.Settled, a.SettledAt = r.Settled, r.At
			}
			a.addReceipt(r.Settled.Receipt)
		}
	}
	if a.Last.Type == TypeNotSent && unsent >= intents {
		a.NotSent = a.Last.NotSent
	}
	for _, c := range cursors {
		a.Cursors = append(a.Cursors, *c)
	}
	slices.SortFunc(a.Cursors, func(c, d Cursor) int {
		return cmp.Or(strings.Compare(c.URL, d.URL), strings.Compare(c.Principal, d.Principal),
			strings.Compare(c.Route, d.Route), strings.Compare(c.Filter, d.Filter))
	})
	return a
}

// betterEvidence says whether a later verdict replaces an earlier one.
func betterEvidence(later, earlier *Settled) bool {
	if later.Missing != earlier.Missing {
		return later.Missing < earlier.Missing
	}
	conflict := fault.Conflict.String()
	return later.Verdict == conflict || earlier.Verdict != conflict
}

func (a *Action) addResponse(r Response) {
	i := slices.Index(a.ResponseIDs, r.ResponseID)
	if i < 0 {
		a.ResponseIDs = append(a.ResponseIDs, r.ResponseID)
		a.Responses = append(a.Responses, r)
	} else if a.Responses[i].Endpoint == "" {
		a.Responses[i].Endpoint = r.Endpoint
	}
}

func (a *Action) addApproval(p Approval) {
	if p.ApprovalID == "" {
		return
	}
	i := slices.Index(a.ApprovalIDs, p.ApprovalID)
	if i < 0 {
		a.ApprovalIDs = append(a.ApprovalIDs, p.ApprovalID)
		a.Approvals = append(a.Approvals, p)
		return
	}
	// The first record is the submitter's; what it does not say, later ones may.
	have := &a.Approvals[i]
	have.PolicyHash = cmp.Or(have.PolicyHash, p.PolicyHash)
	have.InputHash = cmp.Or(have.InputHash, p.InputHash)
	have.ExpiresAt = cmp.Or(have.ExpiresAt, p.ExpiresAt)
}

func (a *Action) addReceipt(r *Receipt) {
	if r == nil {
		return
	}
	next := *r
	if a.Receipt != nil {
		next.ApprovalID = cmp.Or(next.ApprovalID, a.Receipt.ApprovalID)
		next.DecisionID = cmp.Or(next.DecisionID, a.Receipt.DecisionID)
	}
	a.Receipt = &next
}

// Approval finds the action that an approval belongs to, and what is recorded
// of it; nil when the file does not know it.
func (v *View) Approval(id string) (*Action, Approval) {
	for _, a := range v.Actions() {
		if i := slices.Index(a.ApprovalIDs, id); i >= 0 {
			return a, a.Approvals[i]
		}
	}
	return nil, Approval{}
}

// Storing returns the actions that created a stored response, oldest first.
func (v *View) Storing(responseID string) []*Action {
	return slices.DeleteFunc(v.Actions(), func(a *Action) bool { return !slices.Contains(a.ResponseIDs, responseID) })
}
