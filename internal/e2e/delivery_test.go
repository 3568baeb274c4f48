package e2e_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/aipctl/aipctl/internal/aiptest"
	"github.com/google/go-cmp/cmp"
)

func testWhatIsACursor(t *testing.T, dir string) {
	want{
		text: "red pump runs", verdict: "accepted", code: 0,
		follows: []string{"", "aev_cursor_402_1"}, cursor: terminalCursor(t, dir, "conn2.sse"),
	}.settle(t, dir)
	dir = running(t, dir, "play.json")
	w := newWorld(t)
	first := aiptest.PlayCase(t, dir, "play.json")
	if s := w.follow(first); s.code != 0 {
		t.Fatalf("exit code %d: %s", s.code, s.stderr)
	}
	saved := terminalCursor(t, dir, "conn2.sse")
	kept := w.state("cursor")
	if last := kept[len(kept)-1].Cursor; last.Cursor != saved || last.LastSequence == nil || *last.LastSequence != 5 {
		t.Errorf("the last cursor kept is %+v, want %s with everything written", last, saved)
	}
	// The played daemon is the same only while it has the same address.
	again := func(t *testing.T, p *aiptest.Player, want string, args ...string) {
		t.Helper()
		before := len(p.Requests(aiptest.Follow))
		w.run(append([]string{"action", "events", p.URL()}, args...)...)
		got := p.Requests(aiptest.Follow)[before:]
		if len(got) == 0 || got[0].Query().Get("cursor") != want {
			t.Errorf("the first follow asks for %v, want %q", cursors(p, aiptest.Follow)[before:], want)
		}
	}
	both := []string{"--follow", "--include-chunks", "--wait", "5s"}
	t.Run("the same binding resumes", func(t *testing.T) {
		again(t, first, saved, append([]string{first.ActionID()}, both...)...)
	})
	t.Run("another action", func(t *testing.T) {
		again(t, first, "", append([]string{"act_qa_25_other"}, both...)...)
	})
	t.Run("another filter", func(t *testing.T) {
		again(t, first, "", first.ActionID(), "--follow", "--wait", "5s")
	})
	t.Run("another server", func(t *testing.T) {
		again(t, aiptest.PlayCase(t, dir, "play.json"), "", append([]string{first.ActionID()}, both...)...)
	})
	t.Run("another token", func(t *testing.T) {
		w.env["AIP_TOKEN"] = "another-caller"
		defer delete(w.env, "AIP_TOKEN")
		again(t, first, "", append([]string{first.ActionID()}, both...)...)
	})
	t.Run("a cursor by hand wins", func(t *testing.T) {
		again(t, first, "aev_cursor_402_1", append([]string{first.ActionID(), "--from", "aev_cursor_402_1"}, both...)...)
	})
}

func testRepeatsConflictsGaps(t *testing.T, dir string) {
	follows := []string{"", "aev_cursor_404_3"}
	want{
		play: "same", text: "one two three four", verdict: "accepted", code: 0, follows: follows,
		more: func(t *testing.T, _ *aiptest.Player, s settled) {
			if s.outcome.Duplicates != 2 {
				t.Errorf("duplicates is %d, want 2", s.outcome.Duplicates)
			}
		},
	}.settle(t, dir)
	want{
		play: "conflict", text: "one two three four", verdict: "conflict", code: 10, follows: follows,
		checks: checks{"integrity": "fail"}, warned: []string{"integrity.conflict"},
		more: func(t *testing.T, _ *aiptest.Player, s settled) {
			if got := s.outcome.Warnings[0].Message; !strings.Contains(got, "chunk 2 ") {
				t.Errorf("the conflict does not name its sequence: %q", got)
			}
			if strings.Contains(s.text.stdout+s.text.stderr+s.lines.stdout, "TWO ") {
				t.Error("the other content is shown")
			}
		},
	}.settle(t, dir)
	gap := "one two three "
	want{
		play: "gap", text: gap, deltas: &gap, verdict: "accepted", code: 0, follows: follows,
		more: func(t *testing.T, p *aiptest.Player, s settled) {
			gaps := ofType(s.all, "gap")
			if len(gaps) != 1 || gaps[0].From != "4" || gaps[0].To != "4" || s.outcome.Gaps != 1 {
				t.Errorf("the gap is not reported once as 4 to 4: %+v, gaps %d", gaps, s.outcome.Gaps)
			}
			if !strings.Contains(s.text.stderr, "sequence 4 was not delivered") {
				t.Errorf("stderr does not speak of what is missing:\n%s", s.text.stderr)
			}
			if len(p.Requests(aiptest.Page)) == 0 {
				t.Error("no page was read to fill the hole")
			}
		},
	}.settle(t, dir)
	want{
		play: "disorder", text: "one two three four", verdict: "accepted", code: 0, follows: follows,
		more: func(t *testing.T, _ *aiptest.Player, s settled) {
			var order []string
			for _, r := range ofType(s.all, "chunk") {
				order = append(order, r.Sequence.String())
			}
			if diff := cmp.Diff(strings.Fields("0 1 2 3 4 5 6"), order); diff != "" {
				t.Errorf("order of the chunks (-want +got):\n%s", diff)
			}
		},
	}.settle(t, dir)
	want{
		play: "stray", text: "one two three four", verdict: "conflict", code: 10, follows: follows,
		checks: checks{"integrity": "fail"}, warned: []string{"integrity.conflict"},
		more: func(t *testing.T, _ *aiptest.Player, s settled) {
			if strings.Contains(s.text.stdout+s.lines.stdout, "STRAY") {
				t.Error("text of another action is shown")
			}
		},
	}.settle(t, dir)
}

func testDeliveryVersusOutcome(t *testing.T, dir string) {
	t.Run("play-a.json", func(t *testing.T) { testStreamDiesActionFails(t, dir) })
	want{
		play: "b", text: "Pressure is normal.", verdict: "incomplete", code: 11,
		checks: checks{"aip_status": "fail", "terminal": "fail", "integrity": "missing"},
	}.settle(t, dir)
	want{
		play: "c", text: "Pressure is normal.", verdict: "accepted", code: 0, often: true,
		warned: []string{"text.from_result"},
	}.settle(t, dir)
	want{
		play: "d", text: "Pressure is normal.", verdict: "accepted", code: 0,
		follows: []string{"", "aev_cursor_402_1", "aev_cursor_402_1"},
		more: func(t *testing.T, _ *aiptest.Player, s settled) {
			if s.outcome.Reconnects != 2 {
				t.Errorf("%d reconnects, want 2", s.outcome.Reconnects)
			}
		},
	}.settle(t, dir)
}

func testSilenceAndSleep(t *testing.T, dir string) {
	// Six minutes of comments in under four seconds. The silence allowed is
	// far above the pause between two of them and far below the whole.
	want{
		play: "quiet", opts: []aiptest.PlayOption{aiptest.WithSpeed(0.01)}, args: []string{"--idle-timeout", "3s"},
		text: "Warming up.", verdict: "accepted", code: 0, cursor: "aev_cursor_406_4",
	}.settle(t, dir)
	want{
		play: "dead", args: []string{"--idle-timeout", "1s"},
		text: "Warming up.", verdict: "accepted", code: 0, follows: []string{"", "aev_cursor_402_1"},
		more: func(t *testing.T, _ *aiptest.Player, s settled) {
			if s.outcome.Reconnects != 1 {
				t.Errorf("%d reconnects, want 1", s.outcome.Reconnects)
			}
		},
	}.settle(t, dir)
	t.Run("no headers of the stream", func(t *testing.T) {
		t.Parallel()
		p := aiptest.PlayCase(t, running(t, dir, "play-no-headers.json"), "play-no-headers.json")
		s := newWorld(t).follow(p, "--idle-timeout", "700ms", "--wait", "4s", "-o", "jsonl")
		all, o := records(t, s.stdout)
		if s.code != 9 || o.Verdict != "unknown" || len(o.Next) == 0 {
			t.Errorf("exit code %d, %s and next %v; want unknown and a way to go on: the daemon knows of no end", s.code, o.Verdict, o.Next)
		}
		if n := len(p.Requests(aiptest.Follow)); n < 2 {
			t.Errorf("%d follows, want the next try after a bounded wait", n)
		}
		if !slices.ContainsFunc(ofType(all, "state"), func(r rec) bool { return r.State == "reconnecting" }) {
			t.Error("no record says that the connection was given up")
		}
		reads(t, p)
	})
	t.Run("no headers at all", func(t *testing.T) {
		t.Parallel()
		silent := map[string]any{"delay_ms": 600000}
		dir := changedPlan(t, dir, "play-no-headers.json", func(plan map[string]any) {
			plan["status"], plan["result"], plan["page"] = []any{silent}, []any{silent}, []any{silent}
		})
		p := aiptest.PlayCase(t, dir, "play-no-headers.json")
		s := newWorld(t).follow(p, "--idle-timeout", "100ms", "--wait", "2s", "-o", "jsonl")
		_, o := records(t, s.stdout)
		if s.code != 3 || o.ExitCode != 3 || o.Verdict != "unknown" {
			t.Errorf("exit code %d, in the outcome %d and %s; want 3 and unknown: nobody was reached, and nothing submitted", s.code, o.ExitCode, o.Verdict)
		}
		reads(t, p)
	})
}

func testNotAnEventStream(t *testing.T, dir string) {
	fine := want{text: "fine", verdict: "accepted", code: 0}
	for play, follows := range map[string]int{"b": 3, "d": 1} {
		w := fine
		w.play, w.follows = play, make([]string, follows)
		w.settle(t, dir)
	}
	// An end without events: the state and the result tell.
	f := fine
	f.play, f.often, f.warned = "f", true, []string{"follow.refused", "text.from_result"}
	f.settle(t, dir)

	for _, tc := range []struct {
		play, rule string
		code       int
		says       []string
	}{
		{"a", "a sign-in page is no aipd", 3, []string{"200", "HTML"}},
		{"c", "an error document is no event stream", 3, []string{"200", "application/json"}},
		{"e", "a refused token", 4, []string{"401", "auth.native_http_unauthorized"}},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			const secret = "qa-token-of-thirty"
			play := "play-" + tc.play + ".json"
			dir := running(t, dir, play)
			refused := func(t *testing.T, p *aiptest.Player, s shot, code int) {
				t.Helper()
				if s.code != code {
					t.Errorf("exit code %d, want %d; stderr:\n%s", s.code, code, s.stderr)
				}
				out := s.stdout + s.stderr
				for _, word := range tc.says {
					if !strings.Contains(out, word) {
						t.Errorf("%q is not said: %q", word, out)
					}
				}
				for _, word := range []string{"<html", "<form", "Sign in", secret, "fine"} {
					if strings.Contains(out, word) {
						t.Errorf("%q is shown: %q", word, out)
					}
				}
				if n := len(p.Requests(aiptest.Follow)); n != 1 {
					t.Errorf("%d follows, want 1", n)
				}
				reads(t, p)
			}
			t.Run("text", func(t *testing.T) {
				p, w := aiptest.PlayCase(t, dir, play), newWorld(t)
				w.env["AIP_TOKEN"] = secret
				s := w.follow(p)
				refused(t, p, s, tc.code)
				clean(t, "stderr", s.stderr, "\n")
				if s.stdout != "" {
					t.Errorf("stdout is %q", s.stdout)
				}
			})
			t.Run("jsonl", func(t *testing.T) {
				p, w := aiptest.PlayCase(t, dir, play), newWorld(t)
				w.env["AIP_TOKEN"] = secret
				s := w.follow(p, "-o", "jsonl")
				refused(t, p, s, tc.code)
				_, o := records(t, s.stdout)
				if o.Verdict != "unknown" || o.ExitCode != tc.code {
					t.Errorf("the outcome says %s and %d; want unknown, for nothing was learnt of the action, and %d", o.Verdict, o.ExitCode, tc.code)
				}
				for _, r := range w.state("cursor") {
					t.Errorf("a cursor was kept: %+v", *r.Cursor)
				}
			})
			t.Run("before a submit", func(t *testing.T) {
				p, w := aiptest.PlayCase(t, dir, play), newWorld(t)
				w.env["AIP_TOKEN"] = secret
				s := w.run("action", "call", p.URL(), "cap:hermes_agent:qa:chat_stream", "--prompt", "n")
				refused(t, p, s, tc.code)
				if got := w.state("not_sent"); len(got) != 1 || got[0].NotSent.Class != tc.code {
					t.Errorf("not_sent records: %+v, want one of class %d", got, tc.code)
				}
			})
		})
	}
}

func testLastPageAndLimit(t *testing.T, dir string) {
	const text = "w0 w1 w2 w3 w4 w5 "
	pages := func(want ...string) func(*testing.T, *aiptest.Player, settled) {
		return func(t *testing.T, p *aiptest.Player, _ settled) {
			if diff := cmp.Diff(want, cursors(p, aiptest.Page)); diff != "" {
				t.Errorf("cursors of the pages (-want +got):\n%s", diff)
			}
		}
	}
	want{
		play: "a", text: text, verdict: "accepted", code: 0, cursor: "aev_cursor_409_8",
		more: pages("aev_cursor_409_none", "aev_cursor_405_4", "aev_cursor_409_8"),
	}.settle(t, dir)
	want{
		play: "b", text: text, verdict: "conflict", code: 10,
		checks: checks{"integrity": "fail"}, warned: []string{"integrity.conflict"},
		more: func(t *testing.T, _ *aiptest.Player, s settled) {
			if strings.Contains(s.text.stdout+s.lines.stdout, "after the end") {
				t.Error("what came after the end is shown")
			}
		},
	}.settle(t, dir)
	want{
		play: "c", text: text, verdict: "partial", code: 7,
		checks: checks{"aip_status": "fail", "terminal": "fail", "truncated": "fail"},
	}.settle(t, dir)
	want{
		play: "d", text: text, verdict: "accepted", code: 0,
		warned: []string{"page.stuck", "text.from_result"},
		more:   pages("aev_cursor_409_none", "aev_cursor_409_none"),
	}.settle(t, dir)
}
