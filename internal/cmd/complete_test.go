package cmd

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aipctl/aipctl/internal/devserver"
	"github.com/aipctl/aipctl/internal/state"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// desk is a machine whose completion is asked.
type desk struct {
	t   *testing.T
	dir string
	url string // of a daemon that nobody may ask
	now time.Time
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	daemon := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("completion asks the daemon for %s", r.URL.Path)
	}))
	t.Cleanup(daemon.Close)
	return &desk{t: t, dir: t.TempDir(), url: daemon.URL, now: time.Date(2030, 1, 15, 12, 0, 0, 0, time.UTC)}
}

func (d *desk) state() string { return filepath.Join(d.dir, "state.jsonl") }

// record writes records that were made so long ago.
func (d *desk) record(ago time.Duration, recs ...state.Record) {
	d.t.Helper()
	f := state.New(d.state(), state.WithNow(func() time.Time { return d.now.Add(-ago) }))
	if err := f.Append(d.t.Context(), false, recs...); err != nil {
		d.t.Fatal(err)
	}
}

func intentOf(id, capability string) state.Record {
	return state.Record{Type: state.TypeIntent, ActionID: id, Intent: &state.Intent{CapabilityID: capability}}
}

func settledAs(id, verdict string) state.Record {
	return state.Record{Type: state.TypeSettled, ActionID: id, Settled: &state.Settled{Verdict: verdict}}
}

func responseOf(id, response string) state.Record {
	return state.Record{Type: state.TypeResponse, ActionID: id, Response: &state.Response{ResponseID: response}}
}

// complete asks as a shell does: all words of the line, the last one being
// completed. It returns what is offered, and what follows from it.
func (d *desk) complete(words ...string) (offers []string, directive cobra.ShellCompDirective) {
	d.t.Helper()
	var out, errs bytes.Buffer
	env := map[string]string{"AIP_URL": d.url, "AIPCTL_STATE": d.state(), "AIPCTL_CONFIG": filepath.Join(d.dir, "config.toml")}
	app := App{
		Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Executable: "aipctl",
		Env: func(name string) string { return env[name] }, Now: func() time.Time { return d.now },
	}
	if code := app.Run(context.Background(), append([]string{"__complete"}, words...)); code != 0 {
		d.t.Fatalf("completing %q ends with %d: %s", words, code, errs.String())
	}
	if said := errs.String(); !strings.HasPrefix(said, "Completion ended with directive: ") {
		d.t.Errorf("completing %q says %q", words, said)
	}
	lines := strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
	if _, err := fmt.Sscanf(lines[len(lines)-1], ":%d", &directive); err != nil {
		d.t.Fatalf("completing %q gives %q", words, out.String())
	}
	return lines[:len(lines)-1], directive
}

// offers compares what is offered, without what it is said to be.
func (d *desk) offers(want string, words ...string) {
	d.t.Helper()
	all, directive := d.complete(words...)
	var got []string
	for _, line := range all {
		name, _, _ := strings.Cut(line, "\t")
		got = append(got, name)
	}
	if strings.Join(got, " ") != want {
		d.t.Errorf("%q offers %q, want %q", words, got, want)
	}
	if directive&cobra.ShellCompDirectiveNoFileComp == 0 {
		d.t.Errorf("%q offers files too", words)
	}
}

func TestIDsAreCompletedFromTheStateFile(t *testing.T) {
	d := newDesk(t)
	const cap1, cap2 = "cap:hermes_agent:lab:chat_stream", "cap:hermes_agent:north:responses_stream"
	d.record(50*time.Hour, intentOf("act_a1", cap1), settledAs("act_a1", "accepted"))
	d.record(3*time.Hour, intentOf("act_b1", cap2), responseOf("act_b1", "resp_1"))
	d.record(2*time.Hour, intentOf("act_a2", cap2), responseOf("act_a2", "resp_2"), responseOf("act_a2", "resp_1"), settledAs("act_a2", "failed"))
	d.record(5*time.Minute, intentOf("act_a3", cap1), settledAs("act_a3", "unknown"))
	d.record(0, state.Record{Type: state.TypeCursor, ActionID: "act_c1", Cursor: &state.Cursor{Cursor: "aev_cursor_1_1"}})

	d.offers("act_c1 act_a3 act_a2 act_b1 act_a1", "action", "events", "")
	d.offers("act_a3 act_a2 act_a1", "action", "status", "act_a")
	d.offers("act_c1 act_a3 act_a2 act_b1 act_a1", "action", "result", "http://127.0.0.1:1", "")
	d.offers("", "action", "result", "act_a1", "")
	d.offers("act_c1 act_a3 act_b1 act_a2 act_a1", "cancel", "")
	d.offers("act_c1 act_a3 act_a2 act_b1 act_a1", "state", "show", "")
	d.offers("resp_2 resp_1", "response", "get", "")
	d.offers("resp_1", "response", "delete", "http://127.0.0.1:1", "resp_1")
	d.offers("lab north", "action", "call", "--endpoint", "")
	d.offers("north", "action", "call", "--endpoint", "n")
	d.offers(cap1+" "+cap2, "action", "call", "cap:")
	d.offers(cap1+" cap:hermes_agent:lab:chat", "action", "call", "cap:hermes_agent:lab:chat")
	d.offers("chat_stream chat", "action", "call", "--endpoint", "lab", "chat")
	d.offers("chat_stream chat", "action", "call", "http://127.0.0.1:1", "chat")
	d.offers("", "action", "call", "chat", "")

	d.record(0, state.Record{Type: state.TypeApproval, ActionID: "act_b1", Approval: &state.Approval{ApprovalID: "appr_1"}})
	// What a daemon made up is no flag, and nothing that the command would refuse.
	d.record(0, state.Record{Type: state.TypeApproval, ActionID: "act_b1", Approval: &state.Approval{ApprovalID: "--yes"}}, responseOf("act_b1", "--yes"), responseOf("act_b1", "resp_$(id)"))
	d.offers("appr_1", "approval", "get", "")
	d.offers("appr_1", "approval", "deny", "ap")
	d.offers("resp_2 resp_1", "response", "get", "")
	d.offers("pending approved denied expired revoked", "approval", "list", "--status", "")
	d.offers("chat_stream chat", "capability", "describe", "--endpoint", "lab", "chat")

	got, _ := d.complete("action", "events", "")
	want := []string{
		"act_c1\tjust now, followed",
		"act_a3\t5m ago, unknown, " + cap1,
		"act_a2\t2h ago, failed, " + cap2,
		"act_b1\t3h ago, unsettled, " + cap2,
		"act_a1\t2d ago, accepted, " + cap1,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}

	// A file that the line names takes the place of the usual one.
	other := filepath.Join(d.dir, "other.jsonl")
	d.offers("", "action", "status", "--state", other, "")
	d.offers("", "action", "status", "--state", "off", "")
}

func TestNoMoreIDsAreOfferedThanAPersonReads(t *testing.T) {
	d := newDesk(t)
	var recs []state.Record
	for i := range 300 {
		recs = append(recs, intentOf(fmt.Sprintf("act_%03d", i), "cap:hermes_agent:lab:chat"))
	}
	d.record(time.Hour, recs...)
	got, _ := d.complete("action", "events", "")
	if len(got) != mostOffered || !strings.HasPrefix(got[0], "act_299\t") {
		t.Errorf("%d ids are offered, the first %q", len(got), got[0])
	}
	d.offers("act_007", "action", "events", "act_007")
}

// TestCompletionChangesNothing asks everything that there is to be completed,
// over files of every kind, and compares what is on the disk.
func TestCompletionChangesNothing(t *testing.T) {
	whole := `{"v":1,"id":"1","type":"intent","at":"2030-01-15T11:00:00Z","action_id":"act_1","intent":{"capability_id":"cap:hermes_agent:lab:chat\u001b[31m\nx"}}` + "\n"
	for what, content := range map[string]*string{
		"missing": nil, "empty": new(string), "whole": &whole,
		"damaged": ptr("{\"v\":1,\"id\":\"0\"" + whole + "\x00\x00junk\n" + whole[:20]),
		"hostile": ptr(strings.Replace(whole, "act_1", `act_\u001b[2J`, 1)),
	} {
		t.Run(what, func(t *testing.T) {
			d := newDesk(t)
			if content != nil {
				if err := os.WriteFile(d.state(), []byte(*content), 0o600); err != nil {
					t.Fatal(err)
				}
				// A writer that holds the lock is in nobody's way.
				defer holdLock(t, d.state())()
			}
			before := tree(t, d.dir)
			_, root := newTree()
			everyCmd(root, func(c *cobra.Command) {
				words := strings.Fields(c.CommandPath())[1:]
				d.complete(append(slices.Clone(words), "")...)
				c.LocalFlags().VisitAll(func(f *pflag.Flag) {
					if f.Value.Type() == "bool" || what != "damaged" {
						return
					}
					for _, line := range first2(d.complete(append(slices.Clone(words), "--"+f.Name, "")...)) {
						if strings.ContainsAny(line, "\x1b\n") {
							t.Errorf("--%s offers %q", f.Name, line)
						}
					}
				})
			})
			all, _ := d.complete("action", "events", "")
			switch shown := strings.Join(all, "\n"); {
			case strings.ContainsAny(shown, "\x1b"):
				t.Errorf("%q is offered", shown)
			case (what == "whole" || what == "damaged") != strings.HasPrefix(shown, "act_1\t1h ago, unsettled, cap:hermes_agent:lab:chat"):
				t.Errorf("%q is offered", shown)
			}
			if after := tree(t, d.dir); after != before {
				t.Errorf("the folder was\n%s\nand is\n%s", before, after)
			}
		})
	}
}

func ptr(s string) *string { return &s }

func first2(lines []string, _ cobra.ShellCompDirective) []string { return lines }

// holdLock keeps the state file locked by a writer that is asked for the time
// and does not answer.
func holdLock(t *testing.T, path string) (unlock func()) {
	t.Helper()
	locked, release, done := make(chan struct{}), make(chan struct{}), make(chan error)
	f := state.New(path, state.WithNow(func() time.Time {
		close(locked)
		<-release
		return time.Date(2030, 1, 15, 12, 0, 0, 0, time.UTC)
	}))
	go func() {
		done <- f.Append(context.Background(), false, intentOf("act_late", "cap:hermes_agent:lab:chat"))
	}()
	<-locked
	return func() {
		close(release)
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// tree is what a folder holds: names, sizes and times.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.Walk(dir, func(path string, fi os.FileInfo, err error) error {
		if err == nil && !fi.IsDir() {
			fmt.Fprintln(&b, path, fi.Size(), fi.ModTime().UnixNano())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestWordsAndFilesAreCompleted(t *testing.T) {
	d := newDesk(t)
	d.offers("text json jsonl", "action", "status", "-o", "")
	d.offers("text json jsonl", "action", "status", "--output", "")
	d.offers("auto always never", "version", "--color", "")
	d.offers("auto sync async streaming", "action", "call", "--mode", "")
	d.offers("detach cancel", "action", "call", "--on-interrupt", "")
	d.offers("saved start", "action", "events", "--from", "")
	d.offers("", "action", "events", "--wait", "")
	d.offers("", "version", "")
	d.offers("chat-length", "demo", "--scenario", "chat-len")
	if all, _ := d.complete("demo", "--scenario", ""); len(all) != len(devserver.Scenarios()) {
		t.Errorf("%d scenarios are offered", len(all))
	}
	d.offers("events exit-codes environment", "help", "e")
	d.offers("call cancel", "help", "action", "c")
	d.offers("bash", "completion", "b")
	for _, words := range [][]string{{"state", "merge", ""}, {"action", "status", "--token-file", ""}, {"action", "status", "--ca-file", ""}, {"dev", "serve", "--token-out", ""}} {
		if all, directive := d.complete(words...); len(all) != 0 || directive != cobra.ShellCompDirectiveDefault {
			t.Errorf("%q offers %q and not files (%d)", words, all, directive)
		}
	}

	for _, name := range []string{"request.json", "reply.json", ".hidden", "requests/more.json"} {
		path := filepath.Join(d.dir, "in", filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	in := "@" + filepath.Join(d.dir, "in") + string(filepath.Separator)
	d.offers("@ -", "action", "call", "--input", "")
	d.offers(in+"reply.json "+in+"request.json "+in+"requests"+string(filepath.Separator), "action", "call", "--input", in)
	d.offers(in+"request.json "+in+"requests"+string(filepath.Separator), "action", "call", "--prompt", in+"req")
	d.offers(in+".hidden", "action", "call", "--prompt", in+".h")
	d.offers("", "action", "call", "--prompt", in+"none"+string(filepath.Separator))
}

func TestContextsAreCompleted(t *testing.T) {
	d := newDesk(t)
	d.offers("", "context", "use", "")
	config := "[contexts.lab]\nurl = \"https://lab.example.net\"\n[contexts.north]\nurl = \"https://north.example.net\"\n"
	if err := os.WriteFile(filepath.Join(d.dir, "config.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	d.offers("lab north", "context", "use", "")
	d.offers("lab north", "action", "status", "--context", "")
	d.offers("", "context", "use", "lab", "")

	if err := os.WriteFile(filepath.Join(d.dir, "config.toml"), []byte("[contexts.lab]\nurl = \"\\u001b]0;x\\u0007\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, _ := d.complete("context", "use", ""); !slices.Equal(got, []string{`lab	\x1b]0;x\x07`}) {
		t.Errorf("got %q", got)
	}
}
