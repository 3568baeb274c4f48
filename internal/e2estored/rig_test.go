package e2estored_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aipctl/aipctl/internal/aiptest"
	"github.com/aipctl/aipctl/internal/cmd"
	"github.com/aipctl/aipctl/internal/devserver"
	"github.com/aipctl/aipctl/internal/e2erig"
)

// Most of these tests wait for a daemon and not for a processor.
func TestMain(m *testing.M) {
	e2erig.Main(m, 12)
}

// patience ends a run that hangs, so that its test fails and says why. No test
// asserts how long anything took.
const patience = 60 * time.Second

// world is what a command finds around itself.
type world struct {
	t        testing.TB
	env      map[string]string
	stdin    string
	terminal bool // stdin, stdout and stderr are one
	now      func() time.Time
}

func newWorld(t testing.TB) *world {
	t.Helper()
	return &world{t: t, env: map[string]string{"AIPCTL_STATE": filepath.Join(t.TempDir(), "state", "state.jsonl")}, now: time.Now}
}

// shot is what came out of one command.
type shot struct {
	code           int
	stdout, stderr string
}

func (w *world) run(args ...string) shot {
	w.t.Helper()
	ctx, stop := context.WithTimeout(w.t.Context(), patience)
	defer stop()
	return w.runContext(ctx, args...)
}

func (w *world) runContext(ctx context.Context, args ...string) shot {
	w.t.Helper()
	code, stdout, stderr := e2erig.Run(ctx, w.t, cmd.App{Stdin: strings.NewReader(w.stdin), StdinTTY: w.terminal, StdoutTTY: w.terminal, StderrTTY: w.terminal, Now: w.now}, w.env, args...)
	return shot{code, stdout, stderr}
}

// stateRecord is a line of the state file, as far as the tests look at it.
type stateRecord struct {
	Type     string `json:"type"`
	ActionID string `json:"action_id"`
	Intent   *struct {
		CapabilityID   string `json:"capability_id"`
		IdempotencyKey string `json:"idempotency_key"`
		ResponseID     string `json:"response_id"`
	} `json:"intent"`
	Approval *struct {
		ApprovalID string `json:"approval_id"`
		PolicyHash string `json:"policy_hash"`
		InputHash  string `json:"input_hash"`
	} `json:"approval"`
	Decision *struct {
		ApprovalID string `json:"approval_id"`
		DecisionID string `json:"decision_id"`
		Decision   string `json:"decision"`
	} `json:"decision"`
	Probe *struct {
		ParentActionID string `json:"parent_action_id"`
		Purpose        string `json:"purpose"`
	} `json:"probe"`
	Settled *struct {
		Verdict  string `json:"verdict"`
		ExitCode int    `json:"exit_code"`
		ReplayOf string `json:"replay_of"`
		Receipt  *struct {
			ResponseID string `json:"response_id"`
			Object     string `json:"object"`
			Deleted    bool   `json:"deleted"`
			ApprovalID string `json:"approval_id"`
			DecisionID string `json:"decision_id"`
		} `json:"receipt"`
	} `json:"settled"`
}

// state returns the records of one type of the state file; a file that is not
// there has none.
func (w *world) state(typ string) []stateRecord {
	w.t.Helper()
	all := e2erig.State[stateRecord](w.t, w.env["AIPCTL_STATE"])
	return slices.DeleteFunc(all, func(r stateRecord) bool { return r.Type != typ })
}

// outcome is the record that ends a run, as far as the tests look at it.
type outcome struct {
	Type       string     `json:"type"`
	ActionID   string     `json:"action_id"`
	Verdict    string     `json:"verdict"`
	ExitCode   int        `json:"exit_code"`
	ErrorCode  string     `json:"error_code"`
	ApprovalID string     `json:"approval_id"`
	Approve    []string   `json:"approve"`
	ResponseID string     `json:"response_id"`
	ReplayOf   string     `json:"replay_of"`
	Next       [][]string `json:"next"`
	Text       string     `json:"text"`
	Stored     *struct {
		ResponseID string          `json:"response_id"`
		Status     string          `json:"status"`
		Tries      int             `json:"tries"`
		Object     json.RawMessage `json:"object"`
		Absent     []struct {
			Code string `json:"code"`
		} `json:"possible_reasons"`
	} `json:"stored"`
	Receipt *struct {
		ResponseID string `json:"response_id"`
		Deleted    bool   `json:"deleted"`
		ApprovalID string `json:"approval_id"`
		DecisionID string `json:"decision_id"`
	} `json:"receipt"`
	Warnings []struct {
		Code string `json:"code"`
	} `json:"warnings"`
}

// document reads the one document of -o json.
func document[T any](t testing.TB, s shot) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(s.stdout), &v); err != nil {
		t.Fatalf("stdout is no document: %v in %q; exit code %d, stderr:\n%s", err, s.stdout, s.code, s.stderr)
	}
	return v
}

// row is one row of a table: what must come out.
type row struct {
	exit, posts int
	rule        string
}

// table holds the rows of one command by their names, and which of them a test
// has played.
type table struct {
	t      testing.TB
	name   string
	rows   map[string]row
	mu     sync.Mutex
	played map[string]bool
}

// loadTable reads a hand-written table. Every row has to be played by the end
// of the test.
func loadTable(t *testing.T, name string, commands ...string) *table {
	t.Helper()
	tab := &table{t: t, name: name, rows: map[string]row{}, played: map[string]bool{}}
	for _, r := range aiptest.Table(t, name) {
		if !slices.Contains(commands, r.Get("command")) {
			continue
		}
		exit, err1 := strconv.Atoi(r.Get("exit_code"))
		posts, err2 := strconv.Atoi(r.Get("posts"))
		if err1 != nil || err2 != nil {
			t.Fatalf("%s: the row %s has no numbers", name, r.Get("case"))
		}
		tab.rows[r.Get("command")+" "+r.Get("case")] = row{exit, posts, r.Get("rule")}
	}
	t.Cleanup(func() {
		for name := range tab.rows {
			if !tab.played[name] {
				t.Errorf("%s: nobody has played %s", tab.name, name)
			}
		}
	})
	return tab
}

// holds compares what came out with the row of that name.
func (tab *table) holds(t testing.TB, name string, s shot, posts int) {
	t.Helper()
	want, ok := tab.rows[name]
	if !ok {
		t.Fatalf("%s has no row %s", tab.name, name)
	}
	tab.mu.Lock()
	tab.played[name] = true
	tab.mu.Unlock()
	if s.code != want.exit || posts != want.posts {
		t.Errorf("exit code %d after %d posts, want %d after %d: %s\nstdout %s\nstderr:\n%s", s.code, posts, want.exit, want.posts, want.rule, s.stdout, s.stderr)
	}
}

// daemon is an embedded daemon that counts what is posted.
type daemon struct {
	URL string

	t       testing.TB
	mu      sync.Mutex
	handler http.Handler
	posts   []string // bodies of what was sent to the messages route
}

// count is how many envelopes were posted; taken back to zero.
func (d *daemon) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := len(d.posts)
	d.posts = nil
	return n
}

func (d *daemon) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	d.mu.Lock()
	h := d.handler
	if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/messages") {
		d.posts = append(d.posts, string(body))
	}
	d.mu.Unlock()
	h.ServeHTTP(w, r)
}

// restart puts another daemon, which knows nothing, in the place of this one.
func (d *daemon) restart(opts devserver.Options) {
	if opts.Poll == 0 {
		opts.Poll = 5 * time.Millisecond
	}
	s := devserver.New(opts)
	d.t.Cleanup(s.Close)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.handler = s.Handler()
}

// embedded serves an embedded daemon on loopback until the test ends.
func embedded(t testing.TB, opts devserver.Options) *daemon {
	t.Helper()
	d := &daemon{t: t}
	d.restart(opts)
	d.URL = e2erig.Serve(t, d)
	return d
}
