package engine

import (
	"errors"
	"strings"
	"testing"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/fault"
)

// TestAReadThatFailedHasANextStep: whoever answered, a person is told what to
// try, and is not told to look at the URL when a daemon said that it is busy.
func TestAReadThatFailedHasANextStep(t *testing.T) {
	for _, tc := range []struct {
		rule  string
		err   error
		class fault.Class
		hint  string
	}{
		{"nobody answered", errors.New("the connection was refused"), fault.Unavailable, "that the daemon runs"},
		{"a foreign server", &aip.RemoteError{Status: 404, Form: aip.FormEmpty}, fault.Unavailable, "its path prefix"},
		{"a gateway", &aip.RemoteError{Status: 502, Form: aip.FormEmpty}, fault.Unavailable, "try again"},
		{"a refused token", &aip.RemoteError{Status: 401, Form: aip.FormEmpty}, fault.Auth, "the token"},
	} {
		if f := ReadFault(tc.err); f.Class != tc.class || !strings.Contains(f.Hint, tc.hint) {
			t.Errorf("%s: class %v, hint %q; want %v and %q", tc.rule, f.Class, f.Hint, tc.class, tc.hint)
		}
	}
}
