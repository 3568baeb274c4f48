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
	body  []byte
	id    string // the action id of the path
	query params
}

// route is what one method of one path does. Open routes look at no token, or
// do so themselves.
type route struct {
	open   bool
	typed  []string // query parameters with a type; see parseParams
	handle func(http.ResponseWriter, *request)
}

// routes returns the methods of a path below the prefix; nil for an unknown
// path. The action id, when there is one, is the second result.
func (s *Server) routes(path string) (map[string]route, string) {
	switch path {
	case "/", "/health", "/aip/v1/health":
		return map[string]route{"GET": {open: true, handle: s.health}}, ""
	case "/ready":
		return map[string]route{"GET": {open: true, handle: s.ready}}, ""
	case "/aip/v1/manifest":
		return map[string]route{"GET": {open: true, handle: s.manifest}}, ""
	case "/aip/v1/messages":
		return map[string]route{"POST": {open: true, handle: s.post}}, ""
	case "/aip/v1/actions":
		return map[string]route{"GET": {typed: listParams, handle: s.list}, "POST": {handle: s.post}}, ""
	}
	rest, ok := strings.CutPrefix(path, "/aip/v1/actions/")
	escaped, verb, deeper := strings.Cut(rest, "/")
	id, err := url.PathUnescape(escaped)
	if !ok || err != nil || id == "" || deeper && verb == "" {
		return nil, ""
	}
	switch verb {
	case "":
		return map[string]route{"GET": {typed: statusParams, handle: s.status}}, id
	case "result":
		return map[string]route{"GET": {typed: resultParams, handle: s.result}}, id
	case "events", "chunks":
		return map[string]route{"GET": {typed: eventsParams, handle: func(w http.ResponseWriter, r *request) {
			s.events(w, r, verb == "chunks")
		}}}, id
	case "cancel":
		return map[string]route{"POST": {handle: s.cancel}}, id
	}
	return nil, ""
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
	if !rt.open {
		if perr := s.admit(r); perr != nil {
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
	if id != "" && !validActionID(id) {
		s.fail(w, newError("aip.server.http", permanent, "query.invalid", "the path holds no action id"))
		return
	}
	rt.handle(w, &request{Request: r, body: body, id: id, query: query})
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

// bearer reads the static token. A scheme other than "Bearer ", in exactly that
// spelling, counts as no token at all; a token that is sent must be right.
func (s *Server) bearer(r *http.Request) (sent bool, err *protocolError) {
	token, sent := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if sent && (s.opts.Token == "" || token != s.opts.Token) {
		return true, unauthorized("the token is not valid here")
	}
	return sent, nil
}

// admit is the check in front of every route that is not open.
func (s *Server) admit(r *http.Request) *protocolError {
	sent, err := s.bearer(r)
	if err == nil && !sent && s.opts.Token != "" {
		err = unauthorized("no token was presented")
	}
	return err
}

func unauthorized(message string) *protocolError {
	return newError("aip.server.native_http", auth, "auth.native_http_unauthorized", message)
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
	default:
		ans.err = newError("aip-gateway", permanent, "capability.unsupported", "this message is not handled here")
	}
	switch {
	case ans.gone:
		// Nobody reads this after a dropped connection; after Close it is what a
		// proxy would say.
		plain(w, http.StatusServiceUnavailable, "the daemon is closed")
	case ans.err != nil:
		s.fail(w, ans.err)
	default:
		writeJSON(w, http.StatusOK, s.reply(env, "aip.core.v1."+ans.key, map[string]any{ans.key: ans.body}))
	}
}

// gateway checks who sends the envelope and whether it was seen before.
func (s *Server) gateway(r *request, env *envelope) *protocolError {
	sent, perr := s.bearer(r.Request)
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
