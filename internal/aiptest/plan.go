package aiptest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A plan is one play*.json: for each kind of request the answers in the order
// in which they are given out.
type plan struct {
	ActionID string   `json:"action_id"`
	Follow   []answer `json:"follow"`
	Page     []answer `json:"page"`
	Result   []answer `json:"result"`
	Status   []answer `json:"status"`
	Post     []answer `json:"post"`
	Cancel   []answer `json:"cancel"`
	After    string   `json:"after"` // what follows the last follow answer: "last", "404" or "refuse"
}

// An answer is one HTTP answer, down to the cuts of its bytes and the way its
// connection ends.
type answer struct {
	Status  *int               `json:"status"` // nil is 200; 0 resets the connection without an answer
	Reason  string             `json:"reason"`
	Headers map[string]*string `json:"headers"` // null removes a default header; {SELF} is the player's URL
	Body    string             `json:"body"`    // a file of the case folder
	Text    string             `json:"text"`    // used where there is no Body
	Cuts    cuts               `json:"cuts"`
	GapMS   *float64           `json:"gap_ms"`   // between two pieces; nil is 15
	Tail    []tail             `json:"tail"`     // written after the body, each after its own pause
	DelayMS float64            `json:"delay_ms"` // before the answer begins
	End     ending             `json:"end"`

	payload []byte
}

// list returns the answers planned for a kind of request.
func (p *plan) list(k Kind) []answer {
	switch k {
	case Follow:
		return p.Follow
	case Page:
		return p.Page
	case Result:
		return p.Result
	case Status:
		return p.Status
	case Post:
		return p.Post
	default:
		return p.Cancel
	}
}

// loadPlan reads a plan and every file it names. Unknown keys are an error, so
// that a misspelled plan cannot pass for a lenient one.
func loadPlan(dir, play string) (*plan, error) {
	src, err := os.ReadFile(filepath.Join(dir, play))
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(src))
	dec.DisallowUnknownFields()
	var p plan
	if err := dec.Decode(&p); err != nil {
		return nil, fmt.Errorf("plan %s: %w", play, err)
	}
	switch p.After {
	case "", "last", "404", "refuse":
	default:
		return nil, fmt.Errorf("plan %s: unknown after %q", play, p.After)
	}
	for _, k := range kinds {
		list := p.list(k)
		for i := range list {
			a := &list[i]
			a.payload = []byte(a.Text)
			if a.Body == "" {
				continue
			}
			if a.payload, err = os.ReadFile(filepath.Join(dir, a.Body)); err != nil {
				return nil, fmt.Errorf("plan %s, %s answer %d: %w", play, k, i, err)
			}
		}
	}
	return &p, nil
}

// cuts says where a body is cut into pieces that are written apart.
type cuts struct {
	rule    string // "", "each", "cr", "multibyte"
	offsets []int
}

// newCuts takes the forms that a plan and [WithCuts] may use.
func newCuts(v any) (cuts, error) {
	switch v := v.(type) {
	case nil:
		return cuts{}, nil
	case string:
		switch v {
		case "whole":
			return cuts{}, nil
		case "each", "cr", "multibyte":
			return cuts{rule: v}, nil
		}
	case int:
		return cuts{offsets: []int{v}}, nil
	case []int:
		return cuts{offsets: v}, nil
	}
	return cuts{}, fmt.Errorf("unknown cuts %v", v)
}

// UnmarshalJSON reads null, a list of offsets, or the name of a rule.
func (c *cuts) UnmarshalJSON(src []byte) (err error) {
	var list []int
	if json.Unmarshal(src, &list) == nil {
		*c, err = newCuts(list)
		return err
	}
	var rule string
	if err := json.Unmarshal(src, &rule); err != nil {
		return fmt.Errorf("cuts are neither offsets nor a rule: %w", err)
	}
	*c, err = newCuts(rule)
	return err
}

// in returns the offsets inside b at which it is cut, in ascending order as
// planned, without the two ends.
func (c cuts) in(b []byte) []int {
	var at []int
	switch c.rule {
	case "each":
		for i := 1; i < len(b); i++ {
			at = append(at, i)
		}
	case "cr": // between a CR and whatever follows it
		for i := 1; i < len(b); i++ {
			if b[i-1] == '\r' {
				at = append(at, i)
			}
		}
	case "multibyte": // before every continuation byte of UTF-8
		for i := 1; i < len(b); i++ {
			if b[i]&0xC0 == 0x80 {
				at = append(at, i)
			}
		}
	default:
		for _, i := range c.offsets {
			if i > 0 && i < len(b) {
				at = append(at, i)
			}
		}
	}
	return at
}

// A tail is a text that is written some time after the body.
type tail struct {
	afterMS float64
	text    string
}

// UnmarshalJSON reads the pair [milliseconds, text].
func (t *tail) UnmarshalJSON(src []byte) error {
	var pair []json.RawMessage
	if err := json.Unmarshal(src, &pair); err != nil {
		return err
	}
	if len(pair) != 2 {
		return fmt.Errorf("a tail has %d members, not 2", len(pair))
	}
	if err := json.Unmarshal(pair[0], &t.afterMS); err != nil {
		return err
	}
	return json.Unmarshal(pair[1], &t.text)
}

// An ending is how the connection ends after the last byte of an answer.
type ending struct {
	how  string        // "clean", "cut", "reset", "hang", "drop"
	hang time.Duration // how long a hanging connection stays open
}

// UnmarshalJSON reads clean, cut, reset, drop, or hang:SECONDS.
func (e *ending) UnmarshalJSON(src []byte) error {
	var s string
	if err := json.Unmarshal(src, &s); err != nil {
		return err
	}
	if sec, ok := strings.CutPrefix(s, "hang:"); ok {
		n, err := strconv.ParseFloat(sec, 64)
		if err != nil {
			return fmt.Errorf("end %q: %w", s, err)
		}
		*e = ending{how: "hang", hang: time.Duration(n * float64(time.Second))}
		return nil
	}
	switch s {
	case "clean", "cut", "reset", "drop":
		*e = ending{how: s}
		return nil
	}
	return fmt.Errorf("unknown end %q", s)
}
