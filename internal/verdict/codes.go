package verdict

import (
	"cmp"
	"strings"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/fault"
)

// CodeContext is what the code table looks at beside the code.
type CodeContext struct {
	Operation string
	LastNamed string // name of the last provider frame that had one
}

// codeRow is one row of the code table. Rows are tried from the top.
type codeRow struct {
	reading Reading
	what    string // for help and docs
	match   func(e *aip.ProtocolError, cx CodeContext) bool
}

// lastNamed is the name of the last frame. The details of a stream_failed are
// that frame's data, which tells where neither stream nor aggregate was read.
func lastNamed(e *aip.ProtocolError, cx CodeContext) string {
	return cmp.Or(cx.LastNamed, e.DetailString("event"), e.DetailString("type"))
}

var codeTable = []codeRow{
	{fault.Partial, "…stream_truncated; …stream_failed whose last named frame is response.incomplete",
		func(e *aip.ProtocolError, cx CodeContext) bool {
			return last(e.Code, "stream_truncated") || last(e.Code, "stream_failed") && lastNamed(e, cx) == "response.incomplete"
		}},
	{fault.Incomplete, "…stream_incomplete",
		func(e *aip.ProtocolError, _ CodeContext) bool { return last(e.Code, "stream_incomplete") }},
	{fault.Auth, "auth.*, credential.*, *.tenant_mismatch; connector.*.authentication and connector.*.missing_credential (the endpoint's credential, not the caller's token)",
		func(e *aip.ProtocolError, _ CodeContext) bool {
			return under(e.Code, "auth") || under(e.Code, "credential") || last(e.Code, "tenant_mismatch") || EndpointCredential(e.Code)
		}},
	{fault.NotFound, "…remote_rejected with remote_status 404 of response_get or response_delete; resource.not_found, approval.not_found",
		func(e *aip.ProtocolError, cx CodeContext) bool {
			if last(e.Code, "remote_rejected") {
				return e.RemoteStatus() == 404 && (cx.Operation == "response_get" || cx.Operation == "response_delete")
			}
			return e.Code == "resource.not_found" || e.Code == "approval.not_found"
		}},
	{fault.Rejected, "schema.*, envelope.*, action.input_schema_invalid, capability.*, execution.mode_unsupported, idempotency.* except in_progress, …configuration_or_input, other …remote_rejected, sla.queue_delay_exceeded, policy.*, action.id_conflict",
		func(e *aip.ProtocolError, _ CodeContext) bool {
			switch e.Code {
			case "action.input_schema_invalid", "execution.mode_unsupported", "sla.queue_delay_exceeded", "action.id_conflict":
				return true
			}
			return under(e.Code, "schema") || under(e.Code, "envelope") || under(e.Code, "capability") || under(e.Code, "policy") ||
				under(e.Code, "idempotency") && e.Code != codeInProgress ||
				last(e.Code, "configuration_or_input") || last(e.Code, "remote_rejected")
		}},
	{fault.Pending, "idempotency.in_progress",
		func(e *aip.ProtocolError, _ CodeContext) bool { return e.Code == codeInProgress }},
	{fault.Unknown, "details.uncertain_outcome true (never read from …stream_failed), …stream_publication, …_outcome_unknown, sla.timeout_exceeded, …deadline_exceeded, action.output_schema_invalid, runtime.handler_failed, storage.unavailable",
		func(e *aip.ProtocolError, _ CodeContext) bool {
			if u := e.Uncertain(); u != nil && *u && !last(e.Code, "stream_failed") {
				return true
			}
			switch e.Code {
			case "sla.timeout_exceeded", "action.output_schema_invalid", codeHandlerFailed, "storage.unavailable":
				return true
			}
			return last(e.Code, "stream_publication") || strings.HasSuffix(e.Code, "outcome_unknown") || last(e.Code, "deadline_exceeded")
		}},
}

const (
	codeInProgress    = "idempotency.in_progress"
	codeHandlerFailed = "runtime.handler_failed"
)

// ReadCode reads the error of a failed action by the code table: the first
// row that matches, failed when none does or when there is no error.
func ReadCode(e *aip.ProtocolError, cx CodeContext) Reading {
	if e == nil {
		return fault.Failed
	}
	for _, row := range codeTable {
		if row.match(e, cx) {
			return row.reading
		}
	}
	return fault.Failed
}

// CodeRow is one row of the code table as people read it.
type CodeRow struct {
	Reading Reading
	Codes   string
}

// CodeTable returns the table, its default row last.
func CodeTable() []CodeRow {
	rows := make([]CodeRow, 0, len(codeTable)+1)
	for _, r := range codeTable {
		rows = append(rows, CodeRow{r.reading, r.what})
	}
	return append(rows, CodeRow{fault.Failed, "everything else"})
}

// EndpointCredential reports whether the code speaks of the credential that
// the connector shows to the provider, which is not the caller's token.
func EndpointCredential(code string) bool {
	return under(code, "connector") && (last(code, "authentication") || last(code, "missing_credential"))
}

// under reports whether the code belongs to the family prefix.*.
func under(code, prefix string) bool { return strings.HasPrefix(code, prefix+".") }

// last reports whether the last dotted segment of the code is segment.
func last(code, segment string) bool {
	return code == segment || strings.HasSuffix(code, "."+segment)
}
