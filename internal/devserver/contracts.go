package devserver

import (
	"encoding/json"
	"slices"
	"time"
)

// form is how a Hermes operation is answered.
type form int

const (
	eventStream    form = iota // SSE frames, then an aggregate of them
	oneBody                    // one JSON body, no chunks
	operatedRun                // a run that the connector starts and watches itself
	storedResponse             // a response that the provider keeps, in one JSON body
)

// contract is what the connector declares of an operation. Sync is supported by
// all of them.
type contract struct {
	form         form
	method, path string // of the provider request
	kind         string // of the capability
	risk         string
	stability    string
	sensitivity  string // anything but internal is also said to hold personal data
	effects      []string
	async        bool          // the queue takes it; chunks need no queue
	asyncUsual   bool          // sla.async_expected
	keyed        bool          // an idempotency key is required
	keyTTL       time.Duration // of a settled key; 0 is for ever
	approval     bool          // a human has to approve each action
	reading      bool          // nothing can happen twice: safe to retry, never uncertain
	pathID       string
	oneOf        []string // exactly one of these input members has to be present
	fields       map[string]field
}

var (
	acting   = []string{"read", "write", "send_message", "external_network"}
	looking  = []string{"read", "external_network"}
	deleting = []string{"read", "delete", "external_network"}
)

// contracts are the operations of the scenarios. The last one exists nowhere:
// it is what a later connector may add, with an input that nobody can check.
var contracts = map[string]contract{
	"chat": {
		form: oneBody, method: "POST", path: "/v1/chat/completions", kind: "agent", risk: "medium",
		stability: "stable", sensitivity: "confidential", effects: acting, oneOf: chatSources, fields: chatFields,
	},
	"chat_stream": {
		method: "POST", path: "/v1/chat/completions", kind: "agent", risk: "medium", stability: "stable",
		sensitivity: "confidential", effects: acting, async: true, oneOf: chatSources, fields: limited(chatFields),
	},
	"responses": {
		form: oneBody, method: "POST", path: "/v1/responses", kind: "agent", risk: "medium",
		stability: "stable", sensitivity: "confidential", effects: acting, fields: responsesFields,
	},
	"responses_stream": {
		method: "POST", path: "/v1/responses", kind: "agent", risk: "medium", stability: "stable",
		sensitivity: "confidential", effects: acting, async: true, fields: limited(responsesFields),
	},
	"run_events": {
		method: "GET", path: "/v1/runs/{run_id}/events", kind: "workflow", risk: "low", stability: "stable",
		sensitivity: "confidential", effects: looking, async: true, asyncUsual: true, reading: true,
		pathID: "run_id", fields: limited(pathFields("run_id")),
	},
	"session_chat_stream": {
		method: "POST", path: "/api/sessions/{session_id}/chat/stream", kind: "agent", risk: "medium",
		stability: "stable", sensitivity: "confidential", effects: acting,
		pathID: "session_id", fields: limited(pathFields("session_id")),
	},
	"operator": {
		form: operatedRun, method: "POST", path: "/v1/runs", kind: "agent", risk: "high", stability: "stable",
		sensitivity: "confidential", effects: acting, async: true, asyncUsual: true, keyed: true, fields: operatorFields,
	},
	"health": {
		form: oneBody, method: "GET", path: "/health", kind: "tool", risk: "low", stability: "stable",
		sensitivity: "internal", effects: looking, reading: true,
	},
	"response_get": {
		form: storedResponse, method: "GET", path: "/v1/responses/{response_id}", kind: "agent", risk: "low",
		stability: "experimental", sensitivity: "internal", effects: looking, reading: true,
		pathID: "response_id", fields: limited(pathFields("response_id")),
	},
	"response_delete": {
		form: storedResponse, method: "DELETE", path: "/v1/responses/{response_id}", kind: "agent", risk: "high",
		stability: "experimental", sensitivity: "restricted", effects: deleting, keyed: true, keyTTL: 24 * time.Hour,
		approval: true, pathID: "response_id", fields: limited(pathFields("response_id")),
	},
	"future_stream": {
		method: "POST", path: "/v2/answers", kind: "agent", risk: "medium", stability: "experimental",
		sensitivity: "confidential", effects: acting, async: true, fields: limited(nil),
	},
}

// contract returns what the connector declares of the scenario's operation.
func (sc *Scenario) contract() contract { return contracts[sc.Operation] }

// needsApproval reports whether a human has to approve each action first.
func (sc *Scenario) needsApproval() bool { return sc.play.approval || sc.contract().approval }

// streams reports whether the operation publishes chunks. Such an operation can
// also be submitted as streaming, and be cancelled at the provider.
func (c contract) streams() bool { return c.form == eventStream || c.form == operatedRun }

// supports reports whether an action of that mode is taken; absent is sync.
func (c contract) supports(mode string) bool {
	switch mode {
	case "async":
		return c.async
	case "streaming":
		return c.streams()
	}
	return true
}

// usualMode is execution.expected_completion.
func (c contract) usualMode() string {
	if c.streams() {
		return "streaming"
	}
	return "sync"
}

// timeoutMS is sla.timeout_ms.
func (c contract) timeoutMS() uint64 {
	switch c.form {
	case operatedRun:
		return 900_000
	case eventStream:
		return 300_000
	}
	return 60_000
}

// latencyMS is sla.expected_latency_ms.
func (c contract) latencyMS() int {
	if c.streams() {
		return 30_000
	}
	return 5_000
}

// broken makes the contract checks of a submission: the key, then the mode. A
// refusal is a failed result that is stored nowhere; nil is none. A blank key is
// enough here, although it will protect from nothing.
func (sc *Scenario) broken(a action) *protocolError {
	if sc.keyTerms().Requirement == "required" && a.IdempotencyKey == "" {
		return newError("aip-runtime", policy, "idempotency.required", "this capability needs an idempotency key")
	}
	if !sc.contract().supports(a.Mode) {
		return newError("aip-runtime", policy, "execution.mode_unsupported", "this capability does not run in the mode `"+a.Mode+"`")
	}
	return nil
}

// inputSchema writes down what inputViolations checks, as JSON Schema 2020-12. It
// refers to nothing outside itself.
func (c contract) inputSchema() json.RawMessage {
	schema := map[string]any{"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"}
	if len(c.fields) > 0 {
		properties := map[string]json.RawMessage{}
		var required []string
		for name, f := range c.fields {
			properties[name] = f.schema
			if f.required {
				required = append(required, name)
			}
		}
		schema["properties"] = properties
		if slices.Sort(required); required != nil {
			schema["required"] = required
		}
	}
	if c.oneOf != nil {
		var branches []any
		for _, name := range c.oneOf {
			branches = append(branches, map[string]any{"required": []string{name}})
		}
		schema["oneOf"] = branches
	}
	return encode(schema)
}

// aggregateMembers are required by the output schema of a stream. Any other
// operation answers with any object.
var aggregateMembers = []string{"endpoint_id", "operation", "http_status", "events", "text", "terminal"}

// outputSchema writes down what outputViolations checks.
func (c contract) outputSchema() json.RawMessage {
	if c.form == eventStream {
		return encode(map[string]any{"type": "object", "required": aggregateMembers})
	}
	return encode(map[string]any{"type": "object"})
}
