package devserver

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"time"
)

// bindingProfile is the profile of every binding here.
const bindingProfile = "aip.connector.hermes_agent.v1"

// The typed parameters of the manifest, and the risks it knows.
var (
	manifestParams = []string{"requires_approval", "supports_streaming", "supports_transactions"}
	risks          = []string{"low", "medium", "high", "critical"}
)

// manifest is the bare Manifest object: the capabilities of every endpoint, with
// the contract that each operation has at the connector. One thing is left out:
// the approval that an operator's contract asks for, since its run starts
// without one here.
func (s *Server) manifest(w http.ResponseWriter, r *request) {
	switch s.opts.Manifest {
	case DiscoveryOff:
		w.WriteHeader(http.StatusNotFound)
		return
	case DiscoveryUnavailable:
		e := newError("aip.server.http", temporary, "storage.unavailable", "the manifest cannot be read")
		e.Retryable, e.RetryAfterMS = true, 1000
		s.fail(w, e)
		return
	}
	wanted, bad := manifestFilter(r.query)
	if bad != nil {
		s.fail(w, bad)
		return
	}
	var capabilities [][]byte
	for _, o := range s.offers() {
		if wanted(o.scenario) {
			capabilities = append(capabilities, o.capability)
		}
	}
	body := encode(struct {
		Version  string         `json:"manifest_version"`
		Agent    principal      `json:"agent"`
		Profiles []string       `json:"profiles"`
		Limits   map[string]int `json:"limits"`
	}{"aip-manifest/v1", daemonPrincipal, []string{"aip.native.http.v1", "aip.sse.stream.v1"}, map[string]int{"max_request_bytes": 1 << 20}})
	if capabilities != nil {
		// They were encoded before; to have them checked once more takes longer
		// than everything else.
		body = slices.Concat(body[:len(body)-1], []byte(`,"capabilities":[`), bytes.Join(capabilities, []byte(",")), []byte("]}"))
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(body)
}

// manifestFilter reads the filters of a manifest request. Lists are separated by
// commas; no filter, or an empty one, selects everything.
func manifestFilter(q params) (func(Scenario) bool, *protocolError) {
	list := func(name string) []string {
		return slices.DeleteFunc(strings.Split(q.Get(name), ","), func(s string) bool { return s == "" })
	}
	for _, risk := range list("risk") {
		if !slices.Contains(risks, risk) {
			return nil, newError("aip.server.http", permanent, "query.invalid", "no such risk")
		}
	}
	among := func(name string, values ...string) bool {
		wanted := list(name)
		return len(wanted) == 0 || slices.ContainsFunc(wanted, func(w string) bool { return slices.Contains(values, w) })
	}
	is := func(name string, value bool) bool { return !q.Has(name) || q.isTrue(name) == value }
	return func(sc Scenario) bool {
		c := sc.contract()
		return among("capability_id", sc.CapabilityID()) && among("profile", bindingProfile) && among("risk", sc.risk()) &&
			among("side_effect", c.effects...) && is("requires_approval", sc.needsApproval()) &&
			is("supports_streaming", c.streams()) && is("supports_transactions", false)
	}, nil
}

// risk is the operation's own, and high where a human has to approve.
func (sc *Scenario) risk() string {
	if sc.needsApproval() {
		return "high"
	}
	return sc.contract().risk
}

func capability(sc Scenario, ttl time.Duration) map[string]any {
	c := sc.contract()
	safety := "unsafe"
	if c.reading {
		safety = "safe"
	}
	contract := map[string]any{
		"side_effects": c.effects,
		"idempotency":  sc.keyTerms().announced(),
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
	if p := sc.approvalPolicy(ttl); p != nil {
		contract["approval"] = p
	}
	return map[string]any{
		"id": sc.CapabilityID(), "name": sc.Name, "description": sc.Summary, "kind": c.kind,
		"input_schema": c.inputSchema(), "output_schema": c.outputSchema(), "risk": sc.risk(), "stability": c.stability,
		"auth":                    map[string]string{"scheme": "bearer", "source": "endpoint.api_key"},
		"requires_human_approval": sc.needsApproval(),
		"bindings": []any{map[string]any{
			"profile": bindingProfile, "system": "hermes_agent", "endpoint_id": sc.Name,
			"operation": sc.Operation, "method": c.method, "path": c.path, "streaming": c.streams(),
		}},
		"contract": contract,
	}
}
