package aip

// EventsQuery selects a page or a follow of one action's events.
type EventsQuery struct {
	ActionID      string
	Cursor        string // empty reads from the start
	Limit         int    // 1 to 1000, shared by events and chunks; 0 leaves it to the daemon
	IncludeChunks bool
	Kinds         []string // filters events only, never chunks; nil keeps all
}

// KindStreamChunk is the kind of the event that accompanies every chunk, and
// the SSE name of the chunk itself.
const KindStreamChunk = "aip.stream.chunk"

// SSE names that belong to the follow route and not to any event.
const (
	FrameCursor   = "aip.stream.cursor"
	FrameTerminal = "aip.stream.terminal"
	FrameError    = "aip.error"
)

// LifecycleKinds are all action-scoped event kinds but the one that stands
// beside each chunk. Asking for them by name leaves the room of a page to the
// chunks, because events fill it first.
var LifecycleKinds = []string{
	"aip.action.ack",
	"aip.action.approval_terminal",
	"aip.action.async_result",
	"aip.action.cancelled",
	"aip.action.result",
	"aip.action.resumed_result",
	"aip.action.retry_scheduled",
	"aip.action.worker_result",
	"aip.approval.denied",
	"aip.approval.expired",
	"aip.approval.granted",
	"aip.approval.requested",
	"aip.approval.resumed_action",
	"aip.approval.revoked",
	"aip.approval.vote_recorded",
}
