package devserver

import (
	"context"
	"slices"
	"time"
)

// answer is what a submission comes to: a body with its key, or an error that
// travels as an error. Gone means that the daemon closed first.
type answer struct {
	key  string
	body any
	err  *protocolError
	gone bool
	lost bool // the answer never reaches the client
}

func resultAnswer(res actionResult) answer { return answer{key: "action_result", body: res} }

// ack is the Ack of an async submission.
type ack struct {
	ActionID string            `json:"action_id"`
	Status   string            `json:"status"`
	Reason   string            `json:"reason"`
	Queue    map[string]string `json:"queue"`
}

// submit takes one action envelope through the daemon's checks, in their order,
// and runs or queues the action. In sync and streaming mode it returns when the
// action ended; when ctx ends first it returns at once, and the action goes on.
func (s *Server) submit(ctx context.Context, env *envelope) answer {
	a := *env.Body.Action
	if !s.store.submitted(a, env.caller.principal) {
		return answer{err: newError("aip-runtime", permanent, "action.id_conflict", "this action id is bound to another request")}
	}
	sc := s.scenario(a.CapabilityID)
	if sc == nil {
		return answer{err: newError("aip-runtime", permanent, "resource.not_found", "no capability `"+a.CapabilityID+"`")}
	}
	r := &run{
		action: a, scenario: sc, caller: env.caller.principal, sessionID: env.SessionID, correlationID: env.CorrelationID,
		cancelled: make(chan struct{}),
	}
	// An async action meets its input schema only when a worker runs it.
	if a.Mode != "async" {
		if bad := inputViolations(sc, a.Input); bad != nil {
			return resultAnswer(failedResult(a.ID, schemaViolation("action.input_schema_invalid", sc, bad)))
		}
	}
	if broken := sc.broken(a); broken != nil {
		return resultAnswer(failedResult(a.ID, broken))
	}
	if taken := s.store.reserve(r); taken != nil {
		return resultAnswer(*taken)
	}
	if sc.needsApproval() {
		return resultAnswer(s.askHuman(r))
	}
	if a.Mode == "async" {
		return s.enqueue(r)
	}
	return s.detached(ctx, func() answer { return s.runNow(r) })
}

// detached does work that goes on to its end also when nobody waits for the
// answer any more.
func (s *Server) detached(ctx context.Context, work func() answer) answer {
	done := make(chan answer, 1)
	if !s.spawn(func() { done <- work() }) {
		return answer{gone: true}
	}
	select {
	case ans := <-done:
		return ans
	case <-ctx.Done():
		return answer{gone: true}
	}
}

func schemaViolation(code string, sc *Scenario, violations []string) *protocolError {
	return newError("aip-runtime.schema", permanent, code, "the value does not match its schema").with(map[string]any{
		"capability_id": sc.CapabilityID(), "violations": violations,
	})
}

// runNow runs a sync or streaming action to its end. An error of the handler is
// answered and stored nowhere; its chunks stay.
func (s *Server) runNow(r *run) answer {
	res, err, ended := s.execute(r)
	switch {
	case !ended:
		s.store.abandon(r)
		return answer{gone: true}
	case err != nil:
		s.store.abandon(r)
		s.store.settleKey(r, nil)
		return answer{err: err}
	}
	s.store.settle(r, res)
	s.store.settleKey(r, &res)
	return resultAnswer(res)
}

// execute runs the handler under the deadline and the cancel signal. It reports
// false when the daemon closed before the action ended.
func (s *Server) execute(r *run) (actionResult, *protocolError, bool) {
	s.store.start(r)
	r.ctx, r.finish = context.WithCancel(s.ctx)
	defer r.finish()
	handled := make(chan outcome, 1)
	if !s.spawn(func() { handled <- s.invoke(r) }) {
		return actionResult{}, nil, false
	}
	deadline := time.NewTimer(r.timeout())
	defer deadline.Stop()
	var out outcome
	select {
	case out = <-handled:
	case <-r.cancelled:
		out.dropped = true
	case <-deadline.C:
		out.deadline = true
	case <-s.ctx.Done():
	}
	// Whatever the handler still does, it stores nothing from here on.
	s.store.drop(r)
	select {
	case <-r.cancelled:
		// A cancel request wins over a result that is there at the same time.
		return cancelledResult(r.action.ID), nil, true
	default:
	}
	switch {
	case out.deadline:
		return failedResult(r.action.ID, s.timeoutError(r)), nil, true
	case out.err != nil:
		return actionResult{}, out.err, true
	case out.result.Status == "":
		return actionResult{}, nil, false
	}
	res := out.result
	if res.Status == "completed" {
		if bad := outputViolations(r.scenario, res.Output); bad != nil {
			res = failedResult(r.action.ID, schemaViolation("action.output_schema_invalid", r.scenario, bad))
		}
	}
	return res, nil, true
}

func cancelledResult(actionID string) actionResult {
	return actionResult{ActionID: actionID, Status: "cancelled", Output: encode(struct {
		Cancelled bool   `json:"cancelled"`
		Reason    string `json:"reason"`
	}{true, "action cancellation requested"})}
}

func (s *Server) timeoutError(r *run) *protocolError {
	e := newError("aip-runtime", temporary, "sla.timeout_exceeded", "the action ran into its deadline").with(struct {
		ActionID     string  `json:"action_id"`
		CapabilityID string  `json:"capability_id"`
		TimeoutMS    int64   `json:"timeout_ms"`
		CancelError  *string `json:"remote_cancel_error"`
	}{r.action.ID, r.action.CapabilityID, r.timeout().Milliseconds(), nil})
	e.Retryable = r.scenario.contract().reading
	return e
}

// enqueue queues an async action and wakes the worker. An action with a timeout
// of its own expires when nobody claims it in that time.
func (s *Server) enqueue(r *run) answer {
	s.store.enqueue(r)
	if r.action.TimeoutMS != nil {
		s.after(r.timeout(), func() {
			if s.store.expire(r) {
				s.store.settleKey(r, nil)
			}
		})
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return answer{key: "ack", body: ack{
		ActionID: r.action.ID, Status: queued, Reason: "queued for a worker",
		Queue: map[string]string{"scheduler": "aip-runtime"},
	}}
}

// work is the queue's only worker: one action at a time, oldest first.
func (s *Server) work() {
	for {
		select {
		case <-s.wake:
		case <-s.ctx.Done():
			return
		}
		for {
			if !s.pause(s.ctx, claimDelay) {
				return
			}
			s.cycles.Add(1)
			r, waited := s.store.claim()
			if r == nil {
				break
			}
			s.attempt(r, waited)
		}
	}
}

// claimDelay is the worker's polling interval; it is scaled like the recorded
// pauses.
const claimDelay = 250 * time.Millisecond

// attempt runs a claimed action.
func (s *Server) attempt(r *run, waited time.Duration) {
	var res actionResult
	if waited > maxQueueDelay && inputViolations(r.scenario, r.action.Input) == nil {
		res = failedResult(r.action.ID, newError("aip-runtime", policy, "sla.queue_delay_exceeded", "the action waited too long in the queue"))
	} else {
		var ended bool
		if res, ended = s.attempted(r); !ended {
			s.store.abandon(r)
			return
		}
	}
	if s.store.settleQueued(r, res, "aip.action.worker_result", statusEvent{res.ActionID, res.Status, workerID}) {
		s.store.settleKey(r, &res)
	}
}

// attempted runs an action outside its submission. Its input meets its schema
// only here, and an error becomes a failed result. It reports false when the
// daemon closed before the action ended.
func (s *Server) attempted(r *run) (actionResult, bool) {
	if bad := inputViolations(r.scenario, r.action.Input); bad != nil {
		return failedResult(r.action.ID, schemaViolation("action.input_schema_invalid", r.scenario, bad)), true
	}
	res, err, ended := s.execute(r)
	if err != nil {
		res = failedResult(r.action.ID, err)
	}
	return res, ended
}

// scenario finds a capability by its exact id.
func (s *Server) scenario(capabilityID string) *Scenario {
	i := slices.IndexFunc(s.served, func(sc Scenario) bool { return sc.CapabilityID() == capabilityID })
	if i < 0 {
		return nil
	}
	return &s.served[i]
}
