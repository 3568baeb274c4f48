package identity

import (
	"strings"
	"testing"

	"github.com/aipctl/aipctl/internal/fault"
)

func TestAPrincipalIsKindAndID(t *testing.T) {
	for _, tc := range []struct{ in, kind, plain, custom string }{
		{"human:dana", "human", "dana", "human:dana"},
		{"human:human:dana", "human", "human:dana", "human:dana"},
		{"human:example:reviewer", "human", "example:reviewer", "human:example:reviewer"},
		{"service:service:a:b", "service", "service:a:b", "service:a:b"},
	} {
		p, err := ParsePrincipal(tc.in)
		if err != nil || p.Kind != tc.kind || p.ID(false) != tc.plain || p.ID(true) != tc.custom {
			t.Errorf("%s: %+v, %q, %q, %v", tc.in, p, p.ID(false), p.ID(true), err)
		}
	}
	for _, in := range []string{"", "dana", "human:", ":dana", "Human:dana", "person:dana", "human: dana", "human:da\x1bna", "human:da na", "human:\xff"} {
		_, err := ParsePrincipal(in)
		f := fault.As(err)
		if f == nil || f.Class != fault.Usage || f.Hint == "" {
			t.Errorf("%q: %v", in, err)
		}
	}
}

func TestIdsOfOtherObjects(t *testing.T) {
	for in, says := range map[string]string{
		"resp_0123abcd": "", "plain-ID_7": "", strings.Repeat("a", 512): "",
		"": "1 to 512", "a/b": "1 to 512", "a b": "1 to 512", "..": "1 to 512", "ä": "1 to 512", strings.Repeat("a", 513): "1 to 512",
		"act_1": "aipctl action result", "appr_1": "aipctl approval get",
	} {
		checkID(t, in, ParseResponseID(in), says)
	}
	for in, says := range map[string]string{
		"appr_1": "", "appr_" + strings.Repeat("a", 120): "",
		"": "1 to 120", "appr_": "1 to 120", "1": "1 to 120", "appr_a/b": "1 to 120", "appr_" + strings.Repeat("a", 121): "1 to 120",
		"act_1": "aipctl action status", "resp_1": "aipctl response get",
	} {
		checkID(t, in, ParseApprovalID(in), says)
	}
}

func checkID(t *testing.T, in string, err error, says string) {
	t.Helper()
	f := fault.As(err)
	switch {
	case says == "" && err != nil:
		t.Errorf("%q is refused: %v", in, err)
	case says != "" && (f == nil || f.Class != fault.Usage || !strings.Contains(f.Message, says) || f.Hint == ""):
		t.Errorf("%q: %v, want what is said about %q", in, err, says)
	}
}
