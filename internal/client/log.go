package client

import (
	"net/http"
	"time"
)

// Exchange is one request and its answer as far as a log may show them: the
// route as a template, never a path with ids, a query value, a token or a
// byte of a body.
type Exchange struct {
	Method   string
	Route    string
	Status   int // 0 when there was no answer
	Took     time.Duration
	Sent     int               // bytes of the request body
	Received int64             // Content-Length; -1 when the daemon did not say
	Header   map[string]string // allow-listed response headers
	Code     string            // the daemon's error code
	Failure  string            // why there was no answer, in our own words
}

// loggedHeaders is the whole list of response headers that a log may show.
var loggedHeaders = []string{"Content-Type", "Content-Length", "Date", "Retry-After", "Transfer-Encoding", "Connection", "Server", "Via"}

func allowedHeaders(h http.Header) map[string]string {
	m := map[string]string{}
	for _, name := range loggedHeaders {
		if v := h.Get(name); v != "" {
			m[name] = v
		}
	}
	return m
}

func (c *Client) log(x Exchange) {
	if c.o.Log != nil {
		c.o.Log(x)
	}
}

// LoggedHeaders returns the names of the response headers that a log may
// show, in the order in which it shows them.
func LoggedHeaders() []string { return append([]string(nil), loggedHeaders...) }
