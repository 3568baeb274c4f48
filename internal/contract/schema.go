package contract

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// The bounds of a schema and of an input that is judged by one. A schema comes
// from a daemon, and a number such as 1e999999999 would fill the memory.
const (
	maxSchemaBytes  = 1 << 20
	maxSchemaDepth  = 512
	maxInputDepth   = 512
	maxNumberDigits = 1000 // written out, in front of the point and behind it
	maxPattern      = 1000 // bytes of one regular expression
)

// schemaURL is the name under which the one document is known to the library.
const schemaURL = "aip://contract/schema"

// ErrUnsupported is in the chain of an error of [Compile] or [Schema.Check]
// when schema and input may be right, but are not judged here.
var ErrUnsupported = errors.New("not judged by aipctl")

func unsupported(format string, args ...any) error {
	return fmt.Errorf(format+" (%w)", append(args, ErrUnsupported)...)
}

// Schema is a JSON Schema of draft 2020-12, or of the one that it names, ready
// to judge inputs. format and content are annotations, as the draft has it.
type Schema struct {
	raw   jsontext.Value
	rules *jsonschema.Schema
}

// Compile reads a schema. It opens no reference that leads out of the document,
// neither of a file nor of a host. The error says what is wrong in the schema's
// own terms; [ErrUnsupported] is in its chain when the schema may be right.
func Compile(raw jsontext.Value) (*Schema, error) {
	if len(raw) > maxSchemaBytes {
		return nil, unsupported("it has %d bytes, more than %d", len(raw), maxSchemaBytes)
	}
	doc, err := decode(raw, maxSchemaDepth)
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(closed{})
	c.UseRegexpEngine(compilePattern)
	if err := c.AddResource(schemaURL, doc); err != nil {
		return nil, fmt.Errorf("it is no schema: %w", err)
	}
	rules, err := c.Compile(schemaURL)
	if err != nil {
		return nil, schemaFault(err)
	}
	return &Schema{raw: raw, rules: rules}, nil
}

// Check judges an input, and returns what the schema does not allow, in the
// order of their places; none when it is right. An error says that the input
// could not be judged: it nests too deep, holds a number out of bounds, or took
// longer than ctx allows. What was begun then ends behind the caller's back.
func (s *Schema) Check(ctx context.Context, input jsontext.Value) ([]Violation, error) {
	v, err := decode(input, maxInputDepth)
	if err != nil {
		return nil, err
	}
	done := make(chan error, 1)
	go func() { done <- s.rules.Validate(v) }()
	select {
	case err = <-done:
	case <-ctx.Done():
		return nil, unsupported("it takes too long to judge")
	}
	var found *jsonschema.ValidationError
	switch {
	case err == nil:
		return nil, nil
	case errors.As(err, &found):
		return s.violations(found), nil
	}
	return nil, unsupported("the schema cannot be applied")
}

// closed loads nothing: what leads out of the document is not followed.
type closed struct{}

// Load implements the library's loader.
func (closed) Load(url string) (any, error) {
	return nil, unsupported("the reference %q leads out of the schema, and is not followed", short(url))
}

// compilePattern is Go's own engine, which takes time in proportion to the
// text.
func compilePattern(s string) (jsonschema.Regexp, error) {
	if len(s) > maxPattern {
		return nil, fmt.Errorf("it has %d bytes, more than %d", len(s), maxPattern)
	}
	re, err := regexp.Compile(s)
	return re, err
}

// decode makes the values that the library judges. Numbers stay as they are
// written, so that none passes through a float; of two members of one name the
// last counts.
func decode(raw jsontext.Value, depth int) (any, error) {
	dec := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for {
		tok, err := dec.ReadToken()
		if err != nil {
			break // the end, or what the decoding below finds too
		}
		if dec.StackDepth() > depth {
			return nil, unsupported("it nests deeper than %d", depth)
		}
		if tok.Kind() == '0' && !bounded(tok.String()) {
			return nil, unsupported("it holds a number of more than %d digits", maxNumberDigits)
		}
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, errors.New("it is no JSON")
	}
	return v, nil
}

// bounded reports whether a number has few digits when it is written out.
func bounded(number string) bool {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(number), "e")
	n := 0
	if exponent != "" {
		var err error
		if n, err = strconv.Atoi(exponent); err != nil || n == math.MinInt {
			return false
		}
	}
	return len(mantissa)+max(n, -n) <= maxNumberDigits
}

// schemaFault says in the schema's own terms why it does not compile.
func schemaFault(err error) error {
	var load *jsonschema.LoadURLError
	if errors.As(err, &load) {
		if errors.Is(load.Err, ErrUnsupported) {
			return load.Err
		}
		return unsupported("the reference %q leads out of the schema, and is not followed", short(load.URL))
	}
	var wrong *jsonschema.SchemaValidationError
	if errors.As(err, &wrong) {
		var found *jsonschema.ValidationError
		if errors.As(wrong.Err, &found) {
			if p := badPattern(found); p != "" {
				return unsupported("%s is no pattern that Go knows", p)
			}
			for _, v := range (&Schema{}).violations(found) {
				return fmt.Errorf("it is no schema: %s %s", place(v.Pointer), v.Why)
			}
		}
	}
	return fmt.Errorf("it is no schema: %s", short(strings.ReplaceAll(err.Error(), schemaURL, "")))
}

// badPattern is the place of a regular expression that Go refuses: one of
// another engine, or one out of bounds. Empty for none.
func badPattern(e *jsonschema.ValidationError) string {
	if f, ok := e.ErrorKind.(*kind.Format); ok && f.Want == "regex" {
		return pointer(e.InstanceLocation)
	}
	for _, c := range e.Causes {
		if p := badPattern(c); p != "" {
			return p
		}
	}
	return ""
}

func place(pointer string) string {
	if pointer == "" {
		return "the whole of it"
	}
	return pointer
}

// short cuts what a schema says to what fits into a message.
func short(s string) string { return cutRunes(s, 80) }
