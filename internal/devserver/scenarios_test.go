package devserver

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestConnectorErrorsSayWhatIsCertain(t *testing.T) {
	for _, tc := range []struct{ name, category, remote, uncertain string }{
		{"chat-rate-limited", "temporary", "429", "true"},
		{"chat-endpoint-unauthorized", "auth", "401", "false"},
		{"chat-transport-break", "transport", "<nil>", "true"},
		{"chat-publication", "connector", "<nil>", "true"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
				r := d.submit(tc.name, "act_x", nil)
				r.want(t, r.status,
					"/body/error/error/category", tc.category,
					"/body/error/error/retryable", "false",
					"/body/error/error/details/remote_status", tc.remote,
					"/body/error/error/details/uncertain_outcome", tc.uncertain,
					"/body/error/error/source/component", "hermes-agent")
			})
		})
	}
}

func TestStreamFailedCarriesTheLastFrame(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		r := d.submit("responses-failed", "act_f", fields{"input": fields{"body": fields{"input": "x"}}})
		r.want(t, 200, "/body/action_result/error/details/type", "response.failed",
			"/body/action_result/error/details/response/status", "failed",
			"/body/action_result/error/source/connector", "hermes-agent")
	})
}

// TestDerivedRecordings says what the altered recordings are for.
func TestDerivedRecordings(t *testing.T) {
	body := func(name string) string {
		for _, sc := range Scenarios() {
			if sc.Name == name {
				var b strings.Builder
				for _, blk := range sc.play.frames {
					b.Write(blk.data)
				}
				return b.String()
			}
		}
		t.Fatalf("no scenario %s", name)
		return ""
	}
	for _, tc := range []struct {
		rule, name   string
		has, hasNone []string
	}{
		{"bare finish", "chat-error-bare", []string{`"finish_reason": "error"`}, []string{`"usage"`, `"hermes":`, `"error":`}},
		{"unknown finish", "chat-finish-unknown", []string{`"finish_reason": "tool_limit"`}, []string{`"stop"`}},
		{"stop with error", "chat-stop-with-error", []string{`"finish_reason": "stop"`, `"error": {"message"`}, nil},
		{"no finish", "chat-no-finish", []string{"[DONE]"}, []string{`"stop"`}},
		{"tool unfinished", "chat-tool-unfinished", []string{`"toolCallId": "call_cl0ck02", "status": "running"`, `"finish_reason": "stop"`},
			[]string{`"toolCallId": "call_cl0ck02", "status": "completed"`}},
		{"two halves", "chat-surrogates", []string{`{"content": "\ud83d"}`, `{"content": "\ude80"}`}, nil},
		{"error of the agent", "chat-error-exception", []string{`"completed": true`, `"failed": true`, `"type": "RuntimeError"`}, nil},
		{"error of the model's provider", "chat-error", []string{`"error_code": "agent_error"`, `"failed": true`}, nil},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			got := body(tc.name)
			for _, want := range tc.has {
				if strings.Count(got, want) != 1 {
					t.Errorf("%q is not in it exactly once", want)
				}
			}
			for _, not := range tc.hasNone {
				if strings.Contains(got, not) {
					t.Errorf("%q is in it", not)
				}
			}
			for block := range strings.SplitSeq(got, "\n\n") {
				_, data, ok := strings.Cut(block, "data: ")
				if ok && data != "[DONE]" && !json.Valid([]byte(data)) {
					t.Errorf("a block is not JSON: %s", data)
				}
			}
		})
	}
}

// TestSurrogateHalvesStayText: each half is a frame whose data is the text of
// the provider's JSON, because the connector's reader refuses it.
func TestSurrogateHalvesStayText(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		d.submit("chat-surrogates", "act_s", nil).want(t, 200)
		chunks := d.chunksOf("act_s")
		for i, half := range map[int]string{2: `\ud83d`, 3: `\ude80`} {
			var c struct {
				SSE struct {
					Data string `json:"data"`
					Raw  string `json:"raw_data"`
				} `json:"hermes_sse"`
			}
			if err := json.Unmarshal(chunks[i].Data, &c); err != nil {
				t.Fatalf("data of chunk %d is not a string: %v", i, err)
			}
			if c.SSE.Data != c.SSE.Raw || !strings.Contains(c.SSE.Data, `"content": "`+half+`"`) {
				t.Errorf("chunk %d holds %q", i, c.SSE.Data)
			}
		}
	})
}

// TestRecordingsAreWhole: every byte of a recording is in its blocks, and no
// block is due before the one ahead of it.
func TestRecordingsAreWhole(t *testing.T) {
	seen := 0
	err := fs.WalkDir(recordings, "scenarios", func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, ok := strings.CutSuffix(path, ".sse")
		if !ok {
			return nil
		}
		seen++
		raw, err := recordings.ReadFile(path)
		if err != nil {
			return err
		}
		var joined []byte
		var last time.Duration
		for _, b := range load(strings.TrimPrefix(name, "scenarios/")) {
			if b.at < last {
				t.Errorf("%s goes back in time", name)
			}
			joined, last = append(joined, b.data...), b.at
		}
		if !bytes.Equal(joined, raw) {
			t.Errorf("%s is not whole", name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 30 {
		t.Errorf("only %d recordings", seen)
	}
}

func TestRecordedPausesAreKeptAndScaled(t *testing.T) {
	for _, tc := range []struct {
		rule  string
		speed float64
		want  time.Duration
	}{
		{"1 is real time", 1, 66651 * time.Millisecond},
		{"10 is ten times faster", 10, 6665100 * time.Microsecond},
		{"0 is no pause", 0, 0},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			withDaemon(t, Options{Speed: tc.speed}, func(t *testing.T, d *daemon) {
				start := time.Now()
				d.submit("chat-keepalive", "act_k", nil).want(t, 200)
				if got := time.Since(start).Round(time.Microsecond); got != tc.want {
					t.Errorf("the action took %v, want %v", got, tc.want)
				}
			})
		})
	}
}

func TestScenariosHaveWhatPeopleNeed(t *testing.T) {
	for _, sc := range Scenarios() {
		if sc.Summary == "" || sc.CapabilityID() != "cap:hermes_agent:"+sc.Name+":"+sc.Operation {
			t.Errorf("%s: %+v", sc.Name, sc.CapabilityID())
		}
		if want := map[bool]string{true: "streaming", false: "sync"}[strings.HasSuffix(sc.Operation, "_stream") ||
			sc.Operation == "run_events" || sc.Operation == "operator"]; sc.Mode != want {
			t.Errorf("%s is meant for mode %s, want %s", sc.Name, sc.Mode, want)
		}
		// The demo input must fit the schema of the operation by itself, and the
		// connector.
		bare, demo := &Scenario{Operation: sc.Operation}, json.RawMessage(sc.Demo)
		if bad := inputViolations(bare, demo); bad != nil {
			t.Errorf("%s: demo input: %v", sc.Name, bad)
		}
		if limit, err := connectorInput(bare, demo); err != nil || limit != defaultMaxEvents {
			t.Errorf("%s: demo input: limit %d, %v", sc.Name, limit, err)
		}
		// A chat without a session id cannot be continued, which clients warn of.
		if in := members(demo); in["max_events"] != nil ||
			strings.HasPrefix(sc.Operation, "chat") && string(in["session_id"]) != `"demo-session"` {
			t.Errorf("%s: demo input %s", sc.Name, demo)
		}
	}
}

// TestTwoDaemonsShareNothing: there is no state outside a Server.
func TestTwoDaemonsShareNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := New(Options{}), New(Options{})
		defer a.Close()
		defer b.Close()
		a.store.submitted(action{ID: "act_1"})
		if len(b.Submits()) != 0 || len(a.Submits()) != 1 {
			t.Errorf("submits: %v and %v", a.Submits(), b.Submits())
		}
	})
}
