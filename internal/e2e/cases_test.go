package e2e_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aipctl/aipctl/internal/aiptest"
	"github.com/google/go-cmp/cmp"
)

// caseTests has a test for each folder of recorded cases, by its name.
var caseTests = map[string]func(t *testing.T, dir string){
	"01-crlf-split":              testCRLFSplit,
	"02-huge-data-line":          testHugeDataLine,
	"03-utf8-split":              testUTF8Split,
	"04-blocks-without-data":     testBlocksWithoutData,
	"05-field-spelling":          testFieldSpelling,
	"08-retry-values":            testRetryValues,
	"09-unterminated-last-event": testUnterminatedLastEvent,
	"11-usage-after-finish":      testUsageAfterFinish,
	"12-null-delta":              testNullDelta,
	"13-error-inside-200":        testErrorInside200,
	"15-missing-finish-or-done":  testMissingFinishOrDone,
	"16-finish-length-and-error": testFinishLengthAndError,
	"17-tool-progress-frames":    testToolProgressFrames,
	"20-responses-items":         testResponsesItems,
	"22-responses-terminals":     testResponsesTerminals,
	"24-big-numbers-and-html":    testBigNumbersAndHTML,
	"25-what-is-a-cursor":        testWhatIsACursor,
	"26-repeats-conflicts-gaps":  testRepeatsConflictsGaps,
	"28-delivery-versus-outcome": testDeliveryVersusOutcome,
	"29-silence-and-sleep":       testSilenceAndSleep,
	"30-not-an-event-stream":     testNotAnEventStream,
	"32-lost-submit-reply":       testLostSubmitReply,
	"33-terminal-escapes":        testTerminalEscapes,
	"34-closed-pipe-and-ctrl-c":  testClosedPipeAndCtrlC,
	"36-ci-output":               testCIOutput,
	"37-token-file-and-leaks":    testTokenFileAndLeaks,
	"38-damaged-state-file":      testDamagedStateFile,
	"39-parallel-writers":        testParallelWriters,
	"41-no-writable-home":        testNoWritableHome,
	"42-cancel-races":            testCancelRaces,
	"43-last-page-and-limit":     testLastPageAndLimit,
}

func TestCases(t *testing.T) {
	for name, test := range caseTests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, aiptest.CaseDir(t, name))
		})
	}
}

func TestEveryCaseHasATestAndEveryTestACase(t *testing.T) {
	folders := aiptest.Cases(t)
	for _, name := range folders {
		if caseTests[name] == nil {
			t.Errorf("the case %s has no test", name)
		}
	}
	for name := range caseTests {
		if !slices.Contains(folders, name) {
			t.Errorf("the test of %s has no case", name)
		}
	}
}

// want is what must come out of coming back to the action of a case, in text
// and in JSON Lines alike.
type want struct {
	play    string // the plan, without play- and .json; empty is play.json
	opts    []aiptest.PlayOption
	args    []string // more flags
	text    string   // the answer in text, without the one line end that closes it
	deltas  *string  // what the text records spell, where it is not the same
	verdict string
	code    int
	checks  checks // where they are not those of an accepted stream
	tools   []string
	warned  []string // codes of the warnings
	follows []string // the cursors asked for; nil is one follow from the start
	often   bool     // the state ends the run, so how many requests there are depends on the time
	cursor  string   // of the outcome; empty is not looked at
	results int      // reads of the result; 0 is one
	// more looks at what is special about the case.
	more func(t *testing.T, p *aiptest.Player, s settled)
}

// settled is everything that came out of the two runs of a want.
type settled struct {
	text    shot // -o text
	lines   shot // -o jsonl
	all     []rec
	outcome outcome
	world   *world // of the run in JSON Lines
}

func (w want) file() string {
	if w.play == "" {
		return "play.json"
	}
	return "play-" + w.play + ".json"
}

// settle plays the case twice, once for each form of output, and compares both
// runs with what is wanted.
func (w want) settle(t *testing.T, dir string) {
	t.Helper()
	t.Run(w.file(), func(t *testing.T) {
		t.Parallel()
		if !w.often {
			dir = running(t, dir, w.file())
		}
		forText := aiptest.PlayCase(t, dir, w.file(), w.opts...)
		forLines := aiptest.PlayCase(t, dir, w.file(), w.opts...)
		s := settled{world: newWorld(t)}
		other := newWorld(t)
		var both sync.WaitGroup
		both.Go(func() { s.text = other.follow(forText, w.args...) })
		both.Go(func() { s.lines = s.world.follow(forLines, append([]string{"-o", "jsonl"}, w.args...)...) })
		both.Wait()

		w.compareText(t, s.text)
		w.compareRequests(t, forText)
		s.all, s.outcome = records(t, s.lines.stdout)
		w.compareOutcome(t, s)
		w.compareRequests(t, forLines)
		if w.more != nil {
			w.more(t, forLines, s)
		}
	})
}

// running copies a case with the state of a streaming action that runs, which
// reads unknown until its stream has ended. The plans show the state of the
// end from the begin, and a slow machine would have time to read it in the
// middle of the stream.
func running(t *testing.T, dir, play string) string {
	t.Helper()
	var unknown []byte
	dir = changedPlan(t, dir, play, func(plan map[string]any) {
		file := plan["status"].([]any)[0].(map[string]any)["body"].(string)
		var view map[string]map[string]any
		if err := json.Unmarshal(read(t, dir, file), &view); err != nil {
			t.Fatal(err)
		}
		view["action_status"]["state"] = "unknown"
		unknown = encode(view)
		plan["status"] = []any{body("unknown.json")}
	})
	if err := os.WriteFile(filepath.Join(dir, "unknown.json"), unknown, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func (w want) compareText(t *testing.T, s shot) {
	t.Helper()
	wantOut := ""
	if w.text != "" {
		wantOut = w.text + "\n"
	}
	if s.stdout != wantOut {
		t.Errorf("stdout is %q, want %q", tail(s.stdout), tail(wantOut))
	}
	if s.code != w.code {
		t.Errorf("exit code %d, want %d; stderr:\n%s", s.code, w.code, tail(s.stderr))
	}
	clean(t, "stderr", s.stderr, "\n")
	if line := verdictLine(t, s.stderr); !verdictIs(line, w.verdict) {
		t.Errorf("stderr says %q, want the verdict %s", line, w.verdict)
	}
}

func (w want) compareOutcome(t *testing.T, s settled) {
	t.Helper()
	o := s.outcome
	if s.lines.code != w.code || o.ExitCode != w.code || o.Verdict != w.verdict {
		t.Errorf("exit code %d, in the outcome %d and %s; want %d and %s", s.lines.code, o.ExitCode, o.Verdict, w.code, w.verdict)
	}
	spelled := w.text
	if w.deltas != nil {
		spelled = *w.deltas
	} else if o.TextBytes != len(w.text) {
		t.Errorf("text_bytes is %d, want %d", o.TextBytes, len(w.text))
	}
	if got := joined(s.all); got != spelled {
		t.Errorf("the text records spell %q, want %q", tail(got), tail(spelled))
	}
	if diff := cmp.Diff(accepted(w.checks), o.Checks); diff != "" {
		t.Errorf("checks (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(w.tools, o.tools()); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(w.warned, o.warned()); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	if w.cursor != "" && o.Cursor != w.cursor {
		t.Errorf("the cursor of the outcome is %q, want %q", o.Cursor, w.cursor)
	}
	if s.lines.stderr != "" {
		t.Errorf("a run whose records are on stdout said on stderr: %q", tail(s.lines.stderr))
	}
}

// compareRequests looks at the wire: what is followed, that the result is read
// once, and that nothing is ever submitted or cancelled.
func (w want) compareRequests(t *testing.T, p *aiptest.Player) {
	t.Helper()
	follows := w.follows
	if follows == nil {
		follows = []string{""}
	}
	if diff := cmp.Diff(follows, cursors(p, aiptest.Follow)); diff != "" && !w.often {
		t.Errorf("cursors of the follows (-want +got):\n%s", diff)
	}
	results := max(w.results, 1)
	if got := len(p.Requests(aiptest.Result)); got != results && !(w.often && got > 0) {
		t.Errorf("the result was read %d times, want %d", got, results)
	}
	reads(t, p)
}

// reads fails when anything but a read was sent, or a read that says more
// than it may: only a cursor says where to go on.
func reads(t *testing.T, p *aiptest.Player) {
	t.Helper()
	for _, r := range p.Requests() {
		if r.Kind == aiptest.Post || r.Kind == aiptest.Cancel {
			t.Errorf("sent %s %s", r.Method, r.Target)
		}
		if v := r.Header.Get("Last-Event-ID"); v != "" {
			t.Errorf("sent Last-Event-ID %q", v)
		}
	}
}

// cursors returns the cursors that the requests of a kind asked for.
func cursors(p *aiptest.Player, k aiptest.Kind) []string {
	out := []string{}
	for _, r := range p.Requests(k) {
		out = append(out, r.Query().Get("cursor"))
	}
	return out
}

// verdictLine is the one line of stderr that says how the action ended; only
// the commands to go on with may follow it.
func verdictLine(t testing.TB, stderr string) string {
	t.Helper()
	var found string
	for line := range strings.Lines(stderr) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "verdict: ") && found == "":
			found = line
		case found != "" && !strings.HasPrefix(line, "next: "):
			t.Errorf("behind the verdict stands %q", line)
		}
	}
	return found
}

func verdictIs(line, verdict string) bool {
	rest, ok := strings.CutPrefix(line, "verdict: "+verdict)
	return ok && (rest == "" || strings.HasPrefix(rest, " ") || strings.HasPrefix(rest, ";") || strings.HasPrefix(rest, ","))
}

// changedPlan copies a case into a folder of the test with one plan changed.
// What is recorded stays as it is; only which answer goes to which request is
// another.
func changedPlan(t *testing.T, dir, play string, change func(plan map[string]any)) (newDir string) {
	t.Helper()
	newDir = t.TempDir()
	if err := os.CopyFS(newDir, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(newDir, play)
	src, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var plan map[string]any
	if err := json.Unmarshal(src, &plan); err != nil {
		t.Fatal(err)
	}
	change(plan)
	if src, err = json.Marshal(plan); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, src, 0o600); err != nil {
		t.Fatal(err)
	}
	return newDir
}

// body is an answer of a plan that sends a file of the case.
func body(file string) map[string]any { return map[string]any{"body": file} }
