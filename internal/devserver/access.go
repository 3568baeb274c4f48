package devserver

import (
	"net/http"
	"slices"
	"strings"
)

// caller is whom a request comes from: the principal that its token is bound to,
// and what that one may do. The `from` of an envelope decides nothing.
type caller struct {
	principal
	scopes  []string
	decides bool // has the authority to decide approvals
}

// What the two tokens may do unless the options say otherwise. Submitting and
// deciding need no scope; deciding needs authority.
var (
	requesterScopes = []string{"action:read", "action:write", "approval:read"}
	approverScopes  = []string{
		"action:read:any", "action:write", "approval:read:any", "approval:export", "approval:sensitive",
	}
)

// callers returns whom the tokens of the options are bound to. The empty token
// is no token at all: without a first token, such a caller is the daemon's own
// agent, who may do everything but decide.
func callers(opts Options) map[string]caller {
	own := caller{principal: daemonPrincipal, scopes: []string{"*"}}
	if opts.Token != "" {
		own = caller{principal: edgePrincipal, scopes: orDefault(opts.Scopes, requesterScopes)}
	}
	all := map[string]caller{opts.Token: own}
	if opts.ApproverToken != "" {
		all[opts.ApproverToken] = caller{
			principal: approverPrincipal, scopes: orDefault(opts.ApproverScopes, approverScopes), decides: true,
		}
	}
	return all
}

func orDefault(scopes, otherwise []string) []string {
	if scopes == nil {
		return otherwise
	}
	return scopes
}

// bearer reads the static token. A scheme other than "Bearer ", in exactly that
// spelling, counts as no token at all; a token that is sent must be right.
func (s *Server) bearer(r *http.Request) (c caller, sent bool, err *protocolError) {
	token, sent := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	c, known := s.callers[token]
	if sent && (token == "" || !known) {
		return caller{}, true, unauthorized("the token is not valid here")
	}
	return c, sent, nil
}

// admit is the check in front of every route that is not open.
func (s *Server) admit(r *http.Request) (caller, *protocolError) {
	c, sent, err := s.bearer(r)
	if err == nil && !sent && s.opts.Token != "" {
		err = unauthorized("no token was presented")
	}
	return c, err
}

func unauthorized(message string) *protocolError {
	return newError("aip.server.native_http", auth, "auth.native_http_unauthorized", message)
}

// has reports whether the caller may do an operation on objects of its own.
func (c caller) has(object, operation string) bool {
	own := object + ":" + operation
	return slices.ContainsFunc(c.scopes, func(s string) bool { return s == "*" || s == own || s == own+":any" })
}

// hasAny reports whether the caller may do it on the objects of others. One
// scope lifts ownership for every object, and gives nothing else.
func (c caller) hasAny(object, operation string) bool {
	return slices.ContainsFunc(c.scopes, func(s string) bool {
		return s == "*" || s == object+":"+operation+":any" || s == "principal:read:any"
	})
}

// lacks refuses an operation for want of its scope; nil when the caller has it.
// It is 401, as every refusal of this kind.
func (c caller) lacks(object, operation string) *protocolError {
	if c.has(object, operation) {
		return nil
	}
	return newError("aip-runtime.query-authorization", auth, "auth.not_authorized", "a scope is missing").with(map[string]string{
		"object": object, "operation": strings.ToUpper(operation[:1]) + operation[1:],
	})
}

// mayUse checks a request about one action. An action that nobody owns here is
// everybody's: whoever may read at all is told that it is unknown.
func (s *Server) mayUse(c caller, actionID, operation string) *protocolError {
	if err := c.lacks("action", operation); err != nil {
		return err
	}
	owner, known := s.store.owner(actionID)
	if !known || owner == c.principal || c.hasAny("action", operation) {
		return nil
	}
	return newError("aip-runtime.query-authorization", auth, "auth.not_authorized", "the action is another principal's").with(map[string]string{
		"action_id": actionID, "required_scope": "action:" + operation + ":any",
	})
}

// owner is the principal that submitted an action on record or in flight.
func (st *store) owner(actionID string) (principal, bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if rec := st.records[actionID]; rec != nil {
		return rec.run.caller, true
	}
	if runs := st.active[actionID]; len(runs) > 0 {
		return runs[0].caller, true
	}
	return principal{}, false
}
