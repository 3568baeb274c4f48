package e2e_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/aipctl/aipctl/internal/aiptest"
	"github.com/google/go-cmp/cmp"
)

func testUsageAfterFinish(t *testing.T, dir string) {
	want{
		text: "Three tanks are full.", verdict: "accepted", code: 0,
		more: func(t *testing.T, _ *aiptest.Player, s settled) {
			var usage map[string]json.Number
			if err := json.Unmarshal(s.outcome.Usage, &usage); err != nil {
				t.Fatalf("usage %q: %v", s.outcome.Usage, err)
			}
			if usage["prompt_tokens"] != "41" || usage["completion_tokens"] != "6" {
				t.Errorf("usage is %s, want that of the last frame that has one", s.outcome.Usage)
			}
			if s.outcome.FinishReason != "stop" {
				t.Errorf("finish_reason is %q", s.outcome.FinishReason)
			}
		},
	}.settle(t, dir)
}

func testNullDelta(t *testing.T, dir string) {
	want{text: "Gate 4 shut.", verdict: "accepted", code: 0}.settle(t, dir)
}

func testErrorInside200(t *testing.T, dir string) {
	shown := func(typ, message string) func(*testing.T, *aiptest.Player, settled) {
		return func(t *testing.T, _ *aiptest.Player, s settled) {
			if s.outcome.ProviderError == nil || s.outcome.ProviderError.Type != typ {
				t.Errorf("provider_error is %+v, want the type %q", s.outcome.ProviderError, typ)
			}
			if !strings.Contains(s.text.stderr, typ) {
				t.Errorf("stderr does not name the type of the error, %q:\n%s", typ, s.text.stderr)
			}
			if strings.Contains(s.text.stderr, message) {
				t.Errorf("the error's message %q is in a log that did not ask for it:\n%s", message, s.text.stderr)
			}
		}
	}
	want{
		play: "a", text: "The first tank", verdict: "failed", code: 5,
		checks: checks{"finish_reason": "missing", "provider_error": "fail"},
		more:   shown("provider_unavailable", "upstream capacity reached"),
	}.settle(t, dir)
	want{
		play: "b", text: "The first", verdict: "failed", code: 5,
		checks: checks{"aip_status": "fail", "finish_reason": "missing", "provider_error": "fail"},
		more:   shown("overloaded_error", `"overloaded"`),
	}.settle(t, dir)
	want{
		play: "c", text: "The first", verdict: "failed", code: 5,
		checks: checks{"provider_error": "fail"},
		more: func(t *testing.T, _ *aiptest.Player, s settled) {
			if s.outcome.FinishReason != "stop" {
				t.Errorf("finish_reason is %q, want the stop that the error contradicts", s.outcome.FinishReason)
			}
		},
	}.settle(t, dir)
	want{
		play: "d", text: "The first tank is dry.", verdict: "accepted", code: 0,
		follows: []string{"", "aev_cursor_402_1"}, warned: []string{"follow.error"},
	}.settle(t, dir)
	t.Run("the message is shown on demand, in one line", func(t *testing.T) {
		p := aiptest.PlayCase(t, running(t, dir, "play-a.json"), "play-a.json")
		s := newWorld(t).follow(p, "--show-provider-errors")
		if !strings.Contains(s.stderr, "upstream capacity reached, try later") {
			t.Errorf("the message was asked for and is not shown:\n%s", s.stderr)
		}
		clean(t, "stderr", s.stderr, "\n")
	})
}

func testMissingFinishOrDone(t *testing.T, dir string) {
	named := func(value string) func(*testing.T, *aiptest.Player, settled) {
		return func(t *testing.T, _ *aiptest.Player, s settled) {
			if s.outcome.FinishReason != value || !strings.Contains(s.text.stderr, value) {
				t.Errorf("the value %q is not shown; finish_reason %q, stderr:\n%s", value, s.outcome.FinishReason, s.text.stderr)
			}
		}
	}
	want{
		play: "a", text: "The pump was res", verdict: "incomplete", code: 11,
		checks: checks{"finish_reason": "missing"},
	}.settle(t, dir)
	want{
		play: "b", text: "The pump was restarted.", verdict: "incomplete", code: 11,
		checks: checks{"aip_status": "fail", "terminal": "fail"},
		more:   named("stop"),
	}.settle(t, dir)
	want{
		play: "c", text: "The pump", verdict: "incomplete", code: 11,
		checks: checks{"finish_reason": "fail"}, more: named("tool_calls"),
	}.settle(t, dir)
	want{
		play: "d", text: "The pump", verdict: "incomplete", code: 11,
		checks: checks{"finish_reason": "fail"}, more: named("max_steps_reached"),
	}.settle(t, dir)
}

func testFinishLengthAndError(t *testing.T, dir string) {
	want{
		play: "a", text: "Step 1: close the inlet. Step 2: ", verdict: "partial", code: 7,
		checks: checks{"finish_reason": "fail"},
	}.settle(t, dir)
	want{
		play: "b", text: "Step 1: close", verdict: "failed", code: 5,
		checks: checks{"finish_reason": "fail", "provider_error": "fail"}, warned: []string{"usage.zero"},
	}.settle(t, dir)
	want{
		play: "c", text: "", verdict: "failed", code: 5,
		checks: checks{"finish_reason": "fail"},
	}.settle(t, dir)
	want{
		play: "d", text: "Half a planHalf a planHalf a plan", verdict: "partial", code: 7,
		checks: checks{"finish_reason": "fail"}, warned: []string{"usage.zero"},
	}.settle(t, dir)
}

func testToolProgressFrames(t *testing.T, dir string) {
	dir = running(t, dir, "play.json")
	want{
		text: "Checking: level 3.2 m.", verdict: "accepted", code: 0,
		tools:  []string{"read_file/call_qa_1/completed", "terminal/call_qa_2/running", "web//running"},
		warned: []string{"tool.unfinished", "tools.unconfirmed"},
		more: func(t *testing.T, _ *aiptest.Player, s settled) {
			var changes []string
			for _, r := range ofType(s.all, "tool") {
				changes = append(changes, r.Name+"/"+r.CallID+"/"+r.Status)
			}
			wanted := []string{"read_file/call_qa_1/running", "read_file/call_qa_1/completed", "terminal/call_qa_2/running", "web//running"}
			if diff := cmp.Diff(wanted, changes); diff != "" {
				t.Errorf("tool records (-want +got):\n%s", diff)
			}
			if s.outcome.ToolEffects != "unconfirmed" {
				t.Errorf("tool_effects is %q", s.outcome.ToolEffects)
			}
			for _, word := range []string{"levels.csv", "forged"} {
				if strings.Contains(s.text.stderr, word) {
					t.Errorf("a label is in a log that did not ask for it: %q", word)
				}
			}
		},
	}.settle(t, dir)
	t.Run("labels on demand stay in their line", func(t *testing.T) {
		p := aiptest.PlayCase(t, dir, "play.json")
		s := newWorld(t).follow(p, "--show-labels")
		if s.stdout != "Checking: level 3.2 m.\n" {
			t.Errorf("stdout is %q", s.stdout)
		}
		for line := range strings.Lines(s.stderr) {
			if strings.Contains(line, "forged") && !strings.Contains(line, "terminal") {
				t.Errorf("the label began a line of its own: %q", line)
			}
		}
		if !strings.Contains(s.stderr, "forged second line") || !strings.Contains(s.stderr, "levels.csv") {
			t.Errorf("labels were asked for and are not shown:\n%s", s.stderr)
		}
	})
}

func testResponsesItems(t *testing.T, dir string) {
	dir = running(t, dir, "play.json")
	deltas := "Level is 3.2 m.Second note: filter due."
	want{
		text: "Level is 3.2 m.\nSecond note: filter due.", deltas: &deltas, verdict: "accepted", code: 0,
		tools:  []string{"read_file/call_1/completed"},
		warned: []string{"tools.unconfirmed"},
		more: func(t *testing.T, _ *aiptest.Player, s settled) {
			byItem := map[string]string{}
			for _, r := range ofType(s.all, "text") {
				byItem[r.ItemID] += r.Text
			}
			if diff := cmp.Diff(map[string]string{"msg_a": "Level is 3.2 m.", "msg_b": "Second note: filter due."}, byItem); diff != "" {
				t.Errorf("text by item (-want +got):\n%s", diff)
			}
			if s.outcome.ResponseID != "resp_qa20" {
				t.Errorf("response_id is %q", s.outcome.ResponseID)
			}
			responses := s.world.state("response")
			if len(responses) != 1 || responses[0].Response.ResponseID != "resp_qa20" {
				t.Fatalf("response records: %+v, want the one id", responses)
			}
			if first := s.world.types()[0]; first != "response" {
				t.Errorf("the first record of the state file is %s: the id came later than the first cursor", first)
			}
			calls := slices.DeleteFunc(ofType(s.all, "item"), func(r rec) bool { return r.CallID != "call_1" })
			if len(calls) < 3 {
				t.Errorf("%d item records pair the call with its output by call_id, want at least 3", len(calls))
			}
		},
	}.settle(t, dir)
	t.Run("items apart in JSON", func(t *testing.T) {
		p := aiptest.PlayCase(t, dir, "play.json")
		s := newWorld(t).follow(p, "-o", "json")
		var doc struct {
			Text  string `json:"text"`
			Items []struct {
				ID    string `json:"item_id"`
				Index int    `json:"output_index"`
				Kind  string `json:"kind"`
				Text  string `json:"text"`
			} `json:"items"`
		}
		if err := json.Unmarshal([]byte(s.stdout), &doc); err != nil {
			t.Fatalf("%v in %q", err, s.stdout)
		}
		var messages []string
		for _, it := range doc.Items {
			if it.Kind == "message" {
				messages = append(messages, it.ID+": "+it.Text)
			}
		}
		if diff := cmp.Diff([]string{"msg_a: Level is 3.2 m.", "msg_b: Second note: filter due."}, messages); diff != "" {
			t.Errorf("message items (-want +got):\n%s", diff)
		}
		if doc.Text != "Level is 3.2 m.\nSecond note: filter due." {
			t.Errorf("text is %q", doc.Text)
		}
	})
}

func testResponsesTerminals(t *testing.T, dir string) {
	const text = "Drain the line, then"
	id := func(t *testing.T, _ *aiptest.Player, s settled) {
		if s.outcome.ResponseID != "resp_qa22" {
			t.Errorf("response_id is %q, want the id that names the one follow-up", s.outcome.ResponseID)
		}
		if got := s.world.state("response"); len(got) != 1 || got[0].Response.ResponseID != "resp_qa22" {
			t.Errorf("response records: %+v", got)
		}
	}
	want{
		play: "a", text: text, verdict: "partial", code: 7,
		checks: checks{"finish_reason": "fail"}, more: id,
	}.settle(t, dir)
	want{
		play: "b", text: text, verdict: "partial", code: 7,
		checks: checks{"aip_status": "fail", "finish_reason": "fail"},
		more: func(t *testing.T, p *aiptest.Player, s settled) {
			id(t, p, s)
			if s.outcome.FinishReason != "incomplete" || !strings.Contains(verdictLine(t, s.text.stderr), "incomplete") {
				t.Errorf("the reason is not shown: %q", verdictLine(t, s.text.stderr))
			}
		},
	}.settle(t, dir)
	want{
		play: "c", text: text, verdict: "incomplete", code: 11,
		checks: checks{"aip_status": "fail", "terminal": "fail", "finish_reason": "fail"}, more: id,
	}.settle(t, dir)
	want{play: "d", text: text, verdict: "accepted", code: 0, more: id}.settle(t, dir)
	want{
		play: "e", text: text, verdict: "failed", code: 5,
		checks: checks{"aip_status": "fail", "finish_reason": "fail", "provider_error": "fail"}, more: id,
	}.settle(t, dir)
	want{
		play: "f", text: text, verdict: "partial", code: 7,
		checks: checks{"aip_status": "fail", "terminal": "fail", "truncated": "fail"}, more: id,
	}.settle(t, dir)
}
