package aip

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// CapabilityQuery selects a page of the catalogue.
type CapabilityQuery struct {
	CapabilityID string // exactly this one; empty for all
	Cursor       string // empty for the first page
	Limit        int    // at most 200; 0 leaves it to the daemon
}

// Capability is what a daemon publishes of one capability. Raw is the whole of
// it, unknown members included; the fields are what this client acts on or
// shows. A pointer is nil, and a text empty, where the daemon does not say.
type Capability struct {
	ID, Name, Kind, Description string
	Risk                        string // low, medium, high, critical
	Stability                   string // stable, experimental, deprecated
	InputSchema, OutputSchema   jsontext.Value
	HumanApproval               *bool // requires_human_approval
	AuthScheme, AuthSource      string
	Binding                     Binding // the first one that names an operation, else the first
	Contract                    *CapabilityContract

	Raw   jsontext.Value            // the capability as it was sent
	Entry map[string]jsontext.Value // what stands beside it in the catalogue: digests; nil from a manifest
}

// Binding says what a capability becomes at the provider.
type Binding struct {
	System, EndpointID, Operation, Method, Path string
	Streaming                                   *bool
}

// CapabilityContract is what a daemon promises and demands of a capability.
type CapabilityContract struct {
	SideEffects []string

	Idempotency *Idempotency
	Execution   *Execution
	Approval    *ApprovalDemand

	Sensitivity            string // public, internal, confidential, restricted, regulated, unknown
	ContainsPII, Redaction *bool

	Latency, Timeout, QueueDelay time.Duration // 0 where there is none
	Availability                 string
	Compensation                 string // not_required, supported, best_effort, rollback_not_supported
	TransactionModes             []string
}

// Idempotency says what a key does.
type Idempotency struct {
	Requirement string // required, optional, unsupported
	Collision   string // return_original_result, reject_conflict, revalidate_input_hash
	Scope       string
	TTL         time.Duration // 0 for ever
}

// Execution says how a capability may be run.
type Execution struct {
	Sync, Async, Streaming, Cancel, Retry bool
	Expected                              string // sync, async, streaming, any
	RetrySafety                           string // safe, safe_with_idempotency_key, unsafe, unknown
}

// ApprovalDemand is what a contract says of who has to agree before it runs.
type ApprovalDemand struct {
	Required        bool
	Selector        string // type of approver_selector
	TTL             time.Duration
	Evidence        []string
	Approvers       uint64 // minimum_distinct_principals; 0 where it is absent
	RequesterDiffer bool   // the requester may not approve
}

// CapabilityPage is one page of the catalogue.
type CapabilityPage struct {
	Revision     string // the digits as written; empty where it is absent
	Capabilities []Capability
	NextCursor   string // empty on the last page
	Total        *uint64
}

// Manifest is what a daemon says of itself to everybody.
type Manifest struct {
	Version      string
	Capabilities []Capability
}

// DecodeCapabilityPage reads a page of the catalogue.
func DecodeCapabilityPage(r io.Reader) (*CapabilityPage, error) {
	page, found := new(CapabilityPage), false
	dec := jsontext.NewDecoder(r, lenient...)
	err := object(dec, func(name string) (err error) {
		switch name {
		case "catalog_revision":
			var v jsontext.Value
			if v, err = value(dec); v.Kind() == '0' {
				page.Revision = string(v)
			}
		case "next_cursor":
			page.NextCursor, err = str(dec)
		case "total":
			page.Total, err = unsigned(dec)
		case "capabilities":
			found = dec.PeekKind() == '['
			err = array(dec, func() error {
				v, err := value(dec)
				if err != nil {
					return err
				}
				entry := Members(v)
				raw := entry["capability"]
				delete(entry, "capability")
				if c, ok := decodeCapability(raw); ok {
					c.Entry = entry
					page.Capabilities = append(page.Capabilities, c)
				}
				return nil
			})
		default:
			err = dec.SkipValue()
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("capability page: %w", err)
	}
	if !found {
		return nil, errors.New("capability page: the answer has no capabilities")
	}
	return page, nil
}

// DecodeManifest reads a manifest.
func DecodeManifest(r io.Reader) (*Manifest, error) {
	m := new(Manifest)
	dec := jsontext.NewDecoder(r, lenient...)
	err := object(dec, func(name string) (err error) {
		switch name {
		case "manifest_version":
			m.Version, err = str(dec)
		case "capabilities":
			err = array(dec, func() error {
				v, err := value(dec)
				if err != nil {
					return err
				}
				if c, ok := decodeCapability(v); ok {
					m.Capabilities = append(m.Capabilities, c)
				}
				return nil
			})
		default:
			err = dec.SkipValue()
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	if m.Version == "" {
		return nil, errors.New("manifest: the answer has no manifest_version")
	}
	return m, nil
}

// decodeCapability reads what is there; only the id has to be. What has another
// form than the protocol's is left out, as if it were not said.
func decodeCapability(raw jsontext.Value) (Capability, bool) {
	m := fields(Members(raw))
	c := Capability{
		ID: m.text("id"), Name: m.text("name"), Kind: m.text("kind"), Description: m.text("description"),
		Risk: m.text("risk"), Stability: m.text("stability"), HumanApproval: Bool(m["requires_human_approval"]),
		InputSchema: m["input_schema"], OutputSchema: m["output_schema"], Raw: raw,
	}
	auth := m.object("auth")
	c.AuthScheme, c.AuthSource = auth.text("scheme"), auth.text("source")
	bindings, _ := Elements(m["bindings"])
	for i, b := range bindings {
		f := fields(Members(b))
		if i == 0 || c.Binding.Operation == "" && f.text("operation") != "" {
			c.Binding = Binding{f.text("system"), f.text("endpoint_id"), f.text("operation"), f.text("method"), f.text("path"), Bool(f["streaming"])}
		}
	}
	if k := m.object("contract"); k != nil {
		c.Contract = decodeContract(k)
	}
	return c, c.ID != ""
}

func decodeContract(m fields) *CapabilityContract {
	sla, data := m.object("sla"), m.object("data")
	k := &CapabilityContract{
		SideEffects: m.texts("side_effects"),
		Sensitivity: data.text("sensitivity"), ContainsPII: Bool(data["contains_pii"]), Redaction: Bool(data["redaction_required"]),
		Latency: sla.millis("expected_latency_ms"), Timeout: sla.millis("timeout_ms"), QueueDelay: sla.millis("max_queue_delay_ms"),
		Availability: sla.text("availability_target"), Compensation: m.object("compensation").text("mode"),
		TransactionModes: m.object("transaction").texts("supported_modes"),
	}
	if f := m.object("idempotency"); f != nil {
		k.Idempotency = &Idempotency{f.text("requirement"), f.text("collision_behavior"), f.text("key_scope"), f.millis("ttl_ms")}
	}
	if f := m.object("execution"); f != nil {
		k.Execution = &Execution{
			f.yes("supports_sync"), f.yes("supports_async"), f.yes("supports_streaming"), f.yes("supports_cancel"), f.yes("supports_retry"),
			f.text("expected_completion"), f.text("retry_safety"),
		}
	}
	if f := m.object("approval"); f != nil {
		duties := f.object("separation_of_duties")
		k.Approval = &ApprovalDemand{
			Required: f.yes("required"), Selector: f.object("approver_selector").text("type"), TTL: f.millis("ttl_ms"),
			Evidence: f.texts("evidence_requirements"), Approvers: f.count("minimum_distinct_principals"),
			RequesterDiffer: duties.yes("requester_must_differ") && !duties.yes("allow_self_approval"),
		}
	}
	return k
}

// fields is an object whose members are read for what they should be, and are
// absent where they are something else.
type fields map[string]jsontext.Value

func (f fields) text(name string) string {
	s, _ := Unquote(f[name])
	return s
}

func (f fields) texts(name string) []string {
	list, _ := Elements(f[name])
	var out []string
	for _, e := range list {
		if s, ok := Unquote(e); ok {
			out = append(out, s)
		}
	}
	return out
}

func (f fields) object(name string) fields { return Members(f[name]) }

func (f fields) yes(name string) bool { return f[name].Kind() == 't' }

func (f fields) count(name string) uint64 {
	if len(f[name]) == 0 {
		return 0
	}
	n, err := unsigned(jsontext.NewDecoder(bytes.NewBuffer(f[name])))
	if err != nil || n == nil {
		return 0
	}
	return *n
}

// millis bounds a time at a year, so that nothing that is added to it turns
// negative.
func (f fields) millis(name string) time.Duration {
	const most = uint64(365 * 24 * time.Hour / time.Millisecond)
	return time.Duration(min(f.count(name), most)) * time.Millisecond
}
