//go:build unix

package e2ecrowd

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// While twenty processes append, others put the file away under them again and
// again, by its name and through a link. Whoever waits for the lock meanwhile
// appends to the file that has the name then, and no record is lost.
func TestPruneWhileOthersWrite(t *testing.T) {
	t.Parallel()
	const writers = 20
	d := newDaemonAt(t, 8, nil) // each stream gives a dozen cursors to keep
	h := d.newHome()
	h.put(fixture(t, "old.jsonl"))
	link := filepath.Join(t.TempDir(), "link.jsonl")
	if err := os.Symlink(h.stateFile(), link); err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(t.TempDir(), "old.jsonl")
	if err := os.WriteFile(source, fixture(t, "old.jsonl"), 0o600); err != nil {
		t.Fatal(err)
	}
	var all []*process
	for i := range writers {
		name := h.stateFile()
		if i%2 == 0 {
			name = link
		}
		all = append(all, h.start("action", "call", d.url, long, "--prompt", "x", "--state", name))
	}
	rewrites := 0
	for busy := true; busy; {
		busy = slices.ContainsFunc(all, (*process).alive)
		for _, name := range []string{link, h.stateFile()} {
			got := h.run("state", "prune", "--settled", "--older-than", "1h", "--yes", "--state", name)
			got.want(t, 0)
			if !strings.HasPrefix(got.out, "0 actions") {
				rewrites++
			}
			h.run("state", "merge", source).want(t, 0) // something to drop for the next one
		}
	}
	for _, p := range all {
		got := p.wait()
		got.want(t, 0)
		if strings.Contains(got.stderr, "state file") {
			t.Errorf("trouble with the state file: %s", got)
		}
	}
	h.run("state", "prune", "--settled", "--older-than", "1h", "--yes").want(t, 0)
	h.wantUnsettledKept()
	if rewrites < 4 {
		t.Errorf("only %d prunes had something to drop", rewrites)
	}
	count := map[string]int{}
	for _, r := range h.records() {
		if slices.Contains(d.srv.Submits(), r.ActionID) {
			count[r.Type+" "+r.ActionID]++
		}
	}
	for _, id := range d.srv.Submits() {
		for _, typ := range []string{"intent", "submitted", "settled"} {
			if n := count[typ+" "+id]; n != 1 {
				t.Errorf("%s has %d records of type %s, want 1", id, n, typ)
			}
		}
		if n := count["cursor "+id]; n < 4 {
			t.Errorf("%s has %d cursors, and was followed for longer", id, n)
		}
	}
	if len(d.srv.Submits()) != writers {
		t.Errorf("%d submits, want %d", len(d.srv.Submits()), writers)
	}
	d.wantOnce(d.srv.Submits()...)
	if fi, err := os.Lstat(link); err != nil || fi.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is no link any more: %v %v", fi, err)
	}
	t.Logf("%d prunes rewrote the file", rewrites)
}

// A file that may be read and not written can be looked at in every way, and
// whatever would change it says so and leaves nothing behind.
func TestReadOnlyStateFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, other := filepath.Join(dir, "state.jsonl"), filepath.Join(t.TempDir(), "old.jsonl")
	for _, p := range []string{path, other} {
		if err := os.WriteFile(p, fixture(t, "old.jsonl"), 0o644); err != nil {
			t.Fatal(err)
		}
		// The folder of a test is its owner's alone.
		if err := os.Chmod(filepath.Dir(filepath.Dir(p)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(path, 0o444); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(dir, 0o755) })
	secret := filepath.Join(filepath.Dir(other), "secret.jsonl")
	if err := os.WriteFile(secret, nil, 0); err != nil {
		t.Fatal(err)
	}
	h := newHome(t)
	for _, tt := range []struct {
		args   string
		code   int
		out    string
		stderr string
	}{
		{args: "state path", out: path},
		{args: "state list", out: "act_old.accepted"},
		{args: "state show act_old.accepted", out: "accepted (exit 0)"},
		{args: "state check", out: "sound, 13 lines"},
		{args: "state prune --settled --older-than 876000h", out: "0 actions dropped"},
		{args: "state prune --settled --older-than 1h --yes", code: 14, stderr: "permission denied"},
		{args: "state prune --settled --older-than 1h --yes -o jsonl", code: 14, stderr: `"exit_code":14`},
		{args: "state merge " + other, code: 14, stderr: "permission denied"},
		{args: "state list --state " + secret, code: 14, stderr: "permission denied"},
		{args: "state check --state " + secret, code: 14, stderr: "permission denied"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			c := h.command("aipctl-nobody", strings.Fields(tt.args)...)
			c.Env = append(c.Env, "AIPCTL_STATE="+path)
			got := h.launch(c).wait()
			if got.code != tt.code || !strings.Contains(got.out, tt.out) || !strings.Contains(got.stderr, tt.stderr) || tt.out == "" && got.out != "" {
				t.Errorf("want exit code %d, %q and %q; got %s", tt.code, tt.out, tt.stderr, got)
			}
		})
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("left %v (%v)", left, err)
	}
	b, err := os.ReadFile(path)
	if err != nil || !slices.Equal(b, fixture(t, "old.jsonl")) {
		t.Errorf("the file was changed (%v)", err)
	}
}
