package contract

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// TestEachViolationNamesItsField: the place is a JSON pointer into the input,
// and the words repeat nothing of it but names.
func TestEachViolationNamesItsField(t *testing.T) {
	for _, c := range []struct{ schema, input, want string }{
		{`{"type":"object"}`, `[]`, `: is an array, not object`},
		{`{"required":["response_id"]}`, `{}`, `/response_id: is required and missing`},
		{`{"properties":{"response_id":{"type":"string","minLength":1}}}`, `{"response_id":""}`, `/response_id: has 0 characters, at least 1`},
		{`{"properties":{"response_id":{"type":"string"}}}`, `{"response_id":7}`, `/response_id: is a number, not string`},
		{`{"properties":{"n":{"type":["integer","null"]}}}`, `{"n":1.5}`, `/n: is a number, not null or integer`},
		{`{"properties":{"n":{"minimum":1,"maximum":100000}}}`, `{"n":0}`, `/n: is below 1`},
		{`{"properties":{"n":{"exclusiveMaximum":0.5}}}`, `{"n":5e-1}`, `/n: is not below 0.5`},
		{`{"properties":{"m":{"items":{"required":["role"]}}}}`, `{"m":[{"role":"user"},{}]}`, `/m/1/role: is required and missing`},
		{`{"properties":{"a/b":{"properties":{"~":{"const":1}}}}}`, `{"a/b":{"~":"secret"}}`, `/a~1b/~0: is not 1`},
		{`{"properties":{"e":{"enum":["low","high",3]}}}`, `{"e":"secret"}`, `/e: is none of "low", "high", 3`},
		{`{"additionalProperties":false,"properties":{"a":true}}`, `{"a":1,"b":2}`, `/b: is not allowed here`},
		{`{"unevaluatedProperties":false,"allOf":[{"properties":{"a":true}}]}`, `{"a":1,"b":2}`, `/b: is not allowed here`},
		{`{"patternProperties":{"^x":{"type":"string"}}}`, `{"x1":"","x2":2}`, `/x2: is a number, not string`},
		{`{"propertyNames":{"maxLength":2}}`, `{"abc":1}`, `/abc: has a name that is not allowed`},
		{`{"properties":{"s":{"pattern":"^resp_"}}}`, `{"s":"secret"}`, `/s: does not match the pattern ^resp_`},
		{`{"oneOf":[{"required":["prompt"]},{"required":["query"]},{"required":["messages"]}]}`, `{"x":1}`, `: has none of prompt, query, messages`},
		{`{"oneOf":[{"required":["prompt"]},{"required":["query"]}]}`, `{"prompt":1,"query":2}`, `: has more than one of prompt, query`},
		{`{"properties":{"i":{"anyOf":[{"type":"string"},{"type":"array","items":{"type":"object"}}]}}}`, `{"i":[{},"secret"]}`, `/i/1: is a string, not object`},
		{`{"properties":{"i":{"anyOf":[{"type":"string"},{"type":"array"}]}}}`, `{"i":1}`, `/i: fits none of 2 forms`},
		{`{"$defs":{"t":{"properties":{"sub":{"$ref":"#/$defs/t"},"v":{"type":"string"}}}},"$ref":"#/$defs/t"}`, `{"sub":{"sub":{"v":1}}}`, `/sub/sub/v: is a number, not string`},
		{`{"dependentRequired":{"a":["b"]}}`, `{"a":1}`, `/b: is missing, which a asks for`},
		{`{"properties":{"l":{"uniqueItems":true}}}`, `{"l":[1,2,1.0]}`, `/l: has the same element twice, as 0 and 2`},
		{`{"properties":{"l":{"contains":{"const":1}}}}`, `{"l":[2]}`, `/l: has no element of a form that has to be there`},
		{`{"maxProperties":1}`, `{"a":1,"b":2}`, `: has 2 members, at most 1`},
		{`{"not":{"required":["a"]}}`, `{"a":1}`, `: has a form that is ruled out`},
		{`{"if":{"required":["a"]},"then":{"required":["b"]}}`, `{"a":1}`, `/b: is required and missing`},
		{`false`, `{}`, `: is not allowed here`},
		// All of them, in the order of the names.
		{`{"additionalProperties":{"type":"string"}}`, `{"b":1,"a":2,"c":""}`, `/a: is a number, not string; /b: is a number, not string`},
	} {
		s, err := Compile(jsontext.Value(c.schema))
		if err != nil {
			t.Errorf("%s: %v", c.schema, err)
			continue
		}
		list, err := s.Check(t.Context(), jsontext.Value(c.input))
		var got []string
		for _, v := range list {
			got = append(got, v.Pointer+": "+v.Why)
		}
		if text := strings.Join(got, "; "); err != nil || text != c.want {
			t.Errorf("%s over %s:\n got %s %v\nwant %s", c.schema, c.input, text, err, c.want)
		} else if strings.Contains(text, "secret") {
			t.Errorf("%s repeats the input", text)
		}
	}
}

// TestNumbersOfAnySizeAreJudgedExactly: no number passes through a float.
func TestNumbersOfAnySizeAreJudgedExactly(t *testing.T) {
	for _, c := range []struct {
		schema, number string
		right          bool
	}{
		{`{"type":"integer"}`, `123456789012345678901234567890`, true},
		{`{"type":"integer"}`, `1e400`, true},
		{`{"type":"integer"}`, `1.0`, true},
		{`{"type":"integer"}`, `10e-1`, true},
		{`{"type":"integer"}`, `0.0`, true},
		{`{"type":"integer"}`, `-0`, true},
		{`{"type":"integer"}`, `1e-400`, false},
		{`{"type":"integer"}`, `1.00000000000000000000000001`, false},
		{`{"type":"integer"}`, `9007199254740993.5`, false},
		{`{"maximum":9007199254740993}`, `9007199254740993`, true},
		{`{"maximum":9007199254740992}`, `9007199254740993`, false},
		{`{"maximum":18446744073709551615}`, `18446744073709551615`, true},
		{`{"maximum":18446744073709551615}`, `18446744073709551616`, false},
		{`{"minimum":-9223372036854775808}`, `-9223372036854775809`, false},
		{`{"maximum":1e308}`, `1e309`, false},
		{`{"maximum":1e400}`, `9e399`, true},
		{`{"exclusiveMinimum":0}`, `-1e-400`, false},
		{`{"minimum":0.1}`, `0.1`, true},
		{`{"exclusiveMinimum":0.1}`, `0.10000000000000000001`, true},
		{`{"multipleOf":0.01}`, `0.07`, true},
		{`{"multipleOf":0.01}`, `0.075`, false},
		{`{"multipleOf":3}`, `1e400`, false},
		{`{"multipleOf":3}`, `300000000000000000000000000000000000003`, true},
		{`{"multipleOf":2}`, `9007199254740993`, false},
		{`{"const":9007199254740993}`, `9007199254740992`, false},
		{`{"const":100}`, `1.00e2`, true},
		{`{"enum":[12345678901234567890123]}`, `12345678901234567890123`, true},
		{`{"enum":[12345678901234567890123]}`, `12345678901234567890124`, false},
	} {
		s, err := Compile(jsontext.Value(c.schema))
		if err != nil {
			t.Errorf("%s: %v", c.schema, err)
			continue
		}
		got, err := s.Check(t.Context(), jsontext.Value(c.number))
		if err != nil || (len(got) == 0) != c.right {
			t.Errorf("%s over %s: %v %v, right is %v", c.schema, c.number, got, err, c.right)
		}
	}
}

// TestNoReferenceLeadsOutOfTheSchema: neither a file nor a host is asked, and
// the schema is not taken for one without the reference.
func TestNoReferenceLeadsOutOfTheSchema(t *testing.T) {
	for _, ref := range []string{
		"file:///etc/hostname", "http://127.0.0.1:1/x", "https://example.com/schema.json#/a", "other.json", "/other.json",
		"//host/x", "urn:x:y", "https://json-schema.org/draft/2030-01/schema",
	} {
		for _, at := range []string{`{"$ref":"%s"}`, `{"properties":{"a":{"$ref":"%s"}}}`, `{"$defs":{"a":{"items":{"$ref":"%s"}}},"$ref":"#/$defs/a"}`} {
			_, err := Compile(jsontext.Value(fmt.Sprintf(at, ref)))
			if !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "leads out of the schema") {
				t.Errorf("%s in %s: %v", ref, at, err)
			}
		}
	}
	if _, err := Compile(jsontext.Value(`{"$ref":"#/$defs/none"}`)); err == nil || errors.Is(err, ErrUnsupported) {
		t.Errorf("a reference that leads nowhere: %v", err)
	}
}

// TestASchemaThatIsNoneDoesNotCompile: it is said where it is wrong.
func TestASchemaThatIsNoneDoesNotCompile(t *testing.T) {
	for schema, want := range map[string]string{
		`[]`:                                    "the whole of it is an array, not boolean or object",
		`{"properties":{"a":7}}`:                "/properties/a is a number, not boolean or object",
		`{"properties":[]}`:                     "/properties is an array, not object",
		`{"type":"text"}`:                       "/type fits none of 2 forms",
		`{"items":{"minimum":"1"}}`:             "/items/minimum is a string, not number",
		`{"minLength":-1}`:                      "/minLength is below 0",
		`{"multipleOf":0}`:                      "/multipleOf is not above 0",
		`{"required":"a"}`:                      "/required is a string, not array",
		`{"anyOf":[]}`:                          "/anyOf has 0 elements, at least 1",
		`{"$ref":"C:\\x"}`:                      "/$ref is no uri-reference",
		`{"a":`:                                 "it is no JSON",
		`{"$schema":"https://example.com/own"}`: "leads out of the schema",
	} {
		if _, err := Compile(jsontext.Value(schema)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", schema, err, want)
		}
	}
}

// TestWhatIsOutOfBoundsIsNotJudged: each of these takes all memory, or the
// stack, where nothing bounds it. Nothing is said of the input then.
func TestWhatIsOutOfBoundsIsNotJudged(t *testing.T) {
	deep := func(n int, open, end string) string { return strings.Repeat(open, n) + "true" + strings.Repeat(end, n) }
	for name, c := range map[string]struct{ schema, input string }{
		"deep":                 {deep(1000, `{"not":`, `}`), `{}`},
		"deep properties":      {deep(5000, `{"properties":{"a":`, `}}`), `{}`},
		"too large":            {`{"description":"` + strings.Repeat("x", maxSchemaBytes) + `"}`, `{}`},
		"a long pattern":       {`{"pattern":"` + strings.Repeat("a", maxPattern+1) + `"}`, `"a"`},
		"a large pattern":      {`{"pattern":"(((a{100}){100}){100})"}`, `"a"`},
		"a backtracking one":   {`{"pattern":"(?=a)"}`, `"a"`},
		"an input that nests":  {`{"items":{"$ref":"#"}}`, strings.Repeat("[", 5000) + strings.Repeat("]", 5000)},
		"digits without end":   {`{"multipleOf":7}`, strings.Repeat("7", 1<<20)},
		"an exponent":          {`{"multipleOf":7}`, `1e999999999`},
		"a negative exponent":  {`{"minimum":0}`, `1e-999999999`},
		"one out of all ints":  {`{"minimum":0}`, `1e99999999999999999999`},
		"a bound of a schema":  {`{"maximum":1e999999999}`, `1`},
		"a constant of a kind": {`{"const":[1e999999999]}`, `1`},
	} {
		s, err := Compile(jsontext.Value(c.schema))
		if err == nil {
			_, err = s.Check(t.Context(), jsontext.Value(c.input))
		}
		if !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestJudgingEndsWithItsContext: a schema of a few hundred bytes may ask for
// any number of steps.
func TestJudgingEndsWithItsContext(t *testing.T) {
	doubled := `{"$defs":{"a0":{"type":"string"}`
	for i := 1; i < 20; i++ {
		doubled += fmt.Sprintf(`,"a%d":{"anyOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]}`, i, i-1, i-1)
	}
	s, err := Compile(jsontext.Value(doubled + `},"$ref":"#/$defs/a19"}`))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := s.Check(ctx, jsontext.Value(`{}`)); !errors.Is(err, ErrUnsupported) || got != nil {
		t.Errorf("%v %v", got, err)
	}
}

// TestAReferenceToItselfIsSaid and does not go round for ever.
func TestAReferenceToItselfIsSaid(t *testing.T) {
	for _, schema := range []string{`{"$ref":"#"}`, `{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"allOf":[{"$ref":"#/$defs/a"}]}},"$ref":"#/$defs/a"}`} {
		s, err := Compile(jsontext.Value(schema))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.Check(t.Context(), jsontext.Value(`{}`)); err == nil && len(got) == 0 {
			t.Errorf("%s takes everything", schema)
		}
	}
}

func FuzzCheck(f *testing.F) {
	f.Add(`{"properties":{"a":{"minimum":1,"multipleOf":0.5}},"required":["b"]}`, `{"a":1.5}`)
	f.Add(`{"$defs":{"a":{"items":{"$ref":"#/$defs/a"}}},"$ref":"#/$defs/a"}`, `[[[]]]`)
	f.Fuzz(func(t *testing.T, schema, input string) {
		s, err := Compile(jsontext.Value(schema))
		if err != nil {
			return
		}
		first, err := s.Check(t.Context(), jsontext.Value(input))
		again, errAgain := s.Check(t.Context(), jsontext.Value(input))
		if fmt.Sprint(first, err) != fmt.Sprint(again, errAgain) {
			t.Errorf("%v %v, and then %v %v", first, err, again, errAgain)
		}
	})
}
