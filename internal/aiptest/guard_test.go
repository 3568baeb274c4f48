package aiptest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
)

// spy takes the place of a test that is expected to fail.
type spy struct {
	testing.TB
	errors []string
}

func (s *spy) Errorf(format string, args ...any) {
	s.errors = append(s.errors, fmt.Sprintf(format, args...))
}

func TestGuardRefusesEverythingButLoopback(t *testing.T) {
	for _, addr := range []string{"192.0.2.1:80", "[2001:db8::1]:443", "example.com:80", "10.0.0.1:8642", "0.0.0.0:80"} {
		s := &spy{TB: t}
		if c, err := GuardNetwork(s).DialContext(t.Context(), "tcp", addr); err == nil {
			c.Close()
			t.Errorf("%s was dialled", addr)
		}
		if len(s.errors) != 1 {
			t.Errorf("%s failed the test %d times, want once", addr, len(s.errors))
		}
	}
}

func TestGuardChecksWhatANameResolvedTo(t *testing.T) {
	s := &spy{TB: t}
	g := GuardNetwork(s)
	if err := g.dialer.Control("tcp4", "192.0.2.1:80", nil); err == nil || len(s.errors) != 1 {
		t.Errorf("error %v, failures %v", err, s.errors)
	}
}

func TestGuardLetsLoopbackThrough(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	defer srv.Close()
	s := &spy{TB: t}
	res, err := (&http.Client{Transport: GuardNetwork(s)}).Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if len(s.errors) != 0 {
		t.Errorf("loopback failed the test: %v", s.errors)
	}
}
