package identity

import (
	"strings"

	"github.com/aipctl/aipctl/internal/fault"
)

// ParseApprovalID checks an approval id that a person gave: "appr_" and 1 to 120
// of [A-Za-z0-9._-]. Errors are of class [fault.Usage]; for the id of an action
// or of a stored response they name the command that takes it.
func ParseApprovalID(s string) error {
	rest, ok := strings.CutPrefix(s, "appr_")
	switch {
	case ok && MadeOf(rest, 120, "._-"):
		return nil
	case strings.HasPrefix(s, "act_"):
		return otherKind("usage.approval_id", s, "an action", "an approval", "aipctl action status")
	case strings.HasPrefix(s, "resp_"):
		return otherKind("usage.approval_id", s, "a stored response", "an approval", "aipctl response get")
	}
	return fault.New(fault.Usage, "usage.approval_id", "%s is no approval id: after appr_ stand 1 to 120 letters, digits, dots, underscores or hyphens", quote(s)).
		WithHint("`aipctl approval list` shows what waits for a decision")
}

// ParseResponseID checks the id of a stored response that a person gave: 1 to
// 512 of [A-Za-z0-9_-]. The connector puts it into a path in a way that changes
// anything else. Errors are of class [fault.Usage]; for the id of an action or
// of an approval they name the command that takes it.
func ParseResponseID(s string) error {
	switch {
	case strings.HasPrefix(s, "act_"):
		return otherKind("usage.response_id", s, "an action", "a stored response", "aipctl action result")
	case strings.HasPrefix(s, "appr_"):
		return otherKind("usage.response_id", s, "an approval", "a stored response", "aipctl approval get")
	case MadeOf(s, 512, "_-"):
		return nil
	}
	return fault.New(fault.Usage, "usage.response_id", "%s is no response id: it has 1 to 512 letters, digits, underscores or hyphens, such as resp_0123abcd", quote(s)).
		WithHint("`aipctl state list -o jsonl` shows the response ids that this machine has seen")
}

// NewDecisionID returns the name of one decision: "dec_" and 128 random bits as
// 32 hex digits.
func NewDecisionID() string { return "dec_" + NewIdempotencyKey() }
