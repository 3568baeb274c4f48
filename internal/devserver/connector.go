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
	"unicode"
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

// intake takes the bytes of one provider answer.
type intake interface {
	// read takes the next bytes; true when they ended the action.
	read([]byte) (outcome, bool)
	// close is the clean end of the answer.
	close() outcome
}

// invoke is the Hermes connector: it asks the recorded provider, publishes
// chunks while the bytes come in where the operation has any, and classifies
// the end.
func (s *Server) invoke(r *run) outcome {
	sc := r.scenario
	limit, err := connectorInput(sc, r.action.Input)
	if err != nil {
		return outcome{err: err}
	}
	if code := sc.play.providerStatus; code != 0 {
		return outcome{err: providerRefusal(sc, code)}
	}
	var in intake
	switch sc.contract().form {
	case storedResponse:
		return s.storedObject(r)
	case oneBody:
		in = &body{run: r}
	case operatedRun:
		in = &operator{server: s, run: r}
	default:
		in = &stream{server: s, run: r, limit: limit}
	}
	p := s.provider(sc.Name)
	writer := p.responseWriter(sc, r.action.Input)
	blocks := sc.bytes(p.request())
	var at time.Duration
	for i, block := range blocks {
		if !s.pause(r.ctx, block.at-at) {
			s.left(writer, blocks[i:], at)
			return outcome{dropped: true}
		}
		at = block.at
		writer.wrote(block.data)
		if end, over := in.read(block.data); over {
			s.left(writer, blocks[i+1:], at)
			return end
		}
	}
	switch sc.play.end {
	case endCut:
		return outcome{err: connectorError(sc, "transport", transport, "stream decode failed: the body was cut").sent().build()}
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
		return in.close()
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

// publish stores a chunk of the run under that sequence; true when the run is
// over because it could not be stored.
func (s *Server) publish(r *run, sequence int, c chunk) (outcome, bool) {
	c.ActionID, c.Sequence = r.action.ID, uint64(sequence)
	if hook := s.opts.Hooks.BeforeChunk; hook != nil {
		hook(c.ActionID, c.Sequence)
	}
	err := s.store.publish(r, c)
	switch {
	case errors.Is(err, errDropped):
		return outcome{dropped: true}, true
	case err != nil:
		f := connectorError(r.scenario, "stream_publication", connector, "AIP stream publication failed: "+err.Error())
		f.unsure = true // also for an operation that only reads
		return outcome{err: f.build()}, true
	}
	return outcome{}, false
}

// invalidResponse is the end of an answer whose bytes break a rule.
func invalidResponse(sc *Scenario, err error) outcome {
	f := connectorError(sc, "invalid_response", connector, "returned an invalid stream: "+err.Error())
	return outcome{err: f.sent().build()}
}

// failure builds a typed connector error.
type failure struct {
	code, category, message string
	reading                 bool // the operation has no effects
	remoteStatus            *int
	unsure, retryable       bool
}

// connectorError starts an error of the connector; what follows the endpoint's
// name is the message.
func connectorError(sc *Scenario, code, category, what string) *failure {
	return &failure{
		code: code, category: category, message: fmt.Sprintf("endpoint `%s` %s", sc.Name, what),
		reading: sc.contract().reading,
	}
}

// sent marks a failure after the request may have reached the provider: the
// outcome is uncertain, except for an operation that only reads. That one may
// be tried again when the cause can pass.
func (f *failure) sent() *failure {
	f.unsure = !f.reading
	f.retryable = f.reading && (f.category == temporary || f.category == transport)
	return f
}

func (f *failure) build() *protocolError {
	e := newError("hermes-agent", f.category, "connector.hermes_agent."+f.code, f.message).with(struct {
		Operation         string  `json:"operation"`
		ProviderRequestID *string `json:"provider_request_id"`
		ProviderOperation *string `json:"provider_operation"`
		RemoteStatus      *int    `json:"remote_status"`
		UncertainOutcome  bool    `json:"uncertain_outcome"`
		Details           *string `json:"details"`
	}{Operation: "invocation", RemoteStatus: f.remoteStatus, UncertainOutcome: f.unsure})
	e.Retryable = f.retryable
	return e
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
	if category == temporary {
		f.sent()
	}
	return f.build()
}

// connectorInput makes the checks that the input schema cannot, and returns the
// event limit of the run.
func connectorInput(sc *Scenario, input json.RawMessage) (int, *protocolError) {
	in, c := members(input), sc.contract()
	refuse := func(code, what string) (int, *protocolError) {
		f := failure{code: code, category: permanent, message: "invalid action input: " + what}
		return 0, f.build()
	}
	const badInput = "configuration_or_input"
	limit := defaultMaxEvents
	if raw, ok := in["max_events"]; ok && c.form == eventStream {
		n, err := strconv.Atoi(string(raw))
		if err != nil || n < 1 || n > 100000 {
			return refuse(badInput, "`max_events` is not an integer of 1 to 100000")
		}
		limit = n
	}
	if sc.MaxEvents > 0 {
		limit = sc.MaxEvents
	}
	if c.pathID != "" && !isPathSegment(in[c.pathID]) {
		return refuse(badInput, "`"+c.pathID+"` is blank, longer than 512 bytes or holds control characters")
	}
	for _, key := range []string{"session_id", "session_key"} {
		if s, ok := stringValue(in[key]); ok && !isHeaderValue(s) {
			return refuse(badInput, "the outbound header of `"+key+"` is empty, oversized or not visible ASCII")
		}
	}
	if raw, ok := in["max_tokens"]; ok && c.oneOf != nil && bytes.HasPrefix(raw, []byte("-")) {
		return refuse(badInput, "`max_tokens` is negative")
	}
	for _, key := range c.oneOf {
		if s, ok := stringValue(in[key]); ok && strings.TrimSpace(s) == "" {
			return refuse(badInput, "`"+key+"` is blank")
		}
	}
	if _, ok := in["resume"]; ok && c.form == operatedRun {
		// A decision would have to reach a run that still waits, and none does here.
		return refuse("operator_policy", "there is no waiting run to resume")
	}
	return limit, nil
}

// isPathSegment is the rule for an id in the path of a provider request.
func isPathSegment(raw json.RawMessage) bool {
	s, ok := stringValue(raw)
	return ok && strings.TrimSpace(s) != "" && len(s) <= 512 && !strings.ContainsFunc(s, unicode.IsControl)
}

// isHeaderValue is the rule for what the connector passes on as a header.
func isHeaderValue(s string) bool {
	return s != "" && len(s) <= 16384 && !strings.ContainsFunc(s, func(r rune) bool { return r < '!' || r > '~' })
}
