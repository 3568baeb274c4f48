// Package contract knows what a capability promises: how long it may run,
// whether it needs a key, how it is executed, what its input looks like.
//
// Invariants kept here:
//
//   - What is built in is the contract that the Hermes connector publishes: a
//     default for when nothing better was read, and nothing is ever relaxed by
//     it.
//   - A schema comes from a daemon and may be hostile: it is judged in bounded
//     time, opens no reference, and what cannot be judged exactly is said not to
//     be judged.
//   - A violation names a place of the input and repeats none of its values.
package contract

import (
	"strings"
	"time"

	"github.com/aipctl/aipctl/internal/aip"
)

// Contract is what a client needs to know before it submits.
type Contract struct {
	Operation   string
	Timeout     time.Duration // the daemon ends the action by then
	KeyRequired bool          // the daemon refuses a submit without an idempotency key
	Mode        string        // the mode that --mode auto means
	Source      Source
	Approval    bool // somebody has to agree before it runs; false where the source does not say
	modes       map[string]bool
}

// keyed are the operations whose contract requires an idempotency key.
var keyed = map[string]bool{
	"response_delete": true,
	"run_start":       true, "run_approval": true, "run_stop": true, "operator": true,
	"session_create": true, "session_patch": true, "session_delete": true, "session_fork": true,
	"job_create": true, "job_update": true, "job_delete": true, "job_pause": true, "job_resume": true, "job_run": true,
}

// Builtin returns the published contract of a Hermes operation. An operation
// that is not known gets the protocol's own defaults: 60 seconds, no key.
func Builtin(operation string) Contract {
	c := Contract{Operation: operation, Timeout: 60 * time.Second, KeyRequired: keyed[operation], Mode: aip.ModeSync, Source: BuiltIn}
	switch {
	case operation == "operator":
		c.Timeout, c.Mode = 900*time.Second, aip.ModeStreaming
	case strings.HasSuffix(operation, "_stream"), operation == "run_events":
		c.Timeout, c.Mode = 300*time.Second, aip.ModeStreaming
	}
	return c
}

// With puts what a daemon publishes in place of what is built in, as far as it
// says anything.
func (c Contract) With(published aip.Capability, source Source) Contract {
	c.Source = source
	c.Approval = published.HumanApproval != nil && *published.HumanApproval
	k := published.Contract
	if k == nil {
		return c
	}
	if k.Timeout > 0 {
		c.Timeout = k.Timeout
	}
	if k.Idempotency != nil {
		c.KeyRequired = k.Idempotency.Requirement == "required"
	}
	c.Approval = c.Approval || k.Approval != nil && k.Approval.Required
	if e := k.Execution; e != nil && (e.Sync || e.Async || e.Streaming) {
		c.modes = map[string]bool{aip.ModeSync: e.Sync, aip.ModeAsync: e.Async, aip.ModeStreaming: e.Streaming}
		// Auto stays with the operation's own mode where that is to be had.
		for _, mode := range []string{e.Expected, aip.ModeSync, aip.ModeStreaming, aip.ModeAsync} {
			if !c.modes[c.Mode] && c.modes[mode] {
				c.Mode = mode
			}
		}
	}
	return c
}

// Allows says whether the contract offers a mode. One that does not speak of
// modes offers all of them: the daemon will say.
func (c Contract) Allows(mode string) bool { return c.modes == nil || c.modes[mode] }

// Modes lists what the contract offers; nil where it does not say.
func (c Contract) Modes() []string {
	var out []string
	for _, mode := range []string{aip.ModeSync, aip.ModeAsync, aip.ModeStreaming} {
		if c.modes[mode] {
			out = append(out, mode)
		}
	}
	return out
}

// RunsAtMost is how long an action can still run after its submit: the
// smaller of the contract's timeout and its own, in milliseconds.
func (c Contract) RunsAtMost(own *uint64) time.Duration {
	if own != nil && *own < uint64(c.Timeout/time.Millisecond) {
		return time.Duration(*own) * time.Millisecond
	}
	return c.Timeout
}
