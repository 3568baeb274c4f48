package verdict

import (
	"testing"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/go-json-experiment/json/jsontext"
)

// TestLastFrameFromTheDetails: the details of a stream_failed name the frame
// that nobody could read, and only then.
func TestLastFrameFromTheDetails(t *testing.T) {
	const failed, incomplete = "connector.hermes_agent.stream_failed", "response.incomplete"
	for _, tc := range []struct {
		rule, code, details, read string
		want                      Reading
	}{
		{"by its type", failed, `{"type":"response.incomplete","response":{}}`, "", fault.Partial},
		{"by its event", failed, `{"event":"response.incomplete","type":"x"}`, "", fault.Partial},
		{"another frame", failed, `{"type":"response.failed"}`, "", fault.Failed},
		{"a frame that was read counts before the details", failed, `{"type":"response.incomplete"}`, "response.failed", fault.Failed},
		{"a frame that was read needs no details", failed, `null`, incomplete, fault.Partial},
		{"details that are text", failed, `"response.incomplete"`, "", fault.Failed},
		{"no details", failed, ``, "", fault.Failed},
		{"another code", "connector.hermes_agent.transport", `{"type":"response.incomplete"}`, "", fault.Failed},
	} {
		e := &aip.ProtocolError{Code: tc.code, Details: jsontext.Value(tc.details)}
		if got := ReadCode(e, CodeContext{Operation: "responses_stream", LastNamed: tc.read}); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.rule, got, tc.want)
		}
	}
}
