package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// exchange is a line of the log: method, route, what came of it, and sizes.
var exchange = regexp.MustCompile(`^http: (GET|POST) (/aip/v1/[a-z_{}/?]+) -> ([0-9]{3}(?: [a-z_.]+)?|[a-z ]+) in (?:[0-9.]+m?s|<1ms|0s), sent ([0-9]+) bytes(?:, got [0-9]+)?$`)

// TestTheLogOfExchanges plants a word in everything that crosses the wire, and
// looks for it in what -v and --debug-http say. What they are for is there.
func TestTheLogOfExchanges(t *testing.T) {
	t.Parallel()
	const canary = "canary-2c9e"
	const secret = "token-" + canary
	headers := []string{
		"Server: srv/1", "Via: 1.1 proxy", "Retry-After: 0", "Set-Cookie: " + canary, "Location: https://" + canary + "/",
		"WWW-Authenticate: " + canary, "X-Request-Id: " + canary, "X-Echo: " + secret, "ETag: " + canary, "Server-Timing: " + canary,
	}
	serve := func(t *testing.T, refused bool) string {
		p := &piece{}
		p.delta(`"` + canary + `"`)
		p.events = []string{`{"id":"` + canary + `","kind":"aip.action.note","action_id":"act_` + canary + `","data":{"x":"` + canary + `"}}`}
		return speak(t, func(w *bytes.Buffer, r *http.Request) {
			switch {
			case !strings.Contains(r.URL.Path+r.URL.RawQuery, canary) && r.Method == http.MethodGet:
				t.Errorf("the request %s carries nothing that must be hidden", r.URL)
			case refused:
				respond(w, http.StatusForbidden, "application/json", headers, `{"body":{"error":{"error":{"code":"auth.not_authorized","message":"`+canary+`","category":"auth","details":{"x":"`+secret+`"}}}}}`)
			case strings.HasSuffix(r.URL.Path, "/events"):
				respond(w, http.StatusOK, "application/json", headers, `{"action_events":{"action_id":"act_`+canary+`","events":[],"chunks":[],"cursor":"`+canary+`","terminal":true}}`)
			case strings.HasSuffix(r.URL.Path, "/result"):
				respond(w, http.StatusOK, "application/json", headers, `{"action_result":{"action_id":"act_`+canary+`","status":"completed","output":{"text":"`+canary+`"}}}`)
			case strings.HasSuffix(r.URL.Path, "/cancel"):
				respond(w, http.StatusOK, "application/json", headers, `{"cancel_ack":{"action_id":"act_`+canary+`"}}`)
			default:
				respond(w, http.StatusOK, "application/json", headers, `{"action_status":{"action_id":"act_`+canary+`","capability_id":"cap:hermes_agent:qa:chat","state":"completed"}}`)
			}
		})
	}
	for _, refused := range []bool{false, true} {
		for _, format := range []string{"text", "jsonl"} {
			url := serve(t, refused)
			var log strings.Builder
			for _, args := range [][]string{
				{"status", url, "act_" + canary},
				{"events", url, "act_" + canary, "--from", "cursor-" + canary},
				{"result", url, "act_" + canary},
				{"cancel", url, "act_" + canary, "--reason", canary, "--wait", "0"},
				{"call", url, "cap:hermes_agent:qa:chat", "--action-id", "act_x-" + canary, "--prompt", canary},
			} {
				w := newWorld(t)
				w.env["AIP_TOKEN"] = secret
				s := w.run(append([]string{"action", args[0], "-v", "--debug-http", "-o", format}, args[1:]...)...)
				if strings.Contains(s.stderr, secret) {
					t.Errorf("stderr shows the token:\n%s", s.stderr)
				}
				for line := range strings.Lines(s.stderr) {
					if strings.HasPrefix(line, "http:") {
						log.WriteString(line)
					}
				}
			}
			if strings.Contains(log.String(), canary) {
				t.Errorf("the log shows what it must not:\n%s", log.String())
			}
			wantLog(t, log.String(), refused)
		}
	}
}

// wantLog holds a log to its form, and to what it is for.
func wantLog(t *testing.T, log string, refused bool) {
	t.Helper()
	var routes, headers []string
	for line := range strings.Lines(log) {
		line = strings.TrimSuffix(line, "\n")
		if name, value, ok := strings.Cut(strings.TrimPrefix(line, "http:   "), ": "); ok && strings.HasPrefix(line, "http:   ") {
			headers = append(headers, name)
			if name == "Server" && value != "srv/1" {
				t.Errorf("a header is %q", line)
			}
			continue
		}
		m := exchange.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("a line of the log is %q", line)
			continue
		}
		routes = append(routes, m[1]+" "+m[2])
		if want := map[bool]string{true: "403 auth.not_authorized", false: "200"}[refused]; m[3] != want {
			t.Errorf("%s is answered by %q, want %q", m[2], m[3], want)
		}
		if m[1] == "POST" && m[4] == "0" {
			t.Errorf("the size of %s is not told: %q", m[2], line)
		}
	}
	slices.Sort(headers)
	if got, want := slices.Compact(headers), []string{"Content-Length", "Content-Type", "Retry-After", "Server", "Via"}; !slices.Equal(got, want) {
		t.Errorf("the headers are %q, want %q", got, want)
	}
	for _, route := range []string{
		"GET /aip/v1/actions/{action_id}", "GET /aip/v1/actions/{action_id}/events", "GET /aip/v1/actions/{action_id}/result", "POST /aip/v1/actions/{action_id}/cancel",
	} {
		if !slices.Contains(routes, route) {
			t.Errorf("%s is not in the log:\n%s", route, log)
		}
	}
}

// TestRecordsOnStderrStayRecords takes tokens that are words and numbers of ours.
func TestRecordsOnStderrStayRecords(t *testing.T) {
	t.Parallel()
	for _, token := range []string{"outcome", "verdict", "exit_code", "true", "null", `":"`, "usage.command"} {
		w := newWorld(t)
		file := filepath.Join(t.TempDir(), "t")
		if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
		s := w.run("nothing", "-o", "json", "--token-file", file)
		s2 := w.run("state", "show", "-o", "jsonl", "--token-file", file)
		for _, line := range []string{s.stderr, s2.stderr} {
			r := rec{}
			if err := unmarshal(line, &r); err != nil || r.Type != "error" || r.Message == "" {
				t.Errorf("with the token %q stderr is %q (%v)", token, line, err)
			}
		}
	}
}

func unmarshal(line string, v any) error {
	if err := json.Unmarshal([]byte(line), v); err != nil {
		return fmt.Errorf("no JSON: %w", err)
	}
	return nil
}
