// Package engine knows the whole story of one action: intent, follow, post,
// render, cursor, drain, result, verdict, record.
//
// Invariants kept here:
//
//   - The intent is on disk before the first byte of the submit leaves, and a
//     submit is made at most once. After any doubt only reads follow.
//   - The cursor moves only past what the sink has written.
//   - Every run ends with exactly one outcome, on a signal too; what could not
//     be learnt is pending or unknown, never settled by guess.
//   - It knows no terminal and no command line: the same code serves every
//     command, and runs in memory under virtual time.
package engine

import (
	"context"
	"io"
	"time"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/cursor"
	"github.com/aipctl/aipctl/internal/state"
	"github.com/aipctl/aipctl/internal/verdict"
)

// Network is the daemon as one principal sees it.
type Network interface {
	// Submit calls sent once the request was written in full.
	Submit(ctx context.Context, envelope []byte, sent func(), d aip.ResultDecoding) (*aip.Reply, error)
	Result(ctx context.Context, actionID string, d aip.ResultDecoding) (*aip.ActionResult, error)
	Status(ctx context.Context, actionID string) (*aip.ActionStatus, error)
	Page(ctx context.Context, q aip.EventsQuery, d aip.Decoding) (*aip.EventsPage, error)
	Follow(ctx context.Context, q aip.EventsQuery) (io.ReadCloser, error)
	Cancel(ctx context.Context, actionID, reason string) error
}

// Journal is the local state file.
type Journal interface {
	RecordIntent(ctx context.Context, actionID string, in state.Intent, explicit bool) error
	Append(ctx context.Context, durable bool, recs ...state.Record) error
}

// Commands spells the commands that a person can go on with, as argv arrays
// that repeat the url, token file, CA and state flags of this run.
type Commands interface {
	Follow(actionID string) []string
	Result(actionID string) []string
	Status(actionID string) []string
	Cancel(actionID string) []string
	// Response reads a stored response; an empty capability leaves it to the
	// state file which endpoint has it.
	Response(responseID, capabilityID string) []string
	// Approve is for whoever may decide, so it repeats no token. Words in
	// capitals are theirs to fill in; reason says that the policy wants one.
	Approve(approvalID string, reason bool) []string
	// Approval reads the record of an approval.
	Approval(approvalID string) []string
}

// Approvals reads the record of an approval.
type Approvals interface {
	Approval(ctx context.Context, approvalID string, payload bool) (*aip.ApprovalView, error)
}

// Config is what a run needs beside the action itself.
type Config struct {
	Net       Network
	Journal   Journal // nil keeps nothing; submits refuse that before they come here
	Sink      Sink
	Commands  Commands
	Approvals Approvals // nil: the decision behind a deletion is not looked up
	Now       func() time.Time
	MessageID func() string // a fresh msg_… for each envelope
	Binding   cursor.Binding
	StateFile string // for the identity record; empty when nothing is kept

	Idle          time.Duration // longest silence of the stream
	MaxEventBytes int
	Raw           bool // keep raw_data for the chunk records
	// Echoes reports whether a word of the daemon repeats a token that was sent
	// to it; nil reports that none does.
	Echoes func(word string) bool
	// Warnings were known before the run: about the input, or about the state
	// file. They are shown after the identity and stand in the outcome.
	Warnings []verdict.Warning
	// RequiredTools must have completed for the action to be accepted.
	RequiredTools []string
	// EffectChecks runs the commands that confirm effects, once every other
	// check has passed, with the outcome so far; nil when there are none.
	EffectChecks func(ctx context.Context, sofar *verdict.Outcome) []verdict.EffectCheck
	// RecordedChecks stand in for commands that only an earlier run knew.
	RecordedChecks []verdict.EffectCheck
	// FailOnWarning takes acceptance away from a run with a warning.
	FailOnWarning bool
	// CursorAtEnd moves the cursor only when the outcome has been written, for
	// output that stands or falls as one document.
	CursorAtEnd bool
	// Document fills text and items of the outcome.
	Document bool
	Jitter   func() float64 // for tests; nil is random
}

// The fixed waits of a call. They are protocol behaviour, not configuration.
const (
	openWait    = 2 * time.Second  // for the follow to open before the post
	quietWait   = 1 * time.Second  // nothing new for so long once the reply holds the result
	sendGrace   = 2 * time.Second  // for the request to leave, when --wait ends before it has
	replyGrace  = 2 * time.Second  // for the reply, once the action is terminal
	pollFirst   = 1 * time.Second  // between two reads of the status
	pollMost    = 10 * time.Second // grows up to
	afterExpiry = 60 * time.Second // past the time the action can still run
	unknownMost = 16 * time.Minute // a follow of an unknown state without anything new
	cancelWait  = 30 * time.Second // for the end after a cancel on interrupt
	lastWords   = 3 * time.Second  // for what is written after a signal
)

// filterName is the canonical spelling of what a stream was asked for; it
// binds a cursor.
func filterName(chunks bool) string {
	if chunks {
		return "include_chunks,lifecycle"
	}
	return "all_events"
}

// BindingFor completes a binding with the route and filter that a run with or
// without chunks uses.
func BindingFor(url, principal, actionID string, chunks bool) cursor.Binding {
	return cursor.Binding{URL: url, Principal: principal, ActionID: actionID, Route: "events", Filter: filterName(chunks)}
}
