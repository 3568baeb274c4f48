//go:build unix

package e2eproc

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aipctl/aipctl/internal/devserver"
)

// The three lines as people have them in their scripts, letter for letter.
const (
	callLine   = `aipctl --native-bearer-token-file "$AIP_TOKEN_FILE" action call "$AIP_URL" "$AIP_CAPABILITY_ID" --action-id "$AIP_ACTION_ID" --input @request.json`
	eventsLine = `aipctl --native-bearer-token-file "$AIP_TOKEN_FILE" action events "$AIP_URL" "$AIP_ACTION_ID" --include-chunks --follow`
	cancelLine = `aipctl --native-bearer-token-file "$AIP_TOKEN_FILE" action cancel "$AIP_URL" "$AIP_ACTION_ID" --reason 'The requester no longer needs this stream'`
)

// oddRequest has keys that nobody knows, in no order, and a number that has more
// digits than a machine keeps.
const oddRequest = `{"zebra": 1.50e+2, "prompt": "Tell me a story", "apple": {"big": 12345678901234567890.0}, "session_id": "lines-1"}`

// request puts a request file where the lines look for it.
func (h *home) request(content string) {
	h.t.Helper()
	if err := os.WriteFile(filepath.Join(h.dir, "request.json"), []byte(content), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

func TestTheThreeLines(t *testing.T) {
	t.Parallel()
	want := play(t, "cap:hermes_agent:chat-slow:chat_stream")
	const seventh = 7
	for rule, tt := range map[string]struct{ prefix, token string }{
		"as written":                      {"", token + "\n"},
		"a path prefix":                   {"/agents/aip", token + "\n"},
		"a token file of CRLF":            {"", token + "\r\n"},
		"a path prefix and a CRLF token":  {"/a%20b/aip", token + "\r\n"},
		"a token file without a line end": {"", token},
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			d := newDaemon(t, setup{Options: devserver.Options{PathPrefix: tt.prefix}})
			h, elsewhere := d.newHome(), d.newHome()
			tokenFile := d.tokenFileOf(tt.token)
			set := func(id string) {
				for _, h := range []*home{h, elsewhere} {
					h.env = append(h.env, "AIP_TOKEN_FILE="+tokenFile, "AIP_CAPABILITY_ID=cap:hermes_agent:chat-slow:chat_stream", "AIP_ACTION_ID="+id)
				}
			}
			set("act_lines.1")
			h.request(oddRequest)

			// Undisturbed, and read again from another machine.
			got := h.shell(callLine)
			wantCode(t, got, 0)
			if got.out != want.text+"\n" {
				t.Errorf("call wrote %q, want %q", got.out, want.text+"\n")
			}
			got = elsewhere.shell(eventsLine)
			wantCode(t, got, 0)
			if got.out != want.text+"\n" {
				t.Errorf("events wrote %q, want %q", got.out, want.text+"\n")
			}
			if got = h.shell(cancelLine); got.code != 12 {
				t.Errorf("a cancel of a completed action: %s", got)
			}
			if n := d.srv.Executions("act_lines.1"); n != 1 || d.submits() != 1 {
				t.Errorf("%d executions of %d submits, want 1 of 1", n, d.submits())
			}

			// Cancelled while all three are at work.
			set("act_lines.2")
			held := d.holdAt(seventh)
			call := h.launch(h.command("sh", "-c", callLine))
			held.await(t)
			events := elsewhere.launch(elsewhere.command("sh", "-c", eventsLine))
			call.out.exactly(want.upTo(seventh))
			events.out.exactly(want.upTo(seventh))
			got = h.shell(cancelLine)
			held.release()
			wantCode(t, got, 0)
			for name, p := range map[string]*process{"call": call, "events": events} {
				got := p.wait()
				wantCode(t, got, 6)
				if got.out != want.upTo(seventh)+"\n" {
					t.Errorf("%s wrote %q", name, got.out)
				}
			}
			if n := d.srv.Executions("act_lines.2"); n != 1 || d.submits() != 2 || d.requests("cancel") != 2 {
				t.Errorf("%d executions of %d submits, %d cancels; want 1 of 2, and 2", n, d.submits(), d.requests("cancel"))
			}
			wantRequestsAsWritten(t, d)
		})
	}
}

// wantRequestsAsWritten looks at what the lines said to the daemon.
func wantRequestsAsWritten(t *testing.T, d *daemon) {
	t.Helper()
	for _, r := range d.srv.Requests() {
		if got := r.Header.Get("Authorization"); got != "Bearer "+token {
			t.Errorf("%s %s was sent with the authorization %q", r.Method, r.Path, got)
		}
		switch kind(r.Method, r.Path, r.Query) {
		case "submit":
			var e envelope
			if err := json.Unmarshal(r.Body, &e); err != nil || !strings.HasPrefix(e.Body.Action.ActionID, "act_lines.") ||
				string(e.Body.Action.Input) != oddRequest {
				t.Errorf("the submit is %s (%v)", r.Body, err)
			}
			if r.Header.Get("Idempotency-Key") != "" {
				t.Error("the submit has an Idempotency-Key header")
			}
		case "cancel":
			if string(r.Body) != `{"reason":"The requester no longer needs this stream"}` {
				t.Errorf("the cancel is %s", r.Body)
			}
		}
	}
}

// The capability and the action may come from the environment alone, and the
// shortcuts are the same commands.
func TestTheEnvironmentNamesTheRest(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, setup{})
	h := d.newHome()
	h.env = append(h.env, "AIP_CAPABILITY_ID=cap:hermes_agent:chat-stop:chat_stream", "AIP_ACTION_ID=act_env")
	h.request(`{"prompt":"x"}`)
	for _, step := range []struct {
		line string
		code int
	}{
		{`aipctl action call --action-id "$AIP_ACTION_ID" --input @request.json`, 0},
		{`aipctl events --follow --include-chunks`, 0},
		{`aipctl action status`, 0},
		{`aipctl action result`, 0},
		{`aipctl cancel`, 2}, // the action of a cancel is named on its line
		{`aipctl cancel "$AIP_ACTION_ID"`, 12},
		{`GETAIP_NATIVE_BEARER_TOKEN_FILE=$AIP_TOKEN_FILE AIP_TOKEN_FILE= aipctl action status`, 0},
		{`AIP_TOKEN=` + token + ` AIP_TOKEN_FILE= aipctl action status`, 0},
		{`AIP_TOKEN=wrong AIP_TOKEN_FILE= aipctl action status`, 4},
		{`AIP_TOKEN=wrong aipctl action status`, 0}, // a file beats the variable
	} {
		if got := h.shell(step.line); got.code != step.code {
			t.Errorf("%s: want exit code %d\n%s", step.line, step.code, got)
		}
	}
	if n := d.srv.Executions("act_env"); n != 1 || d.submits() != 1 {
		t.Errorf("%d executions of %d submits, want 1 of 1", n, d.submits())
	}
}
