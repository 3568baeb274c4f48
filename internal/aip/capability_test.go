package aip

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestACatalogueEntryIsReadWhole(t *testing.T) {
	raw, err := os.ReadFile("testdata/capabilities.json")
	if err != nil {
		t.Fatal(err)
	}
	page, err := DecodeCapabilityPage(strings.NewReader(string(raw)))
	if err != nil || len(page.Capabilities) != 1 || page.Revision != "18446744073709551615" || page.NextCursor != "" || *page.Total != 1 {
		t.Fatalf("%+v %v", page, err)
	}
	got := page.Capabilities[0]
	if string(got.Entry["contract_digest"]) != `"d1d2d3d4"` || len(got.Entry) != 2 {
		t.Errorf("the entry is %v", got.Entry)
	}
	if !strings.Contains(string(got.Raw), "12345678901234567890123") || !strings.HasPrefix(string(got.InputSchema), "{") {
		t.Errorf("something was lost: %s", got.Raw)
	}
	yes, no := true, false
	got.Raw, got.Entry, got.InputSchema, got.OutputSchema = nil, nil, nil, nil
	want := Capability{
		ID: "cap:hermes_agent:lab:response_delete", Name: "Delete a stored response", Kind: "agent", Description: "Removes one stored Responses object.",
		Risk: "high", Stability: "experimental", HumanApproval: &yes, AuthScheme: "bearer", AuthSource: "endpoint.api_key",
		Binding: Binding{"hermes_agent", "lab", "response_delete", "DELETE", "/v1/responses/{response_id}", &no},
		Contract: &CapabilityContract{
			SideEffects: []string{"read", "delete", "external_network"},
			Idempotency: &Idempotency{"required", "return_original_result", "capability", 24 * time.Hour},
			Execution:   &Execution{Sync: true, Expected: "sync", RetrySafety: "unsafe"},
			Approval: &ApprovalDemand{
				Required: true, Selector: "tenant_policy", TTL: 15 * time.Minute,
				Evidence: []string{"reason", "input_snapshot", "policy_decision"}, Approvers: 1, RequesterDiffer: true,
			},
			Sensitivity: "restricted", ContainsPII: &yes, Redaction: &yes,
			Latency: 5 * time.Second, Timeout: time.Minute, QueueDelay: 10 * time.Second, Availability: "99.9%",
			Compensation: "rollback_not_supported",
		},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestACapabilityOfAnotherFormCostsNoOther: one field of the wrong type is not
// said, and one entry without an id is no entry.
func TestACapabilityOfAnotherFormCostsNoOther(t *testing.T) {
	page, err := DecodeCapabilityPage(strings.NewReader(`{"capabilities":[
		7, {"capability":null}, {"capability":{"name":"without an id"}},
		{"capability":{"id":"cap:a","kind":7,"auth":"bearer","bindings":{},"requires_human_approval":"yes",
			"contract":{"side_effects":"read","sla":{"timeout_ms":-1},"execution":[],"data":null,"approval":{"ttl_ms":1e9}}}},
		{"capability":{"id":"cap:b","contract":{"sla":{"timeout_ms":18446744073709551615}}}}
	],"next_cursor":"more","total":"many","catalog_revision":{}}`))
	if err != nil || len(page.Capabilities) != 2 || page.NextCursor != "more" || page.Total != nil || page.Revision != "" {
		t.Fatalf("%+v %v", page, err)
	}
	a, b := page.Capabilities[0], page.Capabilities[1]
	if a.ID != "cap:a" || a.Kind != "" || a.HumanApproval != nil || a.Contract.Timeout != 0 || a.Contract.Execution != nil || a.Contract.Approval.TTL != 0 {
		t.Errorf("%+v %+v", a, a.Contract)
	}
	if b.Contract.Timeout != 365*24*time.Hour {
		t.Errorf("%s", b.Contract.Timeout)
	}
}

func TestWhatIsNoPageAndNoManifest(t *testing.T) {
	for _, body := range []string{``, `[]`, `{}`, `{"capabilities":{}}`, `{"capabilities":[`, `{"error":{"code":"x"}}`, `<html>`} {
		if page, err := DecodeCapabilityPage(strings.NewReader(body)); err == nil {
			t.Errorf("%q is a page: %+v", body, page)
		}
		if m, err := DecodeManifest(strings.NewReader(body)); err == nil {
			t.Errorf("%q is a manifest: %+v", body, m)
		}
	}
	m, err := DecodeManifest(strings.NewReader(`{"manifest_version":"aip-manifest/v1","agent":{},"profiles":[],"capabilities":[{"id":"cap:x","input_schema":true}]}`))
	if err != nil || len(m.Capabilities) != 1 || m.Capabilities[0].Entry != nil {
		t.Errorf("%+v %v", m, err)
	}
	if m, err = DecodeManifest(strings.NewReader(`{"manifest_version":"aip-manifest/v1"}`)); err != nil || len(m.Capabilities) != 0 {
		t.Errorf("a manifest may have no capabilities: %+v %v", m, err)
	}
}
