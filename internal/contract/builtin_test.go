package contract

import (
	"reflect"
	"testing"
	"time"
)

// published are the connector's operations with what their contracts say: how
// long they run, whether a key is required, and what mode auto means.
var published = []struct {
	operation string
	timeout   time.Duration
	key       bool
	mode      string
}{
	{"health", time.Minute, false, "sync"},
	{"health_detailed", time.Minute, false, "sync"},
	{"models", time.Minute, false, "sync"},
	{"capabilities", time.Minute, false, "sync"},
	{"skills", time.Minute, false, "sync"},
	{"toolsets", time.Minute, false, "sync"},
	{"chat", time.Minute, false, "sync"},
	{"chat_stream", 5 * time.Minute, false, "streaming"},
	{"responses", time.Minute, false, "sync"},
	{"responses_stream", 5 * time.Minute, false, "streaming"},
	{"response_get", time.Minute, false, "sync"},
	{"response_delete", time.Minute, true, "sync"},
	{"run_start", time.Minute, true, "sync"},
	{"run_status", time.Minute, false, "sync"},
	{"run_events", 5 * time.Minute, false, "streaming"},
	{"run_approval", time.Minute, true, "sync"},
	{"run_stop", time.Minute, true, "sync"},
	{"operator", 15 * time.Minute, true, "streaming"},
	{"sessions_list", time.Minute, false, "sync"},
	{"session_create", time.Minute, true, "sync"},
	{"session_get", time.Minute, false, "sync"},
	{"session_patch", time.Minute, true, "sync"},
	{"session_delete", time.Minute, true, "sync"},
	{"session_messages", time.Minute, false, "sync"},
	{"session_fork", time.Minute, true, "sync"},
	{"session_chat", time.Minute, false, "sync"},
	{"session_chat_stream", 5 * time.Minute, false, "streaming"},
	{"jobs_list", time.Minute, false, "sync"},
	{"job_create", time.Minute, true, "sync"},
	{"job_get", time.Minute, false, "sync"},
	{"job_update", time.Minute, true, "sync"},
	{"job_delete", time.Minute, true, "sync"},
	{"job_pause", time.Minute, true, "sync"},
	{"job_resume", time.Minute, true, "sync"},
	{"job_run", time.Minute, true, "sync"},
	// The protocol's own defaults, for what nobody has published.
	{"never_seen", time.Minute, false, "sync"},
	{"never_seen_stream", 5 * time.Minute, false, "streaming"},
	{"", time.Minute, false, "sync"},
}

func TestBuiltinContracts(t *testing.T) {
	keys := 0
	for _, p := range published {
		want := Contract{Operation: p.operation, Timeout: p.timeout, KeyRequired: p.key, Mode: p.mode, Source: BuiltIn}
		if got := Builtin(p.operation); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", p.operation, got, want)
		}
		if p.key {
			keys++
		}
	}
	if keys != len(keyed) {
		t.Errorf("%d operations require a key, the package lists %d", keys, len(keyed))
	}
}

// TestAnActionCanOnlyShortenItsTime: the daemon takes the smaller of the two
// timeouts.
func TestAnActionCanOnlyShortenItsTime(t *testing.T) {
	c := Contract{Timeout: time.Minute}
	for ms, want := range map[uint64]time.Duration{
		0: 0, 1: time.Millisecond, 59_999: 59_999 * time.Millisecond, 60_000: time.Minute, 60_001: time.Minute,
		1 << 63: time.Minute, 1<<64 - 1: time.Minute,
	} {
		if got := c.RunsAtMost(&ms); got != want {
			t.Errorf("%d ms: %s, want %s", ms, got, want)
		}
	}
	if got := c.RunsAtMost(nil); got != time.Minute {
		t.Errorf("without one of its own: %s", got)
	}
}

// TestOperationsAreThoseOfTheContract compares the list with what is known to
// require a key.
func TestOperationsAreThoseOfTheContract(t *testing.T) {
	listed := map[string]bool{}
	for _, k := range Operations() {
		if listed[k.Operation] || k.Does == "" {
			t.Errorf("%s is listed twice or does nothing", k.Operation)
		}
		listed[k.Operation] = true
	}
	for op := range keyed {
		if !listed[op] {
			t.Errorf("%s requires a key and is not listed", op)
		}
	}
}
