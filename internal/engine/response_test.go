package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/client"
	"github.com/aipctl/aipctl/internal/record"
	"github.com/aipctl/aipctl/internal/state"
	"github.com/aipctl/aipctl/internal/verdict"
	"github.com/google/go-cmp/cmp"
)

// store is a daemon that answers each submit with the next of its answers, and
// has no stream to follow.
type store struct {
	Network
	answers []func() (*aip.Reply, error)
	at      []time.Time // of the submits
}

func (s *store) Submit(_ context.Context, _ []byte, sent func(), _ aip.ResultDecoding) (*aip.Reply, error) {
	sent()
	s.at = append(s.at, time.Now())
	if len(s.at) > len(s.answers) {
		return nil, errors.New("one submit too many")
	}
	return s.answers[len(s.at)-1]()
}

func (*store) Follow(context.Context, aip.EventsQuery) (io.ReadCloser, error) {
	return nil, &aip.RemoteError{Status: 400, Form: aip.FormEnvelope, Proto: &aip.ProtocolError{Code: "query.invalid", Category: "permanent"}}
}

func (*store) Page(context.Context, aip.EventsQuery, aip.Decoding) (*aip.EventsPage, error) {
	return &aip.EventsPage{}, nil
}

func (*store) Status(_ context.Context, id string) (*aip.ActionStatus, error) {
	return &aip.ActionStatus{ActionID: id, State: aip.StateUnknown}, nil
}

func (*store) Result(context.Context, string, aip.ResultDecoding) (*aip.ActionResult, error) {
	return nil, &aip.RemoteError{Status: 400, Form: aip.FormEnvelope, Proto: &aip.ProtocolError{Code: "action.not_found", Category: "permanent"}}
}

// shown keeps what a run shows.
type shown struct {
	identities []string
	states     []record.State
	outcomes   []verdict.Outcome
}

func (s *shown) Identity(v record.Identity) error {
	s.identities = append(s.identities, v.ActionID)
	return nil
}
func (s *shown) State(v record.State) error       { s.states = append(s.states, v); return nil }
func (*shown) Event(record.Event) error           { return nil }
func (*shown) Deliver(record.Delivery) error      { return nil }
func (*shown) Warning(record.Warning) error       { return nil }
func (*shown) Gap(record.Gap) error               { return nil }
func (s *shown) Outcome(o *verdict.Outcome) error { s.outcomes = append(s.outcomes, *o); return nil }

// kept is a journal in memory.
type kept struct{ recs []state.Record }

func (k *kept) RecordIntent(_ context.Context, id string, in state.Intent, _ bool) error {
	k.recs = append(k.recs, state.Record{Type: state.TypeIntent, ActionID: id, Intent: &in})
	return nil
}

func (k *kept) Append(_ context.Context, _ bool, recs ...state.Record) error {
	k.recs = append(k.recs, recs...)
	return nil
}

func refuses(status int, code, category string, retryable bool, after uint64, details string) func() (*aip.Reply, error) {
	return func() (*aip.Reply, error) {
		p := &aip.ProtocolError{Code: code, Category: category, Retryable: &retryable, Details: []byte(details)}
		if after > 0 {
			p.RetryAfterMS = &after
		}
		return nil, &aip.RemoteError{Status: status, Form: aip.FormEnvelope, Proto: p}
	}
}

func result(body string) func() (*aip.Reply, error) {
	return func() (*aip.Reply, error) {
		return aip.DecodeReply(strings.NewReader(`{"body":{"action_result":`+body+`}}`), aip.ResultDecoding{})
	}
}

// TestStoredResponseIsReadAtMostThreeTimes, each time as an action of its own.
func TestStoredResponseIsReadAtMostThreeTimes(t *testing.T) {
	busy := refuses(503, "connector.hermes_agent.remote_temporary", "temporary", true, 0, `{"remote_status":503,"uncertain_outcome":false}`)
	asks := func(ms uint64) func() (*aip.Reply, error) {
		return refuses(503, "connector.admission_capacity", "temporary", true, ms, `{"uncertain_outcome":false}`)
	}
	gone := refuses(400, "connector.hermes_agent.remote_rejected", "permanent", false, 0, `{"remote_status":404,"uncertain_outcome":false}`)
	lost := func() (*aip.Reply, error) { return nil, &client.TransportError{What: "the connection was reset"} }
	is := func(status string) func() (*aip.Reply, error) {
		return result(`{"action_id":"","status":"completed","output":{"id":"resp_a","object":"response","status":"` + status + `","output":[]}}`)
	}
	timedOut := result(`{"action_id":"","status":"failed","error":{"code":"sla.timeout_exceeded","category":"temporary","retryable":true}}`)
	const ms = time.Millisecond
	type answers = []func() (*aip.Reply, error)
	for _, tc := range []struct {
		rule  string
		given answers
		exit  int
		gaps  []time.Duration // between the end of one try and the next
	}{
		{"at once", answers{is("completed")}, 0, nil},
		{"busy twice", answers{busy, busy, is("incomplete")}, 7, []time.Duration{500 * ms, 1000 * ms}},
		{"busy always", answers{busy, busy, busy}, 9, []time.Duration{500 * ms, 1000 * ms}},
		{"the daemon asks for longer", answers{asks(7000), is("failed")}, 5, []time.Duration{7000 * ms}},
		{"the daemon asks for too long", answers{asks(61_000)}, 9, nil},
		{"a transport that the error lets try again", answers{refuses(503, "connector.hermes_agent.transport", "transport", true, 0, `{"uncertain_outcome":false}`), is("in_progress")}, 8, []time.Duration{500 * ms}},
		{"retryable, and neither temporary nor transport", answers{refuses(502, "connector.x.odd", "connector", true, 0, `{"uncertain_outcome":false}`)}, 9, nil},
		{"an answer that is not to be asked for again", answers{refuses(502, "connector.hermes_agent.invalid_response", "connector", false, 0, `{"uncertain_outcome":false}`)}, 9, nil},
		{"it timed out", answers{timedOut, timedOut, timedOut}, 9, []time.Duration{500 * ms, 1000 * ms}},
		{"a handler that fails may be asked again for a read", answers{refuses(503, "runtime.handler_failed", "temporary", true, 0, ``), is("completed")}, 0, []time.Duration{500 * ms}},
		{"not there", answers{gone}, 13, nil},
		{"busy, then not there", answers{busy, gone}, 13, []time.Duration{500 * ms}},
		{"the endpoint's credential", answers{refuses(401, "connector.hermes_agent.authentication", "auth", false, 0, `{"remote_status":401,"uncertain_outcome":false}`)}, 4, nil},
		{"a status of no known name", answers{is("queued")}, 9, nil},
		{"another response", answers{result(`{"action_id":"","status":"completed","output":{"id":"resp_b","status":"completed"}}`)}, 11, nil},
		{"the answer is lost", answers{lost, is("completed")}, 0, nil},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net, sink, journal := &store{answers: tc.given}, &shown{}, &kept{}
				minted := 0
				plan := ResponsePlan{
					NewID: func() string { minted++; return fmt.Sprintf("act_more_%d", minted) },
					Call: CallPlan{
						Action:    aip.Action{ID: "act_first", CapabilityID: "cap:hermes_agent:lab:response_get", Input: []byte(`{"response_id":"resp_a"}`), Mode: aip.ModeSync},
						Operation: "response_get", RunsAtMost: time.Minute,
						Intent: state.Intent{Operation: "response_get", Endpoint: "lab", ResponseID: "resp_a"},
					},
				}
				cfg := Config{Net: net, Sink: sink, Journal: journal, MessageID: func() string { return "msg_x" }}
				o, err := GetResponse(t.Context(), cfg, plan)
				if err != nil {
					t.Fatal(err)
				}
				if o.ExitCode != tc.exit || len(net.at) != len(tc.given) {
					t.Errorf("exit code %d after %d submits, want %d after %d; %+v", o.ExitCode, len(net.at), tc.exit, len(tc.given), o)
				}
				if len(sink.outcomes) != 1 || sink.outcomes[0].Stored == nil || sink.outcomes[0].Stored.Tries != len(tc.given) {
					t.Errorf("outcomes %+v, want one that counts its tries", sink.outcomes)
				}
				var gaps []time.Duration
				for _, s := range sink.states {
					if s.State == record.StateRetrying && tc.gaps != nil {
						gaps = append(gaps, time.Duration(s.WaitMS)*ms)
					}
				}
				if diff := cmp.Diff(tc.gaps, gaps); diff != "" {
					t.Errorf("delays: -want +got\n%s", diff)
				}
				for i := 1; i < len(net.at) && tc.gaps != nil; i++ {
					if waited := net.at[i].Sub(net.at[i-1]); waited < tc.gaps[i-1] {
						t.Errorf("try %d came after %s, want at least %s", i+1, waited, tc.gaps[i-1])
					}
				}
				intents := map[string]bool{}
				for _, r := range journal.recs {
					if r.Type == state.TypeIntent {
						intents[r.ActionID] = true
					}
				}
				if len(intents) != len(tc.given) || len(sink.identities) != len(tc.given) {
					t.Errorf("%d intents and identities %v for %d tries", len(intents), sink.identities, len(tc.given))
				}
			})
		})
	}
}

// TestTriesKeepToTheWait: no try begins that --wait leaves no room for.
func TestTriesKeepToTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := refuses(503, "connector.hermes_agent.remote_temporary", "temporary", true, 0, `{"uncertain_outcome":false}`)
		net := &store{answers: []func() (*aip.Reply, error){busy, busy, busy}}
		wait := 1200 * time.Millisecond
		o, err := GetResponse(t.Context(), Config{Net: net, Sink: &shown{}, Journal: &kept{}, MessageID: func() string { return "msg_x" }}, ResponsePlan{
			NewID: func() string { return "act_more" },
			Call: CallPlan{
				Action: aip.Action{ID: "act_first", CapabilityID: "cap:hermes_agent:lab:response_get", Input: []byte(`{}`)}, Operation: "response_get",
				RunsAtMost: time.Minute, Wait: &wait, Intent: state.Intent{ResponseID: "resp_a"},
			},
		})
		if err != nil || o.ExitCode != 9 || len(net.at) != 2 {
			t.Errorf("%d submits, %+v, %v", len(net.at), o, err)
		}
	})
}

func TestWhyAResponseIsNotThere(t *testing.T) {
	yes, no := true, false
	const here = "http://127.0.0.1:1"
	created := func(store *bool, endpoint, url string) []state.Record {
		return []state.Record{
			{Type: state.TypeIntent, ActionID: "act_made", Intent: &state.Intent{Operation: "responses_stream", Endpoint: endpoint, URL: url, Store: store}},
			{Type: state.TypeResponse, ActionID: "act_made", Response: &state.Response{ResponseID: "resp_a", Endpoint: endpoint}},
		}
	}
	deletion := func(more ...state.Record) []state.Record {
		recs := []state.Record{{Type: state.TypeIntent, Intent: &state.Intent{Operation: "response_delete", Endpoint: "lab", URL: here, ResponseID: "resp_a"}}}
		recs = append(recs, more...)
		for i := range recs {
			recs[i].ActionID = "act_gone"
		}
		return recs
	}
	var crowd []state.Record
	for i := range 100 {
		id := fmt.Sprintf("act_z%03d", i)
		crowd = append(crowd,
			state.Record{Type: state.TypeIntent, ActionID: id, Intent: &state.Intent{Endpoint: "lab", URL: here}},
			state.Record{Type: state.TypeResponse, ActionID: id, Response: &state.Response{ResponseID: "resp_" + id}})
	}
	settled := func(verdict string, r *state.Receipt) state.Record {
		return state.Record{Type: state.TypeSettled, Settled: &state.Settled{Verdict: verdict, Receipt: r}}
	}
	for _, tc := range []struct {
		rule string
		recs []state.Record
		want []string
	}{
		{"the file knows nothing", nil, []string{"not_stored", "deleted", "evicted", "other_instance", "store_lost"}},
		{"store: false", created(&no, "lab", here), []string{"not_stored", "deleted", "evicted", "other_instance", "store_lost"}},
		{"it was to be stored", created(&yes, "lab", here), []string{"deleted", "evicted", "other_instance", "store_lost"}},
		{"deleted from here", append(created(&yes, "lab", here), deletion(settled("accepted", &state.Receipt{Deleted: true}))...), []string{"deleted", "evicted", "other_instance", "store_lost"}},
		{"a deletion in doubt", append(created(&yes, "lab", here), deletion(settled("unknown", nil))...), []string{"deletion_unsettled", "deleted", "evicted", "other_instance", "store_lost"}},
		{"a deletion that was denied", append(created(&yes, "lab", here), deletion(settled("rejected", nil))...), []string{"deleted", "evicted", "other_instance", "store_lost"}},
		{"another endpoint", created(&yes, "attic", here), []string{"other_instance", "deleted", "evicted", "store_lost"}},
		{"another daemon", created(&yes, "lab", "http://127.0.0.1:2"), []string{"other_instance", "deleted", "evicted", "store_lost"}},
		{"a hundred since", append(created(&yes, "lab", here), crowd...), []string{"evicted", "deleted", "other_instance", "store_lost"}},
		{"ninety-nine since", append(created(&yes, "lab", here), crowd[2:]...), []string{"deleted", "evicted", "other_instance", "store_lost"}},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			file := state.New(t.TempDir() + "/state.jsonl")
			if len(tc.recs) > 0 {
				if err := file.Append(t.Context(), false, tc.recs...); err != nil {
					t.Fatal(err)
				}
			}
			view, _, err := file.Load(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range Absent(view, "resp_a", "lab", here) {
				got = append(got, c.Code)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}
