package engine

import (
	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/identity"
)

// keyOwner is the other action that an error says the idempotency key belongs
// to: the one that runs under it, or the first one. Empty where it names none.
func (r *run) keyOwner(e *aip.ProtocolError) string {
	for _, name := range []string{"owner_action_id", "original_action_id"} {
		if id := r.another(e.DetailString(name)); id != "" {
			return id
		}
	}
	return ""
}

// another is an action id of the daemon, if it is one and not this action's.
func (r *run) another(id string) string {
	if id == r.id || identity.ParseActionID(id) != nil {
		return ""
	}
	return id
}
