// Package userfile has what the files of a user's own have in common, whatever
// is in them: the folders they lie in, the links that lead to them, and what it
// takes to find them after a power cut.
package userfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"
)

// Why a path is not used. Opening a pipe or a device might wait for ever.
var (
	errNone       = errors.New("no file is named")
	errDirectory  = errors.New("it is a directory")
	errNotRegular = errors.New("it is not a regular file")
	errLinks      = errors.New("too many symbolic links")
)

// Regular returns an error that says what a file is when it is not a regular
// one.
func Regular(fi fs.FileInfo) error {
	switch {
	case fi.IsDir():
		return errDirectory
	case !fi.Mode().IsRegular():
		return errNotRegular
	}
	return nil
}

// Resolve follows the symbolic links that a file may be, also to a file that
// does not exist yet: all names of one file have to share one lock.
func Resolve(path string) (string, error) {
	if path == "" {
		return "", errNone
	}
	for range 40 {
		target, err := os.Readlink(path)
		if err != nil {
			return path, nil // no link, or none that can be read: opening it tells
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	return "", errLinks
}

// MakeFolder makes a folder and its parents, owner only, and flushes the names
// of those it made with sync, which is [SyncFolder] save in tests.
func MakeFolder(dir string, sync func(string) error) error {
	var made []string
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Stat(d); !errors.Is(err, fs.ErrNotExist) || d == filepath.Dir(d) {
			break
		}
		made = append(made, d)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, d := range made {
		if err := sync(filepath.Dir(d)); err != nil {
			return err
		}
	}
	return nil
}

// Reason gives the cause alone, in the form of a clause: the path is in the
// message already, and some systems write their errors as sentences.
func Reason(err error) string {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	var errno syscall.Errno
	text := err.Error()
	if errors.As(err, &errno) {
		text = errno.Error()
	}
	text = strings.TrimSuffix(text, ".")
	if r, n := utf8.DecodeRuneInString(text); unicode.IsUpper(r) {
		text = string(unicode.ToLower(r)) + text[n:]
	}
	return text
}
