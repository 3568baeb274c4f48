// Package fault holds the one error type that crosses rooms and the one table
// of exit codes. Every other statement of the codes (help exit-codes, the man
// page, docs/exit-codes.md) is printed from the table here.
//
// Invariant: a number appears in [Exits] once, and nowhere else in the module
// as a literal exit code.
package fault

// Class says how a command ended. Its value is the process exit code.
type Class int

// The classes, in the order of their codes. Signals follow the shell's
// convention of 128 plus the signal number.
const (
	Accepted    Class = 0
	Internal    Class = 1
	Usage       Class = 2
	Unavailable Class = 3
	Auth        Class = 4
	Failed      Class = 5
	Cancelled   Class = 6
	Partial     Class = 7
	Pending     Class = 8
	Unknown     Class = 9
	Conflict    Class = 10
	Incomplete  Class = 11
	Rejected    Class = 12
	NotFound    Class = 13
	State       Class = 14
	Output      Class = 15
	HangUp      Class = 129
	Interrupt   Class = 130
	BrokenPipe  Class = 141
	Terminate   Class = 143
)

// Exit is one row of the exit table.
type Exit struct {
	Class Class
	Name  string // the verdict or condition, one lower-case word
	When  string // one sentence for a person who reads a CI log
}

// Exits returns the whole table in ascending order of codes.
func Exits() []Exit {
	return []Exit{
		{Accepted, "accepted", "every applicable check passed (or a plain read, list or detach did what it was asked)"},
		{Internal, "internal", "a bug in aipctl or an error that fits no other row"},
		{Usage, "usage", "bad flags or bad input; nothing was sent"},
		{Unavailable, "unavailable", "the daemon was not reached, and provably nothing was submitted"},
		{Auth, "auth", "token missing, unreadable, too open or refused; scope, tenant or an endpoint's credential"},
		{Failed, "failed", "the action, the provider, a required tool or an effect check failed"},
		{Cancelled, "cancelled", "the action was cancelled"},
		{Partial, "partial", "usable output, but cut"},
		{Pending, "pending", "waiting for an approval or a human, or still running when --wait ran out"},
		{Unknown, "unknown", "the outcome is not known to this client; reconcile, do not resubmit"},
		{Conflict, "conflict", "the daemon contradicted itself"},
		{Incomplete, "incomplete", "completed on paper, but evidence is missing or disagrees; or a warning with --fail-on-warning"},
		{Rejected, "rejected", "refused before anything ran"},
		{NotFound, "not_found", "no such object at this daemon or store"},
		{State, "state", "the local state file could not be read or written; nothing was sent"},
		{Output, "output", "stdout could not be written in full; the verdict is in the outcome on stderr"},
		{HangUp, "detached", "SIGHUP: aipctl stopped watching, the action goes on"},
		{Interrupt, "detached", "SIGINT: aipctl stopped watching, the action goes on"},
		{BrokenPipe, "detached", "the reader of stdout went away; the action goes on"},
		{Terminate, "detached", "SIGTERM: aipctl stopped watching, the action goes on"},
	}
}

// String returns the table's name of the class, or "internal" for a value
// that is not in the table.
func (c Class) String() string {
	for _, e := range Exits() {
		if e.Class == c {
			return e.Name
		}
	}
	return "internal"
}

// Code returns the process exit code.
func (c Class) Code() int { return int(c) }
