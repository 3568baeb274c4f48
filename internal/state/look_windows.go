package state

import "io/fs"

// modes says nothing: permissions are lists here, and what Go reports as a mode
// stands for the read-only mark alone.
func modes(fs.FileInfo) fs.FileMode { return 0 }
