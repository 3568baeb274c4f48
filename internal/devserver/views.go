package devserver

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"time"
)

// actionStatus is the ActionStatus object.
type actionStatus struct {
	ActionID      string            `json:"action_id"`
	CapabilityID  string            `json:"capability_id,omitempty"`
	SessionID     string            `json:"session_id,omitempty"`
	CorrelationID string            `json:"correlation_id,omitempty"`
	State         string            `json:"state"`
	QueuedState   string            `json:"queued_state,omitempty"`
	ResultStatus  string            `json:"result_status,omitempty"`
	StartedAt     *timestamp        `json:"started_at,omitempty"`
	UpdatedAt     timestamp         `json:"updated_at"`
	CompletedAt   *timestamp        `json:"completed_at,omitempty"`
	Retry         *retryView        `json:"retry,omitempty"`
	Lease         *lease            `json:"lease,omitempty"`
	Result        *actionResult     `json:"result,omitempty"`
	Chunks        []chunk           `json:"chunks,omitempty"`
	Links         map[string]string `json:"links"`
}

// retryView writes its nulls.
type retryView struct {
	Attempts         int            `json:"attempts"`
	Policy           *string        `json:"policy"`
	NextAttemptAt    []int          `json:"next_attempt_at"`
	LastError        *protocolError `json:"last_error"`
	DeadLetterReason *string        `json:"dead_letter_reason"`
}

// stateOf is the lifecycle state; the first rule that matches decides. It needs
// mu. Chunks only count when the reader asked for them.
func (st *store) stateOf(actionID string, withChunks bool) string {
	rec := st.records[actionID]
	if rec != nil && rec.deadReason != "" {
		return "dead_lettered"
	}
	if res, ok := st.results[actionID]; ok {
		if res.Status == requiresHuman {
			// The operator's own wait for a human: stored, and yet not the end.
			return "pending_approval"
		}
		return res.Status
	}
	if withChunks && len(st.chunks[actionID]) > 0 {
		return "streaming"
	}
	switch {
	case rec == nil:
		return "unknown"
	case rec.status == requiresHuman:
		return "pending_approval"
	}
	return rec.status
}

func terminalState(state string) bool {
	switch state {
	case "cancelled", "completed", "failed", "expired", "dead_lettered":
		return true
	}
	return false
}

// state is stateOf for readers that hold no lock.
func (st *store) state(actionID string) string {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.stateOf(actionID, false)
}

// status is the answer of the status route. An unknown action is answered too.
func (st *store) status(actionID string, withResult, withChunks bool) actionStatus {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.statusOf(actionID, withResult, withChunks)
}

func (st *store) statusOf(actionID string, withResult, withChunks bool) actionStatus {
	path := "/aip/v1/actions/" + url.PathEscape(actionID)
	view := actionStatus{
		ActionID:  actionID,
		State:     st.stateOf(actionID, withChunks),
		UpdatedAt: timestamp(st.now()),
		Links: map[string]string{
			"self": path, "result": path + "/result", "events": path + "/events",
			"chunks": path + "/chunks", "cancel": path + "/cancel",
		},
	}
	if withChunks {
		view.Chunks = st.chunks[actionID]
	}
	rec := st.records[actionID]
	if rec == nil {
		return view
	}
	view.CapabilityID = rec.run.action.CapabilityID
	view.SessionID, view.CorrelationID = rec.run.sessionID, rec.run.correlationID
	view.QueuedState = rec.status
	view.UpdatedAt = timestamp(rec.updatedAt)
	view.StartedAt = optionalTime(rec.startedAt)
	view.Lease = copied(rec.lease)
	view.Retry = &retryView{Attempts: rec.attempts, LastError: rec.lastError}
	if rec.deadReason != "" {
		view.Retry.DeadLetterReason = copied(&rec.deadReason)
	}
	if res, ok := st.results[actionID]; ok {
		view.ResultStatus = res.Status
		view.CompletedAt = optionalTime(rec.updatedAt)
		if withResult {
			view.Result = &res
		}
	}
	return view
}

func optionalTime(t time.Time) *timestamp {
	if t.IsZero() {
		return nil
	}
	ts := timestamp(t)
	return &ts
}

// copied detaches a value from the store.
func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

// result is the answer of the result route: the stored result, or why there is
// none.
func (st *store) result(actionID string) (actionResult, *protocolError) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if res, ok := st.results[actionID]; ok {
		return res, nil
	}
	state := st.stateOf(actionID, false)
	type details struct {
		ActionID string `json:"action_id"`
		State    string `json:"state,omitempty"`
	}
	var e *protocolError
	switch state {
	case "unknown":
		e = newError("aip-runtime", permanent, "action.not_found", "no such action is on record")
		return actionResult{}, e.with(details{ActionID: actionID})
	case "dead_lettered":
		e = newError("aip-runtime", permanent, "action.dead_lettered", "the action was given up without a result")
	case "expired":
		e = newError("aip-runtime", permanent, "action.gone", "the action expired")
	default:
		e = newError("aip-runtime", temporary, "action.result_not_ready", "no terminal result is stored")
	}
	return actionResult{}, e.with(details{actionID, state})
}

// listFilter selects queue records; empty fields select everything.
type listFilter struct {
	state, capability, session, principal string
	impossible                            bool // a filter no record here can meet
	caller                                caller
	withResults                           bool
	offset, limit                         int
}

// actionList is the ActionList object.
type actionList struct {
	Actions   []actionStatus `json:"actions"`
	TotalSize int            `json:"total_size"`
	Cursor    string         `json:"cursor,omitempty"`
}

// list returns the records that match, by their last change. Offsets are
// positions in a freshly sorted list, so a list that moves between two pages
// skips or repeats.
func (st *store) list(f listFilter) actionList {
	st.mu.Lock()
	defer st.mu.Unlock()
	ids := make([]string, 0, len(st.records))
	for id, rec := range st.records {
		if !f.impossible && st.selects(f, id, rec) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b string) int {
		return cmp.Or(st.records[a].updatedAt.Compare(st.records[b].updatedAt), cmp.Compare(a, b))
	})
	out := actionList{Actions: []actionStatus{}, TotalSize: len(ids)}
	from := min(f.offset, len(ids))
	to := min(from+f.limit, len(ids))
	for _, id := range ids[from:to] {
		out.Actions = append(out.Actions, st.statusOf(id, f.withResults, false))
	}
	if to < len(ids) {
		out.Cursor = fmt.Sprintf("offset:%d", to)
	}
	return out
}

func (st *store) selects(f listFilter, id string, rec *record) bool {
	own := rec.run.caller == f.caller.principal || f.caller.hasAny("action", "read")
	return own && (f.state == "" || f.state == st.stateOf(id, false)) &&
		(f.capability == "" || f.capability == rec.run.action.CapabilityID) &&
		(f.session == "" || f.session == rec.run.sessionID) &&
		(f.principal == "" || f.principal == rec.run.caller.ID)
}
