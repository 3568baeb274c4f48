package verdict

import (
	"time"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/fault"
)

// Answer is what came back from a submit that is no result and no ack.
// Exactly one way of failing is set.
type Answer struct {
	// NoConnection says that no connection was obtained, so that no byte of
	// the request can have left.
	NoConnection bool
	// Remote is an HTTP answer that is no success.
	Remote *aip.RemoteError
	// Lost is any other end: reset, timeout, a body that was cut or is no JSON.
	Lost bool
	// Now is this client's clock when the answer came.
	Now time.Time
}

// SubmitReading says what an answer to the submit means.
type SubmitReading struct {
	// Settled is false when the outcome is uncertain: follow and read on, and
	// never post again.
	Settled bool
	Reading Reading
	// NotSent says that nothing ran because of this call.
	NotSent bool
	// Closed says that no later read will ever say more than this answer.
	Closed bool
	// Skew is how far the daemon's clock is ahead of ours, when that is why
	// the envelope was refused.
	Skew time.Duration
}

// The daemon takes envelopes that were sent at most this long ago, or ahead.
const (
	replayPast   = 300 * time.Second
	replayFuture = 30 * time.Second
)

// ReadSubmit reads the answer to a submit by its table. uncertain is the
// default: an answer not named there proves nothing.
func ReadSubmit(a Answer, cx CodeContext) SubmitReading {
	uncertain := SubmitReading{Reading: fault.Unknown}
	switch {
	case a.NoConnection:
		return notSent(fault.Unavailable)
	case a.Remote == nil:
		return uncertain
	}
	r := a.Remote
	if r.AIP() {
		if got, ok := readAIPAnswer(a, cx); ok {
			return got
		}
	}
	switch {
	case r.Redirect != "" || r.Status >= 300 && r.Status < 400:
		return notSent(fault.Unavailable)
	case r.Status == 404 && !r.AIP():
		return notSent(fault.Unavailable)
	case r.Status == 401 && !r.AIP():
		return notSent(fault.Auth)
	}
	switch statusOf(r) {
	case 400, 402, 403, 404, 413, 415, 422:
		return notSent(fault.Rejected)
	case 401:
		return notSent(fault.Auth)
	}
	return uncertain
}

func readAIPAnswer(a Answer, cx CodeContext) (SubmitReading, bool) {
	e := a.Remote.Proto
	switch {
	case e.Code == "replay.message_id":
		if skew, outside := clockSkew(a); outside {
			s := notSent(fault.Rejected)
			s.Skew = skew
			return s, true
		}
		return SubmitReading{Reading: fault.Unknown}, true
	case e.Code == "resource.not_found":
		return notSent(fault.NotFound), true
	case e.Code == "connector.request_rejected":
		return notSent(fault.Rejected), true
	case under(e.Code, "connector"):
		reading := ReadCode(e, cx)
		if u := e.Uncertain(); reading == fault.Failed && (u == nil || *u) {
			reading = fault.Unknown
		}
		return SubmitReading{Settled: true, Reading: reading, NotSent: nothingRan(reading), Closed: true}, true
	case e.Code == codeInProgress:
		// The key is held by an action that runs; ours did not begin.
		return SubmitReading{Settled: true, Reading: fault.Pending}, true
	case e.Code == codeHandlerFailed:
		return SubmitReading{Settled: true, Reading: fault.Unknown, Closed: true}, true
	}
	return SubmitReading{}, false
}

func notSent(r Reading) SubmitReading {
	return SubmitReading{Settled: true, Reading: r, NotSent: true}
}

// nothingRan reports whether a submit read so has executed nothing.
func nothingRan(r Reading) bool {
	switch r {
	case fault.Unavailable, fault.Auth, fault.Rejected, fault.NotFound:
		return true
	}
	return false
}

// statusOf is the HTTP status, or for an error inside a 200 the status that
// its category stands for.
func statusOf(r *aip.RemoteError) int {
	if r.Status != 200 || r.Proto == nil {
		return r.Status
	}
	switch r.Proto.Category {
	case "auth":
		return 401
	case "policy":
		return 403
	case "economic":
		return 402
	case "permanent":
		return 400
	case "connector":
		return 502
	default:
		return 503
	}
}

// clockSkew compares the daemon's Date with our clock: an envelope is refused
// when it was sent more than five minutes ago or more than thirty seconds
// ahead by the daemon's own clock.
func clockSkew(a Answer) (time.Duration, bool) {
	if a.Remote.Date.IsZero() {
		return 0, false
	}
	skew := a.Remote.Date.Sub(a.Now)
	return skew, skew > replayPast || skew < -replayFuture
}
