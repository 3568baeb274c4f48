package engine

import (
	"fmt"
	"slices"

	"github.com/aipctl/aipctl/internal/state"
	"github.com/aipctl/aipctl/internal/verdict"
)

// storeHolds is how many responses a Hermes store keeps. The least recently
// used goes first, and a read is a use.
const storeHolds = 100

// Absent lists the possible reasons for a store not to have a response, those
// first that the state file knows something of. A 404 itself tells none of them
// from another.
func Absent(view *state.View, responseID, endpoint, url string) []verdict.Cause {
	var known []verdict.Cause
	say := func(code, format string, args ...any) {
		known = append(known, verdict.Cause{Code: code, Message: fmt.Sprintf(format, args...)})
	}
	created := view.Storing(responseID)
	stored := false // the file says that it was to be stored
	for _, a := range created {
		switch {
		case a.Intent == nil || a.Intent.Store == nil:
		case *a.Intent.Store:
			stored = true
		default:
			say("not_stored", "%s created it with store: false, so it was never stored", a.ID)
		}
	}
	for _, a := range view.Actions() {
		if a.Intent == nil || !a.Intent.Deletes() || a.Intent.ResponseID != responseID || a.RanNothing() {
			continue
		}
		if a.Receipt != nil && a.Receipt.Deleted {
			say("deleted", "it was deleted from here, by %s", a.ID)
			continue
		}
		say("deletion_unsettled", "%s was to delete it, and how that ended is not known here; this 404 does not prove that it ran", a.ID)
	}
	for _, a := range created {
		if a.Intent != nil && (a.Intent.Endpoint != endpoint || a.Intent.URL != url) {
			say("other_instance", "%s created it at endpoint %s of %s, and this read asked endpoint %s of %s", a.ID, a.Intent.Endpoint, a.Intent.URL, endpoint, url)
			break
		}
	}
	if n := storedSince(view, responseID, endpoint, url); n >= storeHolds {
		say("evicted", "at least %d responses were stored here since; a store keeps %d, and the least recently used goes first", n, storeHolds)
	}
	for _, c := range []verdict.Cause{
		{Code: "not_stored", Message: "it was created with store: false"},
		{Code: "deleted", Message: "somebody deleted it"},
		{Code: "evicted", Message: "others pushed it out: a store keeps 100, and the least recently used goes first"},
		{Code: "other_instance", Message: "this endpoint is, or is behind, another instance with a store of its own"},
		{Code: "store_lost", Message: "the store was in memory and was lost in a restart"},
	} {
		if stored && c.Code == "not_stored" || slices.ContainsFunc(known, func(k verdict.Cause) bool { return k.Code == c.Code }) {
			continue
		}
		known = append(known, c)
	}
	return known
}

// storedSince counts the responses that the file has seen stored at an endpoint
// after the one in question.
func storedSince(view *state.View, responseID, endpoint, url string) int {
	seen, n := false, 0
	for _, a := range view.Actions() {
		if slices.Contains(a.ResponseIDs, responseID) {
			seen = true
			continue
		}
		in := a.Intent
		if seen && in != nil && in.Endpoint == endpoint && in.URL == url && (in.Store == nil || *in.Store) {
			n += len(a.ResponseIDs)
		}
	}
	return n
}
