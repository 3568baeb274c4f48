//go:build unix

package e2eproc

import (
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aipctl/aipctl/internal/aiptest"
	"github.com/aipctl/aipctl/internal/devserver"
	"github.com/creack/pty"
)

var updateNewcomer = flag.Bool("update-newcomer", false, "write testdata/newcomer.golden anew")

// TestNewcomer is the first session of somebody who has read the README and no
// more, on a terminal and without a variable set: a context, a call, Ctrl-C in
// the middle of the answer, the command that the program printed then, and a
// look at what is left. What the terminal shows is kept in testdata/newcomer.golden,
// with names in the place of what differs from run to run.
func TestNewcomer(t *testing.T) {
	t.Parallel()
	const at = 9
	want := play(t, slow)
	d := newDaemon(t, setup{})
	held := d.holdAt(at)
	s := &session{home: d.newcomer(), names: strings.NewReplacer(d.tokenFile, "TOKEN-FILE", d.url, "DAEMON")}

	s.line("aipctl context set dev --url "+d.url+" --token-file "+d.tokenFile+" --endpoint chat-slow", 0, nil)
	shown := s.line("aipctl action call chat_stream --prompt 'Summarise the notes'", 130, func(screen string) bool {
		return strings.HasSuffix(screen, want.upTo(at)+"\n")
	})
	held.release()
	id := regexp.MustCompile(`act_[0-9a-f]{32}`).FindString(shown)
	next := regexp.MustCompile(`(?m)^next: (aipctl action events .*)$`).FindStringSubmatch(shown)
	if id == "" || next == nil {
		t.Fatalf("the terminal shows no way back:\n%s", shown)
	}
	if rest := s.line(next[1], 0, nil); !strings.Contains(rest, strings.TrimPrefix(want.text, want.upTo(at))+"\n") {
		t.Errorf("after %q the terminal shows\n%s", want.upTo(at), rest)
	}
	s.line("aipctl state list", 0, nil)
	s.line("aipctl action result "+id+" -o json --jq .verdict", 0, nil)
	s.line("aipctl cancel "+id+" -q", 12, nil)
	if n := d.srv.Executions(id); n != 1 {
		t.Errorf("the action ran %d times", n)
	}

	golden := filepath.Join("testdata", "newcomer.golden")
	if *updateNewcomer {
		if err := os.WriteFile(golden, []byte(s.transcript.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.transcript.String(); got != string(kept) {
		t.Errorf("the session is another one than in %s; if it should be, run this test with -update-newcomer:\n%s", golden, got)
	}
}

// newcomer makes a home in which nothing is set: neither a daemon nor a token.
func (d *daemon) newcomer() *home {
	h := d.newHome()
	var env []string
	for _, v := range h.env {
		if !strings.HasPrefix(v, "AIP_") {
			env = append(env, v)
		}
	}
	h.env = append(env, "XDG_CONFIG_HOME="+h.dir, "TERM=xterm")
	return h
}

// session is what one person types at one terminal.
type session struct {
	*home
	names      *strings.Replacer
	transcript strings.Builder
}

// What differs from run to run in a line of ours.
var differs = []struct {
	is   *regexp.Regexp
	name string
}{
	{regexp.MustCompile(`act_[0-9a-f]{32}`), "act_ID"},
	{regexp.MustCompile(`(first text|total) [<0-9.hms]+`), "$1 TIME"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`), "NOW"},
}

// line types a line, presses Ctrl-C once the terminal shows what interrupt looks
// for, and returns all that the terminal shows of it.
func (s *session) line(line string, code int, interrupt func(screen string) bool) string {
	s.t.Helper()
	// With noflsh, Ctrl-C does not throw away what is on its way to the screen.
	c := exec.Command("sh", "-c", "stty noflsh; exec "+line)
	c.Dir, c.Env = s.dir, s.env
	f, err := pty.StartWithSize(c, &pty.Winsize{Rows: 40, Cols: 100})
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	hung := time.AfterFunc(hang, func() { _ = c.Process.Kill() })
	defer hung.Stop()
	screen := aiptest.NewScreen(100)
	terminal := screen.Stream("terminal")
	for b := make([]byte, 4096); ; {
		n, err := f.Read(b)
		_, _ = terminal.Write([]byte(strings.ReplaceAll(string(b[:n]), "\r\n", "\n"))) // a screen takes all
		if interrupt != nil && interrupt(screen.Shown()) {
			interrupt = nil
			if _, err := io.WriteString(f, "\x03"); err != nil {
				s.t.Fatal(err)
			}
		}
		if err != nil {
			break // the last writer is gone
		}
	}
	var failed *exec.ExitError
	if err := c.Wait(); err != nil && !errors.As(err, &failed) {
		s.t.Fatal(err)
	}
	shown := strings.TrimPrefix(screen.Shown(), "\n")
	if got := c.ProcessState.ExitCode(); got != code || len(screen.Faults) > 0 {
		s.t.Fatalf("%s: exit code %d, want %d, faults %q\n%s", line, got, code, screen.Faults, shown)
	}
	kept := s.names.Replace("$ " + line + "\n" + shown)
	for _, d := range differs {
		kept = d.is.ReplaceAllString(kept, d.name)
	}
	s.transcript.WriteString(kept + "[exit code " + strconv.Itoa(code) + "]\n\n")
	return shown
}

// ended says which lines of the docs end otherwise than with 0 when they are
// typed here, by how they begin.
var ended = map[string]int{
	"aipctl cancel ":          12, // the action has ended long ago
	"aipctl response delete ": 8,  // somebody else has to approve
}

// notTyped are the lines that no test can type: what ends only with a signal, and
// what the reader has to complete.
var notTyped = regexp.MustCompile(`^aipctl dev serve|…| NAME$`)

// TestDocsRun types the code of the README and of the docs line by line, with a
// daemon, an endpoint and ids that exist in the place of those that the docs make
// up. Whatever is added there has to run, or to be left out above.
func TestDocsRun(t *testing.T) {
	t.Parallel()
	for file, least := range map[string]int{
		"README.md": 9, "docs/contexts.md": 2, "docs/dev-daemon.md": 2, "docs/state-file.md": 3, "docs/stored-responses.md": 6,
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			if ran := typed(t, file); ran < least {
				t.Errorf("only %d lines were typed, want at least %d", ran, least)
			}
		})
	}
}

// typed types the lines of one file, and says how many there were.
func typed(t *testing.T, file string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(aiptest.ModuleRoot(t), filepath.FromSlash(file)))
	if err != nil {
		t.Fatal(err)
	}
	const approver = "appr0ver-t0ken-0123456789abcdef"
	d := newDaemon(t, setup{Options: devserver.Options{ApproverToken: approver}})
	h := d.newcomer()
	for name, content := range map[string]string{
		"aip-token": token, ".config/aip-token": token, "approver-token": approver, "request.json": `{"prompt":"Summarise the notes","session_id":"notes"}`,
		"ci-job-17.jsonl": "", "ci-job-18.jsonl": "",
	} {
		path := filepath.Join(h.dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(string(text), "aipctl context set ") {
		// What the text takes for granted: a daemon, and an endpoint with responses.
		wantCode(t, h.shell("aipctl context set before --url "+d.url+" --token-file ~/aip-token --endpoint stored"), 0)
	}
	exists := []string{
		"https://aipd.example.net", d.url, ":lab:", ":chat-stop:", "--endpoint north", "--endpoint chat-stop",
		"resp_0123456789abcdef0123456789ab", "resp_d5929edc267a48ee8842263452ec",
		"KIND:ID", devserver.Approver().ID, "--token-file FILE", "--token-file ~/approver-token", "--reason TEXT", "--reason checked --yes",
	}
	ids := map[string]string{"act_…": "", "act_0198c0ffee": "", "appr_0198c0ffee": ""}
	exports, ran := "", 0
	for line := range strings.Lines(string(text)) {
		line, isCode := strings.CutPrefix(strings.TrimRight(line, "\n"), "    ")
		if strings.HasPrefix(line, "A context keeps") {
			exports = "" // for a context stands in the place of both
		}
		for made, id := range ids {
			if id != "" {
				line = strings.ReplaceAll(line, made, id)
			}
		}
		line = strings.NewReplacer(exists...).Replace(line)
		switch {
		case !isCode:
		case strings.HasPrefix(line, "export "):
			exports += line + "\n"
		case strings.HasPrefix(line, "aipctl ") && !notTyped.MatchString(line), strings.HasPrefix(line, "cat "):
			want := 0
			for begin, code := range ended {
				if strings.HasPrefix(line, begin) {
					want = code
				}
			}
			got := h.shell(exports + line)
			ran++
			if got.code != want {
				t.Errorf("%s: want exit code %d, got %s", line, want, got)
			}
			for made := range ids {
				kind, _, _ := strings.Cut(made, "_")
				if found := regexp.MustCompile(kind + `_[0-9a-f]{32}`).FindString(got.stderr); found != "" {
					ids[made] = found
				}
			}
		}
	}
	return ran
}
