package e2estored_test

import (
	"slices"
	"testing"
)

// What a used key brings back is another action's: it is said to be, and the
// way on leads there.
func TestAUsedKeyLeadsToItsOwner(t *testing.T) {
	t.Parallel()
	pending := `"status":"pending_approval","output":{"approval_id":"appr_a","idempotent_replay":true},"error":{"code":"policy.human_approval_required","category":"policy"}`
	for _, tc := range []struct {
		rule     string
		reply    func(id string) answer
		exit     int
		replayOf string
		next     []string // of the first way on: command and id
	}{
		{"the first one runs", func(id string) answer {
			return result(`{"action_id":%q,"status":"failed","error":{"code":"idempotency.in_progress","category":"temporary","retryable":true,"details":{"owner_action_id":"act_first"}}}`, id)
		}, 8, "", []string{"events", "act_first"}},
		{"the key is taken", func(id string) answer {
			return result(`{"action_id":%q,"status":"failed","error":{"code":"idempotency.conflict","category":"policy","details":{"key":"k","original_action_id":"act_first"}}}`, id)
		}, 12, "", []string{"result", "act_first"}},
		{"the input is another one", func(id string) answer {
			return result(`{"action_id":%q,"status":"failed","error":{"code":"idempotency.input_hash_mismatch","category":"policy","details":{"original_action_id":"--yes"}}}`, id)
		}, 12, "", nil},
		{"a replay", func(string) answer {
			return result(`{"action_id":"act_first","status":"completed","output":{"id":"resp_a","object":"response","deleted":true,"idempotent_replay":true}}`)
		}, 0, "act_first", nil},
		{"a replay whose output was no object", func(string) answer {
			return result(`{"action_id":"act_first","status":"completed","output":{"idempotent_replay":true}}`)
		}, 11, "act_first", []string{"result", "act_first"}},
		{"a replay of what waits", func(string) answer { return result(`{"action_id":"act_first",%s}`, pending) }, 8, "act_first", []string{"events", "act_first"}},
		{"a replay of what was cancelled", func(string) answer {
			return result(`{"action_id":"act_first","status":"cancelled","output":{"cancelled":true,"idempotent_replay":true}}`)
		}, 6, "act_first", nil},
		{"another action's result without the flag", func(string) answer {
			return result(`{"action_id":"act_first","status":"completed","output":{"id":"resp_a","object":"response","deleted":true}}`)
		}, 10, "", nil},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			t.Parallel()
			d, w := serveScript(t, &script{act: func(_ int, a action) answer { return tc.reply(a.ID) }}), newWorld(t)
			s := w.remove(d.URL, "resp_a", "--endpoint", "lab")
			o := document[outcome](t, s)
			if s.code != tc.exit || o.ReplayOf != tc.replayOf || d.submitted() != 1 {
				t.Errorf("exit code %d, replay of %q after %d submits; want %d and %q; stderr:\n%s", s.code, o.ReplayOf, d.submitted(), tc.exit, tc.replayOf, s.stderr)
			}
			onlyReads(t, o)
			if tc.next != nil && (len(o.Next) == 0 || !slices.Contains(o.Next[0], tc.next[0]) || !slices.Contains(o.Next[0], tc.next[1])) {
				t.Errorf("next is %v, want %v", o.Next, tc.next)
			}
			if tc.next == nil && slices.ContainsFunc(o.Next, func(argv []string) bool { return slices.Contains(argv, "--yes") }) {
				t.Errorf("next repeats what no id is: %v", o.Next)
			}
			if recs := w.state("settled"); len(recs) != 1 || recs[0].Settled.ReplayOf != tc.replayOf {
				t.Errorf("settled %+v", recs)
			}
		})
	}
}
