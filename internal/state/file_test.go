package state

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aipctl/aipctl/internal/fault"
	"github.com/gofrs/flock"
	"github.com/google/go-cmp/cmp"
)

func TestEveryRecordComesBackAsItWasWritten(t *testing.T) {
	yes := true
	recs := []Record{
		{Type: TypeIntent, Intent: &Intent{
			CapabilityID: "cap:hermes_agent:north:chat", Endpoint: "north", Operation: "chat", IdempotencyKey: "k", Mode: "sync",
			TimeoutMS: num(1<<64 - 1), URL: "https://h/a?b&c", Principal: "anon", Tenant: "t", ContextPrincipal: "p", InputHash: "sha256:0",
			SessionID: "s", SessionKey: "k", Conversation: "line\nbreak \u2028 <é>", PreviousResponseID: "resp_0", Store: &yes, ResponseID: "resp_9",
			MaxEvents: num(0), RequiredTools: []string{"a", "b"}, EffectChecks: 2,
		}},
		{Type: TypeSubmitted, Submitted: &Submitted{Mode: "sync", Reply: "lost"}},
		{Type: TypeSubmitted, Submitted: &Submitted{}},
		{Type: TypeNotSent, NotSent: &NotSent{Class: 3, Code: "c", Reason: "r", InputHash: "sha256:0"}},
		{Type: TypeCursor, Cursor: &Cursor{URL: "u", Principal: "p", Route: "r", Filter: "f", Cursor: "c", LastSequence: num(0)}},
		{Type: TypeResponse, Response: &Response{ResponseID: "resp_1", Endpoint: "north"}},
		{Type: TypeApproval, Approval: &Approval{ApprovalID: "appr_1", PolicyHash: "aa", InputHash: "bb", ExpiresAt: "2030-01-15T12:00:00Z"}},
		{Type: TypeDecision, Decision: &Decision{ApprovalID: "appr_1", DecisionID: "dec_1", Decision: "deny"}},
		{Type: TypeProbe, Probe: &Probe{ParentActionID: "act_0", Purpose: "p"}},
		{Type: TypeSettled, Settled: &Settled{Verdict: "conflict", ExitCode: 10, Checks: map[string]string{"integrity": "fail", "a": "pass"}, AIPStatus: "completed",
			ErrorCode: "e", FinishReason: "stop", ReplayOf: "act_0", Missing: 1, Closed: true, UncertainOutcome: true,
			Receipt: &Receipt{ResponseID: "resp_9", Object: "response", Deleted: true, ApprovalID: "appr_1", DecisionID: "dec_1"}}},
	}
	for i := range recs {
		recs[i].ActionID = "act_1"
	}
	f := New(tempFile(t), still())
	if err := f.Append(t.Context(), true, recs...); err != nil {
		t.Fatal(err)
	}
	var got []Record
	seen := make(map[string]bool)
	for line := range bytes.Lines(read(t, f.Path())) {
		r, k, why := decode(trim(line))
		if k != good {
			t.Fatalf("%s: %s", line, why)
		}
		if !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(r.ID) || seen[r.ID] {
			t.Errorf("record id %q", r.ID)
		}
		seen[r.ID] = true
		// The clock stands still, the times do not.
		if want := t0.Add(time.Duration(len(got))); !r.At.Equal(want) || r.V != 1 {
			t.Errorf("record %d has version %d and time %s, want %s", len(got), r.V, r.At, want)
		}
		if !bytes.HasPrefix(line, []byte(`{"v":1,"id":"`+r.ID+`","type":"`+string(r.Type)+`","at":"2030-01-15T12:00:00`)) {
			t.Errorf("the line does not begin as every line does: %s", line)
		}
		r.V, r.ID, r.At = 0, "", time.Time{}
		got = append(got, *r)
	}
	if d := cmp.Diff(recs, got); d != "" {
		t.Errorf("(-written +read):\n%s", d)
	}
}

func TestGivenIDAndTimeStay(t *testing.T) {
	f := New(tempFile(t))
	r := *at("0123", 7, intent("k"))
	if err := f.Append(t.Context(), false, r); err != nil {
		t.Fatal(err)
	}
	v, _ := load(t, f.Path())
	if d := cmp.Diff(r, v.Action("act_1").Last); d != "" {
		t.Error(d)
	}
}

func TestReadsCreateNothing(t *testing.T) {
	dir := t.TempDir()
	f := New(filepath.Join(dir, "a", "state.jsonl"))
	v, rep, err := f.Load(t.Context())
	if err != nil || v == nil || len(v.Actions()) != 0 || !rep.Sound() || rep.Empty {
		t.Errorf("%v %+v %v", v, rep, err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left %v", left)
	}
	if v.Action("act_1") != nil {
		t.Error("an action out of nowhere")
	}
}

func TestIntentIsRecordedAtMostOnce(t *testing.T) {
	in := Intent{CapabilityID: "cap:x", InputHash: "sha256:1"}
	other := Intent{CapabilityID: "cap:x", InputHash: "sha256:2"}
	for _, tt := range []struct {
		rule   string
		before []Record
		in     Intent
		code   string // of the refusal; empty for none
	}{
		{"a new id", nil, in, ""},
		{"an id that has an intent", []Record{{Intent: &in}}, in, "state.duplicate_intent"},
		{"an id that has an intent for another daemon", []Record{{Intent: &Intent{URL: "http://other"}}}, in, "state.duplicate_intent"},
		{"an id that was not sent, same input", []Record{{Intent: &in}, {NotSent: &NotSent{InputHash: in.InputHash}}}, in, ""},
		{"an id that was not sent, another input", []Record{{Intent: &in}, {NotSent: &NotSent{InputHash: in.InputHash}}}, other, "state.duplicate_intent"},
		{"an id that was not sent and then was", []Record{{Intent: &in}, {NotSent: &NotSent{InputHash: in.InputHash}}, {Intent: &in}, {Submitted: &Submitted{}}}, in, "state.duplicate_intent"},
		{"an id that settled after it was not sent", []Record{{Intent: &in}, {NotSent: &NotSent{InputHash: in.InputHash}}, {Settled: &Settled{Verdict: "unavailable"}}}, in, "state.duplicate_intent"},
		{"an id that was only followed", []Record{{Cursor: &Cursor{Cursor: "c"}}}, in, ""},
	} {
		for _, explicit := range []bool{true, false} {
			t.Run(tt.rule, func(t *testing.T) {
				f := New(tempFile(t), still())
				for i, r := range tt.before {
					r = *at(newRecordID(), i, r)
					if err := f.Append(t.Context(), false, r); err != nil {
						t.Fatal(err)
					}
				}
				var before []byte
				if len(tt.before) > 0 {
					before = read(t, f.Path())
				}
				err := f.RecordIntent(t.Context(), "act_1", tt.in, explicit)
				if tt.code != "" {
					e := faultOf(t, err, fault.Usage, tt.code)
					if !strings.Contains(e.Message, "aipctl action result act_1") || !strings.Contains(e.Message, f.Path()) || e.ActionID != "act_1" {
						t.Errorf("message %q", e.Message)
					}
					if !bytes.Equal(before, read(t, f.Path())) {
						t.Error("the refusal changed the file")
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				v, _ := load(t, f.Path())
				a := v.Action("act_1")
				if d := cmp.Diff(&tt.in, a.Intent); d != "" {
					t.Error(d)
				}
				// The clock has not moved beyond what is there, and the intent
				// is the last word all the same.
				if a.Last.Type != TypeIntent || a.NotSent != nil {
					t.Errorf("last %s, not sent %v", a.Last.Type, a.NotSent)
				}
				wantFault(t, f.RecordIntent(t.Context(), "act_1", tt.in, explicit), fault.Usage, "state.duplicate_intent")
			})
		}
	}
}

func TestRecordThatIsNoneIsAMistakeOfTheCaller(t *testing.T) {
	for rule, r := range map[string]Record{
		"no type":             {ActionID: "act_1", Intent: &Intent{}},
		"unknown type":        {Type: "lease", ActionID: "act_1", Intent: &Intent{}},
		"no object":           {Type: TypeIntent, ActionID: "act_1"},
		"another object":      {Type: TypeIntent, ActionID: "act_1", Cursor: &Cursor{}},
		"one object too many": {Type: TypeIntent, ActionID: "act_1", Intent: &Intent{}, Cursor: &Cursor{}},
		"no action":           {Type: TypeIntent, Intent: &Intent{}},
		"another version":     {V: 2, Type: TypeIntent, ActionID: "act_1", Intent: &Intent{}},
	} {
		t.Run(rule, func(t *testing.T) {
			f := New(tempFile(t))
			good := Record{Type: TypeSubmitted, ActionID: "act_1", Submitted: &Submitted{}}
			wantFault(t, f.Append(t.Context(), false, good, r), fault.Internal, "state.bad_record")
			if _, err := os.Stat(f.Path()); !errors.Is(err, fs.ErrNotExist) {
				t.Error("something was written")
			}
		})
	}
	f := New(tempFile(t))
	wantFault(t, f.RecordIntent(t.Context(), "", Intent{}, false), fault.Internal, "state.bad_record")
	if err := f.Append(t.Context(), true); err != nil {
		t.Error(err)
	}
}

func TestRecordLongerThanALineMayBeIsRefused(t *testing.T) {
	f := New(tempFile(t))
	in := Intent{Conversation: strings.Repeat("c", maxRecord)}
	wantFault(t, f.RecordIntent(t.Context(), "act_1", in, false), fault.State, "state.record_too_large")
	in.Conversation = in.Conversation[:maxRecord-500]
	if err := f.RecordIntent(t.Context(), "act_1", in, false); err != nil {
		t.Fatal(err)
	}
	if v, rep := load(t, f.Path()); !rep.Sound() || v.Action("act_1").Intent.Conversation != in.Conversation {
		t.Errorf("%+v", rep)
	}
}

func TestPathsThatCannotBeAStateFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		rule, path string
		why        string // part of the message
		reads      bool   // a read finds nothing, and that is no error
	}{
		{"a directory", dir, "it is a directory", false},
		{"a file where the folder should be", filepath.Join(file, "state.jsonl"), "", runtime.GOOS == "windows"},
		{"a file above the folder", filepath.Join(file, "aipctl", "state.jsonl"), "", runtime.GOOS == "windows"},
		{"a device", os.DevNull, "it is not a regular file", false},
		{"no name", "", "no file is named", true},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			f := New(tt.path)
			check := func(err error, code string) {
				t.Helper()
				e := faultOf(t, err, fault.State, code)
				if !strings.Contains(e.Message, tt.path) || !strings.Contains(e.Message, tt.why) || !strings.Contains(e.Hint, "--state FILE") {
					t.Errorf("message %q, hint %q", e.Message, e.Hint)
				}
				if strings.Count(e.Message, tt.path) > 1 && tt.path != "" {
					t.Errorf("the message names the path twice: %q", e.Message)
				}
			}
			v, _, err := f.Load(t.Context())
			if tt.reads {
				if err != nil {
					t.Error(err)
				}
			} else {
				check(err, "state.unreadable")
			}
			if v == nil || len(v.Actions()) != 0 {
				t.Error("with an error the view is not an empty one")
			}
			check(f.RecordIntent(t.Context(), "act_1", Intent{}, false), "state.unwritable")
			check(f.Append(t.Context(), false, *at("1", 1, intent(""))), "state.unwritable")
			if _, err := os.Stat(tt.path + ".lock"); err == nil {
				t.Error("a lock file was left beside it")
			}
		})
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("left %v %v", left, err)
	}
}

// A symbolic link and the file it names have to share one lock, and the file
// need not exist yet.
func TestSymbolicLinkIsResolved(t *testing.T) {
	dir := t.TempDir()
	real := filepath.Join(dir, "real", "s.jsonl")
	one, two := filepath.Join(dir, "one.jsonl"), filepath.Join(dir, "two.jsonl")
	if err := os.Symlink(filepath.Join("real", "s.jsonl"), one); err != nil {
		t.Skipf("this system or user makes no symbolic links: %v", err)
	}
	if err := os.Symlink(one, two); err != nil {
		t.Fatal(err)
	}
	for i, path := range []string{two, one, real} {
		f := New(path)
		if err := f.RecordIntent(t.Context(), "act_"+string(rune('a'+i)), Intent{}, true); err != nil {
			t.Fatal(err)
		}
		if f.Path() != path {
			t.Errorf("path %q", f.Path())
		}
	}
	v, _ := load(t, two)
	if got := ids(v); len(got) != 3 {
		t.Errorf("actions %v", got)
	}
	top, _ := os.ReadDir(dir)
	below, _ := os.ReadDir(filepath.Dir(real))
	if len(top) != 3 || len(below) != 2 || below[1].Name() != "s.jsonl.lock" {
		t.Errorf("left %v and %v", top, below)
	}
	loop := filepath.Join(dir, "loop")
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	wantFault(t, New(loop).Append(t.Context(), false, *at("1", 1, intent(""))), fault.State, "state.unwritable")
}

func TestLockIsWaitedForWithABound(t *testing.T) {
	path := place(t, sound(t))
	lock := flock.New(path + ".lock")
	if ok, err := lock.TryLock(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	f := New(path, WithLockTimeout(20*time.Millisecond))
	rec := Record{Type: TypeSubmitted, ActionID: "act_1", Submitted: &Submitted{}}
	e := faultOf(t, f.Append(t.Context(), false, rec), fault.State, "state.locked")
	if !strings.Contains(e.Message, path) || !strings.Contains(e.Message, "20ms") {
		t.Errorf("message %q", e.Message)
	}
	if _, rep := load(t, path); rep.Records != 14 {
		t.Error("a read waits for the lock, or something was written without it")
	}

	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("interrupt signal received")
	cancel(cause)
	err := New(path).Append(ctx, false, rec)
	wantFault(t, err, fault.State, "state.interrupted")
	if !errors.Is(err, cause) {
		t.Errorf("the cause is lost: %v", err)
	}

	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	if err := f.Append(t.Context(), false, rec); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path + ".lock"); err != nil {
		t.Errorf("the lock file was removed: %v", err)
	}
}

// A lock file that a killed process left behind locks nothing.
func TestLockFileThatIsLeftOverLocksNothing(t *testing.T) {
	path := place(t, sound(t))
	if err := os.WriteFile(path+".lock", []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := New(path, WithLockTimeout(20*time.Millisecond)).Append(t.Context(), false, *at("1", 1, intent(""))); err != nil {
		t.Error(err)
	}
}

// A reader takes no lock, so it may come while a writer is in the middle of a
// line. It looks again before it calls the line torn.
func TestReaderWaitsForTheRestOfALine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		whole := sound(t)
		cut := len(whole) - 40
		path := place(t, whole[:cut])
		go func() {
			time.Sleep(tornPause / 2)
			file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
			if err == nil {
				_, err = file.Write(whole[cut:])
				err = errors.Join(err, file.Close())
			}
			if err != nil {
				t.Error(err)
			}
		}()
		if v, rep := load(t, path); !rep.Sound() || rep.Records != 14 || v.Action(actNotSent).NotSent == nil {
			t.Errorf("%+v", rep)
		}
	})
}

func TestReaderOfATornFileDoesNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		whole := sound(t)
		begin := time.Now()
		if _, rep := load(t, place(t, whole[:len(whole)-40])); !rep.Torn || rep.Records != 13 {
			t.Errorf("%+v", rep)
		}
		if waited := time.Since(begin); waited != tornPause {
			t.Errorf("waited %s", waited)
		}
		ctx, cancel := context.WithTimeout(t.Context(), tornPause/2)
		defer cancel()
		_, _, err := New(place(t, whole[:len(whole)-40])).Load(ctx)
		wantFault(t, err, fault.State, "state.interrupted")
	})
}

// An intent is on the disk, file and names, before the caller hears of it; where
// that cannot be had, the record is taken back and the request must not leave.
func TestWhatIsDurableIsFlushed(t *testing.T) {
	dir := t.TempDir()
	f := New(filepath.Join(dir, "state", "aipctl", "state.jsonl"))
	var done []string
	var fail error
	f.syncFile = func(file *os.File) error {
		fi, err := file.Stat()
		if err != nil {
			return err
		}
		lines := bytes.Count(read(t, file.Name()), []byte("\n"))
		done = append(done, fmt.Sprintf("%s with %d lines", strings.TrimPrefix(file.Name(), dir), lines))
		if fi.Size() == 0 {
			t.Error("flushed before it was written")
		}
		return fail
	}
	f.syncFolder = func(d string) error {
		done = append(done, "names in "+strings.TrimPrefix(d, dir))
		return nil
	}
	name := filepath.FromSlash("/state/aipctl/state.jsonl")
	for _, step := range []struct {
		rule string
		do   func() error
		want []string
	}{
		{"the first write", func() error { return f.Append(t.Context(), false, *at("1", 1, cursorAt("c", nil))) },
			[]string{"names in " + filepath.FromSlash("/state"), "names in ", "names in " + filepath.FromSlash("/state/aipctl")}},
		{"an intent", func() error { return f.RecordIntent(t.Context(), "act_1", Intent{}, true) }, []string{name + " with 2 lines"}},
		{"a cursor", func() error { return f.Append(t.Context(), false, *at("2", 1, cursorAt("c", nil))) }, nil},
		{"a durable record", func() error { return f.Append(t.Context(), true, *at("3", 1, notSent(""))) }, []string{name + " with 4 lines"}},
	} {
		done = nil
		if err := step.do(); err != nil {
			t.Fatal(step.rule, err)
		}
		if d := cmp.Diff(step.want, done); d != "" {
			t.Errorf("%s (-want +got):\n%s", step.rule, d)
		}
	}
	before := read(t, f.Path())
	fail = errors.New("input/output error")
	e := faultOf(t, f.RecordIntent(t.Context(), "act_2", Intent{}, true), fault.State, "state.unwritable")
	if !strings.HasSuffix(e.Message, ": input/output error") || !errors.Is(e, fail) {
		t.Errorf("message %q", e.Message)
	}
	if !bytes.Equal(before, read(t, f.Path())) {
		t.Error("an intent that is not on the disk stays in the file")
	}
	if _, err := f.Rewrite(t.Context(), nil); err == nil || !bytes.Equal(before, read(t, f.Path())) {
		t.Errorf("a rewrite that is not on the disk took the name: %v", err)
	}
	if left, _ := filepath.Glob(f.Path() + "*"); len(left) != 2 {
		t.Errorf("left %v", left)
	}
}

// Everything that is written has to be explained to the people who read it.
func TestDocumentNamesEveryField(t *testing.T) {
	doc := string(read(t, filepath.Join("..", "..", "docs", "state-file.md")))
	yes := true
	full := Record{
		Intent: &Intent{Endpoint: "x", Operation: "x", IdempotencyKey: "x", Mode: "x", TimeoutMS: num(1), URL: "x", Principal: "x", Tenant: "x",
			ContextPrincipal: "x", InputHash: "x", SessionID: "x", SessionKey: "x", Conversation: "x", PreviousResponseID: "x", Store: &yes, ResponseID: "x",
			MaxEvents: num(1), RequiredTools: []string{"x"}, EffectChecks: 1},
		Submitted: &Submitted{"x", "x"}, NotSent: &NotSent{1, "x", "x", "x"}, Cursor: &Cursor{LastSequence: num(1)}, Response: &Response{"x", "x"},
		Approval: &Approval{"x", "x", "x", "x"}, Decision: &Decision{}, Probe: &Probe{"x", "x"},
		Settled: &Settled{"x", 1, map[string]string{}, "x", "x", "x", "x", 1, true, true, &Receipt{"x", "x", true, "x", "x"}},
	}
	b, err := json.Marshal(full)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(b, &fields); err != nil {
		t.Fatal(err)
	}
	count := 0
	var walk func(map[string]any)
	walk = func(m map[string]any) {
		for name, v := range m {
			count++
			if !strings.Contains(doc, "`"+name+"`") {
				t.Errorf("docs/state-file.md does not name %s", name)
			}
			if m, ok := v.(map[string]any); ok {
				walk(m)
			}
		}
	}
	walk(fields)
	if count < 60 {
		t.Errorf("only %d fields were looked at", count)
	}
}
