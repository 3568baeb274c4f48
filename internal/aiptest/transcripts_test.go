package aiptest

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) { Main(m, map[string]func(){"probe": probe}) }

// probe is a program for the transcripts of this package: it says what it is
// told to say and ends as it is told to end.
func probe() {
	switch os.Args[1] {
	case "say":
		fmt.Println(os.Args[2])
		fmt.Fprintln(os.Stderr, os.Args[3])
	case "exit":
		n, err := strconv.Atoi(os.Args[2])
		if err != nil {
			panic(err)
		}
		os.Exit(n)
	case "env":
		fmt.Println(os.Getenv(os.Args[2]))
	case "get":
		res, err := http.Get(os.Getenv("AIP_URL") + os.Args[2])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		io.Copy(os.Stdout, res.Body)
	case "kill":
		self, err := os.FindProcess(os.Getpid())
		if err != nil {
			panic(err)
		}
		if err := self.Kill(); err != nil {
			panic(err)
		}
		select {} // until the signal has arrived
	}
}

func TestTranscriptsOfTheRunner(t *testing.T) {
	RunTranscripts(t, filepath.Join("testdata", "transcripts"), func(env *testscript.Env) error {
		env.Setenv("FROM_SETUP", "yes")
		return nil
	})
}

// failing is a [testscript.T] that keeps a failure to itself.
type failing struct {
	name   string
	failed map[string]bool
	log    strings.Builder
}

func (f *failing) Skip(...any) { f.log.WriteString("skipped"); runtime.Goexit() }
func (f *failing) Fatal(args ...any) {
	f.Log(args...)
	f.FailNow()
}
func (f *failing) Parallel()       {}
func (f *failing) Log(args ...any) { fmt.Fprintln(&f.log, args...) }
func (f *failing) FailNow() {
	f.failed[f.name] = true
	runtime.Goexit()
}
func (f *failing) Verbose() bool { return false }
func (f *failing) Run(name string, run func(testscript.T)) {
	sub := &failing{name: name, failed: f.failed}
	sub.wait(func() { run(sub) })
	f.log.WriteString(sub.log.String())
}

// wait runs f to its end, or to the Goexit of a failure.
func (f *failing) wait(run func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		run()
	}()
	<-done
}

// Every script of testdata/failing claims something false.
func TestFalseTranscriptsFail(t *testing.T) {
	scripts, err := filepath.Glob(filepath.Join("testdata", "failing", "*.txtar"))
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts (%v)", err)
	}
	f := &failing{failed: map[string]bool{}}
	f.wait(func() { testscript.RunT(f, params(t, filepath.Join("testdata", "failing"), nil)) })
	for _, s := range scripts {
		name := strings.TrimSuffix(filepath.Base(s), ".txtar")
		if !f.failed[name] {
			t.Errorf("%s passed; log:\n%s", name, f.log.String())
		}
	}
}

func TestEmptyFolderOfTranscriptsFails(t *testing.T) {
	f := &failing{name: "all", failed: map[string]bool{}}
	f.wait(func() { testscript.RunT(f, params(t, t.TempDir(), nil)) })
	if !f.failed["all"] {
		t.Error("a folder without transcripts passed")
	}
}
