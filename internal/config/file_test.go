package config

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/aipctl/aipctl/internal/fault"
)

// fileWith makes a file of contexts with the content.
func fileWith(t testing.TB, content string) *File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return New(path)
}

func content(t testing.TB, f *File) string {
	t.Helper()
	b, err := os.ReadFile(f.path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func wantFault(t *testing.T, err error, class fault.Class, code string) {
	t.Helper()
	e := fault.As(err)
	if e == nil || e.Class != class || e.Code != code || e.Hint == "" {
		t.Fatalf("got %v (%+v), want %s of class %s with a hint", err, e, code, class)
	}
}

const good = "version = 1\ncurrent = \"lab\"\n\n[contexts.lab]\nurl = \"http://127.0.0.1:1\"\ntoken_file = \"token\"\n"

func TestLoad(t *testing.T) {
	for _, tt := range []struct {
		rule, content string
		code          string // of the error; empty for none
		message       string // part of it, or of the warning
	}{
		{"what this version writes", good, "", ""},
		{"an empty file", "", "", ""},
		{"a file without a version", "[contexts.lab]\nurl = 'u'\n", "", ""},
		{"a byte order mark", "\ufeff" + good, "", ""},
		{"line ends of Windows", strings.ReplaceAll(good, "\n", "\r\n"), "", ""},
		{"a newer version", "version = 2\n", "config.newer_version", "version 2"},
		{"a key of a newer version", good + "proxy = 'x'\n", "", ":7: this aipctl does not know the key contexts.lab.proxy and does not use it"},
		{"a table of a newer version", good + "[hooks]\na = 1\n", "", "hooks"},
		{"a misspelt key names the right ones", good + "ca-file = 'x'\n", "", "the keys of a context are url, token_file"},
		{"a token says where it belongs", good + "token = 'tok-4711'\n", "", "a token does not belong here"},
		{"a name that cannot be one", "[contexts.'a b']\nurl = 'u'\n", "", `"a b" cannot be the name of a context`},
		{"no TOML", "version = 1\ncurrent = \n", "config.damaged", "config.toml:2:"},
		{"a key twice", good + "url = 'x'\n", "config.damaged", "config.toml:7:1"},
		{"a value of a wrong kind", "version = 1\n[contexts.lab]\nurl = 3\n", "config.damaged", "config.toml:3:7: the file is damaged: contexts.lab.url is of a wrong kind"},
		{"contexts that are none", "contexts = 3\n", "config.damaged", "config.toml:1:12"},
		{"half a file", good[:len(good)-5], "config.damaged", "config.toml:6:"},
		{"no text at all", "\x00\xff\xfe", "config.damaged", "config.toml:1:"},
		{"a file that is too large", strings.Repeat("#", maxFile+1), "config.unreadable", "larger than 1 MiB"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			f := fileWith(t, tt.content)
			c, err := f.Load()
			if tt.code != "" {
				wantFault(t, err, fault.Usage, tt.code)
				e := fault.As(err)
				if !strings.Contains(e.Message, tt.message) || !strings.Contains(e.Message, f.path) {
					t.Errorf("message %q", e.Message)
				}
				for _, change := range []func() error{
					func() error { _, err := f.Set(t.Context(), "lab", map[string]string{"url": "http://x"}); return err },
					func() error { _, err := f.Use(t.Context(), "lab"); return err },
					func() error { _, _, err := f.Delete(t.Context(), "lab"); return err },
				} {
					wantFault(t, change(), fault.Usage, tt.code)
				}
				if content(t, f) != tt.content {
					t.Error("a file that is not understood was written")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(c.Warnings, "\n"); tt.message == "" && got != "" || !strings.Contains(got, tt.message) || strings.Contains(got, "4711") {
				t.Errorf("warnings %q", got)
			}
		})
	}
}

func TestLoadTakesRelativePathsFromTheFolderOfTheFile(t *testing.T) {
	f := fileWith(t, good)
	c, err := f.Load()
	if err != nil {
		t.Fatal(err)
	}
	lab, err := c.Get("lab")
	if err != nil || lab.TokenFile != filepath.Join(filepath.Dir(f.path), "token") || lab.Name != "lab" || lab.CAFile != "" {
		t.Errorf("got %+v, %v", lab, err)
	}
}

func TestAFileThatIsNotThereHoldsNothing(t *testing.T) {
	for _, path := range []string{filepath.Join(t.TempDir(), "no", "config.toml"), os.DevNull} {
		c, err := New(path).Load()
		if err != nil || len(c.Names()) != 0 || c.Current != "" {
			t.Errorf("%s: %+v, %v", path, c, err)
		}
	}
	_, err := New(t.TempDir()).Load()
	wantFault(t, err, fault.Usage, "config.unreadable")
	_, err = New("").Set(t.Context(), "a", map[string]string{"url": "u"})
	wantFault(t, err, fault.State, "config.no_home")
	_, err = New(os.DevNull).Set(t.Context(), "a", map[string]string{"url": "u"})
	wantFault(t, err, fault.State, "config.unwritable")
}

func TestSetChangesTheNamedFieldsAlone(t *testing.T) {
	f := New(filepath.Join(t.TempDir(), "new", "config.toml"))
	set := func(name string, kv ...string) *Contexts {
		t.Helper()
		fields := map[string]string{}
		for i := 0; i < len(kv); i += 2 {
			fields[kv[i]] = kv[i+1]
		}
		c, err := f.Set(t.Context(), name, fields)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if c := set("a", "url", "http://a", "endpoint", "e"); c.Current != "a" {
		t.Errorf("the first context is not the current one, but %q", c.Current)
	}
	set("b", "tenant", "t")
	c := set("a", "endpoint", "", "principal", `x "y" \z`)
	a, _ := c.Get("a")
	b, _ := c.Get("b")
	if a != (Context{Name: "a", URL: "http://a", Principal: `x "y" \z`}) || b != (Context{Name: "b", Tenant: "t"}) || c.Current != "a" {
		t.Errorf("a %+v, b %+v, current %q", a, b, c.Current)
	}
	before := content(t, f)
	if set("a", "url", "http://a"); content(t, f) != before {
		t.Error("a change of nothing changed the file")
	}
	set("b", "tenant", "")
	if got, _ := f.Load(); len(got.Names()) != 2 {
		t.Errorf("a context without a field is gone: %v", got.Names())
	}
	var unknown *UnknownError
	if _, err := f.Set(t.Context(), "c", map[string]string{"url": ""}); !errors.As(err, &unknown) {
		t.Errorf("removing a field of nothing: %v", err)
	}
	_, err := f.Set(t.Context(), "a", map[string]string{"token_file": "/\xff"})
	wantFault(t, err, fault.Usage, "context.value")
	_, err = f.Set(t.Context(), "a.b", map[string]string{"url": "u"})
	wantFault(t, err, fault.Usage, "context.name")
}

func TestUseAndDelete(t *testing.T) {
	f := fileWith(t, good+"\n[contexts.prod]\nurl = \"http://p\"\n")
	if c, err := f.Use(t.Context(), "prod"); err != nil || c.Current != "prod" {
		t.Fatalf("%+v, %v", c, err)
	}
	var unknown *UnknownError
	if _, err := f.Use(t.Context(), "gone"); !errors.As(err, &unknown) {
		t.Errorf("got %v", err)
	}
	if _, _, err := f.Delete(t.Context(), "gone"); !errors.As(err, &unknown) {
		t.Errorf("got %v", err)
	}
	was, c, err := f.Delete(t.Context(), "lab")
	if err != nil || was.URL != "http://127.0.0.1:1" || c.Current != "prod" {
		t.Errorf("%+v, %+v, %v", was, c, err)
	}
	if _, c, err = f.Delete(t.Context(), "prod"); err != nil || c.Current != "" || len(c.Names()) != 0 {
		t.Errorf("the deleted context is still current: %+v, %v", c, err)
	}
	if got := content(t, f); got != "version = 1\n" {
		t.Errorf("left is %q", got)
	}
}

// Comments, order and keys of newer versions outlive every change.
func TestAChangeKeepsWhatItDoesNotUnderstand(t *testing.T) {
	f := fileWith(t, "# by hand\n"+good+"proxy = 'p' # new\n\n[hooks]\nafter = ['x', 2026-12-01T00:00:00Z, 1.5]\n")
	if _, err := f.Set(t.Context(), "lab", map[string]string{"url": "http://x", "tenant": "t"}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Set(t.Context(), "other", map[string]string{"url": "http://y"}); err != nil {
		t.Fatal(err)
	}
	want := "# by hand\n" + strings.Replace(good, "http://127.0.0.1:1", "http://x", 1) + "proxy = 'p' # new\ntenant = \"t\"\n\n[hooks]\nafter = ['x', 2026-12-01T00:00:00Z, 1.5]\n\n[contexts.other]\nurl = \"http://y\"\n"
	if got := content(t, f); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestAChangeThatLinesCannotCarryIsRefused(t *testing.T) {
	for name, src := range map[string]string{
		"inline tables":         "contexts = { lab = { url = 'u' } }\n",
		"dotted keys":           "contexts.lab.url = 'u'\n",
		"a text of many lines":  "[contexts.lab]\nurl = '''\nu'''\n",
		"a head within a text":  "x = '''\n[contexts.lab]\n'''\n[contexts.'lab']\nurl = 'u'\n",
		"a table within a line": "[contexts]\nlab = { url = 'u' }\n",
	} {
		t.Run(name, func(t *testing.T) {
			f := fileWith(t, src)
			if c, err := f.Load(); err != nil || len(c.Names()) != 1 {
				t.Fatalf("%+v, %v", c, err)
			}
			_, err := f.Set(t.Context(), "lab", map[string]string{"url": "http://x"})
			wantFault(t, err, fault.Usage, "config.by_hand")
			if content(t, f) != src {
				t.Error("it was written all the same")
			}
		})
	}
}

func TestSetsAtOnceLoseNothing(t *testing.T) {
	f := New(filepath.Join(t.TempDir(), "config.toml"))
	const crowd = 12
	var wg sync.WaitGroup
	for i := range crowd {
		wg.Go(func() {
			other := New(f.path) // as another process would have it
			name := fmt.Sprintf("c%d", i)
			for _, key := range []string{"url", "tenant"} {
				if _, err := other.Set(t.Context(), name, map[string]string{key: name + key}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	c, err := f.Load()
	if err != nil || len(c.Names()) != crowd {
		t.Fatalf("%d of %d contexts are left, %v", len(c.Names()), crowd, err)
	}
	for _, name := range c.Names() {
		if x, _ := c.Get(name); x.URL != name+"url" || x.Tenant != name+"tenant" {
			t.Errorf("%+v", x)
		}
	}
}

// A reader at any moment sees the old file or the new one, and a failure
// leaves the old one and no other file.
func TestAFailedWriteLeavesTheOldFile(t *testing.T) {
	for name, spoil := range map[string]func(*File){
		"the content cannot be flushed": func(f *File) { f.syncFile = func(*os.File) error { return errors.New("disk full") } },
		"the new file cannot be made": func(f *File) {
			if err := os.MkdirAll(filepath.Join(f.path+".new", "x"), 0o700); err != nil {
				panic(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := fileWith(t, good)
			spoil(f)
			_, err := f.Set(t.Context(), "lab", map[string]string{"url": "http://x"})
			wantFault(t, err, fault.State, "config.unwritable")
			if content(t, f) != good {
				t.Error("the file was changed")
			}
			if fi, err := os.Stat(f.path + ".new"); err == nil && !fi.IsDir() {
				t.Error("a half written file was left")
			}
		})
	}
}

func TestWhatAKilledProcessLeftIsReplaced(t *testing.T) {
	f := fileWith(t, good)
	if err := os.WriteFile(f.path+".new", []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Use(t.Context(), "lab"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Set(t.Context(), "lab", map[string]string{"tenant": "t"}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(f.path + ".new"); err == nil {
		t.Error("it is still there")
	}
	flushed := 0
	f.syncFile = func(file *os.File) error { flushed++; return file.Sync() }
	f.syncFolder = func(string) error { flushed += 10; return nil }
	if _, err := f.Set(t.Context(), "lab", map[string]string{"tenant": "u"}); err != nil || flushed != 11 {
		t.Errorf("flushed %d: want the file and its folder once each; %v", flushed, err)
	}
}

func TestALockThatIsHeldIsNotWaitedForBeyondTheSignal(t *testing.T) {
	f := fileWith(t, good)
	ctx, stop := context.WithCancelCause(t.Context())
	stop(fault.New(fault.Interrupt, "signal", "interrupted"))
	_, err := f.Set(ctx, "lab", map[string]string{"tenant": "t"})
	if err == nil || content(t, f) != good {
		t.Errorf("a change after the signal: %v", err)
	}
}

func TestLinksLeadToOneFile(t *testing.T) {
	dir := t.TempDir()
	real := filepath.Join(dir, "dotfiles", "aipctl.toml")
	link := filepath.Join(dir, "config.toml")
	if err := os.Symlink(real, link); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
	f := New(link)
	if _, err := f.Set(t.Context(), "lab", map[string]string{"url": "http://x"}); err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Lstat(link); err != nil || fi.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link was replaced: %v, %v", fi, err)
	}
	if c, err := New(real).Load(); err != nil || c.Current != "lab" {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestDefaultPath(t *testing.T) {
	for _, tt := range []struct {
		goos string
		env  map[string]string
		want string
	}{
		{"linux", map[string]string{"XDG_CONFIG_HOME": "/c", "HOME": "/home/a"}, "/c/aipctl/config.toml"},
		{"linux", map[string]string{"XDG_CONFIG_HOME": "c", "HOME": "/home/a"}, "/home/a/.config/aipctl/config.toml"},
		{"darwin", map[string]string{"HOME": "/Users/a"}, "/Users/a/Library/Application Support/aipctl/config.toml"},
		{"darwin", map[string]string{"HOME": "/Users/a", "XDG_CONFIG_HOME": "/c"}, "/c/aipctl/config.toml"},
		{"windows", map[string]string{"APPDATA": `C:\Users\a\AppData\Roaming`}, `C:\Users\a\AppData\Roaming\aipctl\config.toml`},
		{"windows", map[string]string{"USERPROFILE": `C:\Users\a`}, `C:\Users\a\AppData\Roaming\aipctl\config.toml`},
		{"linux", nil, ""},
	} {
		if got := DefaultPath(func(name string) string { return tt.env[name] }, tt.goos); got != tt.want {
			t.Errorf("%s %v: got %q, want %q", tt.goos, tt.env, got, tt.want)
		}
	}
}
