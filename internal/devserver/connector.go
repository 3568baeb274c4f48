package devserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// defaultMaxEvents is the connector's bound on frames when neither the input
// nor the scenario sets one.
const defaultMaxEvents = 4096

// outcome is what a handler hands back to the runtime: a result, an error, or
// (deadline, dropped) neither, because the runtime ended the run first.
type outcome struct {
	result   actionResult
	err      *protocolError
	deadline bool
	dropped  bool
}

// invoke is the Hermes connector: it asks the recorded provider, publishes one
// chunk per frame while the bytes come in, and classifies the end.
func (s *Server) invoke(r *run) outcome {
	sc := r.scenario
	limit, err := connectorInput(sc, r.action.Input)
	if err != nil {
		return outcome{err: err}
	}
	if code := sc.play.providerStatus; code != 0 {
		return outcome{err: providerRefusal(sc, code)}
	}
	st := &stream{server: s, run: r, limit: limit}
	var at time.Duration
	for _, block := range sc.play.bytes(r.number) {
		if !s.pause(r.ctx, block.at-at) {
			return outcome{dropped: true}
		}
		at = block.at
		if end, over := st.read(block.data); over {
			return end
		}
	}
	switch sc.play.end {
	case endCut:
		return outcome{err: connectorError(sc, "transport", transport, "stream decode failed: the body was cut").uncertain(true).build()}
	case endCrash:
		e := newError("aip-runtime", temporary, "runtime.handler_failed", "the handler gave up without a result")
		e.Retryable = true
		return outcome{err: e}
	case endDeadline:
		return outcome{deadline: true}
	case endCancel:
		s.store.cancel(r.action.ID, "")
		<-r.ctx.Done()
		return outcome{dropped: true}
	default:
		return st.close()
	}
}

// pause waits for d of the recording's time, scaled; false when the run ended.
func (s *Server) pause(ctx context.Context, d time.Duration) bool {
	if s.opts.Speed <= 0 || d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(s.scaled(d))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

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
		return st.unreadable(err), true
	}
	for {
		f, ok, err := st.reader.next()
		if err != nil {
			return st.unreadable(err), true
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
		return st.unreadable(err)
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
	if end, over := st.publish(closed); over {
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
	if end, over := st.publish(c); over {
		return h, end, true
	}
	st.frames = append(st.frames, h)
	return h, outcome{}, false
}

// publish numbers a chunk by the frames before it and stores it.
func (st *stream) publish(c chunk) (outcome, bool) {
	c.ActionID, c.Sequence = st.run.action.ID, uint64(len(st.frames))
	if hook := st.server.opts.Hooks.BeforeChunk; hook != nil {
		hook(c.ActionID, c.Sequence)
	}
	err := st.server.store.publish(st.run, c)
	switch {
	case errors.Is(err, errDropped):
		return outcome{dropped: true}, true
	case err != nil:
		f := connectorError(st.run.scenario, "stream_publication", connector, "AIP stream publication failed: "+err.Error())
		return outcome{err: f.uncertain(true).build()}, true
	}
	return outcome{}, false
}

func (st *stream) unreadable(err error) outcome {
	f := connectorError(st.run.scenario, "invalid_response", connector, "returned an invalid stream: "+err.Error())
	return outcome{err: f.uncertain(true).build()}
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
	res := actionResult{ActionID: st.run.action.ID, Status: status, Output: out, Error: fault}
	if strings.TrimSpace(agg.Text) != "" {
		res.Message = append(res.Message, newTextPart(agg.Text))
	}
	res.Message = append(res.Message, jsonPart{Type: "json", Data: out})
	return res
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

// failure builds a typed connector error.
type failure struct {
	code, category, message string
	remoteStatus            *int
	unsure                  bool
}

// connectorError starts an error of the connector; what follows the endpoint's
// name is the message.
func connectorError(sc *Scenario, code, category, what string) *failure {
	return &failure{code: code, category: category, message: fmt.Sprintf("endpoint `%s` %s", sc.Name, what)}
}

func (f *failure) uncertain(yes bool) *failure {
	f.unsure = yes
	return f
}

func (f *failure) build() *protocolError {
	return newError("hermes-agent", f.category, "connector.hermes_agent."+f.code, f.message).with(struct {
		Operation         string  `json:"operation"`
		ProviderRequestID *string `json:"provider_request_id"`
		ProviderOperation *string `json:"provider_operation"`
		RemoteStatus      *int    `json:"remote_status"`
		UncertainOutcome  bool    `json:"uncertain_outcome"`
		Details           *string `json:"details"`
	}{Operation: "invocation", RemoteStatus: f.remoteStatus, UncertainOutcome: f.unsure})
}

// providerRefusal is the error for a provider answer other than 2xx. The
// provider's body is read and thrown away.
func providerRefusal(sc *Scenario, status int) *protocolError {
	code, category := "remote_rejected", permanent
	switch {
	case status == 401 || status == 403:
		code, category = "authentication", auth
	case status == 429 || status >= 500:
		code, category = "remote_temporary", temporary
	}
	f := connectorError(sc, code, category, "returned HTTP "+strconv.Itoa(status))
	f.remoteStatus = &status
	return f.uncertain(category == temporary).build()
}

// connectorInput makes the checks that the input schema cannot, and returns the
// event limit of the run.
func connectorInput(sc *Scenario, input json.RawMessage) (int, *protocolError) {
	in := members(input)
	refuse := func(what string) (int, *protocolError) {
		f := failure{code: "configuration_or_input", category: permanent, message: "invalid action input: " + what}
		return 0, f.build()
	}
	limit := defaultMaxEvents
	if raw, ok := in["max_events"]; ok {
		n, err := strconv.Atoi(string(raw))
		if err != nil || n < 1 || n > 100000 {
			return refuse("`max_events` is not an integer of 1 to 100000")
		}
		limit = n
	}
	if sc.MaxEvents > 0 {
		limit = sc.MaxEvents
	}
	if sc.Operation != "chat_stream" {
		return limit, nil
	}
	if raw, ok := in["max_tokens"]; ok && bytes.HasPrefix(raw, []byte("-")) {
		return refuse("`max_tokens` is negative")
	}
	for _, key := range []string{"prompt", "query"} {
		if s, ok := stringValue(in[key]); ok && strings.TrimSpace(s) == "" {
			return refuse("`" + key + "` is blank")
		}
	}
	return limit, nil
}
