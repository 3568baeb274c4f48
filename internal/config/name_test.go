package config

import (
	"strings"
	"testing"

	"github.com/aipctl/aipctl/internal/fault"
)

func TestCheckName(t *testing.T) {
	for name, good := range map[string]bool{
		"lab": true, "a": true, "7": true, "EU-west_1": true, strings.Repeat("n", 63): true,
		"": false, strings.Repeat("n", 64): false, "-lab": false, "_lab": false, "a.b": false, "a b": false, "a/b": false,
		"lab\n": false, "é": false, "a\x1b[31m": false, `a"b`: false, "http://x": false,
	} {
		err := CheckName(name)
		if good != (err == nil) {
			t.Errorf("%q: %v", name, err)
		}
		if e := fault.As(err); e != nil && (e.Class != fault.Usage || e.Hint == "") {
			t.Errorf("%q: %v, hint %q", name, e, e.Hint)
		}
	}
}

func TestEveryFieldHasAKey(t *testing.T) {
	c := Context{Name: "n", URL: "1", TokenFile: "2", Endpoint: "3", CAFile: "4", Principal: "5", Tenant: "6"}
	got := ""
	for _, name := range Fields() {
		got += c.Field(name)
	}
	if got != "123456" || c.Field("name") != "" {
		t.Errorf("got %q", got)
	}
}
