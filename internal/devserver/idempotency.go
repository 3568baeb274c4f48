package devserver

import (
	"bytes"
	"encoding/json"
	"time"
)

// claimKey is an idempotency key in its scope. The connector's operations use
// capability scope, so neither the principal nor the action id is part of it.
type claimKey struct{ capability, key string }

// claim is a reservation while a run holds the key, and the settled result
// afterwards.
type claim struct {
	owner   *run
	expires time.Time // of the reservation
	result  *actionResult
}

// reserve takes the run's idempotency key for it. When the key is held or
// settled, the returned result is the answer, and the run must not happen.
func (st *store) reserve(r *run) *actionResult {
	key, ok := r.action.key()
	if !ok {
		return nil
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	now := st.now()
	ck := claimKey{r.action.CapabilityID, key}
	held := st.claims[ck]
	switch {
	case held == nil || held.result == nil && !now.Before(held.expires):
		st.claims[ck] = &claim{owner: r, expires: now.Add(r.timeout() + time.Minute)}
		return nil
	case held.result != nil:
		replay := replayOf(*held.result)
		return &replay
	}
	e := newError("aip-runtime", temporary, "idempotency.in_progress", "another submission holds this key")
	e.Retryable = true
	e.RetryAfterMS = held.expires.Sub(now).Milliseconds()
	res := failedResult(r.action.ID, e.with(map[string]any{
		"key": key, "owner_action_id": held.owner.action.ID,
		"reservation_expires_at": looseTime(held.expires),
	}))
	return &res
}

// settleKey ends the reservation of a run: the result is kept for replays, a
// retryable one and a missing one free the key.
func (st *store) settleKey(r *run, res *actionResult) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.settleClaim(r, res)
}

// settleClaim is settleKey under mu.
func (st *store) settleClaim(r *run, res *actionResult) {
	key, ok := r.action.key()
	if !ok {
		return
	}
	ck := claimKey{r.action.CapabilityID, key}
	held := st.claims[ck]
	if held == nil || held.owner != r {
		return
	}
	if res == nil || res.Error != nil && res.Error.Retryable {
		delete(st.claims, ck)
		return
	}
	held.result = res
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
