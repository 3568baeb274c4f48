package devserver

import "encoding/json"

// operator is the state of one operated run: the connector starts it, watches
// its events, and answers with a view of the run instead of an aggregate of its
// frames. No event limit applies, and no frame is kept.
type operator struct {
	server    *Server
	run       *run
	reader    sseReader
	published int
}

func (o *operator) read(b []byte) (outcome, bool) {
	if err := o.reader.write(b); err != nil {
		return invalidResponse(o.run.scenario, err), true
	}
	for {
		f, ok, err := o.reader.next()
		switch {
		case err != nil:
			return invalidResponse(o.run.scenario, err), true
		case !ok:
			return outcome{}, false
		}
		if end, over := o.take(newHermesFrame(f)); over {
			return end, true
		}
	}
}

// close is a run whose events end before the run does.
func (o *operator) close() outcome {
	f := connectorError(o.run.scenario, "operator_outcome_unknown", temporary, "lost sight of the run")
	return outcome{err: f.sent().build()}
}

// take publishes one event; true when the action ends with it.
func (o *operator) take(h hermesFrame) (outcome, bool) {
	name, _ := h.name()
	c := chunk{Kind: operatorKind(name), Data: encode(struct {
		HermesOperator json.RawMessage `json:"hermes_operator"`
	}{h.Data})}
	if s, _ := stringValue(h.fields["delta"]); name == "message.delta" && s != "" {
		c.Part = newTextPart(s)
	}
	if end, over := o.server.publish(o.run, o.published, c); over {
		return end, true
	}
	o.published++
	switch name {
	case "approval.request":
		// The run waits on; the action does not.
		return o.finish("requires_human", "waiting_for_approval", name, h), true
	case "run.completed":
		return o.finish("completed", "completed", name, h), true
	case "run.failed":
		return o.finish("failed", "failed", name, h), true
	case "run.cancelled":
		return o.finish("cancelled", "cancelled", name, h), true
	}
	return outcome{}, false
}

// operatorKind is the StreamChunk kind of a run event. Unlike in the streams,
// tool.failed is no tool here, and what nobody knows is progress.
func operatorKind(name string) string {
	switch name {
	case "message.delta":
		return "data"
	case "reasoning.available":
		return "thought"
	case "tool.started", "tool.completed":
		return "tool"
	case "approval.request":
		return "pending_approval"
	case "run.failed":
		return "error"
	case "run.completed", "run.cancelled":
		return "done"
	}
	return "progress"
}

// operatedView is the output of the operator. The nulls are written.
type operatedView struct {
	EndpointID      string          `json:"endpoint_id"`
	RunID           string          `json:"run_id"`
	SessionID       string          `json:"session_id"`
	SourceActionID  string          `json:"source_action_id"`
	DelegationID    *string         `json:"delegation_id"`
	ParentActionID  *string         `json:"parent_action_id"`
	Status          string          `json:"status"`
	LastEvent       string          `json:"last_event"`
	PendingApproval json.RawMessage `json:"pending_approval"`
	Provider        json.RawMessage `json:"provider"`
}

// finish builds the result: status is the action's, state the run's.
func (o *operator) finish(status, state, name string, last hermesFrame) outcome {
	actionID := o.run.action.ID
	view := operatedView{
		EndpointID: o.run.scenario.Name, SessionID: "aip-operator-" + actionID, SourceActionID: actionID,
		Status: state, LastEvent: name, Provider: last.Data,
	}
	view.RunID, _ = stringValue(last.fields["run_id"])
	if status == "requires_human" {
		view.PendingApproval = last.Data
	}
	out := encode(view)
	text, _ := stringValue(last.fields["output"])
	res := actionResult{ActionID: actionID, Status: status, Output: out, Message: messageOf(text, out)}
	if status == "failed" {
		res.Error = &protocolError{
			Code: "connector.hermes_agent.operator_failed", Message: "the provider's run failed", Category: connector,
			Source: map[string]string{"connector": "hermes-agent", "operation": "operator"},
		}
	}
	return outcome{result: res}
}
