package devserver

import (
	"encoding/json"
	"net/http"
)

// manifest is the bare Manifest object: one capability per scenario, with the
// contract that the streaming operations have at the connector.
func (s *Server) manifest(w http.ResponseWriter, _ *request) {
	capabilities := make([]any, 0, len(s.scenarios))
	for _, sc := range s.scenarios {
		capabilities = append(capabilities, capability(sc))
	}
	writeJSON(w, http.StatusOK, map[string]any{
		"manifest_version": "aip-manifest/v1",
		"agent":            daemonPrincipal,
		"profiles":         []string{"aip.native.http.v1", "aip.sse.stream.v1"},
		"capabilities":     capabilities,
		"limits":           map[string]int{"max_request_bytes": 1 << 20},
	})
}

func capability(sc Scenario) map[string]any {
	path, schema := "/v1/chat/completions", chatSchema
	if sc.Operation == "responses_stream" {
		path, schema = "/v1/responses", responsesSchema
	}
	contract := map[string]any{
		"side_effects": []string{"read", "write", "send_message", "external_network"},
		"idempotency": map[string]any{
			"requirement": "optional", "collision_behavior": "return_original_result", "key_scope": "capability",
		},
		"execution": map[string]any{
			"supports_sync": true, "supports_async": true, "supports_streaming": true,
			"supports_cancel": true, "supports_retry": false,
			"expected_completion": "streaming", "retry_safety": "unsafe",
		},
		"data": map[string]any{"sensitivity": "confidential", "contains_pii": true, "redaction_required": true},
		"sla": map[string]any{
			"expected_latency_ms": 30_000, "timeout_ms": contractTimeoutMS, "async_expected": false,
			"max_queue_delay_ms": maxQueueDelay.Milliseconds(), "availability_target": "99.9%",
		},
		"compensation": map[string]any{"mode": "rollback_not_supported", "requires_approval": false},
	}
	risk := "medium"
	if sc.play.approval {
		risk = "high"
		contract["approval"] = map[string]any{
			"required": true, "approver_selector": map[string]string{"type": "tenant_policy"},
			"ttl_ms": approvalTTL.Milliseconds(), "minimum_distinct_principals": 1,
		}
	}
	return map[string]any{
		"id": sc.CapabilityID(), "name": sc.Name, "description": sc.Summary, "kind": "agent",
		"input_schema": schema, "output_schema": outputSchema, "risk": risk, "stability": "stable",
		"auth":                    map[string]string{"scheme": "bearer", "source": "endpoint.api_key"},
		"requires_human_approval": sc.play.approval,
		"bindings": []any{map[string]any{
			"profile": "aip.connector.hermes_agent.v1", "system": "hermes_agent", "endpoint_id": sc.Name,
			"operation": sc.Operation, "method": "POST", "path": path, "streaming": true,
		}},
		"contract": contract,
	}
}

// The schemas say what inputViolations and outputViolations check.
var (
	chatSchema = json.RawMessage(`{"type":"object",` +
		`"oneOf":[{"required":["prompt"]},{"required":["query"]},{"required":["messages"]}],` +
		`"properties":{"prompt":{"type":"string","minLength":1},"query":{"type":"string","minLength":1},` +
		`"messages":{"type":"array","minItems":1},"model":{"type":"string"},"session_id":{"type":"string"},` +
		`"session_key":{"type":"string"},"user":{"type":"string"},"idempotency_key":{"type":"string"},` +
		`"temperature":{"type":"number"},"top_p":{"type":"number"},"max_tokens":{"type":"integer"},` +
		`"metadata":{"type":"object"},"max_events":{"type":"integer","minimum":1,"maximum":100000}}}`)
	responsesSchema = json.RawMessage(`{"type":"object",` +
		`"properties":{"body":{"type":"object"},"input":{},"model":{"type":"string"},"instructions":{"type":"string"},` +
		`"session_key":{"type":"string"},"idempotency_key":{"type":"string"},"conversation_history":{"type":"array"},` +
		`"max_events":{"type":"integer","minimum":1,"maximum":100000}}}`)
	outputSchema = json.RawMessage(`{"type":"object",` +
		`"required":["endpoint_id","operation","http_status","events","text","terminal"]}`)
)
