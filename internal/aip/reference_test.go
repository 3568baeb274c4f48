package aip

import (
	"encoding/json"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"
)

// ref is a JSON value as the slow reference reads it: strings in code units,
// so that halves of characters are told apart, numbers by their spelling.
type ref struct {
	kind  byte // one of n t f 0 " [ {
	text  string
	units []uint16
	list  []ref
	names [][]uint16 // of an object; list holds the values
}

// parseRef reads JSON that encoding/json takes for valid. ok is false for
// anything else, for bytes that are no UTF-8, and for what is nested too
// deeply to be read by recursion.
func parseRef(b []byte) (v ref, ok bool) {
	if !json.Valid(b) || !utf8.Valid(b) || strings.Count(string(b), "[")+strings.Count(string(b), "{") > 5000 {
		return ref{}, false
	}
	p := refParser{b: b}
	v = p.value()
	return v, true
}

type refParser struct {
	b []byte
	i int
}

func (p *refParser) next() byte {
	for strings.IndexByte(" \t\r\n", p.b[p.i]) >= 0 {
		p.i++
	}
	return p.b[p.i]
}

func (p *refParser) value() ref {
	switch c := p.next(); c {
	case '{', '[':
		v := ref{kind: c}
		p.i++
		for p.next() != c+2 { // } and ] stand two behind their openers
			if p.b[p.i] == ',' {
				p.i++
				continue
			}
			if c == '{' {
				v.names = append(v.names, p.value().units)
				p.next()
				p.i++ // the colon
			}
			v.list = append(v.list, p.value())
		}
		p.i++
		return v
	case '"':
		return ref{kind: '"', units: p.str()}
	case 'n', 't', 'f':
		for p.i < len(p.b) && p.b[p.i] >= 'a' && p.b[p.i] <= 'z' {
			p.i++
		}
		return ref{kind: c}
	default:
		start := p.i
		for p.i < len(p.b) && strings.IndexByte("+-.eE0123456789", p.b[p.i]) >= 0 {
			p.i++
		}
		return ref{kind: '0', text: string(p.b[start:p.i])}
	}
}

func (p *refParser) str() []uint16 {
	units := []uint16{}
	for p.i++; ; {
		switch c := p.b[p.i]; {
		case c == '"':
			p.i++
			return units
		case c == '\\' && p.b[p.i+1] == 'u':
			n, _ := strconv.ParseUint(string(p.b[p.i+2:p.i+6]), 16, 16)
			units = append(units, uint16(n))
			p.i += 6
		case c == '\\':
			units = append(units, uint16("\"\\/\b\f\n\r\t"[strings.IndexByte(`"\/bfnrt`, p.b[p.i+1])]))
			p.i += 2
		default:
			r, n := utf8.DecodeRune(p.b[p.i:])
			units = utf16.AppendRune(units, r)
			p.i += n
		}
	}
}

// twice reports whether some object has a name that stands twice.
func (v ref) twice() bool {
	for i, n := range v.names {
		for _, m := range v.names[:i] {
			if slices.Equal(n, m) {
				return true
			}
		}
	}
	return slices.ContainsFunc(v.list, ref.twice)
}

// equal is equality by meaning: numbers by value, key order free, a null
// member like an absent one.
func (v ref) equal(w ref) bool {
	if v.kind != w.kind {
		return false
	}
	switch v.kind {
	case '0':
		return equalNumbers(v.text, w.text)
	case '"':
		return slices.Equal(v.units, w.units)
	case '[':
		return slices.EqualFunc(v.list, w.list, ref.equal)
	case '{':
		return v.within(w) && w.within(v)
	}
	return true
}

// within reports whether every member of v but nulls is one of w.
func (v ref) within(w ref) bool {
	for i, name := range v.names {
		if v.list[i].kind == 'n' {
			continue
		}
		at := slices.IndexFunc(w.names, func(n []uint16) bool { return slices.Equal(n, name) })
		if at < 0 || !v.list[i].equal(w.list[at]) {
			return false
		}
	}
	return true
}

// equalNumbers compares two decimal numbers without ever leaving integers.
func equalNumbers(a, b string) bool {
	ma, ea := mantissa(a)
	mb, eb := mantissa(b)
	if ma.Sign() == 0 || mb.Sign() == 0 {
		return ma.Sign() == mb.Sign()
	}
	gap := new(big.Int).Sub(ea, eb)
	if gap.Sign() < 0 {
		ma, mb, gap = mb, ma, gap.Neg(gap)
	}
	// 10^gap is longer than the other mantissa: they cannot meet.
	if !gap.IsInt64() || gap.Int64() > int64(len(a)+len(b)) {
		return false
	}
	ma.Mul(ma, new(big.Int).Exp(big.NewInt(10), gap, nil))
	return ma.Cmp(mb) == 0
}

func mantissa(s string) (m, exp *big.Int) {
	digits, e, _ := strings.Cut(strings.ToLower(s), "e")
	exp = new(big.Int)
	if e != "" {
		exp.SetString(strings.TrimPrefix(e, "+"), 10)
	}
	whole, fraction, _ := strings.Cut(digits, ".")
	exp.Sub(exp, big.NewInt(int64(len(fraction))))
	m, _ = new(big.Int).SetString(whole+fraction, 10)
	return m, exp
}

// respell writes the value in other words: names in reverse, everything
// escaped, numbers with an exponent, a null member more in each object.
func (v ref) respell(b []byte) []byte {
	switch v.kind {
	case 'n':
		return append(b, " null"...)
	case 't':
		return append(b, "\ttrue"...)
	case 'f':
		return append(b, "\nfalse "...)
	case '0':
		digits, e, has := strings.Cut(strings.ToLower(v.text), "e")
		if !strings.Contains(digits, ".") {
			digits += ".000"
		}
		if !has {
			e = "+00"
		}
		return append(b, digits+"00E"+e...)
	case '"':
		return appendUnits(b, v.units)
	case '[':
		b = append(b, '[')
		for i, x := range v.list {
			if i > 0 {
				b = append(b, " , "...)
			}
			b = x.respell(b)
		}
		return append(b, ' ', ']')
	}
	b = append(b, '{')
	for i := len(v.names) - 1; i >= 0; i-- {
		b = append(appendUnits(b, v.names[i]), " : "...)
		b = append(v.list[i].respell(b), ',')
	}
	return append(b, `"a name that nobody has":null}`...)
}

func appendUnits(b []byte, units []uint16) []byte {
	b = append(b, '"')
	for _, u := range units {
		hex := strconv.FormatUint(uint64(u), 16)
		b = append(b, `\u`+strings.Repeat("0", 4-len(hex))+strings.ToUpper(hex)...)
	}
	return append(b, '"')
}

// TestTheReferenceItself: a judge that is wrong judges nothing.
func TestTheReferenceItself(t *testing.T) {
	parse := func(s string) ref {
		v, ok := parseRef([]byte(s))
		if !ok {
			t.Fatalf("%s does not parse", s)
		}
		return v
	}
	for _, pair := range [][2]string{
		{`1e2`, `100.00`}, {`-0`, `0`}, {`"\u00e9"`, `"é"`}, {`{"a":1,"b":null}`, ` { "a" : 1.0 } `}, {`"🚀"`, `"\ud83d\ude80"`},
		{`1e99999999999999999999`, `10E99999999999999999998`}, {`[[],{}]`, `[ [ ] , { "x":null } ]`}, {`"\"\\\/\b\f\n\r\t"`, `"\u0022\u005c\u002f\u0008\u000c\u000a\u000d\u0009"`},
	} {
		if !parse(pair[0]).equal(parse(pair[1])) {
			t.Errorf("%s and %s are taken for two values", pair[0], pair[1])
		}
	}
	for _, pair := range [][2]string{
		{`9007199254740993`, `9007199254740992`}, {`"\ud83d"`, `"\ufffd"`}, {`[1,2]`, `[2,1]`}, {`{"a":1}`, `{"a":1,"b":0}`}, {`[null]`, `[]`},
		{`true`, `false`}, {`1`, `"1"`}, {`{}`, `[]`}, {`1e99999999999999999999`, `1e99999999999999999998`},
	} {
		if parse(pair[0]).equal(parse(pair[1])) {
			t.Errorf("%s and %s are taken for one value", pair[0], pair[1])
		}
	}
	if !parse(`{"x":[{"a":1,"\u0061":2}]}`).twice() || parse(`{"a":{"a":1},"b":1}`).twice() {
		t.Error("names that stand twice are not found")
	}
	for _, s := range []string{`{"a":[1,-2.5e3,"\ud83d",null,true,false,{}],"b":"é🚀"}`, `0`, `[]`} {
		if v, w := parse(s), parse(string(parse(s).respell(nil))); !v.equal(w) {
			t.Errorf("%s respelled is another value", s)
		}
	}
}
