package state

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/aipctl/aipctl/internal/userfile"
)

// Place is how a state file lies on the disk.
type Place struct {
	Path   string // with symbolic links followed
	Exists bool
	// Mode and FolderMode are what others may do with the file and its folder;
	// 0 where it does not exist, and where the system has no such modes.
	Mode, FolderMode fs.FileMode
}

// Look sees whether a call could write the file, without writing or making
// anything. The error is of class [fault.State]: the file cannot be opened for
// writing, or another process keeps its lock until the time to wait for it runs
// out.
func (f *File) Look(ctx context.Context) (Place, error) {
	path, err := userfile.Resolve(f.path)
	if err != nil {
		return Place{}, f.fault(ctx, "state.unwritable", "write", err)
	}
	p := Place{Path: path}
	if fi, err := os.Stat(filepath.Dir(path)); err == nil {
		p.FolderMode = modes(fi)
	}
	fi, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err == nil {
		err = userfile.Regular(fi)
	}
	if err != nil {
		return p, f.fault(ctx, "state.unwritable", "write", err)
	}
	p.Exists, p.Mode = true, modes(fi)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return p, f.fault(ctx, "state.unwritable", "write", err)
	}
	_ = file.Close() // nothing was written
	bounded, cancel := context.WithTimeout(ctx, f.lockTimeout)
	defer cancel()
	held, err := userfile.Held(bounded, path)
	switch {
	case err != nil:
		return p, f.lockFault(ctx, err)
	case held && ctx.Err() != nil:
		return p, f.lockFault(ctx, ctx.Err())
	case held:
		return p, f.lockFault(ctx, context.DeadlineExceeded)
	}
	return p, nil
}
