package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/userfile"
	"github.com/pelletier/go-toml/v2"
)

const (
	// version is what the key of that name says where keys mean what this
	// program knows. A file without it has this one.
	version = 1
	// maxFile bounds the file, in bytes: some thousand contexts.
	maxFile     = 1 << 20
	lockTimeout = 2 * time.Second
)

// File is the file of the contexts. Several processes may use it at a time.
type File struct {
	path string

	// What makes a write outlive a power cut; replaced in tests.
	syncFile   func(*os.File) error
	syncFolder func(dir string) error
}

// New names a file. It touches nothing.
func New(path string) *File {
	return &File{path: path, syncFile: (*os.File).Sync, syncFolder: userfile.SyncFolder}
}

// Path returns the path as it was given to [New].
func (f *File) Path() string { return f.path }

// DefaultPath gives the place of the file where the environment names none:
// config.toml in the user's folder for settings, see [userfile.Kind.Default],
// which has the parameters. Where no variable names a home it is empty.
func DefaultPath(getenv func(string) string, goos string) string {
	path, _ := userfile.Config.Default(getenv, goos, "config.toml")
	return path
}

// Contexts is what the file holds.
type Contexts struct {
	Path     string
	Current  string   // name of the context that is used where nothing names one; empty for none
	Warnings []string // what is in the file and not used, each with its line
	byName   map[string]Context
}

// Names returns the names of all contexts, sorted.
func (c *Contexts) Names() []string { return slices.Sorted(maps.Keys(c.byName)) }

// Get returns a context by its name. The error is an [*UnknownError].
func (c *Contexts) Get(name string) (Context, error) {
	x, ok := c.byName[name]
	if !ok {
		return Context{}, &UnknownError{Name: name, Contexts: c}
	}
	return x, nil
}

// UnknownError says that there is no context of that name.
type UnknownError struct {
	Name     string
	From     string // what named it; empty for the command itself
	Contexts *Contexts
}

// Error implements error.
func (e *UnknownError) Error() string {
	if e.From == "" {
		return fmt.Sprintf("there is no context %q in %s", e.Name, e.Contexts.Path)
	}
	return fmt.Sprintf("there is no context %q in %s; %s names it", e.Name, e.Contexts.Path, e.From)
}

// Load reads the file. One that does not exist holds no contexts, and so does
// the null device. Relative paths in it are taken from the folder of the file.
//
// Errors are of class [fault.Usage] and name the file, the line where there is
// one, and what to do: it cannot be read, is no TOML of the right types, is of a
// newer version, or others may write it: who can change the daemon of a context
// is sent its token. That others may read it is no matter, since no secret is in
// it.
func (f *File) Load() (*Contexts, error) {
	content, err := f.read(f.path)
	if err != nil {
		return nil, err
	}
	return f.decode(content)
}

// read returns the content; nil for a file that does not exist.
func (f *File) read(path string) ([]byte, error) {
	if path == os.DevNull {
		return nil, nil
	}
	unreadable := func(why string) error {
		return fault.New(fault.Usage, "config.unreadable", "the contexts cannot be read from %s: %s", f.path, why).
			WithHint("name another file with AIPCTL_CONFIG, or do without contexts: give --url and --token-file")
	}
	// Opening a pipe would wait for a writer, so look before.
	fi, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = userfile.Regular(fi)
	}
	if err != nil {
		return nil, unreadable(userfile.Reason(err))
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, unreadable(userfile.Reason(err))
	}
	defer file.Close()
	if fi, err = file.Stat(); err != nil {
		return nil, unreadable(userfile.Reason(err))
	}
	if why, remedy := writableByOthers(fi); why != "" {
		return nil, fault.New(fault.Usage, "config.too_open", "the contexts in %s are not used: %s, and who can change the URL of a context is sent its token", f.path, why).
			WithHint(remedy, path)
	}
	content, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	switch {
	case err != nil:
		return nil, unreadable(userfile.Reason(err))
	case len(content) > maxFile:
		return nil, unreadable("it is larger than 1 MiB")
	}
	return bytes.TrimPrefix(content, []byte("\ufeff")), nil // some editors begin with a byte order mark
}

// document is the file as this version understands it.
type document struct {
	Version  int64              `toml:"version"`
	Current  string             `toml:"current"`
	Contexts map[string]Context `toml:"contexts"`
}

func (f *File) decode(content []byte) (*Contexts, error) {
	doc := document{Version: version}
	dec := toml.NewDecoder(bytes.NewReader(content)).DisallowUnknownFields()
	err := dec.Decode(&doc)
	var unknown *toml.StrictMissingError
	if err != nil && !errors.As(err, &unknown) {
		return nil, f.damaged(err)
	}
	if doc.Version != version {
		return nil, fault.New(fault.Usage, "config.newer_version", "%s says version %d, and this aipctl knows version %d", f.path, doc.Version, version).
			WithHint("use the aipctl that wrote it, or name another file with AIPCTL_CONFIG")
	}
	c := &Contexts{Path: f.path, Current: doc.Current, byName: make(map[string]Context, len(doc.Contexts))}
	if unknown != nil {
		for i := range unknown.Errors {
			c.warnUnknown(&unknown.Errors[i])
		}
	}
	for name, x := range doc.Contexts {
		if CheckName(name) != nil {
			c.warn(0, fmt.Sprintf("%q cannot be the name of a context, so it is none", name))
			continue
		}
		x.Name, x.TokenFile, x.CAFile = name, f.absolute(x.TokenFile), f.absolute(x.CAFile)
		c.byName[name] = x
	}
	slices.Sort(c.Warnings)
	return c, nil
}

// absolute takes a path of the file from the folder of the file.
func (f *File) absolute(path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(f.path), path)
}

func (c *Contexts) warn(line int, what string) {
	where := c.Path
	if line > 0 {
		where = fmt.Sprintf("%s:%d", c.Path, line)
	}
	c.Warnings = append(c.Warnings, where+": "+what)
}

// warnUnknown says that a key is kept and not used. A newer version may have
// written it: refusing the file would leave the older program of the same user
// without contexts. A misspelt one must not be silent either.
func (c *Contexts) warnUnknown(e *toml.DecodeError) {
	line, _ := e.Position()
	key := e.Key()
	what := "this aipctl does not know the key " + strings.Join(key, ".") + " and does not use it"
	if len(key) == 0 {
		what = "this aipctl does not know a key and does not use it"
	} else if last := strings.ToLower(key[len(key)-1]); last == "token" || last == "bearer" || last == "password" {
		what += "; a token does not belong here: put it into an owner-only file, and its path into token_file"
	} else if known := strings.ReplaceAll(last, "-", "_"); slices.Contains(Fields(), known) || known == "tokenfile" || known == "cafile" {
		what += "; the keys of a context are " + strings.Join(Fields(), ", ")
	}
	c.warn(line, what)
}

// damaged says in which line the file is not what it should be.
func (f *File) damaged(err error) error {
	line, column, why := 0, 0, strings.TrimPrefix(err.Error(), "toml: ")
	var at *toml.DecodeError
	if errors.As(err, &at) {
		line, column = at.Position()
		if strings.HasPrefix(why, "cannot decode") { // speaks of the types of this program
			why = strings.Join(at.Key(), ".") + " is of a wrong kind: contexts are tables of texts, and version is a number"
		}
	}
	return fault.New(fault.Usage, "config.damaged", "%s:%d:%d: the file is damaged: %s", f.path, line, column, why).
		WithHint("mend line %d with an editor, or move the file away and set the contexts anew; nothing was changed", line)
}
