//go:build unix

package e2ecrowd

import (
	"path/filepath"
	"testing"

	"github.com/aipctl/aipctl/internal/aiptest"
	"github.com/rogpeppe/go-internal/testscript"
)

// TestStateCommands runs the transcripts of the state commands. $DATA is the
// folder of the fixtures.
func TestStateCommands(t *testing.T) {
	data, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	aiptest.RunTranscripts(t, filepath.Join(data, "state"), func(env *testscript.Env) error {
		env.Setenv("DATA", data)
		return nil
	})
}
