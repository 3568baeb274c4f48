package devserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestRoutesOutsideTheTable(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		for _, tc := range []struct {
			method, path string
			want         int
		}{
			{"GET", "/nothing", 404},
			{"GET", "/aip/v1", 404},
			{"GET", "/aip/v1/", 404},
			{"GET", "/aip/v1/actions/", 404},
			{"GET", "/aip/v1/actions/act_1/", 404},
			{"GET", "/aip/v1/actions/act_1/stream", 404},
			{"GET", "/aip/v1/actions/act_1/events/1", 404},
			{"GET", "//health", 404},
			{"GET", "/aip/v2/manifest", 404},
			{"GET", "/aip/v1/capabilities/cap:hermes_agent:demo:chat_stream", 404},
			{"GET", "/aip/v1/approvals/appr_1/approve", 404},
			{"POST", "/aip/v1/approvals/appr_1", 405},
			{"POST", "/aip/v1/approvals", 405},
			{"POST", "/admin", 404},
			{"GET", "/aip/v1/messages", 405},
			{"PUT", "/aip/v1/actions", 405},
			{"POST", "/aip/v1/actions/act_1", 405},
			{"GET", "/aip/v1/actions/act_1/cancel", 405},
			{"DELETE", "/aip/v1/actions/act_1", 405},
			{"POST", "/health", 405},
		} {
			r, err := d.do(t.Context(), tc.method, tc.path, "")
			if err != nil || r.status != tc.want || r.body != "" {
				t.Errorf("%s %s: %d %q %v, want an empty %d", tc.method, tc.path, r.status, r.body, err, tc.want)
			}
		}
	})
}

func TestOpenRoutes(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		sleep(51 * time.Second)
		d.get("/health", "Authorization", "").want(t, 200,
			"/status", "ok", "/protocol", "AIP", "/version", "1.0", "/uptime_ms", "51000")
		d.get("/ready", "Authorization", "").want(t, 200,
			"/status", "ready", "/gateway/ready", "true", "/supervisor/runtime_worker_running", "true", "/supervisor/worker_cycles", "0")
		r := d.get("/aip/v1/manifest", "Authorization", "")
		r.want(t, 200, "/manifest_version", "aip-manifest/v1", "/agent/kind", "agent",
			"/capabilities/0/id", "cap:hermes_agent:demo:chat_stream",
			"/capabilities/0/contract/sla/timeout_ms", "300000",
			"/capabilities/0/contract/idempotency/requirement", "optional",
			"/capabilities/0/bindings/0/operation", "chat_stream")
		listed := r.at(t, "/capabilities").([]any)
		for i, sc := range serves(Scenarios()) {
			if got := listed[i].(map[string]any)["id"]; got != sc.CapabilityID() {
				t.Errorf("capability %d is %v", i, got)
			}
		}
	})
}

func TestPathPrefix(t *testing.T) {
	withDaemon(t, Options{PathPrefix: "/agents/aip/"}, func(t *testing.T, d *daemon) {
		d.prefix = "/agents/aip"
		d.get("/health").want(t, 200)
		d.submit("chat-empty", "act_1", nil).want(t, 200)
		// The daemon does not know of the proxy: its links lack the prefix.
		d.get("/aip/v1/actions/act_1").want(t, 200, "/action_status/links/self", "/aip/v1/actions/act_1")
		if got := d.server.Requests()[0]; got.Path != "/agents/aip/health" {
			t.Errorf("the recorded path is %s", got.Path)
		}
		for _, prefix := range []string{"", "/agents", "/agents/aipx", "/agents/aip/agents/aip"} {
			d.prefix = prefix
			if r := d.get("/health"); r.status != 404 || r.body != "" {
				t.Errorf("under %q: %d", prefix, r.status)
			}
		}
	})
}

func TestBearer(t *testing.T) {
	native := "auth.native_http_unauthorized"
	for _, tc := range []struct {
		rule, header string
		reading      string // code of a GET
		posting      string // code of a POST to messages
	}{
		{"right", "Bearer " + token, "", ""},
		{"wrong", "Bearer other", native, native},
		{"longer", "Bearer " + token + "x", native, native},
		{"empty", "Bearer ", native, native},
		{"none", "", native, "auth.not_authorized"},
		{"other scheme counts as none", "Basic " + token, native, "auth.not_authorized"},
		{"the prefix is case-sensitive", "bearer " + token, native, "auth.not_authorized"},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
				get := d.get("/aip/v1/actions/act_1", "Authorization", tc.header)
				actions := d.post("/aip/v1/actions", "{broken", "Authorization", tc.header)
				post := d.post("/aip/v1/messages", d.envelope("chat-empty", "act_1", nil), "Authorization", tc.header)
				if tc.reading == "" {
					get.want(t, 200)
					actions.wantPlain(t, 400)
					post.want(t, 200)
					return
				}
				get.want(t, 401, code, tc.reading, "/body/error/error/category", "auth",
					"/body/error/error/source/component", "aip.server.native_http", "/message_type", "aip.core.v1.error")
				// On /actions the token is asked before the body is looked at.
				actions.want(t, 401, code, native)
				post.want(t, 401, code, tc.posting)
				// On /messages the form comes first, token or not.
				d.post("/aip/v1/messages", `{}`, "Authorization", tc.header).want(t, 400, code, "schema.envelope.invalid")
				if len(d.server.Submits()) != 0 || get.header.Get("WWW-Authenticate") != "" {
					t.Errorf("submits %v, header %v", d.server.Submits(), get.header)
				}
			})
		})
	}
}

func TestSignedEnvelopeIsNotTrusted(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		env := d.wrap("action", fields{"id": "act_1", "capability_id": "x", "input": 1})
		env["security"] = fields{"did": "did:key:z1", "signature": "c2ln"}
		d.post("/aip/v1/messages", string(encode(env)), "Authorization", "").want(t, 401, code, "auth.signature.invalid")
	})
}

func TestNoTokenConfigured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{})
		defer s.Close()
		d := &daemon{t: t, server: s, client: &http.Client{Transport: memoryTransport{s.Handler()}}}
		d.get("/aip/v1/actions/act_1", "Authorization", "").want(t, 200)
		d.post("/aip/v1/messages", d.envelope("chat-empty", "act_1", nil), "Authorization", "").want(t, 200)
		d.get("/aip/v1/actions/act_1").want(t, 401, code, "auth.native_http_unauthorized")
		// The caller is the daemon's own agent.
		d.get("/aip/v1/actions/act_1/events", "Authorization", "").want(t, 200,
			"/action_events/events/0/actor/id", daemonPrincipal.ID)
	})
}

func TestFrameworkRejections(t *testing.T) {
	same := func(good string) string { return good }
	for _, tc := range []struct {
		rule        string
		body        func(good string) string
		contentType string
		want        int
	}{
		{"no content type", same, "", 415},
		{"form", same, "application/x-www-form-urlencoded", 415},
		{"text", same, "text/json", 415},
		{"broken JSON", func(good string) string { return good[1:] }, "application/json", 400},
		{"two documents", func(good string) string { return good + good }, "application/json", 400},
		{"nothing", func(string) string { return "" }, "application/json", 400},
		{"half a surrogate pair", func(good string) string { return strings.Replace(good, "hello", `\ud83d`, 1) }, "application/json", 400},
		{"invalid UTF-8", func(good string) string { return strings.Replace(good, "hello", "\xff", 1) }, "application/json", 400},
		{"over 2 MiB", func(string) string { return `"` + strings.Repeat("x", maxRequestBody) + `"` }, "application/json", 413},
		{"a JSON dialect with a parameter", same, "application/vnd.aip+json; charset=utf-8", 200},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
				body := tc.body(d.envelope("chat-empty", "act_1", nil))
				r := d.post("/aip/v1/messages", body, "Content-Type", tc.contentType)
				if tc.want == 200 {
					r.want(t, 200, "/body/action_result/status", "completed")
					return
				}
				if r.wantPlain(t, tc.want); len(d.server.Submits()) != 0 {
					t.Errorf("submits %v", d.server.Submits())
				}
			})
		})
	}
}

func TestBodyOfExactlyTwoMebibytes(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		env := d.envelope("chat-empty", "act_1", fields{"memory_context": "PAD"})
		pad := strings.Repeat("x", maxRequestBody-len(env)+len("PAD"))
		env = strings.Replace(env, "PAD", pad, 1)
		if len(env) != maxRequestBody {
			t.Fatalf("%d bytes", len(env))
		}
		d.post("/aip/v1/messages", env).want(t, 200)
		d.post("/aip/v1/messages", env+" ").wantPlain(t, 413)
	})
}

func TestEnvelopeSchema(t *testing.T) {
	for _, tc := range []struct {
		rule string
		edit func(env, action fields)
		code string
	}{
		{"unknown key in the envelope", func(e, a fields) { e["tenant"] = "x" }, "schema.envelope.invalid"},
		{"unknown key in the action", func(e, a fields) { a["max_events"] = 5 }, "schema.envelope.invalid"},
		{"unknown key in a principal", func(e, a fields) { e["from"] = fields{"id": "x", "kind": "agent", "x": 1} }, "schema.envelope.invalid"},
		{"unknown key in observability", func(e, a fields) { a["observability"] = fields{"x": 1} }, "schema.envelope.invalid"},
		{"unknown kind of principal", func(e, a fields) { e["from"] = fields{"id": "x", "kind": "robot"} }, "schema.envelope.invalid"},
		{"other version", func(e, a fields) { e["aip_version"] = "2.0" }, "schema.envelope.invalid"},
		{"unregistered message type", func(e, a fields) { e["message_type"] = "aip.core.v2.action" }, "schema.envelope.invalid"},
		{"missing message id", func(e, a fields) { delete(e, "message_id") }, "schema.envelope.invalid"},
		{"missing input", func(e, a fields) { delete(a, "input") }, "schema.envelope.invalid"},
		{"two bodies", func(e, a fields) { e["body"].(fields)["cancel"] = fields{} }, "schema.envelope.invalid"},
		{"no body", func(e, a fields) { e["body"] = fields{} }, "schema.envelope.invalid"},
		{"unknown body", func(e, a fields) { e["body"] = fields{"act": a} }, "schema.envelope.invalid"},
		{"unknown mode", func(e, a fields) { a["mode"] = "stream" }, "schema.envelope.invalid"},
		{"timeout as text", func(e, a fields) { a["timeout_ms"] = "5" }, "schema.envelope.invalid"},
		{"negative timeout", func(e, a fields) { a["timeout_ms"] = -5 }, "schema.envelope.invalid"},
		{"null for a required member", func(e, a fields) { a["id"] = nil }, "schema.envelope.invalid"},
		{"sent_at that is no time", func(e, a fields) { e["sent_at"] = "today" }, "envelope.decode.invalid"},
		{"a body this daemon does not work on", func(e, a fields) { e["body"] = fields{"heartbeat": fields{}} }, "capability.unsupported"},
		{"an approval query", func(e, a fields) { e["body"] = fields{"approval_query_request": fields{}} }, "capability.unsupported"},
		{"an empty approval decision", func(e, a fields) { e["body"] = fields{"approval_decision": fields{}} }, "schema.envelope.invalid"},
		{"null for an optional member", func(e, a fields) { a["idempotency_key"], e["session_id"], e["from"] = nil, nil, nil }, ""},
		{"open members", func(e, a fields) {
			e["trace"], e["extensions"], a["memory_context"] = fields{"x": 1}, 1, fields{"y": 1}
		}, ""},
		{"a message type of another body", func(e, a fields) { e["message_type"] = "aip.core.v1.cancel" }, ""},
		{"an id without its prefix", func(e, a fields) { a["id"] = "foo-1" }, ""},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
				a := fields{"id": "act_1", "capability_id": "cap:hermes_agent:chat-empty:chat_stream", "input": fields{"prompt": "x"}}
				env := d.wrap("action", a)
				tc.edit(env, a)
				r := d.post("/aip/v1/messages", string(encode(env)))
				if tc.code == "" {
					r.want(t, 200, "/body/action_result/status", "completed")
					return
				}
				r.want(t, 400, code, tc.code, "/body/error/error/category", "permanent", "/body/error/error/retryable", "false")
			})
		})
	}
}

func TestAnyJSONThatIsNoEnvelope(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		for _, body := range []string{`[]`, `null`, `7`, `"x"`, `{}`} {
			d.post("/aip/v1/messages", body).want(t, 400, code, "schema.envelope.invalid")
		}
	})
}

// TestForeignIDCannotBeReadBack: bodies are not checked for the prefix, paths
// are.
func TestForeignIDCannotBeReadBack(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		d.submit("chat-empty", "foo-1", nil).want(t, 200)
		for _, path := range []string{"", "/result", "/events", "/chunks", "/events?follow=true"} {
			d.get("/aip/v1/actions/foo-1"+path).want(t, 400,
				code, "query.invalid", "/body/error/error/source/component", "aip.server.http")
		}
		d.post("/aip/v1/actions/foo-1/cancel", "").want(t, 400, code, "query.invalid")
		d.get("/aip/v1/actions/act_").want(t, 400, code, "query.invalid")
		d.get("/aip/v1/actions/act%5F1").want(t, 200, "/action_status/action_id", "act_1")
	})
}

func TestReplayWindow(t *testing.T) {
	for _, tc := range []struct {
		rule string
		age  time.Duration
		skew time.Duration
		want int
	}{
		{"now", 0, 0, 200},
		{"300 s old", 300 * time.Second, 0, 200},
		{"older", 301 * time.Second, 0, 401},
		{"30 s ahead", -30 * time.Second, 0, 200},
		{"further ahead", -31 * time.Second, 0, 401},
		{"the daemon's clock counts", 0, time.Hour, 401},
		{"in its own time", -time.Hour, time.Hour, 200},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			withDaemon(t, Options{ClockSkew: tc.skew}, func(t *testing.T, d *daemon) {
				env := d.wrap("action", fields{"id": "act_1", "capability_id": "cap:hermes_agent:chat-empty:chat_stream", "input": fields{"prompt": "x"}})
				env["sent_at"] = timestamp(time.Now().Add(-tc.age))
				r := d.post("/aip/v1/messages", string(encode(env)))
				if r.want(t, tc.want); tc.want == 401 {
					r.want(t, 401, code, "replay.message_id", "/body/error/error/category", "auth")
				}
				if got, want := r.header.Get("Date"), time.Now().Add(tc.skew).UTC().Format(http.TimeFormat); got != want {
					t.Errorf("the Date header is %s, want %s", got, want)
				}
			})
		})
	}
}

func TestMessageIDWorksOnce(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		env := d.envelope("chat-empty", "act_1", nil)
		d.post("/aip/v1/messages", env).want(t, 200)
		d.post("/aip/v1/messages", env).want(t, 401, code, "replay.message_id")
		// A request that failed has used its id up too.
		bad := d.envelope("nobody", "act_2", nil)
		d.post("/aip/v1/actions", bad).want(t, 400, code, "resource.not_found")
		d.post("/aip/v1/messages", bad).want(t, 401, code, "replay.message_id")
		if got := d.server.Submits(); !reflect.DeepEqual(got, []string{"act_1", "act_2"}) {
			t.Errorf("submits are %v", got)
		}
	})
}

func TestQueryTypes(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		for _, path := range []string{
			"/aip/v1/actions/act_1/events?limit=-1", "/aip/v1/actions/act_1/events?limit=x",
			"/aip/v1/actions/act_1/events?limit=4294967296", "/aip/v1/actions/act_1/events?follow=1",
			"/aip/v1/actions/act_1/events?follow=true&include_chunks=yes", "/aip/v1/actions/act_1/chunks?follow=True",
			"/aip/v1/actions/act_1?include_result=", "/aip/v1/actions/act_1?wait_ms=-1", "/aip/v1/actions?limit=1.5",
		} {
			d.get(path).wantPlain(t, 400)
		}
		// Unknown parameters are ignored, wait_ms does not wait.
		start := time.Now()
		d.get("/aip/v1/actions/act_1?follow=maybe&x=y&wait_ms=30000").want(t, 200)
		d.get("/aip/v1/actions/act_1/result?wait_ms=30000&include_receipt=true").want(t, 400, code, "action.not_found")
		if waited := time.Since(start); waited != 0 {
			t.Errorf("waited %v", waited)
		}
		for _, path := range []string{"", "/act_1", "/act_1/result", "/act_1/events", "/act_1/chunks", "/act_1/events?follow=true"} {
			sep := "?"
			if strings.Contains(path, "?") {
				sep = "&"
			}
			d.get("/aip/v1/actions"+path+sep+"tenant_id=t").want(t, 401, code, "auth.tenant_required")
		}
	})
}

func TestActionList(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		for i, name := range []string{"chat-stop", "chat-timeout", "chat-approval", "chat-empty"} {
			d.submit(name, fmt.Sprintf("act_%d", 9-i), nil).want(t, 200)
			sleep(time.Second)
		}
		ids := func(query string) string {
			r := d.get("/aip/v1/actions" + query)
			r.want(t, 200)
			var out []string
			for _, a := range r.at(t, "/action_list/actions").([]any) {
				out = append(out, a.(map[string]any)["action_id"].(string))
			}
			return fmt.Sprint(strings.Join(out, " "), " of ", r.at(t, "/action_list/total_size"), " then ", r.at(t, "/action_list/cursor"))
		}
		for _, tc := range []struct{ rule, query, want string }{
			{"by last change", "", "act_9 act_8 act_7 act_6 of 4 then <nil>"},
			{"pages", "?limit=3", "act_9 act_8 act_7 of 4 then offset:3"},
			{"the last page has no cursor", "?limit=3&cursor=offset:3", "act_6 of 4 then <nil>"},
			{"beyond the end", "?cursor=offset:30", " of 4 then <nil>"},
			{"limit 0 becomes 1", "?limit=0", "act_9 of 4 then offset:1"},
			{"by state", "?state=pending_approval", "act_7 of 1 then <nil>"},
			{"by capability", "?capability_id=cap:hermes_agent:chat-empty:chat_stream", "act_6 of 1 then <nil>"},
			{"by principal", "?principal_id=human:other", " of 0 then <nil>"},
			{"by the edge principal", "?principal_id=" + edgePrincipal.ID, "act_9 act_8 act_7 act_6 of 4 then <nil>"},
			{"by session", "?session_id=sess_1", " of 0 then <nil>"},
			{"by transaction", "?transaction_id=txn_1", " of 0 then <nil>"},
		} {
			if got := ids(tc.query); got != tc.want {
				t.Errorf("%s: %s, want %s", tc.rule, got, tc.want)
			}
		}
		d.get("/aip/v1/actions?include_results=true").want(t, 200, "/action_list/actions/0/result/status", "completed")
		d.get("/aip/v1/actions").want(t, 200, "/action_list/actions/0/result", "<nil>")
		d.get("/aip/v1/actions?state=done").want(t, 400, code, "query.invalid")
		for _, cursor := range []string{"3", "offset:", "offset:-1", "aev_cursor_1_none", ""} {
			r := d.get("/aip/v1/actions?cursor=" + cursor)
			r.want(t, 400, code, "query.invalid_cursor", "/body/error/error/details/cursor", cursor)
			if r.at(t, "/body/error/error/details/expected_format") == nil {
				t.Errorf("the expected format is not named")
			}
		}
	})
}

func TestRequestsAreRecordedBeforeTheyAreAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []Request
		hold := make(chan struct{})
		runDaemon(t, Options{Hooks: Hooks{Request: func(r Request) {
			if seen = append(seen, r); r.Method == "POST" {
				<-hold
			}
		}}}, func(t *testing.T, d *daemon) {
			d.get("/aip/v1/actions/act_1?include_chunks=true", "Last-Event-ID", "x")
			d.get("/nothing")
			done := d.submitting(t.Context(), "chat-empty", "act_1", nil)
			synctest.Wait()
			if d.server.Executions("act_1") != 0 {
				t.Errorf("the action ran before the hook returned")
			}
			close(hold)
			(<-done).want(t, 200)
			got := d.server.Requests()
			if len(got) != 3 || !reflect.DeepEqual(got, seen) {
				t.Fatalf("%d requests, %d seen", len(got), len(seen))
			}
			if got[0].Method != "GET" || got[0].Path != "/aip/v1/actions/act_1" || got[0].Query != "include_chunks=true" ||
				got[0].Header.Get("Last-Event-ID") != "x" || len(got[0].Body) != 0 {
				t.Errorf("the first request is %+v", got[0])
			}
			if !json.Valid(got[2].Body) || !strings.Contains(string(got[2].Body), `"act_1"`) {
				t.Errorf("the body is %s", got[2].Body)
			}
		})
	})
}

func TestTimestampsAreUTC(t *testing.T) {
	at := timestamp(time.Date(2030, 1, 15, 10, 30, 0, 125e6, time.FixedZone("", 3600)))
	if got := string(encode(at)); got != `"2030-01-15T09:30:00.125Z"` {
		t.Errorf("got %s", got)
	}
	if got := fmt.Sprint(looseTime(time.Time(at))); got != "[2030 15 9 30 0 125000000 0 0 0]" {
		t.Errorf("got %s", got)
	}
}

func TestIDsSortByTime(t *testing.T) {
	a, b := newID("act_", time.UnixMilli(1893456000000)), newID("act_", time.UnixMilli(1893456000001))
	if a >= b || len(a) != len("act_")+32 || a[4+12] != '7' || !validActionID(a) {
		t.Errorf("%s and %s", a, b)
	}
}

// TestOverASocket plays one action through a real server, with a follower on a
// connection of its own and another that leaves.
func TestOverASocket(t *testing.T) {
	s := New(Options{Token: token, PathPrefix: "/p"})
	ts := httptest.NewServer(s.Handler())
	defer ts.Close()
	defer s.Close()
	d := &daemon{t: t, server: s, prefix: "/p", client: &http.Client{Transport: redirectTo{ts.URL, ts.Client().Transport}}}
	d.submit("responses-large", "act_1", fields{"input": fields{"body": fields{"input": "x"}}}).want(t, 200)
	got := rest(d.follow(t.Context(), follow))
	if len(got) == 0 || got[len(got)-1].name != "aip.stream.terminal" {
		t.Errorf("the stream is %s", names(got))
	}
	r := d.get("/health")
	if r.want(t, 200); len(r.header["Date"]) != 1 {
		t.Errorf("Date headers %v", r.header["Date"])
	}
}

// redirectTo sends requests to a test server whatever host they name.
type redirectTo struct {
	base string
	next http.RoundTripper
}

func (x redirectTo) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Host = strings.TrimPrefix(x.base, "http://")
	return x.next.RoundTrip(r)
}
