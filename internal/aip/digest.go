package aip

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"math/big"
	"sort"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Digest identifies a JSON value by its meaning: two values have the same
// digest when they are equal with numbers compared by value, key order free,
// and a null member equal to an absent one. Whitespace and escapes do not
// count. It is the first 16 bytes of SHA-256.
type Digest [16]byte

// String returns the first eight hex digits, enough for a person to see that
// two contents differ without seeing either.
func (d Digest) String() string { return hex.EncodeToString(d[:4]) }

// DigestOf returns the digest of the values in order; an empty value counts
// as null. A value that is no JSON is taken by its bytes, so that it can be
// equal only to itself.
func DigestOf(values ...jsontext.Value) Digest {
	var buf []byte
	for _, v := range values {
		buf = appendCanonical(buf, v)
		buf = append(buf, 0)
	}
	sum := sha256.Sum256(buf)
	return Digest(sum[:16])
}

func appendCanonical(dst []byte, v jsontext.Value) []byte {
	if len(v) == 0 {
		return append(dst, "null"...)
	}
	start := len(dst)
	dec := jsontext.NewDecoder(bytes.NewBuffer(v), lenient...)
	out, err := canonicalValue(dst, dec)
	if err == nil {
		err = end(dec)
	}
	if err != nil {
		return strconv.AppendQuote(append(dst[:start], '!'), string(v))
	}
	return out
}

func canonicalValue(dst []byte, dec *jsontext.Decoder) ([]byte, error) {
	switch dec.PeekKind() {
	case '{':
		return canonicalObject(dst, dec)
	case '[':
		if _, err := dec.ReadToken(); err != nil {
			return dst, err
		}
		dst = append(dst, '[')
		for dec.PeekKind() != ']' {
			var err error
			if dst, err = canonicalValue(dst, dec); err != nil {
				return dst, err
			}
			dst = append(dst, ',')
		}
		_, err := dec.ReadToken()
		return append(dst, ']'), err
	default:
		v, err := dec.ReadValue()
		if err != nil {
			return dst, err
		}
		return canonicalScalar(dst, v), nil
	}
}

func canonicalObject(dst []byte, dec *jsontext.Decoder) ([]byte, error) {
	if _, err := dec.ReadToken(); err != nil {
		return dst, err
	}
	type member struct{ name, value string }
	var members []member
	for dec.PeekKind() != '}' {
		name, err := dec.ReadValue()
		if err != nil {
			return dst, err
		}
		key := string(canonicalScalar(nil, name))
		if dec.PeekKind() == 'n' {
			if err := dec.SkipValue(); err != nil {
				return dst, err
			}
			continue
		}
		value, err := canonicalValue(nil, dec)
		if err != nil {
			return dst, err
		}
		members = append(members, member{key, string(value)})
	}
	if _, err := dec.ReadToken(); err != nil {
		return dst, err
	}
	sort.SliceStable(members, func(i, j int) bool { return members[i].name < members[j].name })
	dst = append(dst, '{')
	for _, m := range members {
		dst = append(append(append(append(dst, m.name...), ':'), m.value...), ',')
	}
	return append(dst, '}'), nil
}

func canonicalScalar(dst []byte, v jsontext.Value) []byte {
	switch v.Kind() {
	case '"':
		s, _ := Unquote(v)
		return strconv.AppendQuote(dst, s)
	case '0':
		return append(dst, canonicalNumber(string(v))...)
	default:
		return append(dst, v...)
	}
}

// canonicalNumber spells a JSON number as digits and a power of ten, with no
// zeros at either end of the digits: 1e2, 100 and 100.0 are all "1e2". The
// exponent is kept as a big integer, so no spelling makes it overflow.
func canonicalNumber(s string) string {
	sign := ""
	if strings.HasPrefix(s, "-") {
		sign, s = "-", s[1:]
	}
	exp := new(big.Int)
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		exp.SetString(strings.TrimPrefix(s[i+1:], "+"), 10)
		s = s[:i]
	}
	if i := strings.IndexByte(s, '.'); i >= 0 {
		exp.Sub(exp, big.NewInt(int64(len(s)-i-1)))
		s = s[:i] + s[i+1:]
	}
	s = strings.TrimLeft(s, "0")
	if s == "" {
		return "0"
	}
	digits := strings.TrimRight(s, "0")
	exp.Add(exp, big.NewInt(int64(len(s)-len(digits))))
	return sign + digits + "e" + exp.String()
}
