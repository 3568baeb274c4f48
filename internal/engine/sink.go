package engine

import (
	"github.com/aipctl/aipctl/internal/record"
	"github.com/aipctl/aipctl/internal/verdict"
)

// Sink is where a run shows itself. All calls come from one goroutine, in the
// order in which things became known: Identity first, Outcome last and once.
//
// A nil error says that everything of the call has been handed to the
// operating system, so the cursor may move past it. An error of class
// fault.BrokenPipe says that the reader of stdout has gone; one of class
// fault.Output, that stdout could not take everything. After either, stdout
// is not written again, and Outcome goes to stderr.
type Sink interface {
	Identity(record.Identity) error
	State(record.State) error
	Event(record.Event) error
	Deliver(record.Delivery) error
	Warning(record.Warning) error
	Gap(record.Gap) error
	Outcome(*verdict.Outcome) error
}
