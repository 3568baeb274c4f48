// Package jq runs the expression of --jq on the records of JSON output.
//
// Invariants kept here:
//
//   - An expression sees one record and nothing else: no environment, no file,
//     no module, no other record, no standard error. It can neither end the
//     program nor decide its exit code.
//   - Numbers that an expression only passes on keep their digits, and integers
//     are computed exactly, however large. What is lost is what gojq does not
//     have: the order of keys (they come out sorted), all but the last of equal
//     names, and half a surrogate pair, which becomes U+FFFD.
//   - An error never repeats a value of a record, for records hold the words of
//     prompts and answers.
package jq

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/aipctl/aipctl/internal/fault"
	"github.com/itchyny/gojq"
)

// Filter is a compiled expression. It is safe for concurrent use.
type Filter struct{ code *gojq.Code }

// Value is one result of an expression: a string as it is, or the JSON of
// anything else on one line.
type Value struct {
	Text string
	JSON []byte // nil for a string
}

// Compile reads an expression in the language of jq. An error is a
// *fault.Error of class fault.Usage that says where in the expression it is, as
// far as that is known.
func Compile(expr string) (*Filter, error) {
	if strings.TrimSpace(expr) == "" {
		return nil, wrong("--jq was given without an expression").
			WithHint("a shell variable may be empty; give an expression such as .verdict, or leave the flag out")
	}
	query, err := gojq.Parse(expr)
	if err != nil {
		if e, ok := errors.AsType[*gojq.ParseError](err); ok {
			return nil, wrong("--jq cannot be read at character %d: %s", position(expr, e), e.Error())
		}
		return nil, wrong("--jq cannot be read: %s", err.Error())
	}
	code, err := gojq.Compile(query) // without loaders: no environment, no module, no further input
	if err != nil {
		return nil, wrong("--jq cannot be used: %s", err.Error())
	}
	return &Filter{code}, nil
}

func wrong(format string, args ...any) *fault.Error {
	return fault.New(fault.Usage, "usage.jq", format, args...).WithHint("the language is that of jq; --jq . passes every record on")
}

// position counts the characters of expr up to the one that is wrong, from 1.
func position(expr string, e *gojq.ParseError) int {
	at := min(max(e.Offset-len(e.Token), 0), len(expr))
	return utf8.RuneCountInString(expr[:at]) + 1
}

// mostResults is more than anybody makes of one record on purpose: an expression
// without an end, such as repeat(1), would fill the memory before it is left.
const mostResults = 1 << 20

// Apply runs the expression on one record, which is JSON, and returns its
// results in order; none where it selects nothing. halt ends the work on this
// record. An error is a *fault.Error of class fault.Output, or the one of ctx:
// an expression may well have no end.
func (f *Filter) Apply(ctx context.Context, record []byte) ([]Value, error) {
	dec := json.NewDecoder(bytes.NewReader(record))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, failed("a record is nested too deep for --jq").Wrap(err)
	}
	var out []Value
	for results := f.code.RunWithContext(ctx, v); ; {
		v, more := results.Next()
		if !more {
			return out, nil
		}
		if len(out) == mostResults {
			return nil, failed("the --jq expression makes more than %d results of a record%s", mostResults, ofType(record))
		}
		switch x := v.(type) {
		case string:
			out = append(out, Value{Text: x})
		case error:
			if h, ok := errors.AsType[*gojq.HaltError](x); ok && h.Value() == nil {
				return out, nil
			}
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, failed("%s", "the --jq expression fails on a record"+ofType(record)+reason(x))
		default:
			b, err := gojq.Marshal(v)
			if err != nil {
				return nil, failed("a result of --jq cannot be written as JSON")
			}
			out = append(out, Value{JSON: b})
		}
	}
}

func failed(format string, args ...any) *fault.Error {
	return fault.New(fault.Output, "output.jq", format, args...).
		WithHint("select the records it is for, as in --jq 'select(.type==\"outcome\")|.verdict'")
}

// ofType names the type of a record, which is a word of ours.
func ofType(record []byte) string {
	var head struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(record, &head) != nil || head.Type == "" {
		return ""
	}
	return " of type " + head.Type
}

// reason is what an error says about types. The rest of gojq's messages, and
// all that error() was given, shows values.
func reason(err error) string {
	if _, ok := err.(gojq.ValueError); ok {
		return ": it calls error"
	}
	const types = `(?:null|boolean|number|string|array|object)`
	known := regexp.MustCompile(`^(?:expected an? [a-z]+(?: for [a-z ]+)? but got|cannot [a-z ]+|\w+ cannot be applied to): ` + types + `\b`)
	if s := known.FindString(err.Error()); s != "" {
		return ": " + s
	}
	return ""
}
