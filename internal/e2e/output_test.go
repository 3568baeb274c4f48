package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/aipctl/aipctl/internal/aiptest"
	"github.com/google/go-cmp/cmp"
)

// caseRecording makes a recording of a case's chunks and result.
func caseRecording(t *testing.T, dir, chunks, result, capability string) recording {
	t.Helper()
	rec := recording{capability: capability}
	for line := range bytes.Lines(read(t, dir, chunks)) {
		rec.chunks = append(rec.chunks, bytes.TrimSpace(line))
	}
	var body map[string]json.RawMessage
	if err := json.Unmarshal(read(t, dir, result), &body); err != nil {
		t.Fatal(err)
	}
	rec.result = body["action_result"]
	rec.readResult(t)
	return rec
}

func testTerminalEscapes(t *testing.T, dir string) {
	dir = running(t, dir, "play.json")
	// What the provider said, by the aggregate of the result.
	var result struct {
		Result struct {
			Output struct {
				Text string `json:"text"`
			} `json:"output"`
		} `json:"action_result"`
	}
	if err := json.Unmarshal(read(t, dir, "result.json"), &result); err != nil {
		t.Fatal(err)
	}
	said := result.Result.Output.Text
	if !strings.Contains(said, "\x1b]52;c;") {
		t.Fatalf("the case says nothing dangerous: %q", said)
	}

	var shown string
	for _, terminal := range []bool{false, true} {
		w := newWorld(t)
		w.terminal = terminal
		w.env["NO_COLOR"] = "1"
		s := w.follow(aiptest.PlayCase(t, dir, "play.json"), "--show-labels", "--show-provider-errors")
		if s.code != 5 {
			t.Errorf("exit code %d, want 5; stderr:\n%q", s.code, s.stderr)
		}
		clean(t, "stdout", s.stdout, "\n\t")
		// On a terminal the status line goes back to the begin of its line.
		allowed := "\n"
		if terminal {
			allowed = "\n\r"
		}
		clean(t, "stderr", s.stderr, allowed)
		for _, words := range []string{"ok ", "cm0gLXJmIH4K", "link ", "here ", "title ", "cr FAILED", "PASSED ", "xyz ", "bell", "tab\there nl\nend "} {
			if !strings.Contains(s.stdout, words) {
				t.Errorf("the words %q are no longer readable: %q", words, s.stdout)
			}
		}
		// Every field is shown, and shown to be what it is.
		for _, field := range []string{
			`tool terminal\x1b[2K running`, `ls\r\x1b[1A forged`, `finish stop\x1b[0m`, `code connector.x\x1b[2J`,
		} {
			if !strings.Contains(s.stderr, field) {
				t.Errorf("stderr does not show %s: %q", field, s.stderr)
			}
		}
		if strings.Contains(s.stdout+s.stderr, "\u202e") {
			t.Errorf("an override of direction is passed on: %q, %q", s.stdout, s.stderr)
		}
		// What has not the form of a code is text, and the state file keeps none.
		if settled := w.state("settled"); len(settled) != 1 || strings.Contains(string(read(t, filepath.Dir(w.env["AIPCTL_STATE"]), filepath.Base(w.env["AIPCTL_STATE"]))), "connector.x") {
			t.Errorf("the state file keeps the daemon's text: %+v", settled)
		}
		if shown == "" {
			shown = s.stdout
		} else if s.stdout != shown {
			t.Errorf("a terminal shows %q, a pipe %q", s.stdout, shown)
		}
	}

	t.Run("JSON Lines keep every string", func(t *testing.T) {
		s := newWorld(t).follow(aiptest.PlayCase(t, dir, "play.json"), "-o", "jsonl")
		all, o := records(t, s.stdout)
		if got := joined(all); got != said {
			t.Errorf("the text records spell %q, want %q", got, said)
		}
		if o.FinishReason != "stop\x1b[0m" || o.ErrorCode != "connector.x\x1b[2J" || o.Verdict != "failed" {
			t.Errorf("finish_reason %q, error_code %q, verdict %s", o.FinishReason, o.ErrorCode, o.Verdict)
		}
		if o.Checks["finish_reason"] != "fail" {
			t.Errorf("the finish check is %q: a value that begins with stop is not stop", o.Checks["finish_reason"])
		}
		tools := ofType(all, "tool")
		if len(tools) != 1 || tools[0].Name != "terminal\x1b[2K" || tools[0].CallID != "call\x1b[5n" || tools[0].Label != "ls\r\x1b[1A forged" {
			t.Errorf("tool records: %+v", tools)
		}
		for _, c := range ofType(all, "chunk") {
			for at, want := range map[string]string{"14": "\x1bc", "15": "m\x1b]0;x\x07"} {
				if c.Sequence.String() != at {
					continue
				}
				var data struct{ Emoji, Model string }
				if err := json.Unmarshal(c.Data, &data); err != nil || data.Emoji+data.Model != want {
					t.Errorf("chunk %s holds %q (%v), want %q", at, data.Emoji+data.Model, err, want)
				}
			}
		}
	})

	t.Run("JSON keeps every string", func(t *testing.T) {
		s := newWorld(t).follow(aiptest.PlayCase(t, dir, "play.json"), "-o", "json")
		clean(t, "the document", strings.TrimSuffix(s.stdout, "\n"), "")
		clean(t, "stderr", s.stderr, "\n")
		if o := readOutcome(t, s.stdout); o.Text != said || s.code != 5 {
			t.Errorf("exit code %d and text %q, want 5 and %q", s.code, o.Text, said)
		}
	})

	rec := caseRecording(t, dir, "chunks.jsonl", "result.json", "cap:hermes_agent:qa:chat_stream")
	for _, tc := range []struct {
		rule string
		cut  func(string) []string
	}{
		{"whole", func(s string) []string { return []string{s} }},
		{"one character a delta", func(s string) []string { return strings.Split(s, "") }},
	} {
		t.Run("the same however it is cut: "+tc.rule, func(t *testing.T) {
			d := serve(t, retold(t, rec, tc.cut(said)))
			s := newWorld(t).run("action", "events", d.URL, d.action, "--follow", "--include-chunks")
			if s.stdout != shown {
				t.Errorf("stdout is %q, want %q", s.stdout, shown)
			}
		})
	}
}

// retold is a recording of the same end with other deltas before it.
func retold(t *testing.T, rec recording, deltas []string) recording {
	t.Helper()
	out := recording{action: rec.action, capability: rec.capability, status: rec.status}
	var events []any
	for i, delta := range deltas {
		if !utf8.ValidString(delta) {
			t.Fatalf("a delta cuts a character: %q", delta)
		}
		sse := map[string]any{
			"data":     map[string]any{"choices": []any{map[string]any{"index": 0, "delta": map[string]any{"content": delta}, "finish_reason": nil}}},
			"raw_data": "", "terminal": false,
		}
		events = append(events, sse)
		out.chunks = append(out.chunks, encode(map[string]any{"action_id": rec.action, "sequence": i, "kind": "data", "data": map[string]any{"hermes_sse": sse}}))
	}
	out.result = encode(map[string]any{"action_id": rec.action, "status": rec.status, "output": map[string]any{
		"endpoint_id": "qa", "operation": "chat_stream", "http_status": 200, "events": events, "text": "", "terminal": true, "truncated": false,
	}})
	return out
}

func testCIOutput(t *testing.T, dir string) {
	dir = running(t, dir, "play.json")
	fast := aiptest.WithSpeed(0.02)
	want{
		opts: []aiptest.PlayOption{fast}, text: "Tank full.", verdict: "accepted", code: 0,
		tools: []string{"read_file/call_1/completed"}, warned: []string{"tools.unconfirmed"},
	}.settle(t, dir)
	for _, env := range []map[string]string{
		{"CI": "true", "TERM": "dumb"}, {"NO_COLOR": "1", "TERM": "xterm-256color"}, {},
	} {
		t.Run("in a process of its own", func(t *testing.T) {
			w := newWorld(t)
			for name, value := range env {
				w.env[name] = value
			}
			for _, format := range []string{"text", "jsonl"} {
				p := aiptest.PlayCase(t, dir, "play.json", fast)
				c := command(t, w, "action", "events", p.URL(), p.ActionID(), "--follow", "--include-chunks", "-v", "-o", format)
				var stderr bytes.Buffer
				c.Stderr = &stderr
				out, err := c.Output() // stdin is the null device, stdout and stderr are pipes
				if err != nil {
					t.Fatalf("%v: %s", err, &stderr)
				}
				clean(t, "stderr", stderr.String(), "\n")
				if strings.HasPrefix(stderr.String(), "\n") || !strings.HasSuffix(stderr.String(), "\n") {
					t.Errorf("stderr is not made of whole lines: %q", stderr.String())
				}
				if format == "jsonl" {
					records(t, string(out))
				} else if string(out) != "Tank full.\n" {
					t.Errorf("stdout is %q", out)
				}
			}
		})
	}
	t.Run("a terminal without colour", func(t *testing.T) {
		w := newWorld(t)
		w.terminal = true
		w.env["NO_COLOR"] = "1"
		s := w.follow(aiptest.PlayCase(t, dir, "play.json", fast))
		if s.code != 0 || s.stdout != "Tank full.\n" {
			t.Errorf("exit code %d and stdout %q", s.code, s.stdout)
		}
		clean(t, "stderr", s.stderr, "\n\r")
	})
	t.Run("a failure has its one outcome too", func(t *testing.T) {
		p := aiptest.PlayCase(t, running(t, aiptest.CaseDir(t, "30-not-an-event-stream"), "play-e.json"), "play-e.json")
		s := newWorld(t).follow(p, "-v", "-o", "jsonl")
		if _, o := records(t, s.stdout); o.ExitCode != 4 || o.ActionID != p.ActionID() {
			t.Errorf("the outcome is %+v", o)
		}
	})
	for _, format := range []string{"text", "jsonl"} {
		t.Run("each delta is out before the next one came: "+format, func(t *testing.T) { testFlushed(t, format) })
	}
}

// testFlushed lets the daemon send a delta only when the one before it has
// come out of the process, through a pipe.
func testFlushed(t *testing.T, format string) {
	rec := loadRecording(t, "chat_stream_complete")
	deltas := []string{"Checking the ", "notes… ", "The incident is ", "contained."}
	came := make(chan struct{})
	// The state reads unknown while it streams.
	d := serveUnsubmitted(t, rec, func(d *daemon) {
		d.follow = func(w http.ResponseWriter, r *http.Request) {
			openStream(w)
			for _, c := range rec.chunks {
				frame(w, "aip.stream.chunk", map[string]any{"chunk": c}, "chunk")
				if !bytes.Contains(c, []byte(`"content"`)) {
					continue
				}
				select {
				case <-came:
				case <-r.Context().Done():
					return
				}
			}
			d.submitted()
			frame(w, "aip.stream.terminal", map[string]any{"terminal": true, "action_id": d.action}, "aev_cursor_9")
		}
	})
	c := command(t, newWorld(t), "action", "events", d.URL, d.action, "--follow", "--include-chunks", "-o", format)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	late, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	var got bytes.Buffer
	buf := make([]byte, 4096)
	for _, delta := range deltas {
		for !strings.Contains(got.String(), delta) {
			n, err := out.Read(buf)
			got.Write(buf[:n])
			if err != nil {
				t.Fatalf("the process ended before %q came: %v; stdout %q", delta, err, got.String())
			}
		}
		select {
		case came <- struct{}{}:
		case <-late.Done():
			t.Fatalf("%q came out, and the daemon did not wait for it", delta)
		}
	}
	rest, _ := io.ReadAll(out)
	if err := c.Wait(); err != nil {
		t.Errorf("%v; stdout %q", err, got.String()+string(rest))
	}
}

func testTokenFileAndLeaks(t *testing.T, dir string) {
	const secret = "qa-token-do-not-use-0123456789"
	tokenFile := func(t *testing.T, name string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, read(t, dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	loud := []string{"-v", "--debug-http"}
	hidden := func(t *testing.T, w *world, s shot) {
		t.Helper()
		for what, text := range map[string]string{"stdout": s.stdout, "stderr": s.stderr} {
			if strings.Contains(text, secret) || strings.Contains(text, "qa-tok") {
				t.Errorf("the token is on %s: %q", what, text)
			}
		}
		folder := filepath.Dir(w.env["AIPCTL_STATE"])
		entries, err := os.ReadDir(folder)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		for _, e := range entries {
			if bytes.Contains(read(t, folder, e.Name()), []byte(secret)) {
				t.Errorf("the token is in %s", e.Name())
			}
		}
	}
	for _, name := range []string{"token-newline.txt", "token-crlf.txt", "token-spaces.txt"} {
		t.Run("trimmed: "+name, func(t *testing.T) {
			p, w := aiptest.PlayCase(t, dir, "play-ok.json"), newWorld(t)
			s := w.follow(p, append(loud, "--token-file", tokenFile(t, name))...)
			if s.code != 0 || s.stdout != "secret answer 4711\n" {
				t.Errorf("exit code %d and stdout %q; stderr:\n%s", s.code, s.stdout, s.stderr)
			}
			for _, r := range p.Requests() {
				if got := r.Header.Values("Authorization"); !slices.Equal(got, []string{"Bearer " + secret}) {
					t.Errorf("%s has Authorization %q", r.Kind, got)
				}
			}
			for _, word := range []string{"secret answer", "raw_data", "4711"} {
				if strings.Contains(s.stderr, word) {
					t.Errorf("the log holds the answer or a raw frame: %q", word)
				}
			}
			hidden(t, w, s)
		})
	}
	for name, reason := range map[string]string{
		"token-two-lines.txt": "more than one line", "token-empty.txt": "empty", "token-only-newline.txt": "white space",
		"token-inner-control.txt": "control character", "token-non-ascii.txt": "ASCII", "token-bom.txt": "byte order mark", "token-with-prefix.txt": "Bearer",
	} {
		t.Run("refused: "+name, func(t *testing.T) {
			p, w := aiptest.PlayCase(t, dir, "play-ok.json"), newWorld(t)
			file := tokenFile(t, name)
			s := w.follow(p, append(loud, "--token-file", file)...)
			if s.code != 4 || s.stdout != "" || len(p.Requests()) != 0 {
				t.Errorf("exit code %d, stdout %q and %d requests; want 4 and nothing", s.code, s.stdout, len(p.Requests()))
			}
			if !strings.Contains(s.stderr, file) || !strings.Contains(s.stderr, reason) {
				t.Errorf("stderr names neither the file nor the reason (%s):\n%s", reason, s.stderr)
			}
			hidden(t, w, s)
		})
	}
	t.Run("refused: a folder", func(t *testing.T) {
		p, w := aiptest.PlayCase(t, dir, "play-ok.json"), newWorld(t)
		s := w.follow(p, "--token-file", t.TempDir())
		if s.code != 4 || len(p.Requests()) != 0 {
			t.Errorf("exit code %d and %d requests; want 4 and none; stderr:\n%s", s.code, len(p.Requests()), s.stderr)
		}
	})
	testTokenFileModes(t, dir, tokenFile)
	t.Run("a daemon that echoes it", func(t *testing.T) {
		dir := running(t, dir, "play-echo.json")
		for _, format := range []string{"text", "json", "jsonl"} {
			p, w := aiptest.PlayCase(t, dir, "play-echo.json"), newWorld(t)
			s := w.follow(p, append(loud, "--token-file", tokenFile(t, "token-newline.txt"), "-o", format, "--show-provider-errors")...)
			if s.code != 4 {
				t.Errorf("%s: exit code %d, want 4; stderr:\n%s", format, s.code, s.stderr)
			}
			hidden(t, w, s)
		}
	})
	t.Run("nobody at the port", func(t *testing.T) {
		w := newWorld(t)
		for _, args := range [][]string{
			{"action", "status", nobody, "act_qa_37"},
			{"action", "call", nobody, "cap:hermes_agent:qa:chat_stream", "--prompt", "n"},
		} {
			s := w.run(append(append(args, loud...), "--token-file", tokenFile(t, "token-newline.txt"))...)
			if s.code != 3 {
				t.Errorf("%v: exit code %d, want 3; stderr:\n%s", args, s.code, s.stderr)
			}
			hidden(t, w, s)
		}
	})
	t.Run("never a flag", func(t *testing.T) {
		w := newWorld(t)
		s := w.run("action", "status", "http://127.0.0.1:1", "act_x", "--token", secret)
		if s.code != 2 {
			t.Errorf("exit code %d, want 2", s.code)
		}
		hidden(t, w, s)
	})
}

func testCancelRaces(t *testing.T, dir string) {
	for _, tc := range []struct {
		play    string
		code    int
		verdict string // of the action; empty where no outcome is known
		says    string
		follow  []string // flags
	}{
		{play: "a", code: 12, verdict: "accepted", says: "ended before the cancel took hold"},
		{play: "b", code: 12, verdict: "accepted", says: "ended before the cancel took hold"},
		{play: "c", code: 0, verdict: "cancelled", says: "undoes nothing"},
		{play: "d", code: 9, says: "cancelling again is safe"},
		{play: "e", code: 13, says: "another node"},
		{play: "f", code: 8, verdict: "pending", says: "acknowledged", follow: []string{"--wait", "600ms"}},
		{play: "f", code: 0, verdict: "pending", says: "acknowledged", follow: []string{"--wait", "0s"}},
		{play: "g", code: 0, verdict: "cancelled", says: "undoes nothing"},
	} {
		name := "play-" + tc.play + ".json"
		t.Run(name+strings.Join(tc.follow, " "), func(t *testing.T) {
			t.Parallel()
			p, w := aiptest.PlayCase(t, dir, name), newWorld(t)
			s := w.run(append([]string{"action", "cancel", p.URL(), p.ActionID(), "--reason", "no longer needed"}, tc.follow...)...)
			if s.code != tc.code || !strings.Contains(s.stdout+s.stderr, tc.says) {
				t.Errorf("exit code %d, want %d and %q; stdout:\n%s\nstderr:\n%s", s.code, tc.code, tc.says, s.stdout, s.stderr)
			}
			cancels := p.Requests(aiptest.Cancel)
			if len(cancels) != 1 || cancels[0].Body != `{"reason":"no longer needed"}` || len(p.Requests(aiptest.Post)) != 0 {
				t.Errorf("%d cancels and %d submits; want one cancel with its reason", len(cancels), len(p.Requests(aiptest.Post)))
			}
			if tc.verdict == "" {
				return
			}
			p = aiptest.PlayCase(t, dir, name)
			s = newWorld(t).run(append([]string{"action", "cancel", p.URL(), p.ActionID(), "-o", "json"}, tc.follow...)...)
			o := readOutcome(t, s.stdout)
			if s.code != tc.code || o.ExitCode != tc.code || o.Verdict != tc.verdict {
				t.Errorf("exit code %d, in the outcome %d and %s; want %d and %s", s.code, o.ExitCode, o.Verdict, tc.code, tc.verdict)
			}
			if tc.verdict == "accepted" {
				if diff := cmp.Diff(accepted(nil), o.Checks); diff != "" {
					t.Errorf("checks (-want +got):\n%s", diff)
				}
			}
		})
	}
	t.Run("cancelling twice is harmless", func(t *testing.T) {
		p, w := aiptest.PlayCase(t, dir, "play-g.json"), newWorld(t)
		for range 2 {
			if s := w.run("action", "cancel", p.URL(), p.ActionID()); s.code != 0 {
				t.Errorf("exit code %d; stderr:\n%s", s.code, s.stderr)
			}
		}
	})
}
