package e2e_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// storedScenes are about responses that a store has.
var storedScenes = []scene{
	{
		name: "a stored response",
		fields: map[string]string{
			"text": "out json", "status": "err json jsonl", "iid": "json", "istatus": "json", "fname": "err json jsonl", "call": "json jsonl", "arguments": "json", "model": "json", "usage": "json", "errcode": "json", "errmsg": "json",
		},
		bytes: true, light: true,
		play: func(t *testing.T, _ *world, put, _ func(string) string) []string {
			return []string{"response", "get", storing(t, func(id string) (int, string) {
				return http.StatusOK, completed(id, `{"id":"resp_h","object":"response","status":`+put("status")+`,"model":`+put("model")+
					`,"output":[{"type":"message","id":`+put("iid")+`,"status":`+put("istatus")+`,"content":[{"type":"output_text","text":`+put("text")+`}]}`+
					`,{"type":"function_call","id":"f","call_id":`+put("call")+`,"name":`+put("fname")+`,"arguments":`+put("arguments")+`,"status":"completed"}]`+
					`,"error":{"code":`+put("errcode")+`,"message":`+put("errmsg")+`},"usage":{"output_tokens":1,"note":`+put("usage")+`}}`)
			}), "resp_h", "--endpoint", "qa"}
		},
	},
	{
		name: "a stored response that is another", fields: map[string]string{"id": "json"},
		bytes: true, light: true, says: "another response",
		play: func(t *testing.T, _ *world, put, _ func(string) string) []string {
			return []string{"response", "get", storing(t, func(id string) (int, string) {
				return http.StatusOK, completed(id, `{"id":`+put("id")+`,"object":`+put("object")+`,"status":"completed","output":[]}`)
			}), "resp_h", "--endpoint", "qa"}
		},
	},
	{
		name: "a read that failed", fields: map[string]string{"code": "err json jsonl"},
		bytes: true, light: true,
		play: func(t *testing.T, _ *world, put, _ func(string) string) []string {
			return []string{"response", "get", storing(t, func(id string) (int, string) {
				return http.StatusOK, `{"aip_version":"1.0","body":{"action_result":{"action_id":"` + id + `","status":"failed","error":{"code":` + put("code") + `,"category":` + put("category") + `,"message":` + put("message") + `,"details":{"remote_status":404,"x":` + put("details") + `}}}}}`
			}), "resp_h", "--endpoint", "qa"}
		},
	},
	{
		name: "a receipt", fields: map[string]string{"object": "json jsonl", "receipt": "json jsonl"},
		bytes: true, light: true, says: "receipt",
		play: func(t *testing.T, _ *world, put, _ func(string) string) []string {
			return []string{"response", "delete", storing(t, func(id string) (int, string) {
				return http.StatusOK, completed(id, `{"id":`+put("receipt")+`,"object":`+put("object")+`,"deleted":true,"approval_id":`+put("approval")+`,"decision_id":`+put("decision")+`}`)
			}), "resp_h", "--endpoint", "qa", "--yes"}
		},
	},
	{
		name: "a deletion that waits", fields: map[string]string{"approval": "err json jsonl"},
		bytes: true, light: true,
		play: func(t *testing.T, _ *world, put, _ func(string) string) []string {
			return []string{"response", "delete", storing(t, func(id string) (int, string) {
				return http.StatusOK, `{"aip_version":"1.0","body":{"action_result":{"action_id":"` + id + `","status":"pending_approval","output":{"approval_id":` + put("approval") +
					`,"approval_request":{"id":` + put("approval") + `,"policy_hash":` + put("hash") + `,"expires_at":` + put("expires") + `,"evidence":[{"kind":"input_snapshot","hash":` + put("input") + `}],"policy_snapshot":{"evidence_requirements":["reason"]}}}}}}`
			}), "resp_h", "--endpoint", "qa", "--yes"}
		},
	},
	{
		name: "a deletion that is refused", fields: map[string]string{},
		bytes: true, light: true, says: "403",
		play: func(t *testing.T, _ *world, put, _ func(string) string) []string {
			return []string{"response", "delete", storing(t, func(string) (int, string) {
				return http.StatusForbidden, `{"aip_version":"1.0","body":{"error":{"error":{"code":` + put("code") + `,"category":` + put("category") + `,"message":` + put("message") + `}}}}`
			}), "resp_h", "--endpoint", "qa", "--yes"}
		},
	},
	words("a stored response's id", "", func(word string) []string {
		return []string{"response", "get", nobody, "resp_" + word, "--endpoint", "qa"}
	}),
	words("a stored response's endpoint", "", func(word string) []string { return []string{"response", "get", nobody, "resp_h", "--endpoint", word} }),
	words("a stored response's capability", "", func(word string) []string {
		return []string{"response", "delete", nobody, "resp_h", "--capability", word}
	}),
}

// approvalScenes are about what waits for a decision.
var approvalScenes = []scene{
	{
		name: "every word of an approval",
		fields: map[string]string{
			"who": "out json jsonl", "whokind": "out json jsonl", "subject": "out json jsonl", "operator": "out json jsonl", "approver": "out json jsonl", "reason": "out json jsonl", "risk": "out json jsonl",
			"hash": "out json jsonl", "requirement": "out json jsonl", "evkind": "out json jsonl", "evhash": "out json jsonl", "evid": "json jsonl", "state": "out json jsonl",
			"decision": "out json jsonl", "decider": "out json jsonl", "decided": "out json jsonl", "did": "out json jsonl", "input": "out json jsonl", "status": "out json jsonl",
			"event": "out json jsonl", "at": "out json jsonl", "data": "json jsonl",
		},
		bytes: true, light: true,
		play: func(t *testing.T, _ *world, put, _ func(string) string) []string {
			more := `,"status":` + put("status") + `,"decision":{"decision":` + put("decision") + `,"decision_id":` + put("did") + `,"decided_at":` + put("decided") + `,"approver":{"id":` + put("decider") + `,"kind":"human"}}` +
				`,"action_status":{"action_id":"act_h","state":` + put("state") + `},"evidence_payload":{"input":{"x":` + put("input") + `}}`
			return []string{"approval", "get", deciding(t, put, []string{more}, http.StatusOK, ""), "appr_h"}
		},
	},
	{
		name: "a line of an approval", fields: map[string]string{"id": "out json jsonl", "status": "out json jsonl", "capability": "out json jsonl", "who": "out json jsonl"},
		bytes: true, light: true,
		play: func(t *testing.T, _ *world, put, _ func(string) string) []string {
			return []string{"approval", "list", answering(t, http.StatusOK, `{"approval_list":{"approvals":[`+approvalOf(put)+`],"cursor":`+put("cursor")+`}}`, nil)}
		},
	},
	{
		name: "a decision",
		fields: map[string]string{
			"who": "err", "subject": "err", "operator": "err", "approver": "err", "reason": "err", "risk": "err", "hash": "err", "requirement": "err", "evkind": "err", "evhash": "err",
			"status": "out json jsonl", "result": "out json jsonl", "code": "out json jsonl", "state": "json jsonl",
		},
		bytes: true, light: true,
		play: func(t *testing.T, _ *world, put, _ func(string) string) []string {
			open := `,"status":"pending"`
			done := `,"status":` + put("status") + `,"action_status":{"action_id":"act_h","state":` + put("state") + `,"result":{"action_id":"act_h","status":` + put("result") + `,"error":{"code":` + put("code") + `,"message":` + put("message") + `}}}`
			return []string{"approval", "approve", deciding(t, put, []string{open, open, done}, http.StatusOK,
				`{"aip_version":"1.0","body":{"event_stream":{"events":[{"id":"e","kind":"aip.approval.granted","action_id":"act_h","data":{"x":`+put("note")+`}}]}}}`), "appr_h", "--as", "human:dana", "--yes"}
		},
	},
	{
		name: "a decision that is made already", fields: map[string]string{"status": "err json jsonl", "decider": "err json jsonl", "decided": "err json jsonl"},
		bytes: true, light: true,
		play: func(t *testing.T, _ *world, put, _ func(string) string) []string {
			more := `,"status":` + put("status") + `,"decision":{"decision":` + put("decision") + `,"decided_at":` + put("decided") + `,"approver":{"id":` + put("decider") + `,"kind":"human"}}`
			return []string{"approval", "deny", deciding(t, put, []string{more}, http.StatusOK, ""), "appr_h", "--as", "human:dana", "--yes"}
		},
	},
	{
		name: "a decision that nobody confirms", fields: map[string]string{"who": "err json jsonl", "capability": "err json jsonl"},
		bytes: true, light: true, says: "nobody confirmed it",
		play: func(t *testing.T, w *world, put, _ func(string) string) []string {
			w.typed = "no\n"
			return []string{"approval", "approve", deciding(t, put, []string{`,"status":"pending"`}, http.StatusOK, ""), "appr_h", "--as", "human:dana"}
		},
	},
	{
		name: "a decision that is refused", fields: map[string]string{},
		bytes: true, light: true, says: "auth.not_authorized",
		play: func(t *testing.T, _ *world, put, _ func(string) string) []string {
			return []string{"approval", "deny", deciding(t, put, []string{`,"status":"pending"`}, http.StatusForbidden,
				`{"aip_version":"1.0","body":{"error":{"error":{"code":"auth.not_authorized","category":"auth","message":`+put("message")+`,"details":{"x":`+put("details")+`}}}}}`), "appr_h", "--as", "human:dana", "--yes"}
		},
	},
	words("an approval's id", "", func(word string) []string { return []string{"approval", "get", nobody, "appr_" + word} }),
	words("a status of approvals", "", func(word string) []string { return []string{"approval", "list", nobody, "--status", word} }),
	words("who decides", "", func(word string) []string {
		return []string{"approval", "deny", nobody, "appr_h", "--yes", "--as", "human:" + word}
	}),
	words("why it is decided so", "", func(word string) []string {
		return []string{"approval", "deny", nobody, "appr_h", "--yes", "--as", "human:dana", "--reason", word}
	}),
}

// storing answers the submission of an action by its id, and knows nothing of it
// afterwards.
func storing(t *testing.T, act func(id string) (int, string)) string {
	return speak(t, func(w *bytes.Buffer, r *http.Request) {
		if r.Method != http.MethodPost {
			respond(w, http.StatusBadRequest, "application/json", nil, `{"aip_version":"1.0","body":{"error":{"error":{"code":"action.not_found","category":"permanent","message":"no"}}}}`)
			return
		}
		var envelope struct {
			Body struct{ Action struct{ ID string } }
		}
		raw, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(raw, &envelope)
		status, body := act(envelope.Body.Action.ID)
		respond(w, status, "application/json", nil, body)
	})
}

// completed is the answer to a submission whose action ended well.
func completed(id, output string) string {
	return `{"aip_version":"1.0","body":{"action_result":{"action_id":"` + id + `","status":"completed","output":` + output + `}}}`
}

// deciding is a daemon with one approval: views is what its record holds beside
// the request, read by read, and the answer is that to a decision.
func deciding(t *testing.T, put func(string) string, views []string, status int, answer string) string {
	var reads atomic.Int32
	expires := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	request := `{"id":"appr_h","action_id":"act_h","capability_id":"cap:hermes_agent:qa:` + put("capability")[1:] +
		`,"requester":{"id":` + put("who") + `,"kind":` + put("whokind") + `},"subject":{"id":` + put("subject") + `,"kind":"human"},"operator":{"id":` + put("operator") + `,"kind":"service"}` +
		`,"approver_selector":{"type":"role","name":` + put("approver") + `},"reason":` + put("reason") + `,"risk":` + put("risk") + `,"policy_hash":` + put("hash") + `,"expires_at":"` + expires + `"` +
		`,"evidence":[{"id":` + put("evid") + `,"kind":` + put("evkind") + `,"hash":` + put("evhash") + `}],"policy_snapshot":{"evidence_requirements":[` + put("requirement") + `]}}`
	return speak(t, func(w *bytes.Buffer, r *http.Request) {
		switch path := r.URL.Path; {
		case r.Method == http.MethodPost:
			respond(w, status, "application/json", nil, answer)
		case strings.Contains(path, "/approvals/"):
			n := int(reads.Add(1))
			respond(w, http.StatusOK, "application/json", nil, `{"approval_record_view":{"request":`+request+`,"created_at":`+put("created")+views[min(n, len(views))-1]+`}}`)
		case strings.HasSuffix(path, "/events"):
			respond(w, http.StatusOK, "application/json", nil, `{"action_events":{"action_id":"act_h","events":[{"id":"e","kind":`+put("event")+`,"occurred_at":`+put("at")+`,"action_id":"act_h","data":{"x":`+put("data")+`}}],"cursor":"c","terminal":false}}`)
		default:
			respond(w, http.StatusForbidden, "application/json", nil, `{"aip_version":"1.0","body":{"error":{"error":{"code":"auth.not_authorized","category":"auth","message":"no"}}}}`)
		}
	})
}
