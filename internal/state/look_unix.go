//go:build unix

package state

import "io/fs"

// modes are the permissions of a file.
func modes(fi fs.FileInfo) fs.FileMode { return fi.Mode().Perm() }
