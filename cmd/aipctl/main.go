// Command aipctl submits governed actions to an AIP daemon, follows their
// durable streams and says truthfully how they ended.
package main

import (
	"os"

	"github.com/aipctl/aipctl/internal/cmd"
)

// Set by the linker in release builds.
var (
	version = "dev"
	commit  = ""
	date    = ""
)

func main() {
	os.Exit(cmd.Main(cmd.Version{Version: version, Commit: commit, Date: date}))
}
