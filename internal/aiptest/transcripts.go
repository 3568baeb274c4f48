package aiptest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// Main runs the tests of a package whose transcripts use the programs, and
// never returns: call it from TestMain. Each function is the main function of a
// program that transcripts can run by its name, in a process of its own, so
// exit codes and signals are the real ones.
func Main(m *testing.M, programs map[string]func()) {
	testscript.Main(m, programs)
}

// RunTranscripts runs every *.txtar of dir as a subtest; a folder without one
// fails. Setup may add environment variables and start servers ([testscript.Env.Defer]
// stops them); it may be nil. The environment of the machine is not visible to
// a transcript: HOME and the XDG folders lie inside its own work folder, and
// proxies, colour and context are unset.
//
// Beside testscript's own verbs there are:
//
//	exits N CMD [ARG…]     runs CMD and fails unless its exit code is exactly N;
//	                       a process that a signal killed has 128 plus its number;
//	                       records that were asked for must be as docs/schema says
//	state FILE             prints the records of a state file without id and at
//	json FIELD FILE        prints FIELD (dots go deeper: checks.0.name) of each
//	                       JSON object in FILE that has it; strings as they are,
//	                       everything else as JSON; fails where none has it
//	play DIR PLAN [SPEED]  plays a case folder and sets AIP_URL and AIP_ACTION_ID
//	requests KIND N        fails unless the last played case saw exactly N
//	                       requests of the kind
//
// What a verb prints can be compared with cmp stdout. FILE may be stdout or
// stderr. Inside DIR, $CASES is the module's folder of cases.
func RunTranscripts(t *testing.T, dir string, setup func(*testscript.Env) error) {
	t.Helper()
	testscript.Run(t, params(t, dir, setup))
}

// params is how every transcript is run.
func params(t testing.TB, dir string, setup func(*testscript.Env) error) testscript.Params {
	t.Helper()
	cases := Testdata(t, "cases")
	return testscript.Params{
		Dir:                 dir,
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			for _, name := range []string{"HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA"} {
				env.Setenv(name, env.WorkDir)
			}
			for _, name := range []string{"state", "config", "cache"} {
				env.Setenv("XDG_"+strings.ToUpper(name)+"_HOME", env.WorkDir+"/."+name)
			}
			env.Setenv("CASES", cases)
			env.Values[playedKey{}] = &played{}
			if setup == nil {
				return nil
			}
			return setup(env)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":    cmdExits,
			"state":    cmdState,
			"json":     cmdJSON,
			"play":     cmdPlay,
			"requests": cmdRequests,
		},
	}
}

// plain stops a script that negates or misuses a verb.
func plain(ts *testscript.TestScript, neg bool, args []string, least int, usage string) {
	if neg {
		ts.Fatalf("a verb of the transcripts cannot be negated")
	}
	if len(args) < least {
		ts.Fatalf("usage: %s", usage)
	}
}

func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	plain(ts, neg, args, 2, "exits N CMD [ARG…]")
	want, err := strconv.Atoi(args[0])
	if err != nil {
		ts.Fatalf("exits: %q is no exit code", args[0])
	}
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var ee *exec.ExitError
		if !errors.As(err, &ee) {
			ts.Fatalf("exits: %v", err)
		}
		got = ee.ExitCode()
		if ws, ok := ee.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			got = 128 + int(ws.Signal())
		}
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
	if asksForRecords(args) {
		all, err := recordSchemas()
		ts.Check(err)
		for line := range strings.Lines(ts.ReadFile("stdout") + ts.ReadFile("stderr")) {
			ts.Check(all.check(line))
		}
	}
}

func cmdState(ts *testscript.TestScript, neg bool, args []string) {
	plain(ts, neg, args, 1, "state FILE")
	for _, line := range lines(ts.ReadFile(args[0])) {
		var rec map[string]json.RawMessage
		if err := json.Unmarshal([]byte(line), &rec); err != nil {
			ts.Fatalf("state: %v in line %q", err, line)
		}
		delete(rec, "id")
		delete(rec, "at")
		out, err := json.Marshal(rec)
		ts.Check(err)
		fmt.Fprintf(ts.Stdout(), "%s\n", out)
	}
}

func cmdJSON(ts *testscript.TestScript, neg bool, args []string) {
	plain(ts, neg, args, 2, "json FIELD FILE")
	found := false
	dec := json.NewDecoder(strings.NewReader(ts.ReadFile(args[1])))
	for dec.More() {
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			ts.Fatalf("json: %v", err)
		}
		got, ok := field(v, strings.Split(args[0], "."))
		if !ok {
			continue
		}
		found = true
		fmt.Fprintln(ts.Stdout(), got)
	}
	if !found {
		ts.Fatalf("json: no object of %s has the field %s", args[1], args[0])
	}
}

// field walks into v by object keys and array indexes. The digits of numbers
// stay as written.
func field(v json.RawMessage, path []string) (string, bool) {
	for _, step := range path {
		var obj map[string]json.RawMessage
		var list []json.RawMessage
		switch {
		case json.Unmarshal(v, &obj) == nil:
			next, ok := obj[step]
			if !ok {
				return "", false
			}
			v = next
		case json.Unmarshal(v, &list) == nil:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(list) {
				return "", false
			}
			v = list[i]
		default:
			return "", false
		}
	}
	var s string
	if json.Unmarshal(v, &s) == nil && string(v) != "null" {
		return s, true
	}
	return string(v), true
}

type playedKey struct{}

// played holds the player a script started last.
type played struct{ *Player }

func cmdPlay(ts *testscript.TestScript, neg bool, args []string) {
	plain(ts, neg, args, 2, "play DIR PLAN [SPEED]")
	speed := 1.0
	if len(args) > 2 {
		var err error
		if speed, err = strconv.ParseFloat(args[2], 64); err != nil {
			ts.Fatalf("play: %q is no speed", args[2])
		}
	}
	p, err := openCase(ts.MkAbs(args[0]), args[1], WithSpeed(speed))
	ts.Check(err)
	ts.Defer(p.Close)
	ts.Value(playedKey{}).(*played).Player = p
	ts.Setenv("AIP_URL", p.URL())
	ts.Setenv("AIP_ACTION_ID", p.ActionID())
}

func cmdRequests(ts *testscript.TestScript, neg bool, args []string) {
	plain(ts, neg, args, 2, "requests KIND N")
	p := ts.Value(playedKey{}).(*played).Player
	if p == nil {
		ts.Fatalf("requests: no case was played")
	}
	k := Kind(args[0])
	if !slices.Contains(kinds, k) {
		ts.Fatalf("requests: unknown kind %q, known are %v", k, kinds)
	}
	want, err := strconv.Atoi(args[1])
	if err != nil {
		ts.Fatalf("requests: %q is no number", args[1])
	}
	if got := p.Requests(k); len(got) != want {
		for _, r := range got {
			ts.Logf("%8s %s %s", r.Time, r.Method, r.Target)
		}
		ts.Fatalf("%d requests of kind %s, want %d", len(got), k, want)
	}
}

// lines splits text into its lines, without blank ones.
func lines(text string) []string {
	var out []string
	in := bufio.NewScanner(strings.NewReader(text))
	in.Buffer(nil, len(text)+1)
	for in.Scan() {
		if s := strings.TrimSpace(in.Text()); s != "" {
			out = append(out, s)
		}
	}
	return out
}
