package devserver

import "time"

const (
	workerID      = "worker:local:1"
	leaseFor      = 30 * time.Second
	maxQueueDelay = 10 * time.Second // sla.max_queue_delay_ms
)

// enqueue puts an async action into the queue. A finished action with the same
// id is reset to queued and will run again.
func (st *store) enqueue(r *run) {
	st.mu.Lock()
	defer st.mu.Unlock()
	now := st.now()
	st.queued++
	st.records[r.action.ID] = &record{run: r, status: queued, place: st.queued, createdAt: now, updatedAt: now}
}

// claim takes the oldest queued action for the worker; nil when there is none.
// It also says how long the action has waited.
func (st *store) claim() (*run, time.Duration) {
	st.mu.Lock()
	defer st.mu.Unlock()
	var next *record
	for _, rec := range st.records {
		if rec.status == queued && (next == nil || rec.place < next.place) {
			next = rec
		}
	}
	if next == nil {
		return nil, 0
	}
	now := st.now()
	next.status, next.updatedAt = running, now
	next.attempts++
	if next.startedAt.IsZero() {
		next.startedAt = now
	}
	next.lease = &lease{workerID, newID("lease_", now), looseTime(now), looseTime(now.Add(leaseFor))}
	return next.run, now.Sub(next.createdAt)
}

// settleQueued ends an attempt of an async or an approved action, and tells of it
// in an event of that kind. A record that a cancel request marked
// meanwhile is left alone: a cancelled async action never has a result. A
// failure has no retries here, so it is dead-lettered, result and all.
func (st *store) settleQueued(r *run, res actionResult, kind string, told any) (stored bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.leave(r)
	rec := st.records[r.action.ID]
	if rec == nil || rec.run != r || rec.status != running {
		return false
	}
	st.storeResult(r, res)
	rec.status, rec.lease, rec.updatedAt, rec.lastError = res.Status, nil, st.now(), res.Error
	if res.Status == "failed" {
		rec.deadReason = res.Error.Message
	}
	st.append(r, kind, told)
	return true
}

// expire ends an async action that nobody claimed while its own timeout ran.
// There is no result: the action never ran. It reports whether it did.
func (st *store) expire(r *run) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	rec := st.records[r.action.ID]
	if rec == nil || rec.run != r || rec.status != queued {
		return false
	}
	rec.status, rec.updatedAt = expired, st.now()
	return true
}
