//go:build unix

package e2eproc

import (
	"os"
	"testing"

	"github.com/aipctl/aipctl/internal/aiptest"
	"github.com/aipctl/aipctl/internal/cmd"
)

// The tests find aipctl in the PATH: it is this very binary under that name.
func TestMain(m *testing.M) {
	aiptest.Main(m, map[string]func(){
		"aipctl":  func() { os.Exit(cmd.Main(cmd.Version{Version: "0.0.0-test"})) },
		"counted": counted,
	})
}
