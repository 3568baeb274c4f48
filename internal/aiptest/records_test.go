package aiptest

import (
	"fmt"
	"strings"
	"testing"
)

// told is a test that only keeps what it is told.
type told struct {
	testing.TB
	errors []string
}

func (t *told) Helper() {}
func (t *told) Errorf(format string, args ...any) {
	t.errors = append(t.errors, fmt.Sprintf(format, args...))
}

func TestCheckRecords(t *testing.T) {
	for rule, tc := range map[string]struct{ line, says string }{
		"a record":                      {`{"v":1,"type":"gap","from":0,"to":18446744073709551615}`, ""},
		"a number of any size":          {`{"v":1,"type":"chunk","sequence":1,"kind":"data","source":"follow","data":{"n":1e999}}`, ""},
		"no record":                     {`{"aip_version":"1.0"}`, ""},
		"no JSON":                       {`{"v":1,"type":"gap"`, ""},
		"text":                          {`hello`, ""},
		"a field that is missing":       {`{"v":1,"type":"gap","from":0}`, "to"},
		"a field that nobody knows":     {`{"v":1,"type":"gap","from":0,"to":1,"more":2}`, "more"},
		"a field that nobody knows, in": {`{"v":1,"type":"outcome","checks":{"x":"pass"}}`, "outcome"},
		"another kind of value":         {`{"v":1,"type":"gap","from":"0","to":1}`, "string"},
		"a negative sequence":           {`{"v":1,"type":"gap","from":-1,"to":1}`, "minimum"},
		"another version":               {`{"v":2,"type":"gap","from":0,"to":1}`, "must be 1"},
		"another word":                  {`{"v":1,"type":"chunk","sequence":1,"kind":"data","source":"hearsay"}`, "must be one of"},
		"another type":                  {`{"v":1,"type":"rumour"}`, "no record of type"},
	} {
		spy := &told{TB: t}
		CheckOutput(spy, []string{"x", "-o", "jsonl"}, "before\n"+tc.line+"\nbehind\n")
		got := strings.Join(spy.errors, "\n")
		if (got == "") != (tc.says == "") || !strings.Contains(got, tc.says) {
			t.Errorf("%s: %q, want %q", rule, got, tc.says)
		}
	}
	spy := &told{TB: t}
	CheckOutput(spy, []string{"x"}, `{"v":1,"type":"rumour"}`)
	CheckOutput(spy, []string{"x", "-o", "jsonl", "--jq", "."}, `{"v":1,"type":"rumour"}`)
	if spy.errors != nil {
		t.Errorf("what was not asked for is checked: %q", spy.errors)
	}
}
