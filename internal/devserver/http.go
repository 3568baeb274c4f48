package devserver

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
)

// maxRequestBody is the framework's bound on a request body in bytes.
const maxRequestBody = 2 << 20

// request is a request with its body read.
type request struct {
	*http.Request
	body   []byte
	id     string // the action or approval id of the path
	query  params
	caller caller // who asks; nobody on an open route
}

// route is what one method of one path does. Open routes look at no token, or
// do so themselves.
type route struct {
	open   bool
	typed  []string             // query parameters with a type; see parseParams
	valid  func(id string) bool // the rule for the id of the path, where there is one
	handle func(http.ResponseWriter, *request)
}

// routes returns the methods of a path below the prefix; nil for an unknown
// path. The id in it, when there is one, is the second result.
func (s *Server) routes(path string) (map[string]route, string) {
	switch path {
	case "/", "/health", "/aip/v1/health":
		return map[string]route{"GET": {open: true, handle: s.health}}, ""
	case "/ready":
		return map[string]route{"GET": {open: true, handle: s.ready}}, ""
	case "/aip/v1/manifest":
		return map[string]route{"GET": {open: true, typed: manifestParams, handle: s.manifest}}, ""
	case "/aip/v1/capabilities":
		return map[string]route{"GET": {typed: catalogueParams, handle: s.catalogue}}, ""
	case "/aip/v1/messages":
		return map[string]route{"POST": {open: true, handle: s.post}}, ""
	case "/aip/v1/approvals":
		return map[string]route{"GET": {typed: approvalsParams, handle: s.approvals}}, ""
	case "/aip/v1/actions":
		return map[string]route{"GET": {typed: listParams, handle: s.list}, "POST": {handle: s.post}}, ""
	}
	about, rest, _ := strings.Cut(strings.TrimPrefix(path, "/aip/v1/"), "/")
	escaped, verb, deeper := strings.Cut(rest, "/")
	id, err := url.PathUnescape(escaped)
	if !strings.HasPrefix(path, "/aip/v1/") || err != nil || id == "" || deeper && verb == "" {
		return nil, ""
	}
	methods := map[string]route(nil)
	switch about {
	case "approvals":
		if !deeper {
			methods = map[string]route{"GET": {typed: approvalParams, valid: validApprovalID, handle: s.approval}}
		}
	case "actions":
		methods = s.actionRoutes(verb)
	}
	return methods, id
}

// actionRoutes returns the methods of a path about one action.
func (s *Server) actionRoutes(verb string) map[string]route {
	switch verb {
	case "":
		return map[string]route{"GET": {typed: statusParams, valid: validActionID, handle: s.status}}
	case "result":
		return map[string]route{"GET": {typed: resultParams, valid: validActionID, handle: s.result}}
	case "events", "chunks":
		return map[string]route{"GET": {typed: eventsParams, valid: validActionID, handle: func(w http.ResponseWriter, r *request) {
			s.events(w, r, verb == "chunks")
		}}}
	case "cancel":
		return map[string]route{"POST": {valid: validActionID, handle: s.cancel}}
	}
	return nil
}

// serve is the whole handler: read, record, route, check the token, answer.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Date", s.now().UTC().Format(http.TimeFormat))
	if s.ctx.Err() != nil {
		plain(w, http.StatusServiceUnavailable, "the daemon is closed")
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequestBody+1))
	if err != nil {
		plain(w, http.StatusBadRequest, "the request body could not be read")
		return
	}
	s.note(r, body)
	path, inside := strings.CutPrefix(r.URL.EscapedPath(), s.opts.PathPrefix)
	methods, id := s.routes(path)
	if !inside || methods == nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	rt, ok := methods[r.Method]
	if !ok {
		for method := range methods {
			w.Header().Add("Allow", method)
		}
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	var by caller
	if !rt.open {
		var perr *protocolError
		if by, perr = s.admit(r); perr != nil {
			s.fail(w, perr)
			return
		}
	}
	query, err := parseParams(r.URL.RawQuery, rt.typed)
	if err != nil {
		plain(w, http.StatusBadRequest, "the query string could not be read: "+err.Error())
		return
	}
	if rt.typed != nil && query.Has("tenant_id") {
		s.fail(w, newError("aip-gateway", auth, "auth.tenant_required", "no tenant of the caller was verified"))
		return
	}
	if rt.valid != nil && !rt.valid(id) {
		s.fail(w, newError("aip.server.http", permanent, "query.invalid", "the path holds no id of that kind"))
		return
	}
	rt.handle(w, &request{Request: r, body: body, id: id, query: query, caller: by})
}

// note records the request and calls the hook.
func (s *Server) note(r *http.Request, body []byte) {
	req := Request{Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery, Header: r.Header.Clone(), Body: body}
	s.mu.Lock()
	s.requests = append(s.requests, req)
	s.mu.Unlock()
	if s.opts.Hooks.Request != nil {
		s.opts.Hooks.Request(req)
	}
}

// post takes an envelope: JSON, schema, types, token, gateway, in this order.
func (s *Server) post(w http.ResponseWriter, r *request) {
	if !jsonContent(r.Header.Get("Content-Type")) {
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
	env, perr := parseEnvelope(r.body)
	if perr == nil {
		perr = s.gateway(r, env)
	}
	if perr != nil {
		s.fail(w, perr)
		return
	}
	var ans answer
	switch {
	case env.Body.Action != nil:
		ans = s.submit(r.Context(), env)
	case env.Body.Cancel != nil:
		ans = s.cancelByEnvelope(env)
	case env.Body.Decision != nil:
		ans = s.decide(r.Context(), env)
	default:
		ans.err = newError("aip-gateway", permanent, "capability.unsupported", "this message is not handled here")
	}
	switch {
	case ans.lost:
		abort()
	case ans.gone:
		// Nobody reads this after a dropped connection; after Close it is what a
		// proxy would say.
		plain(w, http.StatusServiceUnavailable, "the daemon is closed")
	case ans.err != nil:
		s.fail(w, ans.err)
	default:
		writeJSON(w, http.StatusOK, s.reply(env, typeOf(ans.key), map[string]any{ans.key: ans.body}))
	}
}

// gateway checks who sends the envelope and whether it was seen before.
func (s *Server) gateway(r *request, env *envelope) *protocolError {
	by, sent, perr := s.bearer(r.Request)
	if perr != nil {
		return perr
	}
	if !sent && s.opts.Token != "" {
		// Without a token the envelope would have to be signed by a trusted key,
		// and this daemon trusts none.
		code := "auth.not_authorized"
		if _, signed := members(env.Security)["signature"]; signed {
			code = "auth.signature.invalid"
		}
		return newError("aip-gateway", auth, code, "the envelope proves no trusted sender")
	}
	now := s.now()
	old, early := now.Sub(env.sentAt) > replayPast, env.sentAt.Sub(now) > replayFuture
	if old || early || !s.store.accept(env.MessageID, env.sentAt) {
		return newError("aip-gateway", auth, "replay.message_id", "the message id was used before, or the envelope is outside the replay window")
	}
	env.caller = by
	return nil
}

// jsonContent accepts application/json and application/*+json.
func jsonContent(header string) bool {
	media, _, err := mime.ParseMediaType(header)
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) {
		return false
	}
	sub, ok := strings.CutPrefix(media, "application/")
	return ok && (sub == "json" || strings.HasSuffix(sub, "+json"))
}

func (s *Server) fail(w http.ResponseWriter, e *protocolError) {
	writeJSON(w, e.httpStatus(), s.errorEnvelope(e))
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(encode(body)) // a client that left is not our error
}

// plain is a rejection of the HTTP framework: no envelope, no JSON.
func plain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}

func (s *Server) health(w http.ResponseWriter, _ *request) {
	writeJSON(w, http.StatusOK, struct {
		Status   string `json:"status"`
		Protocol string `json:"protocol"`
		Version  string `json:"version"`
		Service  string `json:"service"`
		UptimeMS int64  `json:"uptime_ms"`
	}{"ok", "AIP", "1.0", "getaip-server", s.now().Sub(s.startedAt).Milliseconds()})
}

func (s *Server) ready(w http.ResponseWriter, _ *request) {
	writeJSON(w, http.StatusOK, map[string]any{
		"status": "ready",
		"gateway": map[string]any{
			"ready": true, "storage": map[string]any{"ready": true, "detail": nil}, "connectors": struct{}{},
		},
		"supervisor": map[string]any{
			"runtime_worker_running": true, "nats_listener_running": false, "nats_required": false,
			"worker_cycles": s.cycles.Load(), "last_worker_error": nil, "last_worker_success_at": nil,
		},
		"modules": struct{}{},
	})
}
