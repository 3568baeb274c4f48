package state

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aipctl/aipctl/internal/fault"
	"github.com/gofrs/flock"
)

// Tests that need other processes run this test program again, as a child that
// does one thing.
const (
	childEnv = "AIPCTL_STATE_TEST_CHILD"
	pathEnv  = "AIPCTL_STATE_TEST_PATH"
	argEnv   = "AIPCTL_STATE_TEST_ARG"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Stdout = os.Stderr // no report of the framework stands between the lines
	}
	os.Exit(m.Run())
}

var childOut = os.Stdout

func say(format string, args ...any) { fmt.Fprintf(childOut, format, args...) }

func sayFault(what string, err error) {
	if e := fault.As(err); e != nil {
		say("%s: %s %s %s\n", what, e.Class, e.Code, e.Message)
		return
	}
	say("%s: %v\n", what, err)
}

func child(ctx context.Context, do, path, arg string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestChild$", "-test.count=1")
	cmd.Env = append(os.Environ(), childEnv+"="+do, pathEnv+"="+path, argEnv+"="+arg)
	return cmd
}

func runChild(t *testing.T, do, path string) string {
	t.Helper()
	cmd := child(t.Context(), do, path, "")
	var report bytes.Buffer
	cmd.Stderr = &report
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("child %s: %v\n%s%s", do, err, out, &report)
	}
	return string(out)
}

// TestChild is what a child process runs; in the process of the test itself
// there is nothing for it to do.
func TestChild(t *testing.T) {
	path, arg := os.Getenv(pathEnv), os.Getenv(argEnv)
	switch do := os.Getenv(childEnv); do {
	case "":
	case "intents":
		childIntents(t, path, arg)
	case "cursors":
		childCursors(t, path, arg)
	case "same":
		sayFault("intent", New(path, WithLockTimeout(time.Minute)).RecordIntent(t.Context(), "act_the_same", Intent{InputHash: "sha256:1"}, true))
	case "hold":
		childHold(t, path)
	default:
		if !childUnix(t, do, path) {
			t.Fatalf("no child %q", do)
		}
	}
}

// childIntents records intents until its input ends or it is killed, and says
// each one that is on the disk.
func childIntents(t *testing.T, path, arg string) {
	f := New(path, WithLockTimeout(time.Minute))
	n := 1 << 30
	if k, err := strconv.Atoi(arg[strings.LastIndexByte(arg, ' ')+1:]); err == nil {
		n = k
	}
	name := strings.Fields(arg)[0]
	for i := range n {
		id := fmt.Sprintf("act_%s_%d", name, i)
		if err := f.RecordIntent(t.Context(), id, Intent{CapabilityID: "cap:hermes_agent:north:chat", Conversation: strings.Repeat("c", 200)}, true); err != nil {
			t.Fatal(err)
		}
		say("%s\n", id)
	}
}

// childCursors follows an action of its own and one that all follow.
func childCursors(t *testing.T, path, arg string) {
	f := New(path, WithLockTimeout(time.Minute))
	me, err := strconv.Atoi(arg)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		seq := uint64(i*10 + me)
		for _, id := range []string{"act_followed_" + arg, "act_followed_by_all"} {
			c := Cursor{URL: "u", Principal: "p", Route: "events", Cursor: fmt.Sprintf("aev_cursor_%d_%d", i, seq), LastSequence: &seq}
			if err := f.Append(t.Context(), false, Record{Type: TypeCursor, ActionID: id, Cursor: &c}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// childHold takes the lock and keeps it until it is killed.
func childHold(t *testing.T, path string) {
	if ok, err := flock.New(path + ".lock").TryLock(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	say("held\n")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func TestManyProcessesWriteOneFile(t *testing.T) {
	path := tempFile(t)
	const submitters, intents, followers = 12, 3, 6
	ctx, stopReading := context.WithCancel(t.Context())
	var wg, reader sync.WaitGroup
	reader.Go(func() { // the file can be read at every moment
		for ctx.Err() == nil {
			if _, rep, err := New(path).Load(t.Context()); err != nil || len(rep.Damaged) > 0 {
				t.Errorf("in the middle: %+v %v", rep, err)
				return
			}
		}
	})
	for i := range submitters + followers {
		wg.Go(func() {
			do, arg := "intents", fmt.Sprintf("par_%d %d", i, intents)
			if i >= submitters {
				do, arg = "cursors", strconv.Itoa(i-submitters)
			}
			if out, err := child(t.Context(), do, path, arg).CombinedOutput(); err != nil {
				t.Errorf("child %s %s: %v\n%s", do, arg, err, out)
			}
		})
	}
	wg.Wait()
	stopReading()
	reader.Wait()

	v, rep := load(t, path)
	if !rep.Sound() || rep.Records != submitters*intents+followers*80 {
		t.Errorf("%+v", rep)
	}
	for i := range submitters {
		for k := range intents {
			if a := v.Action(fmt.Sprintf("act_par_%d_%d", i, k)); a == nil || a.Intent == nil {
				t.Errorf("intent %d of process %d is lost", k, i)
			}
		}
	}
	for i := range followers {
		if c, ok := v.Action("act_followed_"+strconv.Itoa(i)).Cursor("u", "p", "events", ""); !ok || *c.LastSequence != uint64(390+i) {
			t.Errorf("follower %d: %+v", i, c)
		}
	}
	if c, ok := v.Action("act_followed_by_all").Cursor("u", "p", "events", ""); !ok || *c.LastSequence != 390+followers-1 {
		t.Errorf("the furthest of all is not kept: %+v", c)
	}
}

func TestOneProcessOfManyGetsAChosenID(t *testing.T) {
	path := tempFile(t)
	var mu sync.Mutex
	var wg sync.WaitGroup
	got := map[string]int{}
	for range 8 {
		wg.Go(func() {
			out, err := child(t.Context(), "same", path, "").Output()
			if err != nil {
				t.Error(err)
			}
			what, _, _ := strings.Cut(string(out), " act_")
			mu.Lock()
			defer mu.Unlock()
			got[strings.TrimSpace(what)]++
		})
	}
	wg.Wait()
	if got["intent: <nil>"] != 1 || got["intent: usage state.duplicate_intent"] != 7 {
		t.Errorf("got %v", got)
	}
}

// Whatever was said to be on the disk is there after kill -9, and the lock of
// the dead is free.
func TestKilledWritersLoseNothing(t *testing.T) {
	path := place(t, sound(t))
	said := map[string]bool{}
	for round := range 4 {
		var mu sync.Mutex
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() {
				cmd := child(t.Context(), "intents", path, fmt.Sprintf("kill_%d_%d", round, i))
				out, err := cmd.StdoutPipe()
				if err == nil {
					err = cmd.Start()
				}
				if err != nil {
					t.Error(err)
					return
				}
				lines := bufio.NewScanner(out)
				for n := 0; lines.Scan(); n++ {
					mu.Lock()
					said[lines.Text()] = true
					mu.Unlock()
					if n == 5+3*i {
						_ = cmd.Process.Kill() // goes on reading what it said before
					}
				}
				var exit *exec.ExitError
				if err := cmd.Wait(); !errors.As(err, &exit) {
					t.Errorf("the child was not killed: %v", err)
				}
			})
		}
		wg.Wait()
	}
	if err := New(path).Append(t.Context(), true, Record{Type: TypeSubmitted, ActionID: "act_after", Submitted: &Submitted{}}); err != nil {
		t.Fatal(err)
	}
	v, _ := load(t, path)
	if len(said) < 4*(6+9+12) {
		t.Errorf("only %d intents were recorded", len(said))
	}
	for id := range said {
		if v.Action(id) == nil {
			t.Errorf("%s was said to be recorded and is not", id)
		}
	}
	for _, id := range []string{actSettled, actPending, actNotSent, "act_after"} {
		if v.Action(id) == nil {
			t.Errorf("%s is lost", id)
		}
	}
}

func TestLockOfAnotherProcess(t *testing.T) {
	path := place(t, sound(t))
	before := read(t, path)
	cmd := child(t.Context(), "hold", path, "")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatal(line, err)
	}
	f := New(path, WithLockTimeout(20*time.Millisecond))
	wantFault(t, f.RecordIntent(t.Context(), "act_1", Intent{}, false), fault.State, "state.locked")
	if !bytes.Equal(before, read(t, path)) {
		t.Error("something was written without the lock")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if err := f.RecordIntent(t.Context(), "act_1", Intent{}, false); err != nil {
		t.Errorf("the lock of a killed process is still held: %v", err)
	}
}
