package aip

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// TestDigests puts JSON values into classes: those of one class have one
// digest, those of two classes never do.
func TestDigests(t *testing.T) {
	classes := map[string][]string{
		// Numbers count by their value, to the last digit.
		"a hundred":               {`100`, `1e2`, `1E+2`, `100.0`, `1.00e2`, `10000e-2`, `0.001e5`, `1e02`, `1E000002`},
		"minus a hundred":         {`-100`, `-1e2`, `-0.1e3`},
		"zero":                    {`0`, `-0`, `0.0`, `-0.000`, `0e5`, `0E-99999999999999999999`, `0.0e+1`},
		"2^53":                    {`9007199254740992`, `9007199254740992.0`, `9.007199254740992e15`},
		"2^53 + 1":                {`9007199254740993`, `9007199254740993.00`, `9.007199254740993E15`},
		"1 with 18 zeros":         {`1000000000000000000`, `1e18`},
		"1 with 18 zeros, plus 1": {`1000000000000000001`},
		"a tenth":                 {`0.1`, `1e-1`, `0.10000`},
		"nearly a tenth":          {`0.1000000000000000055511151231257827`},
		"a huge exponent":         {`1e99999999999999999999999999`, `10e99999999999999999999999998`},
		"a huge exponent more":    {`1e100000000000000000000000000`},
		"a huge negative one":     {`1e-99999999999999999999999999`, `0.1e-99999999999999999999999998`},
		"a number as a string":    {`"100"`},

		// Strings count by their characters, not by their escapes.
		"a word":               {`"é/\""`, `"\u00e9\/\u0022"`, `"\u00E9/\""`},
		"the other accent":     {`"e\u0301/\""`},
		"above the basic ones": {`"🚀"`, `"\ud83d\ude80"`, `"\uD83D\uDE80"`},
		"a high half":          {`"\ud83d"`},
		"another high half":    {`"\ud83c"`},
		"a low half":           {`"\ude80"`},
		"the halves swapped":   {`"\ude80\ud83d"`},
		"a replacement":        {`"\ufffd"`, `"�"`},
		"controls":             {`"\b\f\n\r\t\u0000"`, `"\u0008\u000c\u000a\u000d\u0009\u0000"`},
		"an empty string":      {`""`},

		// Objects count by their members, in any order; null is absent.
		"two members":     {`{"a":1,"b":[2]}`, `{"b":[2],"a":1.0}`, ` { "b" : [ 2 ] , "\u0061" : 1e0 } `, `{"c":null,"a":1,"b":[2]}`},
		"a member more":   {`{"a":1,"b":[2],"c":0}`},
		"an empty object": {`{}`, `{"a":null}`, `{ }`, `{"a":null,"b":null}`},
		"nested":          {`{"x":{"a":1,"b":2}}`, `{"x":{"b":2,"a":1,"c":null}}`},
		"nested empty":    {`{"x":{}}`, `{"x":{"a":null}}`},
		"a name of quotes": {
			`{"\"a\":1,\"b\"":2}`,
		},
		"the members they spell": {`{"a":1,"b":2}`},

		// Arrays count by their order, and null has a place there.
		"an array":         {`[1,2]`, `[1.0, 2e0]`},
		"the other way":    {`[2,1]`},
		"one null":         {`[null]`},
		"two nulls":        {`[null,null]`},
		"an empty array":   {`[]`},
		"an array in one":  {`[[1,2]]`},
		"arrays in one":    {`[[1],[2]]`},
		"an empty in one":  {`[{}]`, `[{"a":null}]`},
		"words":            {`["a","b"]`},
		"words as one":     {`["a,b"]`, `["a\u002cb"]`},
		"words with quote": {`["a\",\"b"]`},

		// Literals.
		"null":          {`null`, ``, ` null `},
		"true":          {`true`},
		"false":         {`false`},
		"true, written": {`"true"`},

		// What is no JSON is equal to itself alone.
		"cut":              {`{"a":1`},
		"cut, with blanks": {`{"a": 1`},
		"two values":       {`100 100`},
		"a value and more": {`100x`},
		"words bare":       {`hello`},
	}
	seen := map[Digest]string{}
	for class, spellings := range classes {
		first := DigestOf(raw(spellings[0]))
		for _, s := range spellings {
			if d := DigestOf(raw(s)); d != first {
				t.Errorf("%s: %s and %s have two digests", class, s, spellings[0])
			}
		}
		if other, taken := seen[first]; taken {
			t.Errorf("%q and %q have one digest", class, other)
		}
		seen[first] = class
	}
}

func TestADigestOfSeveralKeepsThemApart(t *testing.T) {
	seen := map[Digest]string{}
	for rule, values := range map[string][]jsontext.Value{
		"one":         {raw(`1`)},
		"one, two":    {raw(`1`), raw(`2`)},
		"two, one":    {raw(`2`), raw(`1`)},
		"one, absent": {raw(`1`), nil},
		"absent, one": {nil, raw(`1`)},
		"twelve":      {raw(`12`)},
		"an array":    {raw(`[1,2]`)},
		"none":        {},
		"absent":      {nil},
		"no JSON":     {raw("1\x00!x"), raw(`y`)},
		"other such":  {raw("1"), raw("x\x00!y")},
	} {
		d := DigestOf(values...)
		if other, taken := seen[d]; taken {
			t.Errorf("%q and %q have one digest", rule, other)
		}
		seen[d] = rule
	}
}

// TestRepeatsAndConflicts holds chunks against each other as two deliveries
// of one sequence are.
func TestRepeatsAndConflicts(t *testing.T) {
	chunk := func(data string) *Chunk {
		t.Helper()
		item, err := DecodeFollowItem([]byte(`{"chunk":`+data+`}`), Decoding{Raw: true})
		if err != nil {
			t.Fatal(err)
		}
		return item.Chunk
	}
	base := chunk(`{"action_id":"act_1","sequence":3,"kind":"data","data":{"hermes_sse":{"event":"e","id":"1","data":{"a":1,"b":2},"raw_data":"x","terminal":false}},"part":{"type":"text","text":"t"}}`)
	for rule, data := range map[string]string{
		"keys in another order": `{"part":{"text":"t","type":"text"},"kind":"data","data":{"hermes_sse":{"terminal":false,"data":{"b":2,"a":1},"id":"1","event":"e"}},"sequence":3,"action_id":"act_1"}`,
		"another number form":   `{"action_id":"act_1","sequence":3,"kind":"data","data":{"hermes_sse":{"event":"e","id":"1","data":{"a":1.0,"b":2e0},"raw_data":"x","terminal":false}},"part":{"type":"text","text":"t"}}`,
		"null members":          `{"action_id":"act_1","sequence":3,"kind":"data","data":{"hermes_sse":{"event":"e","id":"1","data":{"a":1,"b":2,"c":null},"raw_data":"x","terminal":null}},"part":{"type":"text","text":"t","format":null}}`,
		"another raw_data":      `{"action_id":"act_1","sequence":3,"kind":"data","data":{"hermes_sse":{"event":"e","id":"1","data":{"a":1,"b":2},"raw_data":"y","terminal":false}},"part":{"type":"text","text":"t"}}`,
	} {
		if c := chunk(data); c.Digest() != base.Digest() || c.Frame.Digest() != base.Frame.Digest() {
			t.Errorf("%s: taken for another content", rule)
		}
	}
	for rule, change := range map[string][2]string{
		"another kind":  {`"kind":"data"`, `"kind":"tool"`},
		"another event": {`"event":"e"`, `"event":"f"`},
		"no event":      {`"event":"e"`, `"event":null`},
		"another id":    {`"id":"1"`, `"id":"2"`},
		"another data":  {`"a":1`, `"a":2`},
		"the end":       {`"terminal":false`, `"terminal":true`},
		"another part":  {`"text":"t"`, `"text":"u"`},
		"no part":       {`"part":`, `"party":`},
	} {
		const text = `{"action_id":"act_1","sequence":3,"kind":"data","data":{"hermes_sse":{"event":"e","id":"1","data":{"a":1,"b":2},"raw_data":"x","terminal":false}},"part":{"type":"text","text":"t"}}`
		c := chunk(strings.Replace(text, change[0], change[1], 1))
		if c.Digest() == base.Digest() {
			t.Errorf("%s: taken for a repeat", rule)
		}
		// A frame agrees in event, id and data; the rest belongs to the chunk.
		frameOnly := rule == "another event" || rule == "no event" || rule == "another id" || rule == "another data"
		if differs := c.Frame.Digest() != base.Frame.Digest(); differs != frameOnly {
			t.Errorf("%s: the frames differ: %v", rule, differs)
		}
	}
	plain := chunk(`{"sequence":3,"kind":"error","data":{"operation":"o","reason":"r"}}`)
	if plain.Digest() != chunk(`{"sequence":3,"kind":"error","data":{"reason":"r","operation":"o"}}`).Digest() {
		t.Error("a payload without a frame depends on the order of its keys")
	}
	if plain.Digest() == chunk(`{"sequence":3,"kind":"error","data":{"operation":"o","reason":"s"}}`).Digest() {
		t.Error("two payloads without a frame are taken for repeats")
	}
}

func TestADigestShowsNoContent(t *testing.T) {
	d := DigestOf(raw(`"canary"`))
	if s := d.String(); len(s) != 8 || strings.Trim(s, "0123456789abcdef") != "" {
		t.Errorf("a digest is shown as %q", s)
	}
}

// TestDeepNestingIsNoCrash: a value that is nested deeper than the JSON reader
// goes is taken by its bytes.
func TestDeepNestingIsNoCrash(t *testing.T) {
	deep := raw(strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000))
	if DigestOf(deep) == DigestOf(raw(strings.Repeat("[", 100_001)+strings.Repeat("]", 100_001))) {
		t.Error("two deep values have one digest")
	}
	if DigestOf(deep) != DigestOf(deep.Clone()) {
		t.Error("a deep value is not equal to itself")
	}
}
