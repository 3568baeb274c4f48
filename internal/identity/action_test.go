package identity

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aipctl/aipctl/internal/fault"
)

// wantUsage checks that an error is fit for a person: class, and no control
// character in what is printed.
func wantUsage(t *testing.T, err error) *fault.Error {
	t.Helper()
	e := fault.As(err)
	if e == nil || e.Class != fault.Usage {
		t.Fatalf("got %v, want a usage error", err)
	}
	if strings.ContainsFunc(e.Message+e.Hint, func(r rune) bool { return r < 0x20 || r == 0x7f || 0x80 <= r && r < 0xa0 }) {
		t.Errorf("the message holds a control character: %q", e.Message+e.Hint)
	}
	return e
}

func TestNewActionIDIsAValidSortedUUID(t *testing.T) {
	shape := regexp.MustCompile(`^act_[0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15}$`)
	var ids []string
	for range 1000 {
		id := NewActionID()
		if !shape.MatchString(id) {
			t.Fatalf("%s is no version 7 UUID", id)
		}
		if err := ParseActionID(id); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if !slices.IsSorted(ids) {
		t.Error("ids do not sort by the time they were made")
	}
	if len(slices.Compact(ids)) != 1000 {
		t.Error("an id came twice")
	}
}

func TestParseActionID(t *testing.T) {
	for _, tt := range []struct {
		rule, id string
		want     string // part of the message; empty for no error
	}{
		{"one character", "act_a", ""},
		{"120 characters", "act_" + strings.Repeat("Z", 120), ""},
		{"every kind of character", "act_aZ0._-", ""},
		{"dots alone", "act_..", ""},
		{"121 characters", "act_" + strings.Repeat("z", 121), "at most 120"},
		{"nothing behind act_", "act_", "1 to 120"},
		{"nothing at all", "", "missing"},
		{"no prefix", "incident-7", "does not begin with act_"},
		{"the prefix in capitals", "ACT_1", "does not begin with act_"},
		{"a slash", "act_a/b", "1 to 120"},
		{"a blank", "act_a b", "1 to 120"},
		{"a line end behind it", "act_a\n", "1 to 120"},
		{"an escape sequence", "act_\x1b[31m", "1 to 120"},
		{"a letter outside ASCII", "act_é", "1 to 120"},
		{"a stored response", "resp_1", "use `aipctl response get`"},
		{"an approval", "appr_1", "use `aipctl approval get`"},
		{"another id", "sess_1", "does not begin with act_"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			err := ParseActionID(tt.id)
			if tt.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if e := wantUsage(t, err); !strings.Contains(e.Message, tt.want) {
				t.Errorf("message %q", e.Message)
			}
		})
	}
}

func TestIdempotencyKeyHas128RandomBits(t *testing.T) {
	a, b := NewIdempotencyKey(), NewIdempotencyKey()
	shape := regexp.MustCompile(`^[0-9a-f]{32}$`)
	if !shape.MatchString(a) || !shape.MatchString(b) || a == b {
		t.Errorf("%s and %s", a, b)
	}
}

func TestInputHash(t *testing.T) {
	// Computed with sha256sum over {"b":1.0,"a":"x y"}.
	const known = "sha256:89d1081129cffcf6d335b5d324bc8b2c385fda125148c5b27cb2f24f94a98023"
	base := InputHash([]byte(`{"b":1.0,"a":"x y"}`))
	for _, tt := range []struct {
		rule, input string
		same        bool
	}{
		{"white space between tokens does not count", "{ \"b\" : 1.0,\n\t\"a\":\"x y\" }\r\n", true},
		{"white space in a string counts", `{"b":1.0,"a":"xy"}`, false},
		{"the order of keys counts", `{"a":"x y","b":1.0}`, false},
		{"the spelling of numbers counts", `{"b":1,"a":"x y"}`, false},
		{"an escape counts", `{"b":1.0,"a":"\u0078 y"}`, false},
		{"what is no JSON is hashed as it is", `{"b":1.0,"a":"x y"`, false},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			if got := InputHash([]byte(tt.input)); got == base != tt.same {
				t.Errorf("got %s, base %s", got, base)
			}
		})
	}
	if base != known {
		t.Errorf("got %s", base)
	}
	if InputHash([]byte("x")) == InputHash([]byte("y")) {
		t.Error("all bad inputs have one hash")
	}
}
