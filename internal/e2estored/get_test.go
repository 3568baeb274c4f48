package e2estored_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aipctl/aipctl/internal/devserver"
)

// reasons are the codes of the possible reasons of a 404.
func (o outcome) reasons() []string {
	var out []string
	if o.Stored != nil {
		for _, c := range o.Stored.Absent {
			out = append(out, c.Code)
		}
	}
	return out
}

// create has a responses call store something and returns its id.
func create(t testing.TB, w *world, d *daemon, endpoint, store string) string {
	t.Helper()
	s := w.run("action", "call", d.URL, "responses", "--endpoint", endpoint, "--input", `{"body":{"input":"n","store":`+store+`}}`, "-o", "json")
	o := document[outcome](t, s)
	if s.code != 0 || o.ResponseID == "" {
		t.Fatalf("exit code %d and %+v; stderr:\n%s", s.code, o, s.stderr)
	}
	d.count()
	return o.ResponseID
}

// fill stores so many other responses, without a client.
func fill(t testing.TB, d *daemon, endpoint string, n int) {
	t.Helper()
	for i := range n {
		body := fmt.Sprintf(`{"aip_version":"1.0","message_type":"aip.core.v1.action","message_id":"msg_fill_%d_%d","sent_at":%q,"from":{"id":"agent:test","kind":"agent"},`+
			`"body":{"action":{"id":"act_fill_%d_%d","capability_id":"cap:hermes_agent:%s:responses","input":{"body":{"input":"x","store":true}},"mode":"sync"}}}`,
			n, i, time.Now().UTC().Format(time.RFC3339Nano), n, i, endpoint)
		resp, err := http.Post(d.URL+"/aip/v1/messages", "application/json", strings.NewReader(body))
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("filling the store: %v, %+v", err, resp)
		}
		resp.Body.Close()
	}
	d.count()
}

func TestStoredResponseIsRead(t *testing.T) {
	t.Parallel()
	tab := loadTable(t, "responses.tsv", "get")
	seeded := devserver.SeededResponses()
	get := func(w *world, d *daemon, id string, more ...string) shot {
		return w.run(append([]string{"response", "get", d.URL, id}, more...)...)
	}
	t.Run("states", func(t *testing.T) {
		for _, status := range []string{"completed", "failed", "incomplete", "in_progress"} {
			d, w := embedded(t, devserver.Options{}), newWorld(t)
			s := get(w, d, seeded[status], "--endpoint", "stored", "-o", "json")
			tab.holds(t, "get "+status, s, d.count())
			o := document[outcome](t, s)
			var object struct{ ID, Status string }
			if err := json.Unmarshal(o.Stored.Object, &object); err != nil || object.ID != seeded[status] || object.Status != status {
				t.Errorf("%s: the object is %s", status, o.Stored.Object)
			}
			if o.Stored.Status != status || o.ResponseID != seeded[status] {
				t.Errorf("%s: %+v", status, o)
			}
			if recs := w.state("settled"); len(recs) != 1 || recs[0].Settled.ExitCode != s.code {
				t.Errorf("%s: settled %+v", status, recs)
			}
			text := get(newWorld(t), d, seeded[status], "--endpoint", "stored")
			if want := o.Text; strings.TrimSuffix(text.stdout, "\n") != want || status == "completed" && want == "" {
				t.Errorf("%s: stdout %q, want the text of the document %q", status, text.stdout, want)
			}
			if !strings.Contains(text.stderr, "stored response "+seeded[status]+": "+status) || strings.Contains(text.stderr, "verdict: accepted") {
				t.Errorf("%s: stderr does not say what is stored, or calls it accepted:\n%s", status, text.stderr)
			}
		}
	})
	t.Run("not there", func(t *testing.T) {
		for _, tc := range []struct {
			row   string
			play  func(t *testing.T, w *world) (*daemon, shot)
			first string // the first of the possible reasons; empty is not asserted
		}{
			{"get store-false", func(t *testing.T, w *world) (*daemon, shot) {
				d := embedded(t, devserver.Options{})
				return d, get(w, d, create(t, w, d, "responses-sync-ok", "false"), "-o", "json")
			}, "not_stored"},
			{"get evicted", func(t *testing.T, w *world) (*daemon, shot) {
				d := embedded(t, devserver.Options{})
				id := create(t, w, d, "responses-sync-ok", "true")
				fill(t, d, "responses-sync-ok", 100)
				return d, get(w, d, id, "-o", "json")
			}, ""},
			{"get kept-by-read", func(t *testing.T, w *world) (*daemon, shot) {
				d := embedded(t, devserver.Options{})
				id := create(t, w, d, "responses-sync-ok", "true")
				fill(t, d, "responses-sync-ok", 99)
				if s := get(w, d, id); s.code != 0 {
					t.Fatalf("exit code %d; stderr:\n%s", s.code, s.stderr)
				}
				fill(t, d, "responses-sync-ok", 1)
				d.count()
				return d, get(w, d, id, "-o", "json")
			}, ""},
			{"get other-instance", func(t *testing.T, w *world) (*daemon, shot) {
				d := embedded(t, devserver.Options{})
				id := create(t, w, d, "responses-sync-ok", "true")
				other := embedded(t, devserver.Options{})
				return other, get(w, other, id, "-o", "json")
			}, "other_instance"},
			{"get store-lost", func(t *testing.T, w *world) (*daemon, shot) {
				d := embedded(t, devserver.Options{})
				id := create(t, w, d, "responses-sync-ok", "true")
				d.restart(devserver.Options{})
				return d, get(w, d, id, "-o", "json")
			}, ""},
		} {
			t.Run(tc.row, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				d, s := tc.play(t, w)
				tab.holds(t, tc.row, s, d.count())
				got := document[outcome](t, s).reasons()
				if tc.first != "" && (len(got) == 0 || got[0] != tc.first) {
					t.Errorf("the possible reasons are %v, want %s first", got, tc.first)
				}
				if s.code == 13 && (!slices.Contains(got, "evicted") || !slices.Contains(got, "store_lost")) {
					t.Errorf("the possible reasons are %v", got)
				}
			})
		}
	})
	t.Run("failures", func(t *testing.T) {
		stored := func(object string) func(int, action) answer {
			return func(_ int, a action) answer {
				return result(`{"action_id":%q,"status":"completed","output":%s}`, a.ID, object)
			}
		}
		always := func(a answer) func(int, action) answer { return func(int, action) answer { return a } }
		busy := refusal(503, "connector.hermes_agent.remote_temporary", "temporary", true, `{"remote_status":503,"uncertain_outcome":false}`)
		for name, act := range map[string]func(int, action) answer{
			"get other-status":  stored(`{"id":"resp_a","object":"response","status":"paused","output":[]}`),
			"get other-id":      stored(`{"id":"resp_b","object":"response","status":"completed","output":[]}`),
			"get 503-always":    always(busy),
			"get not-retryable": always(refusal(502, "connector.hermes_agent.invalid_response", "connector", false, `{"uncertain_outcome":false}`)),
			"get timed-out": func(_ int, a action) answer {
				return result(`{"action_id":%q,"status":"failed","error":{"code":"sla.timeout_exceeded","category":"temporary","retryable":true}}`, a.ID)
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				d, w := serveScript(t, &script{act: act}), newWorld(t)
				s := w.run("response", "get", d.URL, "resp_a", "--endpoint", "lab", "-o", "jsonl")
				tab.holds(t, name, s, d.submitted())
				if lines := strings.Split(strings.TrimSpace(s.stdout), "\n"); !strings.Contains(lines[0], `"type":"identity"`) || strings.Count(s.stdout, `"type":"outcome"`) != 1 || !strings.Contains(lines[len(lines)-1], `"type":"outcome"`) {
					t.Errorf("the records are not an identity first and one outcome last:\n%s", s.stdout)
				}
			})
		}
		t.Run("503-twice", func(t *testing.T) {
			t.Parallel()
			d, w := embedded(t, devserver.Options{}), newWorld(t)
			s := get(w, d, seeded["completed"], "--endpoint", "stored-busy")
			tab.holds(t, "get 503-twice", s, d.count())
			ids := map[string]bool{}
			for _, r := range w.state("intent") {
				ids[r.ActionID] = true
			}
			if len(ids) != 3 || len(w.state("settled")) != 3 {
				t.Errorf("%d actions are recorded, want each of three tries with its end", len(ids))
			}
			if s.stdout == "" || !strings.Contains(s.stderr, "reading once more, try 3") {
				t.Errorf("stdout %q, stderr:\n%s", s.stdout, s.stderr)
			}
		})
		t.Run("refused", func(t *testing.T) {
			d, w := embedded(t, devserver.Options{}), newWorld(t)
			s := get(w, d, seeded["completed"], "--endpoint", "stored-unauthorized")
			tab.holds(t, "get endpoint-401", s, d.count())
			if !strings.Contains(s.stderr, "the endpoint's own credential") {
				t.Errorf("stderr does not say whose credential was refused:\n%s", s.stderr)
			}
			closed := embedded(t, devserver.Options{Token: "token-of-somebody-else"})
			tab.holds(t, "get caller-401", get(w, closed, "resp_a", "--endpoint", "stored"), closed.count())
			tab.holds(t, "get no-daemon", w.run("response", "get", "http://127.0.0.1:1", "resp_a", "--endpoint", "stored"), 0)
		})
		t.Run("refused here", func(t *testing.T) {
			d, w := embedded(t, devserver.Options{}), newWorld(t)
			tab.holds(t, "get no-endpoint", get(w, d, "resp_a"), d.count())
			s := get(w, d, "act_a")
			tab.holds(t, "get wrong-kind", s, d.count())
			if !strings.Contains(s.stderr, "aipctl action result act_a") {
				t.Errorf("stderr does not name the right command:\n%s", s.stderr)
			}
			same := serveScript(t, &script{act: stored(`{"id":"resp_a","object":"response","status":"completed","output":[]}`)})
			for _, endpoint := range []string{"north", "south"} {
				if s := w.run("action", "call", same.URL, "responses", "--endpoint", endpoint, "--input", `{"body":{"input":"n","store":true}}`); s.code != 0 {
					t.Fatalf("exit code %d; stderr:\n%s", s.code, s.stderr)
				}
			}
			before := same.submitted()
			s = w.run("response", "get", same.URL, "resp_a")
			tab.holds(t, "get two-endpoints", s, same.submitted()-before)
			if !strings.Contains(s.stderr, "north, south") {
				t.Errorf("stderr does not name the endpoints:\n%s", s.stderr)
			}
		})
		t.Run("deleted", func(t *testing.T) {
			gone := false
			d, w := serveScript(t, &script{act: func(_ int, a action) answer {
				switch {
				case strings.HasSuffix(a.CapabilityID, ":response_delete"):
					gone = true
					return result(`{"action_id":%q,"status":"completed","output":{"id":"resp_a","object":"response","deleted":true}}`, a.ID)
				case gone:
					return refusal(400, "connector.hermes_agent.remote_rejected", "permanent", false, `{"remote_status":404,"uncertain_outcome":false}`)
				}
				return result(`{"action_id":%q,"status":"completed","output":{"id":"resp_a","object":"response","status":"completed","output":[]}}`, a.ID)
			}}), newWorld(t)
			for _, args := range [][]string{
				{"action", "call", d.URL, "responses", "--endpoint", "lab", "--input", `{"body":{"input":"n","store":true}}`},
				{"response", "delete", d.URL, "resp_a", "--yes"},
			} {
				if s := w.run(args...); s.code != 0 {
					t.Fatalf("%v: exit code %d; stderr:\n%s", args, s.code, s.stderr)
				}
			}
			before := d.submitted()
			s := w.run("response", "get", d.URL, "resp_a", "-o", "json")
			tab.holds(t, "get deleted", s, d.submitted()-before)
			if got := document[outcome](t, s).reasons(); len(got) == 0 || got[0] != "deleted" || slices.Contains(got, "not_stored") {
				t.Errorf("the possible reasons are %v", got)
			}
			if text := w.run("response", "get", d.URL, "resp_a"); !strings.Contains(text.stderr, "possible: it was deleted from here, by act_") {
				t.Errorf("stderr does not say why it may be gone:\n%s", text.stderr)
			}
			probes := w.state("probe")
			if len(probes) != 2 || probes[0].Probe.ParentActionID != w.state("intent")[0].ActionID || probes[0].Probe.Purpose != "response_get" {
				t.Errorf("the reads are recorded as %+v", probes)
			}
		})
	})
}
