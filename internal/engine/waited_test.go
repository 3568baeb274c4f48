package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/record"
	"github.com/aipctl/aipctl/internal/verdict"
)

// stateOnly is a daemon of which only the state can be read.
type stateOnly struct {
	Network
	state string
	err   error
}

func (s stateOnly) Status(context.Context, string) (*aip.ActionStatus, error) {
	if s.err != nil {
		return nil, s.err
	}
	return &aip.ActionStatus{State: s.state}, nil
}

// deaf takes states and shows nothing.
type deaf struct{ Sink }

func (deaf) State(record.State) error { return nil }

// TestWaitedOut holds what is pending when --wait ran out: a state that goes
// on, or a chunk within the idle time. A refusal or silence is unknown.
func TestWaitedOut(t *testing.T) {
	away := errors.New("connection refused")
	const idle = 45 * time.Second
	for _, tc := range []struct {
		rule  string
		state string
		err   error
		chunk time.Duration // since the last one; 0 is none
		want  verdict.Reading
	}{
		{"it runs", aip.StateRunning, nil, 0, fault.Pending},
		{"it streams, and the last chunk is old", aip.StateStreaming, nil, time.Hour, fault.Pending},
		{"it waits for an approval", aip.StatePendingApproval, nil, 0, fault.Pending},
		{"unknown with a fresh chunk", aip.StateUnknown, nil, idle, fault.Pending},
		{"unknown with an old chunk", aip.StateUnknown, nil, idle + time.Second, fault.Unknown},
		{"unknown without a chunk", aip.StateUnknown, nil, 0, fault.Unknown},
		{"no connection, with a fresh chunk", "", away, time.Second, fault.Pending},
		{"no connection, with an old chunk", "", away, time.Minute, fault.Unknown},
		{"no connection and no chunk", "", away, 0, fault.Unknown},
		{"a gateway in trouble, with a fresh chunk", "", &aip.RemoteError{Status: 503}, time.Second, fault.Pending},
		{"a refusal, with a fresh chunk", "", &aip.RemoteError{Status: 401}, time.Second, fault.Unknown},
		{"not found, with a fresh chunk", "", &aip.RemoteError{Status: 404}, time.Second, fault.Unknown},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			now := time.Date(2030, 1, 15, 9, 30, 0, 0, time.UTC)
			r := newRun(Config{Net: stateOnly{state: tc.state, err: tc.err}, Sink: deaf{}, Now: func() time.Time { return now }, Idle: idle}, "act_waited", "", "chat_stream", true)
			if tc.chunk != 0 {
				r.lastNew = now.Add(-tc.chunk)
			}
			if got, why := r.waitedOut(t.Context(), false); got != tc.want || why == "" {
				t.Errorf("%s (%q), want %s", got, why, tc.want)
			}
		})
	}
}
