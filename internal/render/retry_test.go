package render

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func TestRetryShowsOfAnErrorOnlyTheCode(t *testing.T) {
	for rule, tt := range map[string]struct{ retry, want string }{
		"nothing of an error stays to the byte": {`{"attempts": 1.0, "note":"a\u001b"}`, `{"attempts": 1.0, "note":"a\u001b"}`},
		"no error":                              {`{"attempts":1,"last_error":null,"dead_letter_reason":null}`, `{"attempts":1,"last_error":null}`},
		"a whole error":                         {`{"attempts":2,"last_error":{"code":"sla.timeout_exceeded","message":"secret","details":{"x":"secret"}},"dead_letter_reason":"secret"}`, `{"attempts":2,"last_error":{"code":"sla.timeout_exceeded"}}`},
		"text in the place of a code":           {`{"last_error":{"code":"a secret"},"attempts":12345678901234567890}`, `{"attempts":12345678901234567890}`},
		"text in the place of an error":         {`{"last_error":"secret"}`, `{}`},
		"text in the place of the object":       {`"secret"`, ""},
		"broken":                                {`{"last_error":`, ""},
		"none":                                  {"", ""},
	} {
		t.Run(rule, func(t *testing.T) {
			if got := string(retryShown(jsontext.Value(tt.retry))); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
