package state

import (
	"strings"

	"github.com/aipctl/aipctl/internal/fault"
)

// DefaultPath gives the place of the state file when neither flag nor
// environment names one: aipctl/state.jsonl under $XDG_STATE_HOME, else under
// the platform's own folder for state, which is ~/.local/state,
// ~/Library/Application Support on darwin and ios, and %LOCALAPPDATA% on
// windows. A relative XDG_STATE_HOME is ignored, as its specification demands.
//
// getenv is os.Getenv and goos is runtime.GOOS, save in tests. It looks at no
// disk. The error is of class [fault.State]: no variable names a home.
func DefaultPath(getenv func(string) string, goos string) (string, error) {
	if dir := getenv("XDG_STATE_HOME"); absolute(dir, goos) {
		return join(goos, dir, "aipctl", "state.jsonl"), nil
	}
	switch goos {
	case "windows":
		if dir := getenv("LOCALAPPDATA"); absolute(dir, goos) {
			return join(goos, dir, "aipctl", "state.jsonl"), nil
		}
		if home := getenv("USERPROFILE"); absolute(home, goos) {
			return join(goos, home, "AppData", "Local", "aipctl", "state.jsonl"), nil
		}
		return "", noHome("LOCALAPPDATA")
	case "darwin", "ios":
		if home := getenv("HOME"); absolute(home, goos) {
			return join(goos, home, "Library", "Application Support", "aipctl", "state.jsonl"), nil
		}
	default:
		if home := getenv("HOME"); absolute(home, goos) {
			return join(goos, home, ".local", "state", "aipctl", "state.jsonl"), nil
		}
	}
	return "", noHome("HOME")
}

func noHome(name string) error {
	return fault.New(fault.State, "state.no_home", "there is no place for the state file: %s is not set to an absolute path", name).
		WithHint("name one with --state FILE or AIPCTL_STATE")
}

// absolute follows the rules of goos, not of the system this runs on.
func absolute(path, goos string) bool {
	if goos != "windows" {
		return strings.HasPrefix(path, "/")
	}
	drive := len(path) >= 3 && path[1] == ':' && (path[2] == '\\' || path[2] == '/')
	return drive || strings.HasPrefix(path, `\\`)
}

func join(goos, dir string, more ...string) string {
	sep := "/"
	if goos == "windows" {
		sep = `\`
		dir = strings.ReplaceAll(dir, "/", sep)
	}
	trimmed := strings.TrimRight(dir, sep)
	return trimmed + sep + strings.Join(more, sep)
}
