package jq

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aipctl/aipctl/internal/fault"
)

// spell runs an expression and spells its results, strings with a mark before
// them.
func spell(t *testing.T, expr, record string) []string {
	t.Helper()
	f, err := Compile(expr)
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	values, err := f.Apply(t.Context(), []byte(record))
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	var out []string
	for _, v := range values {
		if v.JSON == nil {
			out = append(out, "text "+v.Text)
		} else {
			out = append(out, string(v.JSON))
		}
	}
	return out
}

func TestResults(t *testing.T) {
	t.Setenv("AIP_TOKEN", "canary")
	for rule, tc := range map[string]struct {
		expr, record string
		want         []string
	}{
		"a string is not quoted":             {`.verdict`, `{"verdict":"accepted"}`, []string{"text accepted"}},
		"anything else is JSON":              {`.a,.b,.c`, `{"a":null,"b":[1,"x"],"c":{"d":true}}`, []string{`null`, `[1,"x"]`, `{"d":true}`}},
		"nothing selected is nothing":        {`select(.type=="outcome")`, `{"type":"text"}`, nil},
		"one record, several results":        {`.[]`, `["a",2]`, []string{"text a", "2"}},
		"digits are passed on":               {`.n`, `{"n":[1e400,0.10,12345678901234567890,-0,1.000000000000000000001]}`, []string{`[1e400,0.10,12345678901234567890,-0,1.000000000000000000001]`}},
		"integers are exact":                 {`.n+1`, `{"n":123456789012345678901234567890}`, []string{`123456789012345678901234567891`}},
		"HTML is left alone":                 {`.`, `{"a":"<&>"}`, []string{`{"a":"<&>"}`}},
		"the environment is empty":           {`$ENV,env`, `{}`, []string{`{}`, `{}`}},
		"halt ends the work on the record":   {`1,halt,2`, `{}`, []string{"1"}},
		"the last of equal names":            {`.a`, `{"a":1,"a":2}`, []string{"2"}},
		"half a pair cannot be kept":         {`.a`, `{"a":"x\ud83d"}`, []string{"text x\ufffd"}},
		"keys are sorted":                    {`.`, `{"b":1,"a":2}`, []string{`{"a":2,"b":1}`}},
		"try catches what goes wrong itself": {`try error("x") catch .`, `{}`, []string{"text x"}},
	} {
		if got := spell(t, tc.expr, tc.record); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %s gives %q, want %q", rule, tc.expr, got, tc.want)
		}
	}
}

func TestWrongExpressions(t *testing.T) {
	for expr, says := range map[string]string{
		"":                     "without an expression",
		" \n":                  "without an expression",
		".a |":                 "at character 5: unexpected EOF",
		".a | ]":               `at character 6: unexpected token "]"`,
		`"é" ]`:                `at character 5: unexpected token "]"`,
		`"abc`:                 "unterminated string",
		"foo":                  "function not defined: foo/0",
		"$x":                   "variable not defined: $x",
		"input":                "input(s)/0 is not allowed",
		"inputs":               "input(s)/0 is not allowed",
		"debug":                "function not defined: debug/0",
		"debug(1)":             "function not defined: debug/1",
		"stderr":               "function not defined: stderr/0",
		"input_filename":       "function not defined",
		`import "a" as a; 1`:   "module",
		`include "a"; 1`:       "module",
		`import "a" as $a; $a`: "module",
	} {
		_, err := Compile(expr)
		if fault.ClassOf(err) != fault.Usage || !strings.Contains(err.Error(), says) || fault.As(err).Hint == "" {
			t.Errorf("%q gives %v, want a usage error with %q and a hint", expr, err, says)
		}
	}
}

// Errors say what is wrong, and no value of the record.
func TestFailures(t *testing.T) {
	const secret = "canary"
	record := []byte(`{"type":"text","text":"` + secret + `","n":1,"o":{"` + secret + `":1}}`)
	for expr, says := range map[string]string{
		`.text.x`:                     "of type text: expected an object but got: string",
		`.text[]`:                     "of type text: cannot iterate over: string",
		`.text+.o`:                    "of type text: cannot add: string",
		`.o|ascii_downcase`:           "of type text: ascii_downcase cannot be applied to: object",
		`.n|error`:                    "of type text: it calls error",
		`error(.text)`:                "of type text: it calls error",
		`.text|halt_error`:            "of type text",
		`.text|tonumber`:              "of type text",
		`.text|fromjson`:              "of type text",
		`.text|ltrimstr(1)|test("(")`: "of type text",
		`.text|@base64d|fromjson`:     "of type text",
		`.text|strptime("%Y")`:        "of type text",
		`.text|split(.)|.[0]|error`:   "of type text",
		`modulemeta`:                  "of type text",
	} {
		f, err := Compile(expr)
		if err != nil {
			t.Errorf("%s: %v", expr, err)
			continue
		}
		_, err = f.Apply(t.Context(), record)
		if fault.ClassOf(err) != fault.Output || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s gives %v, want an output error with %q and no value", expr, err, says)
		}
	}
	f, err := Compile(".")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Apply(t.Context(), []byte(strings.Repeat("[", 20000))); fault.ClassOf(err) != fault.Output {
		t.Errorf("what is nested too deep gives %v", err)
	}
}

// An expression without an end is left when the run is.
func TestEndlessExpression(t *testing.T) {
	f, err := Compile(`last(repeat(.))`)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Millisecond)
	defer stop()
	if _, err := f.Apply(ctx, []byte(`{}`)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it ends with %v", err)
	}
}

func FuzzCompile(f *testing.F) {
	for _, s := range []string{".", ".a|]", `"é`, "input", "1,halt", "\xff", "import \"a\" as a; 1", "@base64 \"\\(.a)\""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, expr string) {
		filter, err := Compile(expr)
		if err == nil {
			ctx, stop := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer stop()
			if len(expr) < 40 { // a longer one may ask for more memory than there is
				_, _ = filter.Apply(ctx, []byte(`{"a":1}`))
			}
			return
		}
		if fault.ClassOf(err) != fault.Usage {
			t.Errorf("%q gives %v", expr, err)
		}
	})
}

func TestAnExpressionWithoutEndIsLeft(t *testing.T) {
	f, err := Compile("repeat(1)")
	if err != nil {
		t.Fatal(err)
	}
	got, err := f.Apply(t.Context(), []byte(`{"v":1,"type":"outcome"}`))
	if e := fault.As(err); got != nil || e == nil || e.Class != fault.Output || e.Hint == "" || !strings.Contains(e.Message, "of type outcome") {
		t.Errorf("%d results, %v", len(got), err)
	}
}
