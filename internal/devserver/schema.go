package devserver

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// check says what is wrong with a decoded JSON value (numbers as json.Number),
// as a pointer and a reason; empty when nothing is. Member names occur in the
// text, values never do.
type check func(v any) string

// shape lists the members of a typed object. Typed objects are closed: any
// other member is a violation.
type shape struct {
	required map[string]check
	optional map[string]check // may also be null
}

func (sh shape) check(v any) string {
	m, ok := v.(map[string]any)
	if !ok {
		return " is not an object"
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		c, known := sh.required[key]
		if !known {
			if c, known = sh.optional[key]; known && m[key] == nil {
				continue
			}
		}
		if !known {
			return "/" + key + " is not a member of this object"
		}
		if bad := c(m[key]); bad != "" {
			return "/" + key + bad
		}
	}
	for _, key := range slices.Sorted(maps.Keys(sh.required)) {
		if _, ok := m[key]; !ok {
			return "/" + key + " is missing"
		}
	}
	return ""
}

func anything(any) string { return "" }

func text(v any) string {
	if _, ok := v.(string); !ok {
		return " is not a string"
	}
	return ""
}

func oneOf(values ...string) check {
	return func(v any) string {
		if s, ok := v.(string); ok && slices.Contains(values, s) {
			return ""
		}
		return " is not one of " + strings.Join(values, ", ")
	}
}

func unsigned(v any) string {
	n, ok := v.(json.Number)
	if ok {
		if _, err := strconv.ParseUint(n.String(), 10, 64); err == nil {
			return ""
		}
	}
	return " is not an unsigned integer"
}

func listOf(c check) check {
	return func(v any) string {
		list, ok := v.([]any)
		if !ok {
			return " is not a list"
		}
		for i, item := range list {
			if bad := c(item); bad != "" {
				return "/" + strconv.Itoa(i) + bad
			}
		}
		return ""
	}
}

var principalShape = shape{
	required: map[string]check{
		"id":   text,
		"kind": oneOf("human", "agent", "service", "tenant", "customer", "contact", "system"),
	},
	optional: map[string]check{
		"display_name": text, "trust_domain": text, "did": text,
		"external_refs": listOf(anything), "delegated_authority": listOf(anything),
		"auth_context": anything,
	},
}

var actionShape = shape{
	required: map[string]check{"id": text, "capability_id": text, "input": anything},
	optional: map[string]check{
		"mode":            oneOf("sync", "async", "streaming"),
		"idempotency_key": text,
		"timeout_ms":      unsigned,
		"conversation":    anything,
		"memory_context":  anything,
		"delegation_chain": listOf(shape{required: map[string]check{
			"from": principalShape.check, "to": principalShape.check,
			"scope": anything, "delegated_at": text,
		}}.check),
		"federation": shape{
			required: map[string]check{"trust_domain": text},
			optional: map[string]check{"hops": listOf(anything)},
		}.check,
		"callback": shape{
			required: map[string]check{"profile": text, "target": text},
			optional: map[string]check{"metadata": anything},
		}.check,
		"observability": shape{optional: map[string]check{
			"trace_id": text, "span_id": text, "fields": anything,
		}}.check,
		"compliance": shape{optional: map[string]check{
			"regimes": listOf(text), "data_classification": text, "metadata": anything,
		}}.check,
		"identity": anything,
		"approval": anything,
		"transaction": shape{
			required: map[string]check{"mode": oneOf("execute", "dry_run", "plan", "commit",
				"compensate", "reconcile", "rollback_not_supported")},
			optional: map[string]check{"transaction_id": text, "plan_id": text, "compensation_for": text},
		}.check,
	},
}

var cancelShape = shape{
	required: map[string]check{"target": func(v any) string {
		m, ok := v.(map[string]any)
		if !ok || len(m) != 1 {
			return " is not an object with one member"
		}
		return shape{optional: map[string]check{"action": text, "session": text}}.check(m)
	}},
	optional: map[string]check{"reason": text},
}

var decisionShape = shape{
	required: map[string]check{
		"approval_id": text, "decision": oneOf("approved", "denied", "expired", "revoked"),
		"approver": principalShape.check, "decided_at": text,
	},
	optional: map[string]check{
		"reason": text, "decision_id": text, "policy_hash": text, "target_decision_id": text,
		"authority_path": listOf(text), "evidence": listOf(anything),
		"constraints": listOf(shape{
			required: map[string]check{"field": text, "operator": text, "value": anything},
		}.check),
	},
}

var envelopeShape = shape{
	required: map[string]check{
		"aip_version": oneOf("1.0"),
		"message_type": func(v any) string {
			if s, _ := v.(string); messageBodies[s] == "" {
				return " is not a registered message type"
			}
			return ""
		},
		"message_id": text,
		"sent_at":    text,
		"body":       bodyCheck,
	},
	optional: map[string]check{
		"session_id": text, "correlation_id": text, "in_response_to": text, "idempotency_key": text,
		"from": principalShape.check, "to": principalShape.check,
		"trace": anything, "security": anything, "extensions": anything,
	},
}

// bodyCheck is the externally tagged body: exactly one known key. Only the
// bodies that this daemon works on are looked into.
func bodyCheck(v any) string {
	m, ok := v.(map[string]any)
	if !ok || len(m) != 1 {
		return " is not an object with one member"
	}
	for key, body := range m {
		switch {
		case key == "action":
			return prefixed("/action", actionShape.check(body))
		case key == "cancel":
			return prefixed("/cancel", cancelShape.check(body))
		case key == "approval_decision":
			return prefixed("/approval_decision", decisionShape.check(body))
		case !slices.Contains(slices.Collect(maps.Values(messageBodies)), key):
			return "/" + key + " is not a known body"
		}
	}
	return ""
}

func prefixed(path, bad string) string {
	if bad == "" {
		return ""
	}
	return path + bad
}

// typeOf is the message type of an answer with that body key.
func typeOf(key string) string {
	for name, body := range messageBodies {
		if body == key {
			return name
		}
	}
	panic("devserver: no message type has the body " + key)
}

// messageBodies is the registry of message types with the body key of each.
var messageBodies = map[string]string{
	"aip.core.v1.action":                     "action",
	"aip.core.v1.ack":                        "ack",
	"aip.core.v1.action_result":              "action_result",
	"aip.core.v1.stream_chunk":               "stream_chunk",
	"aip.core.v1.cancel":                     "cancel",
	"aip.core.v1.error":                      "error",
	"aip.core.v1.handshake":                  "handshake",
	"aip.core.v1.handshake_response":         "handshake_response",
	"aip.core.v1.heartbeat":                  "heartbeat",
	"aip.core.v1.heartbeat_ack":              "heartbeat_ack",
	"aip.core.v1.escalation":                 "escalation",
	"aip.core.v1.escalation_resolution":      "escalation_resolution",
	"aip.lifecycle.v1.action_status_request": "action_status_request",
	"aip.lifecycle.v1.action_status":         "action_status",
	"aip.lifecycle.v1.action_result_request": "action_result_request",
	"aip.lifecycle.v1.action_list_request":   "action_list_request",
	"aip.lifecycle.v1.action_list":           "action_list",
	"aip.lifecycle.v1.action_events_request": "action_events_request",
	"aip.lifecycle.v1.action_events":         "action_events",
	"aip.policy.v1.approval_request":         "approval_request",
	"aip.policy.v1.approval_decision":        "approval_decision",
	"aip.policy.v1.approval_query_request":   "approval_query_request",
	"aip.policy.v1.approval_list_request":    "approval_list_request",
	"aip.policy.v1.approval_record_view":     "approval_record_view",
	"aip.policy.v1.approval_list":            "approval_list",
	"aip.discovery.v1.manifest_request":      "manifest_request",
	"aip.discovery.v1.manifest_response":     "manifest",
	"aip.discovery.v1.event_stream_request":  "event_stream_request",
	"aip.discovery.v1.event_stream_response": "event_stream",
	"aip.session.v1.session_request":         "session_request",
	"aip.session.v1.session_view":            "session_view",
	"aip.session.v1.session_list_request":    "session_list_request",
	"aip.session.v1.session_list":            "session_list",
	"aip.session.v1.session_close_request":   "session_close_request",
	"aip.session.v1.session_resume_request":  "session_resume_request",
	"aip.session.v1.session_resume":          "session_resume",
	"aip.transaction.v1.request":             "transaction_request",
	"aip.transaction.v1.result":              "transaction_result",
	"aip.transaction.v1.query_request":       "transaction_query_request",
	"aip.transaction.v1.view":                "transaction_view",
	"aip.agent.v1.delegation_request":        "delegation_request",
	"aip.agent.v1.delegation_result":         "delegation_result",
	"aip.callback.v1.delivery_query_request": "callback_delivery_query_request",
	"aip.callback.v1.delivery_list_request":  "callback_delivery_list_request",
	"aip.callback.v1.delivery_record":        "callback_delivery_record",
	"aip.callback.v1.delivery_list":          "callback_delivery_list",
	"aip.audit.v1.receipt_chain":             "receipt_chain",
	"aip.audit.v1.receipt_query_request":     "receipt_query_request",
	"aip.audit.v1.audit_event":               "audit_event",
	"aip.audit.v1.audit_query_request":       "audit_query_request",
	"aip.audit.v1.audit_query_result":        "audit_query_result",
	"aip.resource.v1.resource_list_request":  "resource_list_request",
	"aip.resource.v1.resource_list":          "resource_list",
	"aip.resource.v1.resource_read_request":  "resource_read_request",
	"aip.resource.v1.resource_read_result":   "resource_read_result",
	"aip.channel.v1.message_created":         "channel_message",
	"aip.channel.v1.conversation_updated":    "conversation",
	"aip.economic.v1.batch_settlement":       "batch_settlement",
}
