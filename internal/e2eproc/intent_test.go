//go:build unix

package e2eproc

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/aipctl/aipctl/internal/devserver"
)

// envelope is what the program posts, as far as these tests read it.
type envelope struct {
	Body struct {
		Action struct {
			ActionID       string          `json:"id"`
			CapabilityID   string          `json:"capability_id"`
			IdempotencyKey string          `json:"idempotency_key"`
			Mode           string          `json:"mode"`
			Input          json.RawMessage `json:"input"`
		} `json:"action"`
	} `json:"body"`
}

func TestIntentIsOnDiskWhenThePostArrives(t *testing.T) {
	t.Parallel()
	const secret = "the-words-of-the-prompt"
	for rule, tt := range map[string]struct {
		args []string
		mode string
	}{
		"a minted id":                  {nil, "streaming"},
		"an id that was given":         {[]string{"--action-id", "act_given.by-hand_1"}, "streaming"},
		"a key that was given":         {[]string{"--idempotency-key", "key-1"}, "streaming"},
		"sync":                         {[]string{"--mode", "sync", "-o", "json"}, "sync"},
		"async":                        {[]string{"--mode", "async", "-o", "jsonl"}, "async"},
		"detached":                     {[]string{"--detach"}, "async"},
		"with everything said aloud":   {[]string{"-v", "--debug-http"}, "streaming"},
		"with a state file by --state": {[]string{"--state", "aipctl/state.jsonl"}, "streaming"},
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			var (
				mu    sync.Mutex
				posts []envelope
				files [][]byte
				h     *home
			)
			d := newDaemon(t, setup{Options: devserver.Options{Hooks: devserver.Hooks{Request: func(r devserver.Request) {
				if kind(r.Method, r.Path, r.Query) != "submit" {
					return
				}
				b, _ := os.ReadFile(h.stateFile()) // a missing file holds no intent
				var e envelope
				_ = json.Unmarshal(r.Body, &e)
				mu.Lock()
				defer mu.Unlock()
				posts, files = append(posts, e), append(files, b)
			}}}})
			h = d.newHome()
			got := h.run(append([]string{"action", "call", d.url, "cap:hermes_agent:chat-stop:chat_stream", "--prompt", secret}, tt.args...)...)
			wantCode(t, got, 0)
			if len(posts) != 1 {
				t.Fatalf("%d posts, want 1", len(posts))
			}
			a := posts[0].Body.Action
			if a.Mode != tt.mode || !bytes.Contains(a.Input, []byte(secret)) {
				t.Fatalf("the post carries mode %q and input %s", a.Mode, a.Input)
			}
			found := 0
			for line := range bytes.Lines(files[0]) {
				var r stateRecord
				if err := json.Unmarshal(line, &r); err != nil {
					t.Fatalf("the state file held a broken line: %v", err)
				}
				if r.Type != "intent" || r.ActionID != a.ActionID {
					continue
				}
				found++
				in := r.Intent
				if in.CapabilityID != a.CapabilityID || in.IdempotencyKey != a.IdempotencyKey || in.Mode != a.Mode || in.URL != d.url || in.InputHash == "" {
					t.Errorf("the intent says %+v, the post %+v", *in, a)
				}
			}
			if found != 1 {
				t.Errorf("the state file held %d intents of %s when the post arrived, want 1:\n%s", found, a.ActionID, files[0])
			}
			if slices.ContainsFunc(files, func(b []byte) bool { return bytes.Contains(b, []byte(secret)) }) {
				t.Error("the state file held the prompt")
			}
		})
	}
}

// What cannot be recorded is not sent.
func TestNoPostWithoutAnIntent(t *testing.T) {
	t.Parallel()
	for rule, place := range map[string]string{
		"a state file below a file": "occupied/state.jsonl",
		"a state file that is none": ".",
		"a device for a state file": "/dev/full",
		"a folder nobody may write": "/proc/self/state.jsonl", // nor on systems without it
		"no state file at all":      "off",
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			d := newDaemon(t, setup{})
			h := d.newHome()
			if err := os.WriteFile(h.dir+"/occupied", nil, 0o600); err != nil {
				t.Fatal(err)
			}
			got := h.run("action", "call", d.url, "cap:hermes_agent:chat-stop:chat_stream", "--prompt", "x", "--state", place)
			want := 14
			if place == "off" {
				want = 2
			}
			wantCode(t, got, want)
			if got.out != "" || !bytes.Contains([]byte(got.stderr), []byte("--state FILE")) {
				t.Errorf("the refusal does not say how to go on: %s", got)
			}
			if n := d.requests("submit"); n != 0 {
				t.Errorf("%d posts were made", n)
			}
		})
	}
}
