package state

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/aipctl/aipctl/internal/fault"
)

func deletion(response, endpoint, key string) Intent {
	return Intent{
		CapabilityID: "cap:hermes_agent:" + endpoint + ":response_delete", Endpoint: endpoint, Operation: "response_delete",
		InputHash: "sha256:" + response, ResponseID: response, IdempotencyKey: key,
	}
}

// record writes an intent and whatever is to follow it.
func record(t *testing.T, f *File, id string, in Intent, more ...Record) {
	t.Helper()
	if err := f.RecordIntent(t.Context(), id, in, false); err != nil {
		t.Fatal(err)
	}
	for i := range more {
		more[i].ActionID = id
	}
	if err := f.Append(t.Context(), false, more...); err != nil {
		t.Fatal(err)
	}
}

func TestResponseIsDeletedAtMostOnce(t *testing.T) {
	settled := func(verdict string) Record { return Record{Type: TypeSettled, Settled: &Settled{Verdict: verdict}} }
	for _, tc := range []struct {
		name    string
		earlier []Record
		refused bool
	}{
		{"nothing came back: it may have run", nil, true},
		{"it waits for an approval", []Record{settled("pending")}, true},
		{"nobody knows how it ended", []Record{settled("unknown")}, true},
		{"it is done", []Record{settled("accepted")}, true},
		{"it was done before: a 404 is no proof that it was this one", []Record{settled("not_found")}, true},
		{"it failed, and how far it got is not known", []Record{settled("failed")}, true},
		{"the receipt contradicted", []Record{settled("incomplete")}, true},
		{"it was rejected", []Record{settled("rejected")}, false},
		{"it waited, and was rejected then", []Record{{Type: TypeSettled, Settled: &Settled{Verdict: "pending", Missing: 1}}, settled("rejected")}, false},
		{"it was cancelled", []Record{settled("cancelled")}, false},
		{"it was not sent", []Record{{Type: TypeNotSent, NotSent: &NotSent{Class: 3}}}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := New(tempFile(t))
			record(t, f, "act_1", deletion("resp_a", "north", "k1"), tc.earlier...)
			second := deletion("resp_a", "south", "k2")
			err := f.RecordIntent(t.Context(), "act_2", second, false)
			v, _ := load(t, f.Path())
			if !tc.refused {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			e := faultOf(t, err, fault.Usage, "state.duplicate_delete")
			if e.ActionID != "act_1" {
				t.Errorf("the refusal names %q, want the original", e.ActionID)
			}
			if v.Action("act_2") != nil {
				t.Error("a refused intent was written")
			}
			wantFault(t, v.Claimed("act_2", &second), fault.Usage, "state.duplicate_delete")
		})
	}
	t.Run("another response, a read, and the same action are no second deletion", func(t *testing.T) {
		f := New(tempFile(t))
		first := deletion("resp_a", "north", "k1")
		record(t, f, "act_1", first, Record{Type: TypeNotSent, NotSent: &NotSent{Class: 3, InputHash: first.InputHash}})
		record(t, f, "act_1", first)
		record(t, f, "act_2", deletion("resp_ab", "north", "k2"))
		read := deletion("resp_a", "north", "")
		read.Operation = "response_get"
		record(t, f, "act_3", read)
	})
}

func TestKeyBelongsToOneExactIntent(t *testing.T) {
	chat := func(input, key string) Intent {
		return Intent{CapabilityID: "cap:hermes_agent:north:chat", Operation: "chat", InputHash: input, IdempotencyKey: key}
	}
	for _, key := range []string{"nightly 7", `with "quotes" and \`, "ключ", "tab\tinside"} {
		f := New(tempFile(t))
		record(t, f, "act_1", chat("sha256:1", key), Record{Type: TypeSettled, Settled: &Settled{Verdict: "rejected"}})
		err := f.RecordIntent(t.Context(), "act_2", chat("sha256:2", key), false)
		if e := faultOf(t, err, fault.Usage, "state.key_reused"); e.ActionID != "act_1" {
			t.Errorf("%q: the refusal names %q", key, e.ActionID)
		}
		elsewhere := chat("sha256:1", key)
		elsewhere.CapabilityID = "cap:hermes_agent:south:chat"
		wantFault(t, f.RecordIntent(t.Context(), "act_3", elsewhere, false), fault.Usage, "state.key_reused")
		// The exact intent again is what a key is for.
		record(t, f, "act_4", chat("sha256:1", key))
		record(t, f, "act_5", chat("sha256:2", key+"-2"))
		record(t, f, "act_6", chat("sha256:3", ""))
	}
}

func TestDamageMayHideADeletion(t *testing.T) {
	torn := append(sound(t), `{"v":1,"id":"0000000000000000000000000000000f","type":"intent","at":"2030-01-15T12:00:00Z","act`+"\n"...)
	for _, tc := range []struct {
		name    string
		content []byte
		code    string
	}{
		{"a torn line", torn, "state.damaged"},
		{"a line of a newer version that names the response", append(sound(t), `{"v":2,"id":"x","what":"resp_a"}`+"\n"...), "state.newer_version"},
	} {
		f := New(place(t, tc.content))
		before := string(read(t, f.Path()))
		err := f.RecordIntent(t.Context(), "act_new", deletion("resp_a", "north", "k"), false)
		wantFault(t, err, fault.State, tc.code)
		if hint := fault.As(err).Hint; strings.Contains(hint, "--state") {
			t.Errorf("%s: the way on leads around the earlier deletion: %q", tc.name, hint)
		}
		if string(read(t, f.Path())) != before {
			t.Errorf("%s: the file was changed", tc.name)
		}
		// Nothing of this concerns an intent that can be repeated.
		record(t, f, "act_new", Intent{CapabilityID: "cap:hermes_agent:north:chat", IdempotencyKey: "k", InputHash: "sha256:1"})
	}
}

func TestOfManyDeletionsAtOnceOneIsRecorded(t *testing.T) {
	path := tempFile(t)
	if err := os.MkdirAll(path[:len(path)-len("/state.jsonl")], 0o700); err != nil {
		t.Fatal(err)
	}
	const crowd = 8
	done := make(chan error, crowd)
	for i := range crowd {
		go func() {
			done <- New(path).RecordIntent(context.Background(), "act_"+string(rune('a'+i)), deletion("resp_a", "north", "key-"+string(rune('a'+i))), false)
		}()
	}
	won := 0
	for range crowd {
		if err := <-done; err == nil {
			won++
		} else {
			wantFault(t, err, fault.Usage, "state.duplicate_delete")
		}
	}
	if v, _ := load(t, path); won != 1 || len(v.Actions()) != 1 {
		t.Errorf("%d of %d deletions were recorded", won, crowd)
	}
}

func TestReceiptKeepsTheDecisionOfAnEarlierReading(t *testing.T) {
	f := New(tempFile(t))
	record(t, f, "act_1", deletion("resp_a", "north", "k"),
		Record{Type: TypeApproval, Approval: &Approval{ApprovalID: "appr_1", PolicyHash: "aa"}},
		Record{Type: TypeApproval, Approval: &Approval{ApprovalID: "appr_1", PolicyHash: "bb", InputHash: "cc"}},
		Record{Type: TypeSettled, Settled: &Settled{Verdict: "accepted", Receipt: &Receipt{ResponseID: "resp_a", Deleted: true, ApprovalID: "appr_1", DecisionID: "dec_1"}}},
		Record{Type: TypeSettled, Settled: &Settled{Verdict: "accepted", Receipt: &Receipt{ResponseID: "resp_a", Deleted: true}}})
	v, _ := load(t, f.Path())
	a, p := v.Approval("appr_1")
	if a == nil || a.ID != "act_1" || p.PolicyHash != "aa" || p.InputHash != "cc" {
		t.Errorf("the approval is of %v, with %+v", a, p)
	}
	if r := a.Receipt; r == nil || r.ApprovalID != "appr_1" || r.DecisionID != "dec_1" {
		t.Errorf("receipt %+v", r)
	}
}
