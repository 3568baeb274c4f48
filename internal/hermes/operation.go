package hermes

import (
	"github.com/aipctl/aipctl/internal/aip"
)

// Operation guesses from one chunk which operation of the connector published
// it. It is for actions that no record and no durable view names; empty means
// that this chunk does not tell.
func Operation(c *aip.Chunk) string {
	switch {
	case c.Frame != nil:
		return FrameOperation(c.Frame)
	case aip.Member(c.Data, "hermes_operator") != nil:
		return "operator"
	}
	return ""
}

// FrameOperation is [Operation] for a frame of the aggregate. A run's events
// have their name in the data only, a session's have it on the event line too;
// both carry the id of the run.
func FrameOperation(f *aip.Frame) string {
	m := members(decodeAgain(f.Data))
	name := frameName(f.Event, m)
	switch {
	case isResponses(name):
		return "responses_stream"
	case isChat(name, m), name == "hermes.tool.progress":
		return "chat_stream"
	case !m.has("run_id"):
		return ""
	case f.Event != "" && m.has("session_id"):
		return "session_chat_stream"
	case f.Event == "" && name != "":
		return "run_events"
	}
	return ""
}
