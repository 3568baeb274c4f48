package identity

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aipctl/aipctl/internal/fault"
)

// secret is what the good token files hold.
const secret = "qa-token-do-not-use-0123456789"

// tokenFile copies a fixture to a place of its own, since the modes of files
// are not kept with the source.
func tokenFile(t *testing.T, fixture string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", "tokens", fixture))
	if err != nil {
		t.Fatal(err)
	}
	return ownFile(t, content)
}

func ownFile(t *testing.T, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	keepToOwner(t, path)
	return path
}

// wantRefused checks class, code and reason, that the source is named, and
// that no piece of the content is.
func wantRefused(t *testing.T, err error, code, source, why string, content []byte) {
	t.Helper()
	e := fault.As(err)
	if e == nil || e.Class != fault.Auth || e.Code != code {
		t.Fatalf("got %v, want %s", err, code)
	}
	if !strings.Contains(e.Message, source) || !strings.Contains(e.Message, why) {
		t.Errorf("message %q, want it to name %q and %q", e.Message, source, why)
	}
	for chain := err; chain != nil; chain = errors.Unwrap(chain) {
		for _, piece := range bytes.Fields(content) {
			if len(piece) > 5 && string(piece) != "Bearer" && strings.Contains(fmt.Sprintf("%+v %#v", chain, chain), string(piece)) {
				t.Errorf("the error holds the content: %+v", chain)
			}
		}
	}
}

func TestTokenContent(t *testing.T) {
	for _, tt := range []struct {
		fixture string
		why     string // empty for a good one
	}{
		{"token-newline.txt", ""},
		{"token-crlf.txt", ""},
		{"token-spaces.txt", ""},
		{"token-two-lines.txt", "more than one line"},
		{"token-empty.txt", "it is empty"},
		{"token-only-newline.txt", "nothing but white space"},
		{"token-inner-control.txt", "control character"},
		{"token-non-ascii.txt", "outside ASCII"},
		{"token-bom.txt", "byte order mark"},
		{"token-with-prefix.txt", `begins with "Bearer"`},
	} {
		t.Run(tt.fixture, func(t *testing.T) {
			path := tokenFile(t, tt.fixture)
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range []struct {
				source TokenSource
				name   string
			}{{TokenSource{File: path}, path}, {TokenSource{Env: string(content)}, "AIP_TOKEN"}} {
				if s.name == "AIP_TOKEN" && len(content) == 0 {
					continue // an empty variable is no source: see TestSourceOfTheToken
				}
				got, err := s.source.Load()
				if tt.why != "" {
					wantRefused(t, err, "token.content", s.name, tt.why, content)
					if !got.IsZero() {
						t.Error("a refused source gives a token")
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				if got.Reveal() != secret {
					t.Error("another token came out")
				}
			}
		})
	}
}

func TestTokenContentByCharacter(t *testing.T) {
	const limit = 16 << 10
	visible := make([]byte, 0, 94)
	for b := byte(0x21); b < 0x7f; b++ {
		visible = append(visible, b)
	}
	for _, tt := range []struct {
		rule, content, why string
	}{
		{"every visible character", string(visible), ""},
		{"one byte", "x", ""},
		{"16 KiB", strings.Repeat("x", limit), ""},
		{"16 KiB and one byte", strings.Repeat("x", limit+1), "larger than 16 KiB"},
		{"a small token in a large file", "x" + strings.Repeat(" ", limit), "larger than 16 KiB"},
		{"tabs and form feeds around it", "\t\f\v" + "x" + "\t\f\v", ""},
		{"a blank inside", "a b", "white space inside"},
		{"a tab inside", "a\tb", "white space inside"},
		{"a NUL", "a\x00b", "control character"},
		{"a DEL", "a\x7fb", "control character"},
		{"a carriage return inside", "a\rb", "more than one line"},
		{"Bearer in small letters", "bearer abcdefgh", `begins with "Bearer"`},
		{"Bearer and a tab", "Bearer\tabcdefgh", `begins with "Bearer"`},
		{"Bearer as the beginning of a token", "Bearer-abcdefgh", ""},
		{"a blank that is no ASCII", "a\u00a0b", "outside ASCII"},
		{"a blank that is no ASCII around it", "a\u00a0", "outside ASCII"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			path := ownFile(t, []byte(tt.content))
			got, err := TokenSource{File: path}.Load()
			if tt.why != "" {
				wantRefused(t, err, "token.content", path, tt.why, []byte(tt.content))
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if want := strings.Trim(tt.content, " \t\f\v"); got.Reveal() != want {
				t.Errorf("got %d bytes, want %d", len(got.Reveal()), len(want))
			}
		})
	}
}

func TestSourceOfTheToken(t *testing.T) {
	path := tokenFile(t, "token-newline.txt")
	t.Run("none is no error", func(t *testing.T) {
		got, err := TokenSource{}.Load()
		if err != nil || !got.IsZero() || got.Reveal() != "" {
			t.Errorf("%v %v", got, err)
		}
	})
	t.Run("the file wins", func(t *testing.T) {
		got, err := TokenSource{File: path, Env: "other"}.Load()
		if err != nil || got.Reveal() != secret {
			t.Error(err)
		}
	})
	t.Run("a bad file is not made good by the environment", func(t *testing.T) {
		missing := path + ".missing"
		_, err := TokenSource{File: missing, Env: "other"}.Load()
		wantRefused(t, err, "token.file_unreadable", missing, "it does not exist", nil)
	})
	t.Run("the file is read anew", func(t *testing.T) {
		s := TokenSource{File: path}
		first, err := s.Load()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("rotated"), 0o600); err != nil {
			t.Fatal(err)
		}
		second, err := s.Load()
		if err != nil || first.Reveal() != secret || second.Reveal() != "rotated" {
			t.Error("the token of before came again", err)
		}
	})
	t.Run("a directory", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		_, err := TokenSource{File: dir}.Load()
		wantRefused(t, err, "token.file_kind", dir, "it is a directory", nil)
	})
	t.Run("a symbolic link", func(t *testing.T) {
		link := filepath.Join(t.TempDir(), "link")
		if err := os.Symlink(path, link); err != nil {
			t.Skipf("this system or user makes no symbolic links: %v", err)
		}
		_, err := TokenSource{File: link}.Load()
		wantRefused(t, err, "token.file_kind", link, "it is a symbolic link", []byte("rotated"))
	})
}

// Whoever prints, encodes or logs a token, or anything that holds one, gets
// no byte of it.
func TestTokenCannotBePrinted(t *testing.T) {
	token, err := TokenSource{Env: secret}.Load()
	if err != nil {
		t.Fatal(err)
	}
	type holder struct {
		Shown  Token
		hidden Token
		inner  *struct{ t Token }
		source TokenSource
	}
	h := holder{Shown: token, hidden: token, inner: &struct{ t Token }{token}, source: TokenSource{File: "f"}}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%o", "%b", "%c", "%U", "%p", "%t", "%T", "%e"} {
		for _, v := range []any{token, &token, []Token{token}, map[string]Token{"k": token}, h, &h} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
		if verb != "%p" { // asks no formatter, and go vet refuses it for a structure
			fmt.Fprintf(&out, verb+verb+"\n", TokenSource{Env: secret}, &TokenSource{Env: secret})
		}
	}
	for _, v := range []any{token, h, []Token{token}, map[string]any{"k": token}, TokenSource{Env: secret}} {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(b)
	}
	for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(handler).Info("m", "token", token, "holder", h, "source", TokenSource{Env: secret})
	}
	func() {
		defer func() { fmt.Fprint(&out, recover()) }()
		panic(token)
	}()
	got := out.String()
	hex := fmt.Sprintf("%x", secret)
	for _, leak := range []string{secret, secret[:8], hex, strings.ToUpper(hex), "113 97 45 116"} { // the last is how %d writes the first bytes
		if strings.Contains(got, leak) {
			t.Errorf("%q leaks into:\n%s", leak, got)
		}
	}
	for _, s := range []string{token.String(), token.GoString(), fmt.Sprint(token), fmt.Sprintf("%x", token)} {
		if s != "[redacted]" {
			t.Errorf("got %q", s)
		}
	}
	if b, err := token.MarshalText(); string(b) != "[redacted]" || err != nil {
		t.Errorf("got %q %v", b, err)
	}
	if s := fmt.Sprint(TokenSource{File: "f", Env: secret}, TokenSource{Env: secret}, TokenSource{}); s != "token file f AIP_TOKEN no token" {
		t.Errorf("got %q", s)
	}
}

func TestFingerprint(t *testing.T) {
	token := func(s string) Token {
		t.Helper()
		got, err := TokenSource{Env: s}.Load()
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := Fingerprint(Token{}); got != "anon" {
		t.Errorf("without a token: %s", got)
	}
	one := Fingerprint(token(secret))
	// printf 'aipctl principal fingerprint 1\0qa-token-do-not-use-0123456789' | sha256sum
	if one != "tok:d43e3808424be97c" {
		t.Errorf("got %s: saved cursors and intents of older versions are bound to another one", one)
	}
	if one != Fingerprint(token(secret+"\n")) || one == Fingerprint(token(secret+"0")) {
		t.Error("fingerprints do not follow tokens")
	}
}
