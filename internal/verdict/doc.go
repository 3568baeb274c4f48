// Package verdict decides how an action ended, from evidence alone.
//
// Invariants kept here:
//
//   - Pure: the same evidence gives the same verdict in every output mode, on
//     a terminal or not, for every command that judges.
//   - Accepted is never a default. It is what is left when every applicable
//     check has passed and nothing else was read.
//   - No text, no [DONE], no end of a stream is evidence of success.
package verdict

import "github.com/aipctl/aipctl/internal/fault"

// Reading is a verdict that one piece of evidence speaks for. It is a class
// of the exit table, so verdict names and codes have one source.
type Reading = fault.Class

// precedence orders the readings when several pieces of evidence speak: the
// first one that any of them gave is the verdict.
var precedence = []Reading{
	fault.Conflict, fault.Pending, fault.Auth, fault.NotFound, fault.Rejected, fault.Cancelled,
	fault.Unknown, fault.Failed, fault.Partial, fault.Incomplete, fault.Accepted,
}

// strongest picks the verdict out of all readings; accepted when there are
// none.
func strongest(readings []Reading) Reading {
	for _, p := range precedence {
		for _, r := range readings {
			if r == p {
				return p
			}
		}
	}
	return fault.Accepted
}

// Status is what one check came to.
type Status string

// The statuses of a check.
const (
	Pass          Status = "pass"
	Fail          Status = "fail"
	Missing       Status = "missing"
	NotApplicable Status = "not_applicable"
)

// Checks are the results of all checks of one judgement.
type Checks struct {
	AIPStatus     Status `json:"aip_status"`     // the result's own status is completed
	Terminal      Status `json:"terminal"`       // the retained stream came to its end
	Truncated     Status `json:"truncated"`      // the retained stream was not cut
	FinishReason  Status `json:"finish_reason"`  // the provider finished as it does when all is said
	ProviderError Status `json:"provider_error"` // the provider reported no error
	Integrity     Status `json:"integrity"`      // what was delivered is whole and agrees with what is stored
	RequiredTools Status `json:"required_tools"` // every tool that was required completed
	EffectCheck   Status `json:"effect_check"`   // every effect check exited 0
}

// NamedCheck is one check with its name in records.
type NamedCheck struct {
	Name   string
	Status Status
}

// List returns the checks in the order in which they are shown.
func (c Checks) List() []NamedCheck {
	return []NamedCheck{
		{"aip_status", c.AIPStatus},
		{"terminal", c.Terminal},
		{"truncated", c.Truncated},
		{"finish_reason", c.FinishReason},
		{"provider_error", c.ProviderError},
		{"integrity", c.Integrity},
		{"required_tools", c.RequiredTools},
		{"effect_check", c.EffectCheck},
	}
}

// Map returns the checks by name, as the state file keeps them.
func (c Checks) Map() map[string]string {
	m := map[string]string{}
	for _, n := range c.List() {
		m[n.Name] = string(n.Status)
	}
	return m
}

// MissingCount is the number of checks without evidence: of two settled
// records of one action the one with fewer is the better one.
func (c Checks) MissingCount() int {
	n := 0
	for _, x := range c.List() {
		if x.Status == Missing {
			n++
		}
	}
	return n
}
