package state

import (
	"fmt"
	"path/filepath"
	"testing"
)

// tenThousand writes a file of 10,000 actions with six records each.
func tenThousand(b *testing.B) *File {
	b.Helper()
	f := New(filepath.Join(b.TempDir(), "state.jsonl"))
	var recs []Record
	for i := range 10_000 {
		id := fmt.Sprintf("act_%032x", i)
		last, max := uint64(i), uint64(20_000)
		recs = append(recs,
			Record{Type: TypeIntent, ActionID: id, Intent: &Intent{
				CapabilityID: "cap:hermes_agent:north:responses_stream", Endpoint: "north", Operation: "responses_stream",
				Mode: "streaming", URL: "http://127.0.0.1:8080/prefix", Principal: "tok:0123456789abcdef",
				InputHash: "sha256:" + fmt.Sprintf("%064x", i), SessionID: "night-shift", MaxEvents: &max,
			}},
			Record{Type: TypeSubmitted, ActionID: id, Submitted: &Submitted{Mode: "streaming", Reply: "result"}},
			Record{Type: TypeResponse, ActionID: id, Response: &Response{ResponseID: fmt.Sprintf("resp_%032x", i), Endpoint: "north"}},
			Record{Type: TypeCursor, ActionID: id, Cursor: &Cursor{URL: "http://127.0.0.1:8080/prefix", Principal: "tok:0123456789abcdef",
				Route: "events", Filter: "include_chunks=true", Cursor: fmt.Sprintf("aev_cursor_%d_%d", i, i), LastSequence: &last}},
			Record{Type: TypeCursor, ActionID: id, Cursor: &Cursor{URL: "http://127.0.0.1:8080/prefix", Principal: "tok:0123456789abcdef",
				Route: "events", Filter: "include_chunks=true", Cursor: fmt.Sprintf("aev_cursor_%d_%d", i+1, i), LastSequence: &last}},
			Record{Type: TypeSettled, ActionID: id, Settled: &Settled{Verdict: "accepted", AIPStatus: "completed", FinishReason: "stop",
				Checks: map[string]string{"aip_status": "pass", "terminal": "pass", "truncated": "pass", "finish_reason": "pass",
					"provider_error": "pass", "integrity": "pass", "required_tools": "not_applicable", "effect_check": "not_applicable"}}},
		)
	}
	if err := f.Append(b.Context(), false, recs...); err != nil {
		b.Fatal(err)
	}
	return f
}

func BenchmarkLoad(b *testing.B) {
	f := tenThousand(b)
	for b.Loop() {
		v, rep, err := f.Load(b.Context())
		if err != nil || len(v.Actions()) != 10_000 || !rep.Sound() {
			b.Fatal(len(v.Actions()), rep, err)
		}
	}
}

func BenchmarkRecordIntent(b *testing.B) {
	f := tenThousand(b)
	for name, explicit := range map[string]bool{"explicit": true, "minted": false} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := f.RecordIntent(b.Context(), "act_"+newRecordID(), Intent{}, explicit); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
