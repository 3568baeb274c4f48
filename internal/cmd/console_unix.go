//go:build !windows

package cmd

import "os"

// actsOnEscapes reports whether a terminal acts on the escapes of colours; those
// that do not are told by TERM.
func actsOnEscapes(*os.File) bool { return true }
