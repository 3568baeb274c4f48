package devserver

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// params is a query string. Unknown parameters are ignored; known ones of the
// wrong type are refused by the framework before any handler runs.
type params struct{ url.Values }

// The typed parameters of each reading route.
var (
	listParams   = []string{"limit", "include_results", "include_receipts"}
	statusParams = []string{"include_result", "include_receipts", "include_chunks", "wait_ms"}
	resultParams = []string{"wait_ms", "include_receipt", "include_terminal_events"}
	eventsParams = []string{"limit", "include_chunks", "follow"}
)

// parseParams reads a query and checks the typed parameters: booleans are
// literally true or false, limit and wait_ms are unsigned.
func parseParams(raw string, typed []string) (params, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return params{}, err
	}
	for _, name := range typed {
		if !values.Has(name) {
			continue
		}
		v, ok := values.Get(name), true
		switch name {
		case "limit":
			_, err = strconv.ParseUint(v, 10, 32)
		case "wait_ms":
			_, err = strconv.ParseUint(v, 10, 64)
		default:
			ok = v == "true" || v == "false"
		}
		if err != nil || !ok {
			return params{}, errors.New(name + " has the wrong type")
		}
	}
	return params{values}, nil
}

func (p params) isTrue(name string) bool { return p.Get(name) == "true" }

// limit is 100 by default and never outside 1 to 1000.
func (p params) limit() int {
	if !p.Has("limit") {
		return 100
	}
	n, _ := strconv.ParseUint(p.Get("limit"), 10, 32) // checked by parseParams
	return int(min(max(n, 1), 1000))
}

// offset reads the cursor of a list; 0 without one.
func (p params) offset() (int, *protocolError) {
	if !p.Has("cursor") {
		return 0, nil
	}
	text, ok := strings.CutPrefix(p.Get("cursor"), "offset:")
	n, err := strconv.ParseUint(text, 10, 31)
	if !ok || err != nil {
		e := newError("aip-runtime", permanent, "query.invalid_cursor", "the cursor has no known form")
		return 0, e.with(map[string]string{"cursor": p.Get("cursor"), "expected_format": "offset:<n>"})
	}
	return int(n), nil
}

// kinds merges the list and the single form.
func (p params) kinds() []string {
	var kinds []string
	for _, k := range append(strings.Split(p.Get("kinds"), ","), p.Get("kind")) {
		if k = strings.TrimSpace(k); k != "" {
			kinds = append(kinds, k)
		}
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

func (s *Server) status(w http.ResponseWriter, r *request) {
	if err := s.mayUse(r.caller, r.id, "read"); err != nil {
		s.fail(w, err)
		return
	}
	view := s.store.status(r.id, r.query.isTrue("include_result"), r.query.isTrue("include_chunks"))
	writeJSON(w, http.StatusOK, map[string]any{"action_status": view})
}

func (s *Server) result(w http.ResponseWriter, r *request) {
	err := s.mayUse(r.caller, r.id, "read")
	var res actionResult
	if err == nil {
		res, err = s.store.result(r.id)
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"action_result": res})
}

// listStates are the states that the list filter knows.
var listStates = []string{
	"unknown", "accepted", "queued", "running", "streaming", "pending_approval", "cancelling",
	"cancelled", "completed", "failed", "expired", "dead_lettered",
}

func (s *Server) list(w http.ResponseWriter, r *request) {
	if err := r.caller.lacks("action", "read"); err != nil {
		s.fail(w, err)
		return
	}
	q := r.query
	f := listFilter{
		state: q.Get("state"), capability: q.Get("capability_id"),
		session: q.Get("session_id"), principal: q.Get("principal_id"),
		impossible:  q.Get("approval_id") != "" || q.Get("transaction_id") != "",
		withResults: q.isTrue("include_results"), limit: q.limit(), caller: r.caller,
	}
	if q.Has("state") && !slices.Contains(listStates, f.state) {
		s.fail(w, newError("aip.server.http", permanent, "query.invalid", "no such state"))
		return
	}
	var err *protocolError
	if f.offset, err = q.offset(); err != nil {
		s.fail(w, err)
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"action_list": s.store.list(f)})
}

// events is the page and the follow form of one action's events. The chunks
// route is the same with the kind and the chunks forced.
func (s *Server) events(w http.ResponseWriter, r *request, chunksOnly bool) {
	q := pageQuery{
		actionID: r.id, kinds: r.query.kinds(),
		chunks: r.query.isTrue("include_chunks"), limit: r.query.limit(),
	}
	if chunksOnly {
		q.kinds, q.chunks = []string{"aip.stream.chunk"}, true
	}
	cursor, given := r.query.Get("cursor"), r.query.Has("cursor")
	if r.query.isTrue("follow") {
		if header := strings.TrimSpace(r.Header.Get("Last-Event-ID")); !given && header != "" {
			cursor, given = header, true
		}
		s.follow(w, r, q, cursor, given)
		return
	}
	var from position
	err := s.mayUse(r.caller, r.id, "read")
	if err == nil && given {
		from, err = parsePosition(cursor)
	}
	var p page
	if err == nil {
		p, err = s.store.page(q, from)
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"action_events": struct {
		ActionID string  `json:"action_id"`
		Events   []event `json:"events"`
		Chunks   []chunk `json:"chunks,omitempty"`
		Cursor   string  `json:"cursor"`
		Terminal bool    `json:"terminal"`
	}{p.ActionID, p.Events, p.Chunks, p.Cursor.String(), p.Terminal}})
}
