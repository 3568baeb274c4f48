package verdict

import (
	"testing"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/fault"
)

// TestReceiptHasToSayWhatWasAsked: a deletion is accepted by its receipt, and
// one that contradicts or is silent is incomplete.
func TestReceiptHasToSayWhatWasAsked(t *testing.T) {
	for _, tc := range []struct {
		rule, output string
		asked        string
		want         Reading
		integrity    Status
	}{
		{"it agrees", `{"id":"resp_a","object":"response","deleted":true}`, "resp_a", fault.Accepted, Pass},
		{"nobody knows what was asked", `{"id":"resp_a","object":"response","deleted":true}`, "", fault.Accepted, Pass},
		{"another id", `{"id":"resp_b","object":"response","deleted":true}`, "resp_a", fault.Incomplete, Fail},
		{"deleted false", `{"id":"resp_a","object":"response","deleted":false}`, "resp_a", fault.Incomplete, Fail},
		{"deleted is a word", `{"id":"resp_a","object":"response","deleted":"true"}`, "resp_a", fault.Incomplete, Fail},
		{"another object", `{"id":"resp_a","object":"conversation","deleted":true}`, "resp_a", fault.Incomplete, Fail},
		{"deleted is not said", `{"id":"resp_a","object":"response"}`, "resp_a", fault.Incomplete, Missing},
		{"deleted null", `{"id":"resp_a","object":"response","deleted":null}`, "resp_a", fault.Incomplete, Missing},
		{"no id", `{"object":"response","deleted":true}`, "resp_a", fault.Incomplete, Missing},
		{"no object", `{"id":"resp_a","deleted":true}`, "resp_a", fault.Incomplete, Missing},
		{"nothing", `{}`, "resp_a", fault.Incomplete, Missing},
		{"no output", `null`, "resp_a", fault.Incomplete, Missing},
		{"a replay may be short", `{"deleted":true,"idempotent_replay":true}`, "resp_a", fault.Accepted, Pass},
		{"a replay of another response", `{"id":"resp_b","deleted":true,"idempotent_replay":true}`, "resp_a", fault.Incomplete, Fail},
		{"a replay that says nothing", `{"idempotent_replay":true}`, "resp_a", fault.Incomplete, Missing},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			j := expect(t, Evidence{
				Operation: OpResponseDelete, ResponseID: tc.asked,
				Result: result(t, `{"action_id":"act_1","status":"completed","output":`+tc.output+`}`),
			}, tc.want)
			if j.Checks.Integrity != tc.integrity {
				t.Errorf("integrity is %s, want %s", j.Checks.Integrity, tc.integrity)
			}
		})
	}
	t.Run("a deletion that failed has no receipt to check", func(t *testing.T) {
		ev := failed(good(OpResponseDelete), &aip.ProtocolError{Code: "policy.approval_denied"})
		ev.Result.Output = nil
		expect(t, ev, fault.Rejected)
	})
	t.Run("a read has to give the response that was asked for", func(t *testing.T) {
		ev := Evidence{Operation: OpResponseGet, ResponseID: "resp_a", Result: result(t, `{"status":"completed","output":{"id":"resp_b","status":"completed"}}`)}
		expect(t, ev, fault.Incomplete)
		ev.ResponseID = "resp_b"
		expect(t, ev, fault.Accepted)
	})
}
