//go:build unix

package config

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// writableByOthers says in a clause who else may change an opened file, and
// the remedy, with a place for the path. It is the rule that ssh has for its
// settings: the owner is the caller or root, and nobody else may write.
func writableByOthers(fi fs.FileInfo) (why, remedy string) {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok && st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return fmt.Sprintf("the file belongs to user %d, and this runs as user %d", st.Uid, os.Geteuid()), "make a copy of %s that belongs to you, and name it with AIPCTL_CONFIG"
	}
	if perm := fi.Mode().Perm(); perm&0o022 != 0 {
		return fmt.Sprintf("its mode %04o lets other users write it", perm), "chmod go-w %s"
	}
	return "", ""
}
