package devserver

import (
	"bytes"
	"cmp"
	"encoding/json"
	"time"
)

// KeyTerms are the idempotency part of a contract. An empty field is the
// operation's own: keys are optional or required, a collision returns the
// original result, the scope is the capability.
type KeyTerms struct {
	// Requirement is required, optional or unsupported. A key that is given where
	// none is supported is not looked at.
	Requirement string
	// Collision is return_original_result, reject_conflict or
	// revalidate_input_hash.
	Collision string
	// Scope is action, capability, principal, tenant or external_account. Nobody
	// here has a tenant or an external account, so the last two refuse every key.
	Scope string
	// TTL is how long a settled key is kept; 0 is the operation's own, which is
	// for ever everywhere but at a deletion.
	TTL time.Duration
}

// keyTerms are what holds for the scenario: its own words, then the operation's.
func (sc *Scenario) keyTerms() KeyTerms {
	own, c := sc.play.key, sc.contract()
	requirement := "optional"
	if c.keyed {
		requirement = "required"
	}
	return KeyTerms{
		Requirement: cmp.Or(own.Requirement, requirement),
		Collision:   cmp.Or(own.Collision, "return_original_result"),
		Scope:       cmp.Or(own.Scope, "capability"),
		TTL:         cmp.Or(own.TTL, c.keyTTL),
	}
}

// announced is the contract's form of the terms.
func (k KeyTerms) announced() any {
	return struct {
		Requirement string `json:"requirement"`
		Collision   string `json:"collision_behavior"`
		Scope       string `json:"key_scope"`
		TTLMS       int64  `json:"ttl_ms,omitempty"`
	}{k.Requirement, k.Collision, k.Scope, k.TTL.Milliseconds()}
}

// claimKey is an idempotency key in its scope. What is not part of the partition
// does not tell two keys apart: in the scope of the capability neither the
// caller nor the action id does, in that of the principal not even the
// capability.
type claimKey struct{ scope, partition, key string }

// claimKey returns where the run's key is kept. It reports false for a run
// without a key, and for one whose scope it cannot name, with the refusal.
func (r *run) claimKey() (claimKey, bool, *protocolError) {
	key, given := r.action.key()
	terms := r.scenario.keyTerms()
	if !given || terms.Requirement == "unsupported" {
		return claimKey{}, false, nil
	}
	partition := map[string]string{
		"action": r.action.ID, "capability": r.action.CapabilityID, "principal": r.caller.ID,
	}[terms.Scope]
	if partition == "" {
		e := newError("aip-runtime", policy, "idempotency.scope_missing", "the caller has nothing to keep the key by")
		return claimKey{}, false, e.with(map[string]string{"key_scope": terms.Scope})
	}
	return claimKey{terms.Scope, partition, key}, true, nil
}

// claim is a reservation while a run holds the key, and the settled result
// afterwards.
type claim struct {
	owner   *run
	expires time.Time // of the reservation, then of the result; zero is never
	result  *actionResult
}

// reserve takes the run's idempotency key for it. When the key is held or
// settled, the returned result is the answer, and the run must not happen. None
// of these answers is stored under the new action id.
func (st *store) reserve(r *run) *actionResult {
	ck, given, err := r.claimKey()
	if err != nil {
		return refusal(r, err)
	}
	if !given {
		return nil
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	now := st.now()
	held := st.claims[ck]
	switch {
	case held == nil || !held.expires.IsZero() && !now.Before(held.expires):
		st.claims[ck] = &claim{owner: r, expires: now.Add(r.timeout() + time.Minute)}
		return nil
	case held.result != nil:
		return held.collision(r, ck.key)
	}
	e := newError("aip-runtime", temporary, "idempotency.in_progress", "another submission holds this key")
	e.Retryable = true
	e.RetryAfterMS = held.expires.Sub(now).Milliseconds()
	return refusal(r, e.with(map[string]any{
		"key": ck.key, "owner_action_id": held.owner.action.ID,
		"reservation_expires_at": looseTime(held.expires),
	}))
}

// collision is the answer to a key that was settled before, by the terms of the
// one who asks now.
func (c *claim) collision(r *run, key string) *actionResult {
	switch r.scenario.keyTerms().Collision {
	case "reject_conflict":
		e := newError("aip-runtime", policy, "idempotency.conflict", "the key was used before")
		return refusal(r, e.with(map[string]string{
			"key": key, "original_action_id": c.owner.action.ID, "current_action_id": r.action.ID,
		}))
	case "revalidate_input_hash":
		if c.owner.intent() != r.intent() {
			e := newError("aip-runtime", policy, "idempotency.input_hash_mismatch", "the key was used for another input")
			return refusal(r, e.with(map[string]string{
				"key": key, "original_action_id": c.owner.action.ID, "current_action_id": r.action.ID,
			}))
		}
	}
	replay := replayOf(*c.result)
	return &replay
}

func refusal(r *run, e *protocolError) *actionResult {
	res := failedResult(r.action.ID, e)
	return &res
}

// intent is the hash that a key is compared by: of the capability, the input and
// the transaction without its id. Key order and white space do not count.
func (r *run) intent() string {
	whole, _ := r.action.contract.(map[string]any)
	return digest(encode([]any{r.action.CapabilityID, whole["input"], whole["transaction"]}))
}

// settleKey ends the reservation of a run: the result is kept for replays, a
// retryable one and a missing one free the key. A run that settles twice, as one
// does that waits for an approval in between, leaves its last result.
func (st *store) settleKey(r *run, res *actionResult) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.settleClaim(r, res)
}

// settleClaim is settleKey under mu.
func (st *store) settleClaim(r *run, res *actionResult) {
	ck, given, _ := r.claimKey()
	held := st.claims[ck]
	if !given || held == nil || held.owner != r {
		return
	}
	if res == nil || res.Error != nil && res.Error.Retryable {
		delete(st.claims, ck)
		return
	}
	held.result, held.expires = res, time.Time{}
	if ttl := r.scenario.keyTerms().TTL; ttl > 0 {
		held.expires = st.now().Add(ttl)
	}
}

// replayOf is the answer return_original_result: the original result under its
// own action id, marked in the output. An output that is no object is replaced.
func replayOf(res actionResult) actionResult {
	out := bytes.TrimSpace(res.Output)
	if len(out) < 2 || out[0] != '{' {
		res.Output = json.RawMessage(`{"idempotent_replay":true}`)
		return res
	}
	marked := append([]byte{}, out[:len(out)-1]...)
	if len(members(out)) > 0 {
		marked = append(marked, ',')
	}
	res.Output = append(marked, `"idempotent_replay":true}`...)
	return res
}
