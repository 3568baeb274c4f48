package e2estored_test

import (
	"encoding/json"
	"fmt"
	"github.com/aipctl/aipctl/internal/e2erig"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// answer is what a scripted daemon says to one request. Without a body it
// breaks the connection off.
type answer struct {
	status int // 0 is 200
	body   string
}

// refusal is an error of the daemon in its envelope. Details may be empty.
func refusal(status int, code, category string, retryable bool, details string) answer {
	if details == "" {
		details = "null"
	}
	return answer{status, fmt.Sprintf(`{"aip_version":"1.0","body":{"error":{"error":{"code":%q,"category":%q,"message":"no","retryable":%t,"details":%s}}}}`, code, category, retryable, details)}
}

// action is what was submitted.
type action struct {
	ID           string          `json:"id"`
	CapabilityID string          `json:"capability_id"`
	Key          string          `json:"idempotency_key"`
	Input        json.RawMessage `json:"input"`
}

// decision is what was posted about an approval.
type decision struct {
	ApprovalID string `json:"approval_id"`
	Decision   string `json:"decision"`
	DecisionID string `json:"decision_id"`
	PolicyHash string `json:"policy_hash"`
	Reason     string `json:"reason"`
	Approver   struct {
		ID   string `json:"id"`
		Kind string `json:"kind"`
	} `json:"approver"`
}

// script is a daemon that says what a test has it say, trap or not. It knows
// what the wire looks like and no rule of a daemon.
type script struct {
	URL string

	act    func(n int, a action) answer   // the n-th submit, from 1
	decide func(n int, d decision) answer // the n-th decision, from 1
	view   func(n int) answer             // the n-th read of an approval, from 1
	list   answer                         // of approvals
	events string                         // events of any action, as they stand in a page

	mu        sync.Mutex
	actions   []action
	decisions []decision
	views     int
	payloads  int
}

func serveScript(t testing.TB, s *script) *script {
	t.Helper()
	s.URL = e2erig.Serve(t, s)
	return s
}

// submitted and decided are how many of either were posted.
func (s *script) submitted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.actions)
}

func (s *script) decided() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.decisions)
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, "/aip/v1/")
	id, rest, _ := strings.Cut(strings.TrimPrefix(path, "actions/"), "/")
	switch {
	case r.Method == http.MethodPost:
		s.post(w, r)
	case path == "approvals":
		s.say(w, s.list)
	case strings.HasPrefix(path, "approvals/"):
		s.mu.Lock()
		s.views++
		n := s.views
		if r.URL.Query().Get("include_evidence_payload") == "true" {
			s.payloads++
		}
		s.mu.Unlock()
		s.say(w, s.view(n))
	case rest == "events" && r.URL.Query().Get("follow") == "true":
		s.follow(w, r)
	case rest == "events":
		s.say(w, answer{0, fmt.Sprintf(`{"action_events":{"action_id":%q,"events":[%s],"cursor":"aev_cursor_0_none","terminal":false}}`, id, s.events)})
	case rest == "result":
		s.say(w, refusal(400, "action.not_found", "permanent", false, ""))
	default:
		s.say(w, answer{0, fmt.Sprintf(`{"action_status":{"action_id":%q,"state":"unknown"}}`, id)})
	}
}

func (s *script) post(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	var envelope struct {
		Body struct {
			Action   *action   `json:"action"`
			Decision *decision `json:"approval_decision"`
		} `json:"body"`
	}
	if err := json.Unmarshal(raw, &envelope); err != nil {
		s.say(w, answer{400, "no JSON"})
		return
	}
	switch b := envelope.Body; {
	case b.Action != nil:
		s.mu.Lock()
		s.actions = append(s.actions, *b.Action)
		n := len(s.actions)
		s.mu.Unlock()
		s.say(w, s.act(n, *b.Action))
	case b.Decision != nil:
		s.mu.Lock()
		s.decisions = append(s.decisions, *b.Decision)
		n := len(s.decisions)
		s.mu.Unlock()
		s.say(w, s.decide(n, *b.Decision))
	}
}

// follow stands open, for no result is stored: what there is to know comes in
// the answers.
func (*script) follow(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	<-r.Context().Done()
}

func (*script) say(w http.ResponseWriter, a answer) {
	if a.body == "" {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	if a.status != 0 {
		w.WriteHeader(a.status)
	}
	_, _ = io.WriteString(w, a.body)
}

// result wraps a result as the reply to a submit.
func result(format string, args ...any) answer {
	return answer{0, `{"aip_version":"1.0","body":{"action_result":` + fmt.Sprintf(format, args...) + `}}`}
}
