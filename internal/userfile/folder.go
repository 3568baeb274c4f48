package userfile

import "strings"

// A Kind is one of the folders that a system has for the files of a program.
type Kind struct {
	xdg     string   // variable that names the folder on every system
	windows string   // variable that names it on Windows
	roaming []string // what follows %USERPROFILE% where that is not set
	unix    []string // what follows $HOME
}

// The kinds of folders.
var (
	Config = Kind{"XDG_CONFIG_HOME", "APPDATA", []string{"AppData", "Roaming"}, []string{".config"}}
	State  = Kind{"XDG_STATE_HOME", "LOCALAPPDATA", []string{"AppData", "Local"}, []string{".local", "state"}}
)

// Default returns the path of the program's file of that name: in the folder
// aipctl under the variable of the kind, else under the system's own folder,
// which is ~/Library/Application Support on darwin and ios whatever the kind. A
// relative variable is ignored, as the specification of XDG demands.
//
// getenv is os.Getenv and goos is runtime.GOOS, save in tests. It looks at no
// disk. Where no variable names a place the path is empty, and missing is the
// variable that would.
func (k Kind) Default(getenv func(string) string, goos, name string) (path, missing string) {
	if dir := getenv(k.xdg); absolute(dir, goos) {
		return join(goos, dir, "aipctl", name), ""
	}
	if goos == "windows" {
		if dir := getenv(k.windows); absolute(dir, goos) {
			return join(goos, dir, "aipctl", name), ""
		}
		if home := getenv("USERPROFILE"); absolute(home, goos) {
			return join(goos, home, append(k.roaming[:len(k.roaming):len(k.roaming)], "aipctl", name)...), ""
		}
		return "", k.windows
	}
	home := getenv("HOME")
	if !absolute(home, goos) {
		return "", "HOME"
	}
	below := k.unix
	if goos == "darwin" || goos == "ios" {
		below = []string{"Library", "Application Support"}
	}
	return join(goos, home, append(below[:len(below):len(below)], "aipctl", name)...), ""
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
