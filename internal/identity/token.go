package identity

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"github.com/aipctl/aipctl/internal/fault"
)

const redacted = "[redacted]"

// maxToken is the protocol's bound on a token and on a token file, in bytes.
const maxToken = 16 << 10

// Token is a bearer token. Its text is held by a function and not by a field,
// so that printing a structure that holds one cannot show it. The zero Token
// is "no token".
type Token struct{ reveal func() string }

func newToken(text string) Token { return Token{reveal: func() string { return text }} }

// Reveal returns the text for the Authorization header, without the scheme;
// empty for the zero Token. Nothing but the HTTP client may call it.
func (t Token) Reveal() string {
	if t.reveal == nil {
		return ""
	}
	return t.reveal()
}

// IsZero says that there is no token.
func (t Token) IsZero() bool { return t.reveal == nil }

// String returns "[redacted]".
func (Token) String() string { return redacted }

// GoString returns "[redacted]".
func (Token) GoString() string { return redacted }

// Format writes "[redacted]" for every verb.
func (Token) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, redacted) }

// MarshalText returns "[redacted]".
func (Token) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue returns "[redacted]".
func (Token) LogValue() slog.Value { return slog.StringValue(redacted) }

// TokenSource is where the caller's token comes from. File wins over Env; with
// neither there is no token. Printing one shows no value, but as an unexported
// field of something that is printed it would: hold it no longer than it takes
// to call Load.
type TokenSource struct {
	File string // path of the token file
	Env  string // value of AIP_TOKEN
}

// Format shows the file and never the value of the environment.
func (s TokenSource) Format(st fmt.State, _ rune) { _, _ = io.WriteString(st, s.describe()) }

// MarshalText shows the file and never the value of the environment.
func (s TokenSource) MarshalText() ([]byte, error) { return []byte(s.describe()), nil }

// LogValue shows the file and never the value of the environment.
func (s TokenSource) LogValue() slog.Value { return slog.StringValue(s.describe()) }

func (s TokenSource) describe() string {
	switch {
	case s.File != "":
		return "token file " + s.File
	case s.Env != "":
		return "AIP_TOKEN"
	}
	return "no token"
}

// Load reads the token anew, so that one exchanged on disk is taken up. No
// source at all gives the zero Token and no error.
//
// A token file has to be a regular file, not a symbolic link, that belongs to
// the user who runs this and that nobody else may read or write, of 1 byte to
// 16 KiB. On Windows, which has lists of rights in their place, no group that
// every user is in may have one.
// White space around the token is dropped; inside there may be visible ASCII
// only, and no authentication scheme in front. Errors are of class
// [fault.Auth]; they name the source and the reason, and no byte of the token.
func (s TokenSource) Load() (Token, error) {
	if s.File == "" {
		if s.Env == "" {
			return Token{}, nil
		}
		t, why := parseToken([]byte(s.Env))
		if why != "" {
			return Token{}, fault.New(fault.Auth, "token.content", "the token in AIP_TOKEN is refused: %s", why).
				WithHint("set AIP_TOKEN to the token alone, or give --token-file FILE")
		}
		return t, nil
	}
	content, err := readOwned(s.File)
	if err != nil {
		return Token{}, err
	}
	t, why := parseToken(content)
	clear(content)
	if why != "" {
		return Token{}, fault.New(fault.Auth, "token.content", "the token file %s is refused: %s", s.File, why).
			WithHint("write the token alone into the file")
	}
	return t, nil
}

// readOwned reads a token file by the rules of [TokenSource.Load].
func readOwned(path string) (content []byte, err error) {
	refuse := func(code, why string) *fault.Error {
		return fault.New(fault.Auth, code, "the token file %s is refused: %s", path, why)
	}
	f, err := openNoFollow(path)
	switch {
	case errors.Is(err, errSymlink):
		return nil, refuse("token.file_kind", "it is a symbolic link").WithHint("give the path of the file itself").Wrap(err)
	case err != nil:
		return nil, fault.New(fault.Auth, "token.file_unreadable", "cannot read the token file %s: %s", path, reason(err)).
			WithHint("give another one with --token-file FILE").Wrap(err)
	}
	defer func() { _ = f.Close() }() // read only: nothing can be lost
	fi, err := f.Stat()
	switch {
	case err != nil:
		return nil, fault.New(fault.Auth, "token.file_unreadable", "cannot read the token file %s: %s", path, reason(err)).Wrap(err)
	case fi.IsDir():
		return nil, refuse("token.file_kind", "it is a directory")
	case !fi.Mode().IsRegular():
		return nil, refuse("token.file_kind", "it is not a regular file")
	}
	if why := notOwned(fi); why != "" {
		return nil, refuse("token.file_owner", why).WithHint("make a copy that belongs to you, with mode 0600")
	}
	if why := tooOpen(f, fi); why != "" {
		return nil, refuse("token.file_mode", why).WithHint(closeHint, path)
	}
	content, err = io.ReadAll(io.LimitReader(f, maxToken+1))
	switch {
	case err != nil:
		return nil, fault.New(fault.Auth, "token.file_unreadable", "cannot read the token file %s: %s", path, reason(err)).Wrap(err)
	case len(content) == 0:
		return nil, refuse("token.content", "it is empty")
	}
	return content, nil
}

// parseToken takes the token out of the content of a source, or says in a
// clause why it is none.
func parseToken(content []byte) (t Token, why string) {
	if len(content) > maxToken {
		return Token{}, "it is larger than 16 KiB"
	}
	if bytes.HasPrefix(content, []byte("\xef\xbb\xbf")) {
		return Token{}, "it begins with a byte order mark"
	}
	text := strings.Trim(string(content), " \t\r\n\v\f")
	if text == "" {
		return Token{}, "it holds nothing but white space"
	}
	if scheme, _, two := strings.Cut(strings.ReplaceAll(text, "\t", " "), " "); two && strings.EqualFold(scheme, "Bearer") {
		return Token{}, `it begins with "Bearer", which is added by aipctl`
	}
	for _, b := range []byte(text) {
		switch {
		case b == '\n' || b == '\r':
			return Token{}, "it has more than one line"
		case b == ' ' || b == '\t':
			return Token{}, "there is white space inside the token"
		case b < 0x20 || b == 0x7f:
			return Token{}, "there is a control character inside the token"
		case b > 0x7f:
			return Token{}, "there is a character outside ASCII inside the token"
		}
	}
	return newToken(text), ""
}

// Fingerprint stands for the caller where a token must not be written: "anon"
// without a token, else "tok:" and 64 bits of a hash of it, in hex. It is the
// same for the same token everywhere, and tells nothing about it beyond that.
func Fingerprint(t Token) string {
	if t.IsZero() {
		return "anon"
	}
	sum := sha256.Sum256([]byte("aipctl principal fingerprint 1\x00" + t.Reveal()))
	return "tok:" + hex.EncodeToString(sum[:8])
}

// errSymlink says that openNoFollow met a symbolic link.
var errSymlink = errors.New("symbolic link")

// reason gives the cause alone, in the form of a clause: the path is in the
// message already, and some systems write their errors as sentences.
func reason(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "it does not exist"
	case errors.Is(err, fs.ErrPermission):
		return "permission denied"
	}
	text := err.Error()
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		text = errno.Error()
	}
	text = strings.TrimSuffix(text, ".")
	if r, n := utf8.DecodeRuneInString(text); unicode.IsUpper(r) {
		text = string(unicode.ToLower(r)) + text[n:]
	}
	return text
}
