//go:build unix

package e2ecrowd

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"testing"
)

// cappedCall runs a call on a disk where no file can have more bytes than that.
func (h *home) cappedCall(d *daemon, size int, more ...string) *process {
	h.t.Helper()
	c := h.command("aipctl-capped", append([]string{"action", "call", d.url, short, "--prompt", "x", "--action-id", "act_disk"}, more...)...)
	c.Env = append(c.Env, capEnv+"="+strconv.Itoa(size))
	return h.launch(c)
}

// intentSize is how many bytes the intent of such a call takes, give or take
// the nine digits of its time.
func intentSize(t *testing.T) int {
	t.Helper()
	d := newDaemon(t, nil)
	h := d.newHome()
	h.run("action", "call", d.url, short, "--prompt", "x", "--action-id", "act_disk").want(t, 0)
	line, _, _ := bytes.Cut(h.bytes(), []byte("\n"))
	if !bytes.Contains(line, []byte(`"type":"intent"`)) {
		t.Fatalf("the first record is %s", line)
	}
	return len(line) + 1
}

// Where the intent cannot be kept, nothing is sent, and the file is what it was.
func TestDiskIsFullBeforeTheSubmit(t *testing.T) {
	t.Parallel()
	size := intentSize(t)
	old := fixture(t, "old.jsonl")
	for _, tt := range []struct {
		rule   string
		before []byte
		room   int
	}{
		{"no byte of a new file", nil, 0},
		{"a few bytes of a new file", nil, 40},
		{"all of the intent but its end", nil, size - 20},
		{"no byte behind what is there", old, 0},
		{"half an intent behind what is there", old, size / 2},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			t.Parallel()
			d := newDaemon(t, nil)
			h := d.newHome()
			if tt.before != nil {
				h.put(tt.before)
			}
			got := h.cappedCall(d, len(tt.before)+tt.room).wait()
			got.want(t, 14)
			if got.out != "" || !strings.Contains(got.stderr, "cannot write the state file "+h.stateFile()) || !strings.Contains(got.stderr, "--state FILE") {
				t.Errorf("the refusal does not say what is wrong and how to go on: %s", got)
			}
			if n := d.requests("submit") + d.requests("follow"); n != 0 || len(d.srv.Submits()) != 0 {
				t.Errorf("%d requests were sent, and %d submits", n, len(d.srv.Submits()))
			}
			if !bytes.Equal(h.bytes(), tt.before) {
				t.Errorf("the file had %d bytes and has %d", len(tt.before), len(h.bytes()))
			}
			// With room the same id is still free.
			h.run("action", "call", d.url, short, "--prompt", "x", "--action-id", "act_disk").want(t, 0)
			d.wantOnce("act_disk")
			h.wantSound()
		})
	}
}

// Once the submit has left, a full disk is a warning: the action ends as it
// ends, the answer is whole, and the way back is printed.
func TestDiskIsFullAfterTheSubmit(t *testing.T) {
	t.Parallel()
	size := intentSize(t)
	want := play(t, short)
	for _, tt := range []struct {
		rule string
		more []string
		code int
		room int // behind the intent
	}{
		{"not a byte more", nil, 0, 12},
		{"half a record", nil, 0, 90},
		{"a script", []string{"-o", "jsonl"}, 0, 12},
		{"one document", []string{"-o", "json"}, 0, 12},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			t.Parallel()
			d := newDaemon(t, nil)
			h := d.newHome()
			got := h.cappedCall(d, size+tt.room, tt.more...).wait()
			got.want(t, tt.code)
			switch {
			case len(tt.more) > 0:
				if !strings.Contains(got.out, `"verdict":"accepted"`) || !strings.Contains(got.out, `"code":"state.write"`) || !strings.Contains(got.out, `"cursor":"aev_cursor_`) {
					t.Errorf("the outcome does not hold verdict, warning and cursor: %s", got)
				}
			case got.out != want.text()+"\n":
				t.Errorf("it wrote %q, want %q", got.out, want.text()+"\n")
			case !strings.Contains(got.stderr, "cannot write the state file") || !strings.Contains(got.stderr, "--from aev_cursor_"):
				t.Errorf("it does not say that nothing is kept, and how to go on: %s", got)
			}
			d.wantOnce("act_disk")
			d.wantKept(h)
			h.wantSound()
			if types := h.ids("settled"); len(types) != 0 {
				t.Errorf("there was room for a verdict of %v", types)
			}
			// With room again, coming back settles and records.
			h.run("action", "events", d.url, "act_disk", "--follow", "--include-chunks").want(t, 0)
			if got := h.ids("settled"); len(got) != 1 {
				t.Errorf("verdicts of %v are recorded, want one", got)
			}
			d.wantOnce("act_disk")
		})
	}
	t.Run("an action that fails", func(t *testing.T) {
		t.Parallel()
		d := newDaemon(t, nil)
		h := d.newHome()
		c := h.command("aipctl-capped", "action", "call", d.url, "cap:hermes_agent:chat-error:chat_stream", "--prompt", "x", "--action-id", "act_disk")
		c.Env = append(c.Env, capEnv+"="+strconv.Itoa(size+12))
		got := h.launch(c).wait()
		got.want(t, 5)
		if !strings.Contains(got.stderr, "cannot write the state file") {
			t.Errorf("no warning: %s", got)
		}
		d.wantOnce("act_disk")
		h.wantSound()
	})
}

// The limit that the tests above set is one: a larger file cannot be written.
func TestCapIsACap(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.put(fixture(t, "old.jsonl"))
	c := h.command("aipctl-capped", "state", "merge", h.stateFile(), "--state", h.dir+"/copy.jsonl")
	c.Env = append(c.Env, capEnv+"=100")
	got := h.launch(c).wait()
	got.want(t, 14)
	if fi, err := os.Stat(h.dir + "/copy.jsonl"); err != nil || fi.Size() != 0 {
		t.Errorf("the copy: %v %v", fi, err)
	}
}
