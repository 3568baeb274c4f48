package devserver

import (
	"net/http"
	"time"
)

// manifest is the bare Manifest object: the capabilities of every endpoint, with
// the contract that each operation has at the connector. One thing is left out: the
// approval that an operator's contract asks for, since nobody can give one here.
func (s *Server) manifest(w http.ResponseWriter, _ *request) {
	capabilities := make([]any, 0, len(s.served))
	for _, sc := range s.served {
		capabilities = append(capabilities, capability(sc, s.opts.ApprovalTTL))
	}
	writeJSON(w, http.StatusOK, map[string]any{
		"manifest_version": "aip-manifest/v1",
		"agent":            daemonPrincipal,
		"profiles":         []string{"aip.native.http.v1", "aip.sse.stream.v1"},
		"capabilities":     capabilities,
		"limits":           map[string]int{"max_request_bytes": 1 << 20},
	})
}

func capability(sc Scenario, ttl time.Duration) map[string]any {
	c := sc.contract()
	requirement, safety := "optional", "unsafe"
	if c.keyed {
		requirement = "required"
	}
	if c.reading {
		safety = "safe"
	}
	contract := map[string]any{
		"side_effects": c.effects,
		"idempotency": map[string]any{
			"requirement": requirement, "collision_behavior": "return_original_result", "key_scope": "capability",
		},
		"execution": map[string]any{
			"supports_sync": true, "supports_async": c.async, "supports_streaming": c.streams(),
			"supports_cancel": c.streams(), "supports_retry": c.reading,
			"expected_completion": c.usualMode(), "retry_safety": safety,
		},
		"data": map[string]any{"sensitivity": c.sensitivity, "contains_pii": c.sensitivity != "internal", "redaction_required": true},
		"sla": map[string]any{
			"expected_latency_ms": c.latencyMS(), "timeout_ms": c.timeoutMS(), "async_expected": c.asyncUsual,
			"max_queue_delay_ms": maxQueueDelay.Milliseconds(), "availability_target": "99.9%",
		},
		"compensation": map[string]any{"mode": "rollback_not_supported", "requires_approval": false},
	}
	risk := c.risk
	if p := sc.approvalPolicy(ttl); p != nil {
		risk, contract["approval"] = "high", p
	}
	return map[string]any{
		"id": sc.CapabilityID(), "name": sc.Name, "description": sc.Summary, "kind": c.kind,
		"input_schema": c.inputSchema(), "output_schema": c.outputSchema(), "risk": risk, "stability": c.stability,
		"auth":                    map[string]string{"scheme": "bearer", "source": "endpoint.api_key"},
		"requires_human_approval": sc.needsApproval(),
		"bindings": []any{map[string]any{
			"profile": "aip.connector.hermes_agent.v1", "system": "hermes_agent", "endpoint_id": sc.Name,
			"operation": sc.Operation, "method": c.method, "path": c.path, "streaming": c.streams(),
		}},
		"contract": contract,
	}
}
