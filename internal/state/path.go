package state

import (
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/userfile"
)

// DefaultPath gives the place of the state file when neither flag nor
// environment names one: state.jsonl in the user's folder for state, see
// [userfile.Kind.Default], which has the parameters. The error is of class
// [fault.State]: no variable names a home.
func DefaultPath(getenv func(string) string, goos string) (string, error) {
	path, missing := userfile.State.Default(getenv, goos, "state.jsonl")
	if path == "" {
		return "", fault.New(fault.State, "state.no_home", "there is no place for the state file: %s is not set to an absolute path", missing).
			WithHint("name one with --state FILE or AIPCTL_STATE")
	}
	return path, nil
}
