package render

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aipctl/aipctl/internal/aiptest"
	"github.com/aipctl/aipctl/internal/record"
	"github.com/aipctl/aipctl/internal/transcript"
	"github.com/aipctl/aipctl/internal/verdict"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

var writeScenes = flag.Bool("write-scenes", false, "write the screens of testdata/scenes anew, to be looked at before they are kept")

// scene is a run on a terminal that is looked at now and then.
type scene struct {
	*rig
	screen *aiptest.Screen
	shots  strings.Builder
}

// look keeps what a person sees now.
func (s *scene) look(when string) {
	fmt.Fprintf(&s.shots, "== %s ==\n%s", when, s.screen.Rows())
}

// seconds lets the clock run.
func (s *scene) seconds(n int) {
	for range n {
		s.wait(time.Second)
		s.r.Tick(s.clock)
	}
}

// The screens of a person at a terminal of 10, 40, 80 and 200 columns: text
// with tools and two lost connections, a cancellation, a pending approval, a
// failure. Each file was looked at before it was kept.
func TestScenes(t *testing.T) {
	for name, play := range map[string]func(*scene){"tools": sceneTools, "cancel": sceneCancel, "pending": scenePending, "failure": sceneFailure} {
		for _, width := range []int{10, 40, 80, 200} {
			t.Run(fmt.Sprintf("%s at %d", name, width), func(t *testing.T) {
				s := &scene{screen: aiptest.NewScreen(width)}
				o := terminal()
				o.Stdout, o.Stderr, o.Color = s.screen.Stream("stdout"), s.screen.Stream("stderr"), ColorAlways
				o.Width = func() int { return width }
				s.rig = newRig(t, o)
				play(s)
				if len(s.screen.Faults) > 0 {
					t.Error(strings.Join(s.screen.Faults, "\n"))
				}
				path := filepath.Join("testdata", "scenes", fmt.Sprintf("%s-%d.txt", name, width))
				if *writeScenes {
					if err := os.WriteFile(path, []byte(s.shots.String()), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(s.shots.String(), "\n")); diff != "" {
					t.Errorf("not as in %s (-want +got):\n%s", path, diff)
				}
			})
		}
	}
}

func (s *scene) begin() {
	s.ok(s.r.Identity(record.Identity{
		ActionID: "act_1", CapabilityID: "cap:hermes_agent:qa:chat_stream",
		Resume: []string{"aipctl", "action", "events", "http://127.0.0.1:8080", "act_1", "--follow", "--include-chunks"},
		Cancel: []string{"aipctl", "action", "cancel", "http://127.0.0.1:8080", "act_1"},
	}))
	s.state(record.StateConnecting)
	s.state(record.StateFollowing)
	s.state(record.StateSubmitted)
	s.seconds(2)
}

func (s *scene) say(text string) { s.deliver(0, transcript.Text{Text: text}) }

func (s *scene) tool(id, name, status, label string) {
	s.deliver(0, transcript.Tool{CallID: id, Name: name, Status: status, Label: label})
}

func (s *scene) lost(attempt int, wait int64) {
	s.ok(s.r.State(record.State{State: record.StateReconnecting, Attempt: attempt, WaitMS: wait, Reason: "the connection was refused"}))
}

func sceneTools(s *scene) {
	s.begin()
	s.look("nothing came yet")
	s.deliver(0, transcript.Thought{Text: "The notes first.\n"})
	s.say("I look at the notes, \u6c34\u4f4d \U0001f30a.")
	s.tool("1", "read_file", transcript.ToolRunning, "notes/levels.csv")
	s.tool("2", "terminal", transcript.ToolRunning, "date -u -d @0 +%Y-%m-%d && hostname --fqdn # \u6c34\u4f4d")
	s.seconds(4)
	s.look("two tools run")
	s.tool("1", "read_file", transcript.ToolCompleted, "")
	s.lost(1, 500)
	s.ok(s.r.State(record.State{State: record.StateFollowing, Attempt: 2}))
	s.say("\n\nThe level is 3.2 m and")
	s.lost(2, 9000)
	s.seconds(3)
	s.look("the connection was lost in a line of text")
	s.ok(s.r.State(record.State{State: record.StateFollowing, Attempt: 3}))
	s.tool("2", "terminal", transcript.ToolFailed, "")
	s.say(" rising.")
	s.ok(s.r.State(record.State{State: record.StateReplied, Action: "completed"}))
	s.state(record.StateDraining)
	s.ok(s.r.Warning(record.Warning{Code: "tools.unconfirmed", Message: "tools ran; that their effects took place is not confirmed"}))
	s.outcome(func(o *verdict.Outcome) { o.Reconnects, o.Warnings = 2, make([]verdict.Warning, 1) })
	s.look("the end")
}

func sceneCancel(s *scene) {
	s.begin()
	s.say("Half an ans")
	s.seconds(16)
	s.look("a long pause in a line of text")
	s.say("wer")
	s.ok(s.r.Event(record.Event{ID: "evt_1", Kind: "aip.action.cancelled"}))
	s.outcome(func(o *verdict.Outcome) {
		o.Verdict, o.ExitCode, o.Reason, o.FinishReason, o.Usage = "cancelled", 6, "the action was cancelled", "", nil
	})
	s.look("the end")
}

func scenePending(s *scene) {
	s.begin()
	s.ok(s.r.Event(record.Event{ID: "evt_1", Kind: "aip.approval.requested"}))
	s.outcome(func(o *verdict.Outcome) {
		o.Verdict, o.ExitCode, o.Reason, o.ErrorCode, o.ApprovalID = "pending", 8, "the action waits for a human", "policy.human_approval_required", "appr_1"
		o.FinishReason, o.Usage, o.FirstTextMS, o.TextBytes = "", nil, nil, 0
		o.Next = [][]string{{"aipctl", "action", "events", "act_1", "--follow", "--include-chunks"}}
	})
	s.look("the end")
}

func sceneFailure(s *scene) {
	s.begin()
	s.ok(s.r.State(record.State{State: record.StateUncertain, Reason: "the connection was reset"}))
	s.ok(s.r.Warning(record.Warning{Code: "submit.uncertain", Message: "the answer to the submit is not known; it is not sent again, only read"}))
	s.seconds(3)
	s.look("the answer to the submit was lost")
	s.deliver(0, transcript.ProviderError{Type: "agent_error", Code: "invalid_api_key", Message: "HTTP 401: Incorrect API key provided"})
	s.outcome(func(o *verdict.Outcome) {
		o.Verdict, o.ExitCode, o.Reason, o.FinishReason = "failed", 5, "a provider error was retained", "error"
		o.Usage, o.FirstTextMS, o.TextBytes = jsontext.Value(`{"prompt_tokens":0,"completion_tokens":0}`), nil, 0
		o.Warnings = make([]verdict.Warning, 1)
	})
	s.look("the end")
}
