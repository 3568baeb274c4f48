package devserver

import (
	"encoding/json"
	"net/http"
)

// cancel is the cancel route. The body is optional, but a JSON content type
// promises one.
func (s *Server) cancel(w http.ResponseWriter, r *request) {
	var reason string
	if header := r.Header.Get("Content-Type"); header != "" {
		if !jsonContent(header) {
			plain(w, http.StatusUnsupportedMediaType, "a JSON content type is required")
			return
		}
		if len(r.body) > maxRequestBody {
			plain(w, http.StatusRequestEntityTooLarge, "the request body is too large")
			return
		}
		if _, ok := readJSON(string(r.body)); !ok {
			plain(w, http.StatusBadRequest, "the request body is not JSON")
			return
		}
		var body struct {
			Reason *string `json:"reason"`
		}
		if err := json.Unmarshal(r.body, &body); err != nil || members(r.body) == nil {
			plain(w, http.StatusUnprocessableEntity, "the request body is no cancel request")
			return
		}
		if body.Reason != nil {
			reason = *body.Reason
		}
	}
	ans := s.cancelAction(r.caller, r.id, reason)
	if ans.err != nil {
		s.fail(w, ans.err)
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{ans.key: ans.body})
}

// cancelByEnvelope is the same request as an envelope. Sessions do not exist
// here.
func (s *Server) cancelByEnvelope(env *envelope) answer {
	target := env.Body.Cancel.Target
	if target.Action == "" {
		return answer{err: newError("aip-runtime", permanent, "resource.not_found", target.Session)}
	}
	return s.cancelAction(env.caller, target.Action, env.Body.Cancel.Reason)
}

// cancelAction acknowledges a cancel request. The answer says cancelled
// whatever becomes of the action, also for one that ended long ago.
func (s *Server) cancelAction(by caller, actionID, reason string) answer {
	if err := s.mayUse(by, actionID, "write"); err != nil {
		return answer{err: err}
	}
	if !s.store.cancel(actionID, reason) {
		return answer{err: newError("aip-runtime", permanent, "resource.not_found", actionID)}
	}
	return resultAnswer(actionResult{
		ActionID: actionID, Status: "cancelled", Output: json.RawMessage(`{"cancelled":true}`),
	})
}
