package aip

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestFormsOfAnErrorBody(t *testing.T) {
	coded := func(code string) *ProtocolError { return &ProtocolError{Code: code} }
	for _, tc := range []struct {
		rule, contentType, body string
		form                    Form
		want                    *ProtocolError
	}{
		{"an envelope nests the error twice", "application/json", `{"aip_version":"1.0","body":{"error":{"error":{"code":"auth.not_authorized"}}}}`, FormEnvelope, coded("auth.not_authorized")},
		{"an envelope that nests it once", "application/json", `{"body":{"error":{"code":"auth.not_authorized"}}}`, FormEnvelope, coded("auth.not_authorized")},
		{"the catalogue has no envelope", "application/json", `{"error":{"code":"connector_catalog.disabled"}}`, FormPlain, coded("connector_catalog.disabled")},
		{"nor a category", "application/json", `{"error":{"code":"connector_catalog.invalid_query","message":"m"}}`, FormPlain, &ProtocolError{Code: "connector_catalog.invalid_query", Message: "m"}},
		{"an error frame's form", "application/json", `{"error":{"error":{"code":"c"}}}`, FormPlain, coded("c")},
		{"no content type", "", `{"error":{"code":"c"}}`, FormPlain, coded("c")},
		{"blanks around it", "application/json", " \n{\"error\":{\"code\":\"c\"}}\n", FormPlain, coded("c")},
		{"somebody's JSON", "application/json", `{"detail":"not found"}`, FormJSON, nil},
		{"an error without a code", "application/json", `{"error":{"message":"m"}}`, FormJSON, nil},
		{"an error that is a word", "application/json", `{"error":"not found"}`, FormJSON, nil},
		{"a code that is a number", "application/json", `{"error":{"code":404}}`, FormJSON, nil},
		{"an array", "application/json", `["c"]`, FormJSON, nil},
		{"a string", "application/json", `"c"`, FormJSON, nil},
		{"JSON that breaks off", "application/json", `{"error":{"code":"c"`, FormText, nil},
		{"a framework's words", "text/plain", "Failed to deserialize query string", FormText, nil},
		{"words that call themselves JSON", "application/json", "upstream unavailable", FormText, nil},
		{"a page by its type", "text/html", "Bad gateway", FormHTML, nil},
		{"a page by its look", "application/json", "\n <html><body>{\"error\":{\"code\":\"c\"}}</body></html>", FormHTML, nil},
		{"nothing", "application/json", "", FormEmpty, nil},
		{"blanks", "text/plain", " \r\n", FormEmpty, nil},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			got, form := DecodeError(tc.contentType, []byte(tc.body))
			if form != tc.form {
				t.Errorf("form %s, want %s", form, tc.form)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
	if got, form := DecodeError("application/json", []byte(fixture(t, "reply_error.json"))); form != FormEnvelope || got.Code != "connector.hermes_agent.remote_temporary" {
		t.Errorf("the whole envelope is read as %s %+v", form, got)
	}
}

func TestWhoWroteAnError(t *testing.T) {
	for _, tc := range []struct {
		rule string
		e    RemoteError
		aip  bool
		code string
	}{
		{"an envelope is the daemon's", RemoteError{Form: FormEnvelope, Proto: &ProtocolError{Code: "c"}}, true, "c"},
		{"so is a category", RemoteError{Form: FormPlain, Proto: &ProtocolError{Code: "c", Category: "auth"}}, true, "c"},
		{"a code alone may be anybody's", RemoteError{Form: FormPlain, Proto: &ProtocolError{Code: "c"}}, false, "c"},
		{"a page is somebody's", RemoteError{Form: FormHTML}, false, ""},
		{"nothing is nobody's", RemoteError{}, false, ""},
	} {
		if got := tc.e.AIP(); got != tc.aip || tc.e.Code() != tc.code {
			t.Errorf("%s: the daemon's %v, code %q", tc.rule, got, tc.e.Code())
		}
	}
}

// TestErrorTextsNameNoByteOfTheBody, only status, form and a code that looks
// like one.
func TestErrorTextsNameNoByteOfTheBody(t *testing.T) {
	proto, form := DecodeError("application/json", []byte(fixture(t, "reply_error.json")))
	for _, tc := range []struct {
		rule string
		e    RemoteError
		want string
	}{
		{"the daemon's code", RemoteError{Status: 503, Form: form, Proto: proto}, "HTTP 503, connector.hermes_agent.remote_temporary"},
		{"nothing", RemoteError{Status: 404, Form: FormEmpty}, "HTTP 404 with an empty body"},
		{"a page", RemoteError{Status: 502, Form: FormHTML, ContentType: "text/html"}, "HTTP 502 with an HTML page"},
		{"text", RemoteError{Status: 413, Form: FormText, ContentType: "text/plain"}, "HTTP 413 with plain text"},
		{"JSON", RemoteError{Status: 404, Form: FormJSON, ContentType: "application/json"}, "HTTP 404 with a body of type application/json"},
		{"JSON without a type", RemoteError{Status: 404, Form: FormJSON}, "HTTP 404 with an unknown body"},
		{"an encoding", RemoteError{Status: 200, Form: FormEncoded}, "HTTP 200 with a body in an encoding that was not asked for"},
		{"a redirect", RemoteError{Status: 302, Redirect: "https://login.example"}, "HTTP 302 redirects to https://login.example, which is not followed"},
		{"no event stream", RemoteError{Status: 200, Form: FormHTML, NotStream: true}, "HTTP 200, but an HTML page instead of an event stream"},
		{"words in the place of a code", RemoteError{Status: 400, Form: FormPlain, Proto: &ProtocolError{Code: "the prompt was canary"}}, "HTTP 400 with an error code that is none"},
		{"a control in a code", RemoteError{Status: 400, Form: FormPlain, Proto: &ProtocolError{Code: "auth.\x1b[31m"}}, "HTTP 400 with an error code that is none"},
		{"a long code", RemoteError{Status: 400, Form: FormPlain, Proto: &ProtocolError{Code: strings.Repeat("a", 129)}}, "HTTP 400 with an error code that is none"},
		{"no code", RemoteError{Status: 400, Form: FormPlain, ContentType: "application/json", Proto: &ProtocolError{Message: "canary"}}, "HTTP 400 with a body of type application/json"},
	} {
		if got := tc.e.Error(); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.rule, got, tc.want)
		}
		if strings.Contains(tc.e.Error(), "canary") {
			t.Errorf("%s: the text repeats the body: %s", tc.rule, tc.e.Error())
		}
	}
}

func TestRetryAfterIsBounded(t *testing.T) {
	for ms, want := range map[uint64]time.Duration{
		0: 0, 1: time.Millisecond, 1000: time.Second, 86_400_000: 24 * time.Hour, 86_400_001: 24 * time.Hour,
		math.MaxInt64: 24 * time.Hour, math.MaxInt64 + 1: 24 * time.Hour, math.MaxUint64: 24 * time.Hour,
	} {
		if got := (&ProtocolError{RetryAfterMS: &ms}).RetryAfter(); got != want {
			t.Errorf("%d ms: %s, want %s", ms, got, want)
		}
	}
	var none *ProtocolError
	if none.RetryAfter() != 0 || (&ProtocolError{}).RetryAfter() != 0 {
		t.Error("an error that asks for no wait gets one")
	}
	for text, want := range map[string]time.Duration{
		`9223372036854775807`: 24 * time.Hour, `18446744073709551615`: 24 * time.Hour, `18446744073709551616`: 0, `-5`: 0, `1.5`: 0, `1e3`: 0, `"1000"`: 0, `null`: 0, `1500`: 1500 * time.Millisecond,
	} {
		e, _ := DecodeError("application/json", []byte(`{"error":{"code":"c","retry_after_ms":`+text+`}}`))
		if got := e.RetryAfter(); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestDetails(t *testing.T) {
	yes, no := true, false
	for text, want := range map[string]*bool{
		`{"uncertain_outcome":true}`: &yes, `{"uncertain_outcome":false}`: &no, `{"uncertain_outcome":null}`: nil, `{"uncertain_outcome":"true"}`: nil,
		`{"uncertain_outcome":1}`: nil, `{}`: nil, `[true]`: nil, `null`: nil, ``: nil, `{"x":{"uncertain_outcome":true}}`: nil,
	} {
		if diff := cmp.Diff(want, (&ProtocolError{Details: raw(text)}).Uncertain()); diff != "" {
			t.Errorf("uncertain_outcome of %s: -want +got\n%s", text, diff)
		}
	}
	for text, want := range map[string]int{
		`{"remote_status":404}`: 404, `{"remote_status":null}`: 0, `{"remote_status":"404"}`: 0, `{"remote_status":404.0}`: 0, `{"remote_status":-404}`: 0,
		`{"remote_status":99999}`: 0, `{"remote_status":999}`: 999, `{}`: 0, ``: 0, `5`: 0,
	} {
		if got := (&ProtocolError{Details: raw(text)}).RemoteStatus(); got != want {
			t.Errorf("remote_status of %s is %d, want %d", text, got, want)
		}
	}
	e := &ProtocolError{Details: raw(`{"owner_action_id":"act_0","n":5}`)}
	if e.DetailString("owner_action_id") != "act_0" || e.DetailString("n") != "" || e.DetailString("absent") != "" || string(e.Detail("n")) != "5" {
		t.Errorf("details are read as %q %q %s", e.DetailString("owner_action_id"), e.DetailString("n"), e.Detail("n"))
	}
	var none *ProtocolError
	if none.Uncertain() != nil || none.RemoteStatus() != 0 || none.DetailString("x") != "" {
		t.Error("an error that is not there has details")
	}
}
