// Package contract knows what a capability promises: how long it may run,
// whether it needs a key, how it is executed.
//
// Invariant: what is built in here is the contract that the Hermes connector
// publishes; it is a default for when nothing better was read, and nothing is
// ever relaxed by it.
package contract

import (
	"strings"
	"time"
)

// Contract is what a client needs to know before it submits.
type Contract struct {
	Operation   string
	Timeout     time.Duration // the daemon ends the action by then
	KeyRequired bool          // the daemon refuses a submit without an idempotency key
	Mode        string        // the mode that --mode auto means
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
	c := Contract{Operation: operation, Timeout: 60 * time.Second, KeyRequired: keyed[operation], Mode: "sync"}
	switch {
	case operation == "operator":
		c.Timeout, c.Mode = 900*time.Second, "streaming"
	case strings.HasSuffix(operation, "_stream"), operation == "run_events":
		c.Timeout, c.Mode = 300*time.Second, "streaming"
	}
	return c
}

// RunsAtMost is how long an action can still run after its submit: the
// smaller of the contract's timeout and its own, in milliseconds.
func (c Contract) RunsAtMost(own *uint64) time.Duration {
	if own != nil && *own < uint64(c.Timeout/time.Millisecond) {
		return time.Duration(*own) * time.Millisecond
	}
	return c.Timeout
}
