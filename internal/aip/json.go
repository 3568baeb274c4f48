package aip

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// Member returns the value of one name of a JSON object without decoding the
// rest; empty when v is no object or has no such name, or null there.
func Member(v jsontext.Value, name string) jsontext.Value {
	found := jsontext.Value(nil)
	eachMember(v, func(dec *jsontext.Decoder, n string) (err error) {
		if n != name {
			return dec.SkipValue()
		}
		found, err = value(dec)
		return err
	})
	if found.Kind() == 'n' {
		return nil
	}
	return found
}

// Members takes one JSON object apart, its values undecoded; of a name that
// stands twice the last one counts. nil when v is no object.
func Members(v jsontext.Value) map[string]jsontext.Value {
	var m map[string]jsontext.Value
	eachMember(v, func(dec *jsontext.Decoder, n string) error {
		if m == nil {
			m = map[string]jsontext.Value{}
		}
		val, err := value(dec)
		m[n] = val
		return err
	})
	return m
}

// Elements takes one JSON array apart; ok is false when v is no array.
func Elements(v jsontext.Value) (out []jsontext.Value, ok bool) {
	if len(v) == 0 || v.Kind() != '[' {
		return nil, false
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(v), lenient...)
	err := array(dec, func() error {
		e, err := value(dec)
		out = append(out, e)
		return err
	})
	return out, err == nil
}

// Bool returns a JSON boolean; nil for every other value.
func Bool(v jsontext.Value) *bool {
	k := v.Kind()
	if k != 't' && k != 'f' {
		return nil
	}
	b := k == 't'
	return &b
}

// Valid reports whether v is one JSON value, by the lenient rules by which
// everything here is read.
func Valid(v jsontext.Value) bool { return v.IsValid(lenient...) }

func eachMember(v jsontext.Value, member func(dec *jsontext.Decoder, name string) error) {
	if len(v) == 0 || v.Kind() != '{' {
		return
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(v), lenient...)
	// An object that breaks off has the members that came before the break.
	_ = object(dec, func(name string) error { return member(dec, name) })
}
