package client

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"testing"

	"github.com/aipctl/aipctl/internal/aip"
)

func TestApprovalsAreReadWithoutATenant(t *testing.T) {
	var got []string
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Method+" "+r.URL.EscapedPath()+"?"+r.URL.RawQuery)
		body := `{"approval_record_view":{"request":{"id":"appr_1"},"status":"pending"}}`
		if r.URL.Path == "/aip/v1/approvals" {
			body = `{"approval_list":{"approvals":[{"request":{"id":"appr_1"},"status":"pending"}],"cursor":"offset:1"}}`
		}
		answer(200, "application/json", body)(w, r)
	})
	c := open(t, url, nil)
	v, err := c.Approval(t.Context(), "appr_1/x", false)
	if err != nil || v.Request.ID != "appr_1" {
		t.Errorf("%+v, %v", v, err)
	}
	if _, err := c.Approval(t.Context(), "appr_1", true); err != nil {
		t.Error(err)
	}
	views, cursor, err := c.Approvals(t.Context(), "pending", "offset:0")
	if err != nil || len(views) != 1 || cursor != "offset:1" {
		t.Errorf("%v, %q, %v", views, cursor, err)
	}
	want := []string{
		"GET /aip/v1/approvals/appr_1%2Fx?include_action_status=true",
		"GET /aip/v1/approvals/appr_1?include_action_status=true&include_evidence_payload=true",
		"GET /aip/v1/approvals?cursor=offset%3A0&limit=1000&status=pending",
	}
	if len(got) != len(want) {
		t.Fatalf("requests %q", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("request %q, want %q", got[i], want[i])
		}
	}
}

func TestADecisionIsPostedOnce(t *testing.T) {
	const envelope = `{"body":{"approval_decision":{}}}`
	for _, tc := range []struct {
		rule   string
		handle func(w *wire, c *net.TCPConn, r *bufio.Reader)
		fine   bool
	}{
		{"an answer", says(ok(`{"body":{"event_stream":{"events":[{"kind":"aip.approval.granted"}]}}}`)), true},
		{"an answer that is none of a decision", says(ok(result)), false},
		{"reset after the body", func(w *wire, c *net.TCPConn, r *bufio.Reader) { w.take(r); reset(c) }, false},
		{"a proxy that is busy", says("HTTP/1.1 503 Service Unavailable\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n"), false},
	} {
		w := plug(t, tc.handle)
		events, err := open(t, w.URL, nil).Decide(t.Context(), []byte(envelope))
		if (err == nil) != tc.fine || tc.fine && (len(events) != 1 || events[0].Kind != "aip.approval.granted") {
			t.Errorf("%s: %v, %v", tc.rule, events, err)
		}
		if conns, requests := w.seen(); conns != 1 || len(requests) != 1 {
			t.Errorf("%s: %d connections, requests %q", tc.rule, conns, requests)
		}
	}
	url := serve(t, answer(401, "application/json", `{"body":{"error":{"error":{"code":"auth.not_authorized","category":"auth","message":"`+canary+`"}}}}`))
	_, err := open(t, url, nil).Decide(t.Context(), []byte(envelope))
	var remote *aip.RemoteError
	if !errors.As(err, &remote) || remote.Code() != "auth.not_authorized" {
		t.Errorf("got %v", err)
	}
}
