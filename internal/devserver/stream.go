package devserver

// stream is the state of one provider stream inside the connector.
type stream struct {
	server *Server
	run    *run
	limit  int
	reader sseReader
	frames []hermesFrame
	text   string
}

// read takes bytes of the body; true when the stream is over.
func (st *stream) read(b []byte) (outcome, bool) {
	if err := st.reader.write(b); err != nil {
		return invalidResponse(st.run.scenario, err), true
	}
	for {
		f, ok, err := st.reader.next()
		if err != nil {
			return invalidResponse(st.run.scenario, err), true
		}
		if !ok {
			return outcome{}, false
		}
		h, end, over := st.take(f)
		if over {
			return end, true
		}
		// The limit is asked before the terminal mark: a terminal frame that
		// falls on the limit is published as done and still counts as cut.
		if len(st.frames) >= st.limit {
			return outcome{result: st.finish(false, true)}, true
		}
		if h.Terminal {
			return outcome{result: st.finish(true, false)}, true
		}
	}
}

// close is the clean end of the body. The limit is not asked for its tail.
func (st *stream) close() outcome {
	f, ok, err := st.reader.tail()
	if err != nil {
		return invalidResponse(st.run.scenario, err)
	}
	if ok {
		h, end, over := st.take(f)
		if over {
			return end
		}
		if h.Terminal {
			return outcome{result: st.finish(true, false)}
		}
	}
	closed := chunk{Kind: "error", Data: encode(struct {
		Operation string `json:"operation"`
		Reason    string `json:"reason"`
	}{st.run.scenario.Operation, "upstream_stream_closed_without_terminal_event"})}
	if end, over := st.server.publish(st.run, len(st.frames), closed); over {
		return end
	}
	return outcome{result: st.finish(false, false)}
}

// take publishes one frame; true when that ended the run.
func (st *stream) take(f sseFrame) (hermesFrame, outcome, bool) {
	h := newHermesFrame(f)
	st.text = h.appendText(st.text)
	c := chunk{Kind: h.kind(), Part: h.part(), Data: encode(struct {
		HermesSSE hermesFrame `json:"hermes_sse"`
	}{h})}
	if end, over := st.server.publish(st.run, len(st.frames), c); over {
		return h, end, true
	}
	st.frames = append(st.frames, h)
	return h, outcome{}, false
}

// aggregate is the output of a streaming operation.
type aggregate struct {
	EndpointID string        `json:"endpoint_id"`
	Operation  string        `json:"operation"`
	HTTPStatus int           `json:"http_status,omitzero"`
	Events     []hermesFrame `json:"events"`
	Text       string        `json:"text"`
	Terminal   bool          `json:"terminal"`
	Truncated  bool          `json:"truncated"`
}

// finish builds the result of a stream that was read to an end.
func (st *stream) finish(terminal, truncated bool) actionResult {
	sc := st.run.scenario
	agg := aggregate{
		EndpointID: sc.Name, Operation: sc.Operation, HTTPStatus: 200,
		Events: st.frames, Text: st.text, Terminal: terminal, Truncated: truncated,
	}
	if agg.Events == nil {
		agg.Events = []hermesFrame{}
	}
	status, fault := classify(agg)
	sc.play.distort(&agg)
	out := encode(agg)
	return actionResult{
		ActionID: st.run.action.ID, Status: status, Output: out, Message: messageOf(agg.Text, out), Error: fault,
	}
}

// classify reads the outcome of a finished stream. The finish reason of a chat
// is never looked at: length, error and no finish at all are all completed.
func classify(agg aggregate) (status string, fault *protocolError) {
	failed := func(code, message string, details any) (string, *protocolError) {
		return "failed", &protocolError{
			Code: "connector.hermes_agent." + code, Message: message, Category: connector,
			Details: details, Source: map[string]string{"connector": "hermes-agent"},
		}
	}
	operation := map[string]string{"operation": agg.Operation}
	switch {
	case agg.Truncated:
		return failed("stream_truncated", "the stream reached its event limit", operation)
	case !agg.Terminal:
		return failed("stream_incomplete", "the stream closed without a terminal event", operation)
	}
	var last string
	for _, h := range agg.Events {
		if name, ok := h.name(); ok {
			last = name
		}
	}
	switch {
	case last == "run.cancelled":
		return "cancelled", nil
	case failureName(last):
		return failed("stream_failed", "the provider reported a terminal failure", agg.Events[len(agg.Events)-1].Data)
	}
	return "completed", nil
}
