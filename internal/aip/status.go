package aip

import (
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// The lifecycle states of an action. An action that runs in sync or streaming
// mode reads StateUnknown until it has ended, and so does one never seen.
const (
	StateUnknown         = "unknown"
	StateAccepted        = "accepted"
	StateQueued          = "queued"
	StateRunning         = "running"
	StateStreaming       = "streaming"
	StatePendingApproval = "pending_approval"
	StateCancelling      = "cancelling"
	StateCancelled       = "cancelled"
	StateCompleted       = "completed"
	StateFailed          = "failed"
	StateExpired         = "expired"
	StateDeadLettered    = "dead_lettered"
)

// TerminalState reports whether no further change of the state is to come.
func TerminalState(s string) bool {
	switch s {
	case StateCancelled, StateCompleted, StateFailed, StateExpired, StateDeadLettered:
		return true
	}
	return false
}

// ActionStatus is the durable view of one action. Times are RFC 3339 as
// written; retry and lease are free JSON.
type ActionStatus struct {
	ActionID     string         `json:"action_id"`               // the action's id at its daemon
	CapabilityID string         `json:"capability_id,omitempty"` // what it runs
	State        string         `json:"state"`                   // its lifecycle state; unknown proves nothing
	QueuedState  string         `json:"queued_state,omitempty"`  // of an action in the daemon's queue
	ResultStatus string         `json:"result_status,omitempty"` // status of the stored result
	ApprovalID   string         `json:"approval_id,omitempty"`   // the approval it waits or waited for
	StartedAt    string         `json:"started_at,omitempty"`    // the end of the run for sync and streaming actions
	UpdatedAt    string         `json:"updated_at,omitempty"`    // now, when nothing is stored
	CompletedAt  string         `json:"completed_at,omitempty"`  // when it ended
	Retry        jsontext.Value `json:"retry,omitempty"`         // attempts of the daemon's queue, without messages of errors
	Lease        jsontext.Value `json:"lease,omitempty"`         // of the worker that runs it
	Error        *ProtocolError `json:"-"`                       // of a result that came along
}

// DecodeStatus reads the answer of the status route.
func DecodeStatus(r io.Reader) (*ActionStatus, error) {
	var st *ActionStatus
	dec := jsontext.NewDecoder(r, lenient...)
	err := object(dec, func(name string) (err error) {
		if name != "action_status" || dec.PeekKind() != '{' {
			return dec.SkipValue()
		}
		st = new(ActionStatus)
		return object(dec, func(name string) (err error) { return st.field(dec, name) })
	})
	if err != nil {
		return nil, fmt.Errorf("action status: %w", err)
	}
	if st == nil || st.State == "" {
		return nil, fmt.Errorf("action status: the answer has no action_status")
	}
	return st, nil
}

func (st *ActionStatus) field(dec *jsontext.Decoder, name string) (err error) {
	switch name {
	case "action_id":
		st.ActionID, err = str(dec)
	case "capability_id":
		st.CapabilityID, err = str(dec)
	case "state":
		st.State, err = str(dec)
	case "queued_state":
		st.QueuedState, err = str(dec)
	case "result_status":
		st.ResultStatus, err = str(dec)
	case "approval_id":
		st.ApprovalID, err = str(dec)
	case "started_at":
		st.StartedAt, err = str(dec)
	case "updated_at":
		st.UpdatedAt, err = str(dec)
	case "completed_at":
		st.CompletedAt, err = str(dec)
	case "retry":
		st.Retry, err = value(dec)
	case "lease":
		st.Lease, err = value(dec)
	default:
		err = dec.SkipValue()
	}
	return err
}

// EventsPage is one page of the events route without follow. There is no mark
// for the last page: the end is a page that brings nothing new.
type EventsPage struct {
	ActionID string
	Events   []Event
	Chunks   []Chunk
	Cursor   string
	Terminal bool // the action's state, and no statement about the page
}

// DecodePage reads an events page; chunks are decoded as in a follow stream.
func DecodePage(r io.Reader, d Decoding) (*EventsPage, error) {
	var page *EventsPage
	dec := jsontext.NewDecoder(r, lenient...)
	err := object(dec, func(name string) error {
		if name != "action_events" || dec.PeekKind() != '{' {
			return dec.SkipValue()
		}
		page = new(EventsPage)
		return object(dec, func(name string) (err error) {
			switch name {
			case "action_id":
				page.ActionID, err = str(dec)
			case "cursor":
				page.Cursor, err = str(dec)
			case "terminal":
				var t *bool
				t, err = boolean(dec)
				page.Terminal = t != nil && *t
			case "events":
				err = array(dec, func() error {
					e, err := d.event(dec)
					if err == nil && e != nil {
						page.Events = append(page.Events, *e)
					}
					return err
				})
			case "chunks":
				err = array(dec, func() error {
					c, err := d.Chunk(dec)
					if err == nil && c != nil {
						page.Chunks = append(page.Chunks, *c)
					}
					return err
				})
			default:
				err = dec.SkipValue()
			}
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("events page: %w", err)
	}
	if page == nil {
		return nil, fmt.Errorf("events page: the answer has no action_events")
	}
	return page, nil
}

// DecodeReady reads the answer of the readiness route as far as telling it from
// something else: an object with a status.
func DecodeReady(r io.Reader) error {
	status := ""
	dec := jsontext.NewDecoder(r, lenient...)
	err := object(dec, func(name string) (err error) {
		if name != "status" {
			return dec.SkipValue()
		}
		status, err = str(dec)
		return err
	})
	if err == nil && status == "" {
		err = errors.New("the answer has no status")
	}
	if err != nil {
		return fmt.Errorf("readiness: %w", err)
	}
	return nil
}
