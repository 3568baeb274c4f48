package devserver

import (
	"strings"
	"testing"
)

func TestRecordingsBroughtAlong(t *testing.T) {
	const body = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"ok\"}}]}\n\ndata: [DONE]\n\n"
	half := body[:strings.Index(body, "data: [DONE]")]
	opts := Options{Recordings: map[string]Recording{
		"whole":  {Operation: "chat_stream", SSE: []byte(body)},
		"closed": {Operation: "chat_stream", SSE: []byte(half)},
		"cut":    {Operation: "chat_stream", SSE: []byte(half), Cut: true},
		"events": {Operation: "responses_stream", SSE: []byte("event: response.completed\ndata: {}\n\n")},
	}}
	withDaemon(t, opts, func(t *testing.T, d *daemon) {
		d.submit("whole", "act_whole", nil).want(t, 200, "/body/action_result/status", "completed", "/body/action_result/output/text", "ok")
		d.submit("closed", "act_closed", nil).want(t, 200, "/body/action_result/error/code", "connector.hermes_agent.stream_incomplete")
		r := d.submit("cut", "act_cut", nil)
		r.want(t, r.status, code, "connector.hermes_agent.transport", "/body/error/error/details/uncertain_outcome", "true")
		d.submit("events", "act_events", nil).want(t, 200, "/body/action_result/status", "completed", "/body/action_result/output/operation", "responses_stream")
		for id, n := range map[string]int{"act_whole": 2, "act_closed": 2, "act_cut": 1, "act_events": 1} {
			if got := len(d.chunksOf(id)); got != n {
				t.Errorf("%s has %d chunks, want %d", id, got, n)
			}
		}
		if n, known := len(d.server.scenarios), len(Scenarios()); n != known+4 {
			t.Errorf("the daemon plays %d scenarios, want the %d known ones and 4 more", n, known)
		}
	})
}

func TestRecordingsThatCannotBePlayed(t *testing.T) {
	for rule, opts := range map[string]Options{
		"the name of a scenario":     {Recordings: map[string]Recording{"demo": {Operation: "chat_stream"}}},
		"an operation nobody knows":  {Recordings: map[string]Recording{"x": {Operation: "nothing"}}},
		"an operation with one body": {Recordings: map[string]Recording{"x": {Operation: "chat"}}},
		"an operated run":            {Recordings: map[string]Recording{"x": {Operation: "operator"}}},
	} {
		t.Run(rule, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("the daemon started")
				}
			}()
			New(opts).Close()
		})
	}
}
