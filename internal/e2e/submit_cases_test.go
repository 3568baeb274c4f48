package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aipctl/aipctl/internal/aiptest"
)

func testLostSubmitReply(t *testing.T, dir string) {
	// An explicit id is asked for before anything is sent, and the plans do not
	// count on that: one answer more says that the id is free.
	free := func(t *testing.T, play string) string {
		return changedPlan(t, dir, play, func(plan map[string]any) {
			plan["status"] = append([]any{body("status-unknown.json")}, plan["status"].([]any)...)
			if plan["follow"] == nil {
				plan["follow"] = []any{map[string]any{"text": "", "end": "hang:3600"}}
			}
		})
	}
	submit := func(w *world, p *aiptest.Player, more ...string) shot {
		return w.run(append([]string{
			"action", "call", p.URL(), "cap:hermes_agent:qa:chat_stream", "--action-id", p.ActionID(), "--idempotency-key", "key-of-case-32",
			"--input", `{"prompt":"n","session_id":"s"}`,
		}, more...)...)
	}
	once := func(t *testing.T, p *aiptest.Player) {
		t.Helper()
		posts := p.Requests(aiptest.Post)
		if len(posts) != 1 {
			t.Fatalf("%d submits, want exactly 1", len(posts))
		}
		if posts[0].Header.Get("Idempotency-Key") != "" {
			t.Error("the submit has an Idempotency-Key header, on which a transport would send it again")
		}
		var sent struct {
			Body struct {
				Action struct {
					ID  string `json:"id"`
					Key string `json:"idempotency_key"`
				} `json:"action"`
			} `json:"body"`
		}
		if err := json.Unmarshal([]byte(posts[0].Body), &sent); err != nil {
			t.Fatal(err)
		}
		if a := sent.Body.Action; a.ID != p.ActionID() || a.Key != "key-of-case-32" {
			t.Errorf("submitted under %+v", a)
		}
	}
	for _, play := range []string{"a", "b"} {
		t.Run(play, func(t *testing.T) {
			name := "play-" + play + ".json"
			p, w := aiptest.PlayCase(t, free(t, name), name), newWorld(t)
			s := submit(w, p)
			if s.code != 0 || s.stdout != "done\n" {
				t.Errorf("exit code %d and stdout %q, want the answer of the action that runs; stderr:\n%s", s.code, s.stdout, s.stderr)
			}
			once(t, p)
			intents := w.state("intent")
			if len(intents) != 1 || intents[0].ActionID != p.ActionID() || intents[0].Intent.IdempotencyKey != "key-of-case-32" {
				t.Errorf("intents: %+v", intents)
			}
		})
	}
	t.Run("c: the id was taken meanwhile", func(t *testing.T) {
		p, w := aiptest.PlayCase(t, free(t, "play-c.json"), "play-c.json"), newWorld(t)
		s := submit(w, p)
		once(t, p)
		if s.code != 12 {
			t.Errorf("exit code %d, want 12: the action that is there is not this call's", s.code)
		}
		if !strings.Contains(s.stderr, "action.id_conflict") || !strings.Contains(s.stderr, p.ActionID()) {
			t.Errorf("stderr names neither the conflict nor the id:\n%s", s.stderr)
		}
		if n := len(w.state("not_sent")); n != 1 {
			t.Errorf("%d not_sent records, want 1", n)
		}
	})
	t.Run("an id that is taken already is not submitted", func(t *testing.T) {
		p, w := aiptest.PlayCase(t, dir, "play-c.json"), newWorld(t)
		if s := submit(w, p); s.code != 12 {
			t.Errorf("exit code %d, want 12; stderr:\n%s", s.code, s.stderr)
		}
		if n := len(p.Requests(aiptest.Post)); n != 0 {
			t.Errorf("%d submits", n)
		}
		if n := len(w.state("intent")); n != 0 {
			t.Errorf("%d intents recorded", n)
		}
	})
	for _, value := range []string{"zero", "negative", "plus", "junk", "huge", "past-date", "far-date"} {
		t.Run("429-"+value, func(t *testing.T) {
			t.Parallel()
			name := "play-429-" + value + ".json"
			p, w := aiptest.PlayCase(t, free(t, name), name), newWorld(t)
			s := submit(w, p, "--wait", "2500ms", "-o", "jsonl")
			once(t, p)
			_, o := records(t, s.stdout)
			if s.code != 9 || o.Verdict != "unknown" {
				t.Errorf("exit code %d and %s, want unknown: 429 does not prove that nothing ran", s.code, o.Verdict)
			}
			if len(o.Next) == 0 || !slices.Contains(o.Next[0], p.ActionID()) {
				t.Errorf("next does not name the original id: %v", o.Next)
			}
			for _, next := range o.Next {
				if slices.Contains(next, "call") {
					t.Errorf("next is a submission: %v", next)
				}
			}
			if n := len(p.Requests(aiptest.Status)); n < 2 || n > 3 {
				t.Errorf("%d reads of the state within the wait; want the probe and a read a second, whatever was asked", n)
			}
			if n := len(w.state("not_sent")); n != 0 {
				t.Errorf("%d not_sent records for a submit that may have run", n)
			}
		})
	}
}

func testDamagedStateFile(t *testing.T, dir string) {
	dir = running(t, dir, "play.json")
	for _, damaged := range []string{"truncated.json", "nul-padded.json", "doubled-brace.json", "empty.json"} {
		t.Run(damaged, func(t *testing.T) {
			before := read(t, dir, damaged)
			fresh := func(t *testing.T) *world {
				w := newWorld(t)
				path := filepath.Join(t.TempDir(), "state.jsonl")
				if err := os.WriteFile(path, before, 0o600); err != nil {
					t.Fatal(err)
				}
				w.env["AIPCTL_STATE"] = path
				return w
			}
			kept := func(t *testing.T, w *world) {
				t.Helper()
				if after, err := os.ReadFile(w.env["AIPCTL_STATE"]); err != nil || !bytes.HasPrefix(after, before) {
					t.Errorf("the damaged bytes are no longer there (%v)", err)
				}
			}
			t.Run("reading works, and says what is wrong", func(t *testing.T) {
				p, w := aiptest.PlayCase(t, dir, "play.json"), fresh(t)
				s := w.follow(p)
				if s.code != 0 || s.stdout != "still works\n" {
					t.Errorf("exit code %d and stdout %q; stderr:\n%s", s.code, s.stdout, s.stderr)
				}
				if !strings.Contains(s.stderr, w.env["AIPCTL_STATE"]) {
					t.Errorf("stderr does not name the file:\n%s", s.stderr)
				}
				kept(t, w)
			})
			t.Run("the damage is a record of JSON Lines", func(t *testing.T) {
				p, w := aiptest.PlayCase(t, dir, "play.json"), fresh(t)
				s := w.follow(p, "-o", "jsonl")
				all, _ := records(t, s.stdout)
				if s.code != 0 || !slices.ContainsFunc(ofType(all, "warning"), func(r rec) bool { return strings.Contains(r.Message, w.env["AIPCTL_STATE"]) }) {
					t.Errorf("exit code %d; no warning names the file: %s", s.code, s.stdout)
				}
				kept(t, w)
			})
			if damaged == "empty.json" {
				return // every line of a file without lines is sound
			}
			t.Run("an explicit id is not submitted", func(t *testing.T) {
				d, w := serveUnsubmitted(t, loadRecording(t, "chat_stream_complete")), fresh(t)
				s := w.run(callOf(d)...)
				if s.code != 14 || s.stdout != "" || d.count("post") != 0 {
					t.Errorf("exit code %d, stdout %q and %d submits; want 14 and nothing", s.code, s.stdout, d.count("post"))
				}
				if !strings.Contains(s.stderr, w.env["AIPCTL_STATE"]) {
					t.Errorf("stderr does not name the file:\n%s", s.stderr)
				}
				if after := read(t, filepath.Dir(w.env["AIPCTL_STATE"]), "state.jsonl"); !bytes.Equal(after, before) {
					t.Error("the file was written to")
				}
			})
			t.Run("a minted id is, with a warning", func(t *testing.T) {
				d, w := serveMinted(t, loadRecording(t, "chat_stream_complete")), fresh(t)
				s := w.run("action", "call", d.URL, d.capability, "--input", `{"prompt":"n","session_id":"s"}`)
				if s.code != 0 || d.count("post") != 1 {
					t.Errorf("exit code %d and %d submits; stderr:\n%s", s.code, d.count("post"), s.stderr)
				}
				if !strings.Contains(s.stderr, w.env["AIPCTL_STATE"]) {
					t.Errorf("stderr does not name the file:\n%s", s.stderr)
				}
				kept(t, w)
			})
		})
	}
}

func testParallelWriters(t *testing.T, dir string) {
	const writers, followers = 24, 6
	dir = changedPlan(t, dir, "play.json", func(plan map[string]any) {
		unknown := map[string]any{"action_status": map[string]any{"action_id": "act_qa_39", "state": "unknown", "updated_at": "2030-01-15T09:30:02Z"}}
		plan["status"] = []any{map[string]any{"text": string(encode(unknown))}}
	})
	p, w := aiptest.PlayCase(t, dir, "play.json"), newWorld(t)
	path := w.env["AIPCTL_STATE"]

	ctx, stop := context.WithCancel(t.Context())
	var reader, jobs sync.WaitGroup
	reader.Go(func() { // the file parses at every moment
		for ctx.Err() == nil {
			if err := wholeLines(path); err != nil {
				t.Errorf("while it was written: %v", err)
				return
			}
		}
	})
	wanted := map[string]bool{}
	for i := range writers {
		id := fmt.Sprintf("act_qa_par_%d", i+1)
		wanted[id] = true
		c := command(t, w, "action", "call", p.URL(), "cap:hermes_agent:qa:chat_stream", "--action-id", id, "--detach", "--input", `{"prompt":"n"}`)
		jobs.Go(func() {
			if out, err := c.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", id, err, out)
			}
		})
	}
	from := running(t, aiptest.CaseDir(t, "36-ci-output"), "play.json")
	saved := terminalCursor(t, from, "stream.sse")
	for range followers {
		other := aiptest.PlayCase(t, from, "play.json", aiptest.WithSpeed(0.1))
		c := command(t, w, "action", "events", other.URL(), other.ActionID(), "--follow", "--include-chunks")
		jobs.Go(func() {
			if out, err := c.Output(); err != nil || string(out) != "Tank full.\n" {
				t.Errorf("follower: %v, stdout %q", err, out)
			}
		})
	}
	jobs.Wait()
	stop()
	reader.Wait()

	if err := wholeLines(path); err != nil {
		t.Error(err)
	}
	for _, r := range w.state("intent") {
		delete(wanted, r.ActionID)
	}
	if len(wanted) > 0 {
		t.Errorf("%d ids are not in the state file: %v", len(wanted), wanted)
	}
	ends := 0
	for _, r := range w.state("cursor") {
		if r.Cursor.Cursor == saved {
			ends++
		}
	}
	if ends < followers {
		t.Errorf("%d followers kept their last cursor, want %d", ends, followers)
	}
	if n := len(p.Requests(aiptest.Post)); n != writers {
		t.Errorf("%d submits, want %d", n, writers)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if name := e.Name(); name != "state.jsonl" && !strings.HasSuffix(name, ".lock") {
			t.Errorf("left behind: %s", name)
		}
	}
}

// wholeLines reads the state file and fails on a line that has an end and is
// no object.
func wholeLines(path string) error {
	src, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	in := bufio.NewReader(bytes.NewReader(src))
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return nil // what has no end yet is still being written
		}
		if !json.Valid(line) {
			return fmt.Errorf("line %d is no JSON: %q", n, line)
		}
	}
}

// command is a process of its own that runs in the world.
func command(t testing.TB, w *world, args ...string) *exec.Cmd {
	t.Helper()
	ctx, stop := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	t.Cleanup(stop)
	exe, err := exec.LookPath("aipctl")
	if err != nil {
		t.Fatalf("the program of the tests: %v", err)
	}
	c := exec.CommandContext(ctx, exe, args...)
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "SystemRoot=" + os.Getenv("SystemRoot")}
	for name, value := range w.env {
		c.Env = append(c.Env, name+"="+value)
	}
	return c
}

func testNoWritableHome(t *testing.T, dir string) {
	plainFile := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(plainFile, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		rule  string
		env   map[string]string
		names string // what a message has to name
	}{
		{"HOME is not set", map[string]string{}, "HOME"},
		{"HOME is no folder", map[string]string{"HOME": plainFile, "USERPROFILE": plainFile, "LOCALAPPDATA": plainFile}, plainFile},
		{"the state folder is a file", map[string]string{"AIPCTL_STATE": filepath.Join(plainFile, "state.jsonl")}, plainFile},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			lost := func(t *testing.T) *world { return &world{t: t, env: tc.env, now: newWorld(t).now} }
			t.Run("events", func(t *testing.T) {
				p := aiptest.PlayCase(t, running(t, dir, "play.json"), "play.json")
				s := lost(t).follow(p)
				if s.code != 0 || s.stdout != "served\n" {
					t.Errorf("exit code %d and stdout %q; stderr:\n%s", s.code, s.stdout, s.stderr)
				}
				if !strings.Contains(s.stderr, tc.names) || !strings.Contains(s.stderr, "cursor cannot be kept") {
					t.Errorf("stderr does not say that the cursor cannot be kept, and why:\n%s", s.stderr)
				}
				if last := terminalCursor(t, dir, "whole.sse"); !strings.Contains(s.stderr, last) {
					t.Errorf("the last cursor, %s, is not printed:\n%s", last, s.stderr)
				}
			})
			t.Run("events in JSON Lines", func(t *testing.T) {
				p := aiptest.PlayCase(t, running(t, dir, "play.json"), "play.json")
				s := lost(t).follow(p, "-o", "jsonl")
				all, o := records(t, s.stdout)
				if s.code != 0 || len(ofType(all, "warning")) == 0 {
					t.Errorf("exit code %d, no warning record: %s", s.code, s.stdout)
				}
				if last := terminalCursor(t, dir, "whole.sse"); o.Cursor != last {
					t.Errorf("the cursor of the outcome is %q, want %q", o.Cursor, last)
				}
			})
			t.Run("status, result, version, help", func(t *testing.T) {
				p := aiptest.PlayCase(t, dir, "play.json")
				for _, args := range [][]string{
					{"action", "status", p.URL(), p.ActionID()}, {"action", "result", p.URL(), p.ActionID()}, {"version"}, {"help"}, {"help", "exit-codes"},
				} {
					if s := lost(t).run(args...); s.code != 0 || s.stdout == "" {
						t.Errorf("%v: exit code %d, stdout %q, stderr:\n%s", args, s.code, s.stdout, s.stderr)
					}
				}
			})
			t.Run("call is refused before it sends", func(t *testing.T) {
				p := aiptest.PlayCase(t, dir, "play.json")
				s := lost(t).run("action", "call", p.URL(), "cap:hermes_agent:qa:chat_stream", "--prompt", "n")
				if s.code != 14 || s.stdout != "" || len(p.Requests(aiptest.Post)) != 0 {
					t.Errorf("exit code %d, stdout %q, %d submits; want 14 and nothing", s.code, s.stdout, len(p.Requests(aiptest.Post)))
				}
				if !strings.Contains(s.stderr, "--state") || !strings.Contains(s.stderr, tc.names) {
					t.Errorf("stderr does not say why and how to go on:\n%s", s.stderr)
				}
			})
		})
	}
	t.Run("no state by choice", func(t *testing.T) {
		p := aiptest.PlayCase(t, running(t, dir, "play.json"), "play.json")
		w := newWorld(t)
		if s := w.follow(p, "--state", "off"); s.code != 0 || s.stdout != "served\n" {
			t.Errorf("exit code %d and stdout %q", s.code, s.stdout)
		}
		s := w.run("action", "call", p.URL(), "cap:hermes_agent:qa:chat_stream", "--prompt", "n", "--state", "off")
		if s.code != 2 || len(p.Requests(aiptest.Post)) != 0 {
			t.Errorf("exit code %d and %d submits; want 2 and none", s.code, len(p.Requests(aiptest.Post)))
		}
	})
}
