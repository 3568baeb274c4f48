package config

import "io/fs"

// writableByOthers has nothing to say: access control lists take the place of
// owners and modes, and the user's own folder is closed to others.
func writableByOthers(fs.FileInfo) (why, remedy string) { return "", "" }
