package e2e_test

import (
	"bytes"
	"errors"
	"io"
	"os/exec"
	"testing"

	"github.com/aipctl/aipctl/internal/aiptest"
)

// Windows has no modes that a token file could be too open by, and a symbolic
// link needs a right that a test may not have.
func testTokenFileModes(*testing.T, string, func(*testing.T, string) string) {}

// Windows lets no process send another one a signal but on a console that both
// share, so only the closed pipe is played here.
func testClosedPipeAndCtrlC(t *testing.T, dir string) {
	p := aiptest.PlayCase(t, dir, "play-pipe.json")
	c := command(t, newWorld(t), "action", "events", p.URL(), p.ActionID(), "--follow", "--include-chunks")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	c.Stderr = &stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 7)); err != nil {
		t.Fatal(err)
	}
	out.Close()
	var ee *exec.ExitError
	if err := c.Wait(); !errors.As(err, &ee) || ee.ExitCode() != 141 {
		t.Errorf("%v, want exit code 141; stderr:\n%s", err, &stderr)
	}
	if n := len(p.Requests(aiptest.Cancel, aiptest.Post)); n != 0 {
		t.Errorf("%d submits and cancels", n)
	}
}
