//go:build unix

package e2ecrowd

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aipctl/aipctl/internal/aiptest"
	"github.com/aipctl/aipctl/internal/cmd"
)

// The sizes of a run that everybody waits for; larger ones are asked for.
var (
	crowdSize = flag.Int("crowd", 24, "how many processes submit at once")
	killCount = flag.Int("kills", 40, "how many processes are killed at least, as many at each place of a call")
	seed      = flag.Uint64("seed", 0, "where chance begins; 0 takes another one each time")
)

var version = cmd.Version{Version: "0.0.0-test"}

// The tests find these programs in the PATH: they are this very binary.
func TestMain(m *testing.M) {
	aiptest.Main(m, map[string]func(){
		"aipctl":        func() { os.Exit(cmd.Main(version)) },
		"aipctl-dying":  dying,
		"aipctl-capped": capped,
		"aipctl-nobody": nobody,
	})
}

// chance is what a test draws from. Its seed is named when the test fails.
func chance(t *testing.T) *rand.Rand {
	t.Helper()
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("chance began at -seed=%d", s)
		}
	})
	return rand.New(rand.NewPCG(s, 0))
}

// dying is aipctl with a clock that ends the process, as kill -9 does, where the
// state file asks it for the time of a record: it does so while it holds the
// lock.
func dying() {
	app := cmd.App{
		Version: version, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Env: os.Getenv, Executable: "aipctl",
		Now: func() time.Time {
			if calledBy("internal/state.(*File).stamp") {
				fmt.Fprint(os.Stdout, lastWords)
				if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
					panic(err)
				}
				select {} // until it strikes
			}
			return time.Now()
		},
	}
	os.Exit(app.Run(context.Background(), os.Args[1:]))
}

// lastWords are what a dying process says when it has the lock.
const lastWords = "the lock is held\n"

func calledBy(function string) bool {
	pcs := make([]uintptr, 32)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for {
		f, more := frames.Next()
		if strings.HasSuffix(f.Function, function) {
			return true
		}
		if !more {
			return false
		}
	}
}

// capEnv is how many bytes a file of a capped process may have.
const capEnv = "AIPCTL_TEST_FILE_BYTES"

// capped is aipctl on a disk that is full as soon as a file would be larger
// than it may be.
func capped() {
	n, err := strconv.ParseInt(os.Getenv(capEnv), 10, 64)
	if err != nil {
		panic(err)
	}
	var limit syscall.Rlimit
	setBound(&limit.Cur, n)
	setBound(&limit.Max, n)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		panic(err)
	}
	os.Exit(cmd.Main(version))
}

// setBound hides that systems disagree on the type of a limit.
func setBound[T int64 | uint64](p *T, n int64) { *p = T(n) }

// nobody is aipctl without the rights of root, which no mode of a file stops.
func nobody() {
	if os.Geteuid() == 0 {
		const other = 65534
		for _, err := range []error{syscall.Setgroups(nil), syscall.Setregid(other, other), syscall.Setreuid(other, other)} {
			if err != nil {
				panic(err)
			}
		}
	}
	os.Exit(cmd.Main(version))
}
