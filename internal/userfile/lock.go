package userfile

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/gofrs/flock"
)

const lockPoll = 5 * time.Millisecond

// Lock waits for the lock of a file, which excludes other goroutines and other
// processes, until ctx is done. It is on a file of its own, named like this one
// with .lock behind, that is never renamed or removed. path has to be resolved,
// see [Resolve]. The kernel frees the lock of a process that dies.
func Lock(ctx context.Context, path string) (unlock func(), err error) {
	lock := flock.New(path + ".lock")
	if _, err := lock.TryLockContext(ctx, lockPoll); err != nil {
		return nil, err
	}
	return func() { _ = lock.Close() }, nil // the kernel lets go with the file
}

// Held waits, until ctx is done, for the moment in which nobody holds the lock
// of a file, and reports whether that moment did not come. It makes no file: a
// lock that was never taken is not held. path has to be resolved.
func Held(ctx context.Context, path string) (bool, error) {
	lock := flock.New(path+".lock", flock.SetFlag(os.O_RDONLY))
	free, err := lock.TryRLockContext(ctx, lockPoll)
	switch {
	case free:
		return false, lock.Close()
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case ctx.Err() != nil:
		return true, nil
	}
	return false, err
}
