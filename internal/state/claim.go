package state

import (
	"bytes"
	"context"

	"github.com/aipctl/aipctl/internal/fault"
	"github.com/go-json-experiment/json/jsontext"
)

// opDelete is the one operation that has no way back and no idempotence at the
// provider.
const opDelete = "response_delete"

// Deletes reports whether the intent removes a stored response.
func (in *Intent) Deletes() bool { return in.Operation == opDelete && in.ResponseID != "" }

// sameIntent reports whether two intents ask for exactly the same thing.
func sameIntent(a, b *Intent) bool {
	return a.CapabilityID == b.CapabilityID && a.InputHash == b.InputHash
}

// Claimed refuses an intent that takes what an earlier one of another action
// has taken, with class [fault.Usage]:
//
//   - one idempotency key belongs to one exact intent. A daemon that is shown
//     it with another input gives the first result back, and runs nothing
//     ("state.key_reused");
//   - a stored response is deleted at most once, unless the earlier deletion is
//     known to have run nothing: it was not sent, rejected or cancelled
//     ("state.duplicate_delete").
func (v *View) Claimed(actionID string, in *Intent) error {
	for _, a := range v.Actions() {
		if a.ID == actionID || a.Intent == nil || !a.Intent.shares(in) {
			continue
		}
		switch {
		case in.Deletes() && a.Intent.Deletes() && a.Intent.ResponseID == in.ResponseID && !a.RanNothing():
			return fault.New(fault.Usage, "state.duplicate_delete", "a deletion of this response was submitted before, as %s at endpoint %s, and %s; a second one is not sent", a.ID, a.Intent.Endpoint, a.ending()).
				WithHint("read how it ended with `aipctl action result %s`", a.ID).WithAction(a.ID)
		case in.IdempotencyKey != "" && a.Intent.IdempotencyKey == in.IdempotencyKey && !sameIntent(a.Intent, in):
			return fault.New(fault.Usage, "state.key_reused", "this idempotency key belongs to %s, which asks for something else; one key is for one exact intent", a.ID).
				WithHint("choose another key; read what the first intent came to with `aipctl action result %s`", a.ID).WithAction(a.ID)
		}
	}
	return nil
}

// RanNothing reports whether the file knows that the action did not take effect.
func (a *Action) RanNothing() bool {
	if a.NotSent != nil {
		return true
	}
	if a.Settled == nil {
		return false
	}
	switch a.Settled.Verdict {
	case fault.Rejected.String(), fault.Cancelled.String():
		return true
	}
	return false
}

// ending says in a few words how the file leaves an action.
func (a *Action) ending() string {
	if a.Settled == nil {
		return "how it ended is not known"
	}
	return "it is recorded as " + a.Settled.Verdict
}

// claimed applies [View.Claimed] to what the file holds now; the lock is held.
// For a deletion it reads every line, for damage may hide an earlier one. For a
// key it reads those that may name it, and then those of the actions it found.
func (f *File) claimed(ctx context.Context, w *writer, actionID string, in *Intent) error {
	if in.IdempotencyKey == "" && !in.Deletes() {
		return nil
	}
	skip := unrelated(in.IdempotencyKey)
	if in.Deletes() {
		skip = nil
	}
	var earlier []string
	hidden := false
	rep, err := w.scan(ctx, skip, func(k kind, rec *Record, raw []byte) {
		switch {
		case k == newer:
			hidden = hidden || in.Deletes() && !unrelated(in.ResponseID)(raw)
		case rec.Type == TypeIntent && rec.ActionID != actionID && rec.Intent.shares(in):
			earlier = append(earlier, rec.ActionID)
		}
	})
	if err != nil {
		return f.fault(ctx, "state.unreadable", "read", err)
	}
	if len(earlier) > 0 {
		var recs []*Record
		_, err := w.scan(ctx, unrelated(earlier...), func(k kind, rec *Record, _ []byte) {
			if k == good {
				recs = append(recs, rec)
			}
		})
		if err != nil {
			return f.fault(ctx, "state.unreadable", "read", err)
		}
		v, _ := newView(recs)
		if err := v.Claimed(actionID, in); err != nil {
			return err
		}
	}
	switch {
	case hidden:
		return fault.New(fault.State, "state.newer_version", "%s: a newer aipctl wrote of this response, and this version cannot tell whether it was a deletion", f.path).
			WithHint("use the newer aipctl")
	case in.Deletes() && len(rep.Damaged) > 0:
		d := rep.Damaged[0]
		return fault.New(fault.State, "state.damaged", "%s: line %d is damaged (%s), and it may hide a deletion of this response", f.path, d.Line, d.Why).
			WithHint("see `aipctl state check`; `aipctl response get` reads whether it is still there. Another file would know of no deletion at all")
	}
	return nil
}

// shares reports whether another intent has the key of this one, or is a deletion
// of the same response.
func (in *Intent) shares(other *Intent) bool {
	return in.IdempotencyKey != "" && other.IdempotencyKey == in.IdempotencyKey ||
		in.Deletes() && other.Deletes() && other.ResponseID == in.ResponseID
}

// unrelated says of a line that it names none of the words. A line holds them
// as JSON writes them, and a \u escape may spell any.
func unrelated(words ...string) func([]byte) bool {
	var needles [][]byte
	for _, w := range words {
		q, err := jsontext.AppendQuote(nil, w)
		if err != nil { // no UTF-8: JSON holds it as something else
			return func([]byte) bool { return false }
		}
		needles = append(needles, q[1:len(q)-1])
	}
	return func(line []byte) bool {
		if bytes.Contains(line, unicodeEscape) {
			return false
		}
		for _, n := range needles {
			if bytes.Contains(line, n) {
				return false
			}
		}
		return true
	}
}
