package devserver

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"reflect"
	"slices"
	"sync"
	"time"
)

// store is everything the daemon remembers, in memory.
//
// Invariant: a sync or streaming action leaves nothing but its chunks and their
// events here until it has a result. Readers therefore cannot tell one that
// runs from one that never was; that is the daemon's behaviour, not a gap.
type store struct {
	now func() time.Time

	mu        sync.Mutex
	events    []event                 // the daemon-global log; cursors are positions in it
	chunks    map[string][]chunk      // by action
	records   map[string]*record      // queue records, by action
	results   map[string]actionResult // stored results, by action
	active    map[string][]*run       // runs in flight, by action
	claims    map[claimKey]*claim     // idempotency reservations and settlements
	seen      map[string]time.Time    // message ids and until when they are refused
	counts    map[string]int          // executions, by action
	submits   []string                // action ids of accepted envelopes
	queued    int                     // submissions queued so far
	approvals []*approval             // oldest first
	decisions []string                // decision ids as they came
}

func newStore(now func() time.Time) *store {
	return &store{
		now:     now,
		chunks:  map[string][]chunk{},
		records: map[string]*record{},
		results: map[string]actionResult{},
		active:  map[string][]*run{},
		claims:  map[claimKey]*claim{},
		seen:    map[string]time.Time{},
		counts:  map[string]int{},
	}
}

// record is the queue record of an action. Async actions have one from the
// start, sync and streaming ones only from their end.
type record struct {
	run        *run // the submission it came from
	status     string
	attempts   int
	place      int // in the queue; times may be equal, places are not
	createdAt  time.Time
	startedAt  time.Time
	updatedAt  time.Time
	deadReason string
	lastError  *protocolError
	lease      *lease
}

// Queue statuses.
const (
	queued        = "queued"
	running       = "running"
	requiresHuman = "requires_human"
	cancelled     = "cancelled"
	expired       = "expired"
)

type lease struct {
	WorkerID   string `json:"worker_id"`
	LeaseID    string `json:"lease_id"`
	AcquiredAt []int  `json:"acquired_at"`
	ExpiresAt  []int  `json:"expires_at"`
}

// run is one execution of an action.
type run struct {
	action        action
	scenario      *Scenario
	caller        principal // who submitted it
	sessionID     string
	correlationID string

	// ctx ends when the run is over for the runtime, whoever ended it.
	ctx    context.Context
	finish context.CancelFunc
	// cancelled is closed by a cancel request, once.
	cancelled chan struct{}

	dropped bool // guarded by store.mu: nothing of the run may be stored any more
}

// timeout is the smaller of the action's own and the contract's.
func (r *run) timeout() time.Duration {
	ms := r.scenario.contract().timeoutMS()
	if own := r.action.TimeoutMS; own != nil {
		ms = min(ms, *own)
	}
	return time.Duration(ms) * time.Millisecond
}

// isCancelled reports a cancel request; it needs store.mu.
func (r *run) isCancelled() bool {
	select {
	case <-r.cancelled:
		return true
	default:
		return false
	}
}

// append writes an event about a run to the global log; it needs mu.
func (st *store) append(r *run, kind string, data any) {
	now := st.now()
	st.appendEvent(r, newID("evt_", now), kind, now, data)
}

func (st *store) appendEvent(r *run, id, kind string, now time.Time, data any) {
	actor := r.caller
	st.events = append(st.events, event{
		ID: id, Kind: kind, OccurredAt: timestamp(now), ActionID: r.action.ID,
		SessionID: r.sessionID, CorrelationID: r.correlationID, Actor: &actor, Data: data,
	})
}

// accept claims the message id of an envelope for the replay window; false when
// it was used before. It counts as used even when the request then fails.
func (st *store) accept(messageID string, sentAt time.Time) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	now := st.now()
	if until, ok := st.seen[messageID]; ok && now.Before(until) {
		return false
	}
	st.seen[messageID] = sentAt.Add(replayPast)
	return true
}

// submitted notes an accepted action envelope and says whether its id is free
// for it: no record, or one of an equal action of the same principal.
func (st *store) submitted(a action, by principal) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.submits = append(st.submits, a.ID)
	rec, ok := st.records[a.ID]
	return !ok || rec.run.caller == by && reflect.DeepEqual(rec.run.action.contract, a.contract)
}

// start makes a run active and counts it.
func (st *store) start(r *run) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.counts[r.action.ID]++
	st.active[r.action.ID] = append(st.active[r.action.ID], r)
}

// drop makes a run unable to store anything more.
func (st *store) drop(r *run) {
	st.mu.Lock()
	defer st.mu.Unlock()
	r.dropped = true
}

// leave takes a run out of the active table; it needs mu.
func (st *store) leave(r *run) {
	rest := st.active[r.action.ID][:0:0]
	for _, other := range st.active[r.action.ID] {
		if other != r {
			rest = append(rest, other)
		}
	}
	if len(rest) == 0 {
		delete(st.active, r.action.ID)
		return
	}
	st.active[r.action.ID] = rest
}

// errDropped says that the run ended before the chunk could be stored.
var errDropped = errors.New("the run is over")

// publish stores a chunk and its event. Refused are other content for a known
// sequence, anything behind a done or error chunk, and a sequence that does not
// grow; an equal repeat is accepted and adds nothing. Gaps are allowed.
func (st *store) publish(r *run, c chunk) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if r.dropped {
		return errDropped
	}
	log := st.chunks[c.ActionID]
	if i, taken := slices.BinarySearchFunc(log, c.Sequence, func(old chunk, seq uint64) int {
		return cmp.Compare(old.Sequence, seq)
	}); taken {
		if bytes.Equal(encode(log[i]), encode(c)) {
			return nil
		}
		return errors.New("the sequence is taken by another chunk")
	}
	if n := len(log); n > 0 {
		switch last := log[n-1]; {
		case last.Kind == "done" || last.Kind == "error":
			return errors.New("the stream is already terminal")
		case c.Sequence <= last.Sequence:
			return errors.New("the sequence does not grow")
		}
	}
	st.chunks[c.ActionID] = append(log, c)
	st.appendEvent(r, chunkEventID(c), "aip.stream.chunk", st.now(), struct {
		ActionID string `json:"action_id"`
		Sequence uint64 `json:"sequence"`
		Kind     string `json:"kind"`
	}{c.ActionID, c.Sequence, c.Kind})
	return nil
}

// chunkEventID is deterministic, so that a repeated chunk is the same event.
func chunkEventID(c chunk) string {
	h := sha256.New()
	h.Write([]byte("stream-chunk-event\x00" + c.ActionID + "\x00"))
	var seq [8]byte
	binary.BigEndian.PutUint64(seq[:], c.Sequence)
	h.Write(seq[:])
	return "evt_stream_" + hex.EncodeToString(h.Sum(nil))
}

// statusEvent is the data of the events that announce a result.
type statusEvent struct {
	ActionID string `json:"action_id"`
	Status   string `json:"status"`
	WorkerID string `json:"worker_id,omitempty"`
}

// storeResult keeps a result; the event is written for the first one only. It
// needs mu.
func (st *store) storeResult(r *run, res actionResult) {
	_, had := st.results[r.action.ID]
	st.results[r.action.ID] = res
	if !had {
		st.append(r, "aip.action.result", statusEvent{ActionID: res.ActionID, Status: res.Status})
	}
}

// settle ends a sync or streaming run: its result and a queue record that was
// born finished.
func (st *store) settle(r *run, res actionResult) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.leave(r)
	st.storeResult(r, res)
	now := st.now()
	created := now
	if old := st.records[r.action.ID]; old != nil {
		created = old.createdAt
	}
	st.records[r.action.ID] = &record{
		run: r, status: res.Status, attempts: 1,
		createdAt: created, startedAt: now, updatedAt: now, lastError: res.Error,
	}
}

// abandon ends a run that leaves no result.
func (st *store) abandon(r *run) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.leave(r)
}

// cancel records a cancel request and signals the runs of the action; false
// when the action is neither on record nor active. A finished action is
// cancelled like any other: its stored result is what stays.
func (st *store) cancel(actionID, reason string) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	rec, runs := st.records[actionID], st.active[actionID]
	var about *run
	switch {
	case rec != nil:
		about = rec.run
	case len(runs) > 0:
		about = runs[0]
	default:
		return false
	}
	for _, r := range runs {
		if !r.isCancelled() {
			close(r.cancelled)
		}
	}
	if rec != nil {
		rec.status, rec.lease, rec.updatedAt = cancelled, nil, st.now()
	}
	st.append(about, "aip.action.cancelled", struct {
		Target   string `json:"target"`
		ActionID string `json:"action_id"`
		Reason   string `json:"reason,omitempty"`
	}{"action", actionID, reason})
	return true
}

// retention of message ids and tolerance of clocks.
const (
	replayPast   = 300 * time.Second
	replayFuture = 30 * time.Second
)
