//go:build unix

package e2eproc

import (
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Words that stand for what must stay where it is. Each crosses the wire in
// one place.
const (
	inPrompt   = "canary-prompt-5d1f"
	inRaw      = "canary-raw-5d1f"      // raw_data of every frame
	inLabel    = "canary-label-5d1f"    // what a tool is about to do
	inArgument = "canary-argument-5d1f" // arguments of a function call
	inMessage  = "canary-message-5d1f"  // every message of an error
	inDetail   = "canary-detail-5d1f"   // details of an error
	inBody     = "canary-body-5d1f"     // an answer that is no AIP
	inAnswer   = "canary-answer-5d1f"   // the assistant's own text
)

var canaries = []string{token, inPrompt, inRaw, inLabel, inArgument, inMessage, inDetail, inBody, inAnswer}

// planted puts the canaries into what the daemon writes, and counts them.
type planted struct {
	mu   sync.Mutex
	wire map[string]int
}

var plants = []struct {
	at     *regexp.Regexp // up to the quote behind which the canary goes
	canary string
}{
	{regexp.MustCompile(`"raw_data": ?"`), inRaw},
	{regexp.MustCompile(`"label": ?"`), inLabel},
	{regexp.MustCompile(`"arguments": ?"`), inArgument},
	{regexp.MustCompile(`"message": ?"`), inMessage},
	{regexp.MustCompile(`"details": ?\{"operation": ?"`), inDetail},
	{regexp.MustCompile(`"content": ?"`), inAnswer},
}

func (p *planted) rewrite(s string) string {
	for _, plant := range plants {
		s = plant.at.ReplaceAllString(s, "${0}"+plant.canary+" ")
	}
	p.note(s)
	return s
}

// note counts the canaries of what crosses the wire.
func (p *planted) note(s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range canaries {
		p.wire[c] += strings.Count(s, c)
	}
}

// echoing answers with all that the request said, wherever there is room.
func echoing(status int, kinds ...string) door {
	return func(v *visit) bool {
		if len(kinds) > 0 && !strings.Contains(strings.Join(kinds, " "), v.kind) {
			return false
		}
		body, _ := io.ReadAll(v.r.Body)
		said := strconv.Quote(fmt.Sprint(v.r.Header.Get("Authorization"), " ", string(body), " ", inBody))
		code := strconv.Quote("auth." + token)
		if v.kind == "submit" || v.kind == "result" {
			code = strconv.Quote("no code " + string(body) + inBody) // which is no code at all
		}
		v.w.Header().Set("X-Echo", token)
		return v.answer(status, "application/json", fmt.Sprintf(
			`{"aip_version":"1.0","message_type":"aip.core.v1.error","message_id":"msg_1","sent_at":"2026-01-01T00:00:00Z","body":{"error":{"error":{"code":%s,"message":%s,"category":"auth","retryable":false,"details":{"seen":%s}}}}}`,
			code, said, said))
	}
}

// plainly answers with something that is no AIP at all.
func plainly(status int, contentType string, kinds ...string) door {
	return func(v *visit) bool {
		if len(kinds) > 0 && !strings.Contains(strings.Join(kinds, " "), v.kind) {
			return false
		}
		v.w.Header().Set("Location", "https://login.invalid/"+token+"?next="+inBody)
		v.w.Header().Set("Retry-After", "0")
		v.w.Header().Set("Server", "server-"+token)
		return v.answer(status, contentType, "<html>"+inBody+" "+token+"</html>")
	}
}

var formats = []string{"text", "json", "jsonl"}

func TestSecretsStayWhereTheyAre(t *testing.T) {
	t.Parallel()
	for rule, tt := range map[string]struct {
		capability string
		door       door
		code       int
		crosses    []string // beside the token and the prompt
		args       []string
	}{
		"success with tools":           {"demo:chat_stream", nil, 0, []string{inRaw, inLabel, inAnswer}, nil},
		"success with function calls":  {"responses-tools:responses_stream", nil, 0, []string{inRaw, inArgument}, nil},
		"failure of the provider":      {"chat-error:chat_stream", nil, 5, []string{inRaw, inMessage}, nil},
		"failure of the stream":        {"chat-upstream-close:chat_stream", nil, 11, []string{inMessage, inDetail}, nil},
		"failure of the connector":     {"chat-transport-break:chat_stream", nil, 9, []string{inMessage, inDetail}, nil},
		"refusal of the input":         {"chat-early-rejection:chat_stream", nil, 12, []string{inMessage}, nil},
		"conflict":                     {"chat-conflict:chat_stream", nil, 10, []string{inRaw, inAnswer}, nil},
		"approval":                     {"chat-approval:chat_stream", nil, 8, []string{inMessage}, nil},
		"401 that echoes":              {"chat-stop:chat_stream", echoing(401), 4, []string{inBody}, nil},
		"403 that echoes to the post":  {"chat-stop:chat_stream", echoing(403, "submit"), 12, []string{inBody}, nil},
		"500 that echoes to the post":  {"chat-stop:chat_stream", echoing(500, "submit"), 9, []string{inBody}, []string{"--wait", "1s"}},
		"500 that echoes to reads":     {"chat-stop:chat_stream", echoing(500, "follow", "page", "result", "status"), 0, []string{inBody}, nil},
		"HTML":                         {"chat-stop:chat_stream", plainly(200, "text/html"), 3, []string{inBody}, nil},
		"HTML with an error":           {"chat-stop:chat_stream", plainly(502, "text/html", "submit"), 9, []string{inBody}, []string{"--wait", "1s"}},
		"a redirect":                   {"chat-stop:chat_stream", plainly(302, "text/html"), 3, []string{inBody}, nil},
		"a type that names the token":  {"chat-stop:chat_stream", plainly(200, "text/"+token), 3, []string{inBody}, nil},
		"an encoding nobody asked for": {"chat-stop:chat_stream", plainly(404, "application/json"), 3, []string{inBody}, nil},
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			wire := &planted{wire: map[string]int{}}
			d := newDaemon(t, setup{rewrite: wire.rewrite, door: func(v *visit) bool {
				wire.note(v.r.Header.Get("Authorization"))
				body, _ := io.ReadAll(v.r.Body)
				wire.note(string(body))
				v.r.Body = io.NopCloser(strings.NewReader(string(body)))
				return tt.door != nil && tt.door(v)
			}})
			request := fmt.Sprintf(`{"prompt":%q,"session_id":"s-1"}`, inPrompt)
			if strings.HasPrefix(tt.capability, "responses") {
				request = fmt.Sprintf(`{"body":{"input":%q,"store":true}}`, inPrompt)
			}
			more := [][]string{
				{"events", "--follow", "--include-chunks", "--wait", "1s"},
				{"events", "--include-chunks"},
				{"result"},
				{"status"},
				{"cancel", "--wait", "0"},
			}
			homes, calls := map[string]*home{}, map[string]*process{}
			for _, format := range formats {
				h := d.newHome()
				h.request(request)
				homes[format] = h
				calls[format] = h.start(slices.Concat([]string{"-v", "--debug-http", "-o", format, "action", "call", d.url,
					"cap:hermes_agent:" + tt.capability, "--input", "@request.json"}, tt.args)...)
			}
			for i, format := range formats {
				got := calls[format].wait()
				if got.code != tt.code {
					t.Errorf("exit code %d, want %d\n%s", got.code, tt.code, got)
				}
				wantNoLeak(t, format, got)
				// Of the other commands each comes once, and every format does.
				for j, args := range more {
					if j%len(formats) == i {
						args = slices.Concat([]string{"-v", "--debug-http", "-o", format, "action", args[0], d.url, homes[format].intentOr("act_none")}, args[1:])
						wantNoLeak(t, format, homes[format].run(args...))
					}
				}
				wantCleanFiles(t, homes[format])
			}
			for _, c := range append([]string{token, inPrompt}, tt.crosses...) {
				if c == inPrompt && d.requests("submit") == 0 {
					continue // refused before the post, as it should be
				}
				if wire.wire[c] == 0 {
					t.Errorf("%s did not cross the wire, so the test shows nothing", c)
				}
			}
		})
	}
}

// wantNoLeak looks for canaries in what a run wrote.
func wantNoLeak(t *testing.T, format string, got result) {
	t.Helper()
	for _, c := range canaries {
		if strings.Contains(got.stderr, c) {
			t.Errorf("stderr (%s) holds %s:\n%s", format, c, got.stderr)
		}
		// Records carry the provider's events under their own names; no mode
		// carries a token, a prompt or raw data.
		record := format != "text" && (c == inAnswer || c == inLabel || c == inArgument || c == inMessage || c == inDetail)
		if answer := format == "text" && c == inAnswer; !record && !answer && strings.Contains(got.out, c) {
			t.Errorf("stdout (%s) holds %s:\n%s", format, c, got.out)
		}
	}
}

// wantCleanFiles looks through everything that the processes left.
func wantCleanFiles(t *testing.T, h *home) {
	t.Helper()
	seen := 0
	err := filepath.WalkDir(h.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == "request.json" {
			return err
		}
		seen++
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, c := range canaries {
			for line := range strings.Lines(string(b)) {
				if strings.Contains(line, c) {
					t.Errorf("%s holds %s: %s", path, c, line)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen == 0 {
		t.Error("no file was left to look through, not even the state file")
	}
	left, err := os.ReadDir(h.temp())
	if err != nil || len(left) > 0 {
		t.Errorf("temporary files were left: %v (%v)", left, err)
	}
}

// The list of processes is open to every user of the machine.
func TestProcessListShowsNoSecret(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, setup{})
	h := d.newHome()
	h.request(fmt.Sprintf(`{"prompt":%q}`, inPrompt))
	held := d.holdAt(2)
	p := h.start("action", "call", d.url, slow, "--input", "@request.json")
	held.await(t)
	shown := commandLine(t, p.cmd.Process.Pid)
	if !strings.Contains(shown, "aipctl") || !strings.Contains(shown, slow) {
		t.Fatalf("this is not the process: %q", shown)
	}
	for _, c := range canaries {
		if strings.Contains(shown, c) {
			t.Errorf("the process list shows %s: %q", c, shown)
		}
	}
	held.release()
	wantCode(t, p.wait(), 0)
	for _, r := range d.srv.Requests() {
		if kind(r.Method, r.Path, r.Query) == "submit" && !strings.Contains(string(r.Body), inPrompt) {
			t.Error("the prompt did not cross the wire")
		}
	}
}

// commandLine is what the system tells of a process.
func commandLine(t *testing.T, pid int) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err == nil {
		return strings.ReplaceAll(string(b), "\x00", " ")
	}
	out, err := exec.Command("ps", "-o", "args=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// A token never goes anywhere but to the daemon that was named.
func TestTokenDoesNotFollowARedirect(t *testing.T) {
	t.Parallel()
	elsewhere := newDaemon(t, setup{})
	d := newDaemon(t, setup{door: func(v *visit) bool {
		http.Redirect(v.w, v.r, elsewhere.url+v.r.URL.Path, http.StatusTemporaryRedirect)
		return true
	}})
	for _, args := range [][]string{
		{"action", "call", d.url, slow, "--prompt", "x"},
		{"action", "call", d.url, slow, "--prompt", "x", "--action-id", "act_away"},
		{"action", "call", d.url, slow, "--prompt", "x", "--detach"},
		{"action", "status", d.url, "act_away"},
		{"action", "result", d.url, "act_away"},
		{"action", "events", d.url, "act_away"},
		{"action", "events", d.url, "act_away", "--follow", "--wait", "2s"},
		{"action", "cancel", d.url, "act_away"},
	} {
		got := d.run(t, args...)
		if want := map[bool]int{false: 3, true: 9}[args[1] == "cancel"]; got.code != want {
			t.Errorf("%v: want exit code %d\n%s", args[1:], want, got)
		}
	}
	if n := len(elsewhere.srv.Requests()); n != 0 {
		t.Errorf("%d requests went elsewhere", n)
	}
}
