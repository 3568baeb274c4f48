package config

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"unicode/utf8"

	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/userfile"
	"github.com/pelletier/go-toml/v2"
)

// Set changes the named fields of a context, makes the context where there is
// none, and leaves all other fields as they are; an empty text removes a field.
// The first context of a file becomes its current one. It returns the contexts
// as they are then. Errors are those of [File.Load], of class [fault.Usage] for
// a name or a text that cannot be kept, of class [fault.State] where the file
// cannot be written, and an [*UnknownError] where there is nothing to remove.
func (f *File) Set(ctx context.Context, name string, fields map[string]string) (*Contexts, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	for key, value := range fields {
		switch {
		case !slices.Contains(Fields(), key):
			return nil, fault.New(fault.Internal, "config.field", "a context has no field %s", key)
		case !utf8.ValidString(value):
			return nil, fault.New(fault.Usage, "context.value", "%s is no valid UTF-8, and the file of the contexts holds nothing else", key).
				WithHint("give another name to the file, or set it in the environment")
		}
	}
	return f.change(ctx, func(was *Contexts, e *edit) error {
		if _, err := was.Get(name); err != nil && !slices.ContainsFunc(Fields(), func(key string) bool { return fields[key] != "" }) {
			return err // nothing can be removed from what is not there
		}
		for _, key := range Fields() {
			if value, ok := fields[key]; ok {
				e.set(name, key, value)
			}
		}
		if len(was.byName) == 0 && was.Current == "" {
			e.use(name)
		}
		return nil
	})
}

// Use makes a context the current one. Errors are those of [File.Set], and an
// [*UnknownError].
func (f *File) Use(ctx context.Context, name string) (*Contexts, error) {
	return f.change(ctx, func(was *Contexts, e *edit) error {
		if _, err := was.Get(name); err != nil {
			return err
		}
		e.use(name)
		return nil
	})
}

// Delete removes a context. Where it was the current one, no other takes its
// place. It returns what was removed, and the contexts as they are then. Errors
// are those of [File.Use].
func (f *File) Delete(ctx context.Context, name string) (Context, *Contexts, error) {
	var gone Context
	now, err := f.change(ctx, func(was *Contexts, e *edit) (err error) {
		if gone, err = was.Get(name); err != nil {
			return err
		}
		e.drop(name)
		if was.Current == name {
			e.use("")
		}
		return nil
	})
	return gone, now, err
}

// edit is a change to the lines of the file, made at the same time to what they
// mean, so that both can be compared.
type edit struct {
	text  *text
	means map[string]any
}

func (e *edit) set(name, key, value string) {
	contexts, _ := e.means["contexts"].(map[string]any)
	if contexts == nil {
		contexts = map[string]any{}
	}
	fields, _ := contexts[name].(map[string]any)
	if fields == nil {
		fields = map[string]any{}
	}
	if value == "" {
		if fields[key] == nil {
			return
		}
		delete(fields, key)
	} else {
		fields[key] = value
	}
	contexts[name], e.means["contexts"] = fields, contexts
	e.text.set("contexts."+name, key, value)
}

func (e *edit) use(name string) {
	if name == "" {
		delete(e.means, "current")
	} else {
		e.means["current"] = name
	}
	e.text.set("", "current", name)
}

func (e *edit) drop(name string) {
	contexts, _ := e.means["contexts"].(map[string]any)
	delete(contexts, name)
	if len(contexts) == 0 {
		delete(e.means, "contexts")
	}
	e.text.drop("contexts." + name)
}

// change does what do says, to what the file holds under the lock.
func (f *File) change(ctx context.Context, do func(*Contexts, *edit) error) (*Contexts, error) {
	if f.path == "" {
		return nil, fault.New(fault.State, "config.no_home", "there is no place for the file of the contexts: nothing names a home").
			WithHint("name a file with AIPCTL_CONFIG")
	}
	path, err := userfile.Resolve(f.path)
	if err == nil {
		// Before anything is made beside it: the folder of a device is no place
		// for a lock.
		if fi, serr := os.Stat(path); serr == nil {
			err = userfile.Regular(fi)
		}
	}
	if err == nil {
		err = userfile.MakeFolder(filepath.Dir(path), f.syncFolder)
	}
	if err != nil {
		return nil, f.unwritable(err)
	}
	bounded, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	unlock, err := userfile.Lock(bounded, path)
	if err != nil {
		return nil, f.lockFault(ctx, err)
	}
	defer unlock()

	content, err := f.read(path)
	if err != nil {
		return nil, err
	}
	was, err := f.decode(content)
	if err != nil {
		return nil, err
	}
	e := &edit{text: newText(content)}
	if e.means, err = meaning(e.text.bytes()); err != nil {
		return nil, f.damaged(err)
	}
	if err := do(was, e); err != nil {
		return nil, err
	}
	changed := e.text.bytes()
	if got, err := meaning(changed); err != nil || !reflect.DeepEqual(got, e.means) {
		return nil, fault.New(fault.Usage, "config.by_hand", "%s is written in a way that this command cannot change safely, and was left as it is", f.path).
			WithHint("change it with an editor; this command understands one table [contexts.NAME] for each context, with one key a line")
	}
	now, err := f.decode(changed)
	if err != nil {
		return nil, err
	}
	if string(changed) == string(content) {
		return now, nil
	}
	if err := f.replace(path, changed); err != nil {
		return nil, f.unwritable(err)
	}
	return now, nil
}

// meaning is all that a file says, keys of newer versions included. A table of
// contexts without one says nothing.
func meaning(content []byte) (map[string]any, error) {
	m := map[string]any{}
	if err := toml.Unmarshal(content, &m); err != nil {
		return nil, err
	}
	if contexts, ok := m["contexts"].(map[string]any); ok && len(contexts) == 0 {
		delete(m, "contexts")
	}
	return m, nil
}

// replace puts a file with the content in the place of path. The lock is held.
func (f *File) replace(path string, content []byte) (err error) {
	// The name is free under the lock; what a killed process left there is
	// removed, and not written through.
	temp := path + ".new"
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := userfile.Create(temp)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err == nil {
		err = f.syncFile(file)
	}
	if cerr := file.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = userfile.Rename(temp, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return f.syncFolder(filepath.Dir(path))
}

func (f *File) unwritable(err error) error {
	return fault.New(fault.State, "config.unwritable", "the contexts cannot be written to %s: %s", f.path, userfile.Reason(err)).
		WithHint("name another file with AIPCTL_CONFIG").Wrap(err)
}

func (f *File) lockFault(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return f.unwritable(context.Cause(ctx))
	case errors.Is(err, context.DeadlineExceeded):
		return fault.New(fault.State, "config.locked", "%s: another process has held the lock for %s", f.path, lockTimeout).
			WithHint("try again; nothing was changed").Wrap(err)
	case errors.Is(err, errors.ErrUnsupported), userfile.LocksUnsupported(err):
		return fault.New(fault.State, "config.no_locks", "%s: its file system has no locks", f.path).
			WithHint("name a file on a local disk with AIPCTL_CONFIG; nothing was changed").Wrap(err)
	}
	return f.unwritable(err)
}
