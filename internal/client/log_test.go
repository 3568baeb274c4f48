package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestTheLogShowsRoutesAndNothingElse: a template for the path, headers of a
// list, sizes, and the daemon's code.
func TestTheLogShowsRoutesAndNothingElse(t *testing.T) {
	const id = canary
	now := time.Date(2030, 1, 15, 9, 30, 0, 0, time.UTC)
	responses := map[string]http.HandlerFunc{
		"success": answer(200, "application/json", `{"canary":"`+canary+`","body":{"action_result":{"action_id":"`+canary+`","status":"completed"}}}`),
		"refusal": answer(401, "application/json", `{"body":{"error":{"error":{"code":"auth.not_authorized","message":"`+canary+`","category":"auth","details":"`+canary+`"}}}}`),
		"page":    answer(502, "text/html", "<html>"+canary+"</html>"),
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "https://elsewhere.example/"+canary)
			w.WriteHeader(307)
		},
	}
	for name, respond := range responses {
		var got []Exchange
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			for _, h := range []string{"Set-Cookie", "X-Echo", "Www-Authenticate", "Etag", "X-Request-Id", "Authorization"} {
				w.Header().Set(h, canary)
			}
			w.Header().Set("Via", "1.1 proxy")
			w.Header().Set("Retry-After", "3")
			respond(w, r)
		})
		c := open(t, url, func(o *Options) {
			o.Log = func(x Exchange) { got = append(got, x) }
			o.Now = func() time.Time { now = now.Add(time.Second); return now }
		})
		for _, call := range calls {
			_ = call.do(t.Context(), c)
		}
		wantRoutes := []string{
			"POST /aip/v1/messages", "GET /aip/v1/actions/{action_id}/result", "GET /aip/v1/actions/{action_id}", "GET /aip/v1/actions/{action_id}/events",
			"GET /aip/v1/actions/{action_id}/events?follow", "POST /aip/v1/actions/{action_id}/cancel", "GET /ready",
			"GET /aip/v1/capabilities", "GET /aip/v1/manifest", "GET /aip/v1/actions",
		}
		var routes []string
		for _, x := range got {
			routes = append(routes, x.Method+" "+x.Route)
			if s := fmt.Sprintf("%+v", x); strings.Contains(s, id) {
				t.Errorf("%s: an entry holds what it must not: %s", name, s)
			}
			if x.Took != time.Second || x.Failure != "" || x.Header["Via"] != "1.1 proxy" || x.Header["Retry-After"] != "3" {
				t.Errorf("%s: %+v", name, x)
			}
			for h := range x.Header {
				if !slices.Contains(LoggedHeaders(), h) {
					t.Errorf("%s: the header %s is logged", name, h)
				}
			}
		}
		if !slices.Equal(routes, wantRoutes) {
			t.Errorf("%s: the routes are %q", name, routes)
		}
		first := got[0]
		wantCode := map[string]string{"refusal": "auth.not_authorized"}[name]
		wantStatus := map[string]int{"success": 200, "refusal": 401, "page": 502, "redirect": 307}[name]
		if first.Sent != len(`{"body":"CANARY"}`) || first.Status != wantStatus || first.Code != wantCode {
			t.Errorf("%s: the submit is logged as %+v", name, first)
		}
	}
}

func TestTheLogOfWhatWasNotAnswered(t *testing.T) {
	var got []Exchange
	c := open(t, "http://127.0.0.1:1", func(o *Options) { o.Log = func(x Exchange) { got = append(got, x) } })
	dialer(c, func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("dial " + canary)
	})
	for _, call := range calls {
		_ = call.do(t.Context(), c)
	}
	if len(got) != len(calls) {
		t.Fatalf("%d entries", len(got))
	}
	for _, x := range got {
		if x.Status != 0 || x.Failure == "" || strings.Contains(fmt.Sprintf("%+v", x), canary) {
			t.Errorf("%+v", x)
		}
	}
}

func TestARepeatedReadIsLoggedTwice(t *testing.T) {
	var got []int
	url, _ := guarded(t, "new")
	src := &rotating{tokens: []string{"old", "new"}}
	c := open(t, url, func(o *Options) { o.Token, o.Log = src.next, func(x Exchange) { got = append(got, x.Status) } })
	_, _ = c.Status(t.Context(), "act_1")
	if !slices.Equal(got, []int{401, 200}) {
		t.Errorf("the statuses logged are %d", got)
	}
}

func TestTheListOfHeadersIsTheReaders(t *testing.T) {
	list := LoggedHeaders()
	for i := range list {
		list[i] = "Set-Cookie"
	}
	if slices.Contains(LoggedHeaders(), "Set-Cookie") {
		t.Error("who changes the list changes what is logged")
	}
}
