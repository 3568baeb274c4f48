package client

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// roundTripper answers each request with what the function says.
type roundTripper func(*http.Request) *http.Response

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }

func respond(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}
}

const runningStatus = `{"action_status":{"action_id":"act_1","state":"running"}}`

// A token file may be renewed while several requests are under way.
func TestARefusedTokenIsComparedWithTheOneThatWasSent(t *testing.T) {
	base, err := url.Parse("http://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	file := "old"
	var c *Client
	beside := false
	var sent []string
	c, err = New(Options{Base: base, Token: func() (string, error) { return file, nil }, Transport: roundTripper(func(r *http.Request) *http.Response {
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		sent = append(sent, token)
		if token == "new" {
			return respond(200, runningStatus)
		}
		if !beside {
			// The file changes while this request is under way, and another one
			// goes out with the new token before this one is refused.
			beside, file = true, "new"
			if _, err := c.Status(t.Context(), "act_1"); err != nil {
				t.Errorf("the request beside it: %v", err)
			}
		}
		return respond(401, `{}`)
	})})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Status(t.Context(), "act_1"); err != nil {
		t.Errorf("the refused request was not tried again with the new token: %v", err)
	}
	if got := strings.Join(sent, " "); got != "old new new" {
		t.Errorf("tokens sent %q, want old new new", got)
	}
}

func TestARefusedTokenThatIsStillTheSameIsNotTriedAgain(t *testing.T) {
	base, err := url.Parse("http://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	requests := 0
	c, err := New(Options{Base: base, Token: func() (string, error) { return "old", nil }, Transport: roundTripper(func(*http.Request) *http.Response {
		requests++
		return respond(401, `{}`)
	})})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Status(t.Context(), "act_1"); err == nil || requests != 1 {
		t.Errorf("%d requests, %v; want one, refused", requests, err)
	}
}
