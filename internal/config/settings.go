package config

import (
	"cmp"
	"errors"
	"net/url"
	"strings"
)

// Value is one setting, and in a few words where it came from: a flag, an
// environment variable, a context.
type Value struct {
	Text string // empty where nothing names it
	From string
}

// First returns the first value that says something: the order of the
// arguments is the order of precedence.
func First(values ...Value) Value {
	for _, v := range values {
		if v.Text != "" {
			return v
		}
	}
	return Value{}
}

// FromContext begins what From says of a value that a context names.
const FromContext = "context "

// Given is what a command line and its environment say, the first of them
// first: flags before the environment.
type Given struct {
	Context   Value // the name of one
	URL       Value
	TokenFile Value
	CAFile    Value
	Endpoint  Value

	TokenVariable string // name of the environment variable that holds a token; empty where none does
	NeedsEndpoint bool   // the command cannot do without one
}

// Settings is what a run works with.
type Settings struct {
	Context   Value // name of the context that was looked at; empty for none
	URL       Value
	TokenFile Value // with an empty text: the token is in the variable that From names, or there is none
	CAFile    Value
	Endpoint  Value
	Principal string // as the context names it; sent with decisions about approvals only
	Tenant    string // the same

	Warnings []string
}

// Resolve puts the settings of a run together, each for itself: what is given
// before what the context says. The context is the one that is given, else the
// current one of the file.
//
// The token file, the CA file, the principal and the tenant of a context are
// for its own daemon: where something else names a daemon of another origin,
// they are left out, and a warning says so if no other token takes their place.
//
// A file that cannot be read, or a current context that is not there, is an
// error only where the context is needed: it is given, or nothing else names a
// daemon, or an endpoint is needed and not given. Elsewhere it is a warning.
// Errors are those of [File.Load], and an [*UnknownError].
func Resolve(g Given, load func() (*Contexts, error)) (Settings, error) {
	s := Settings{Context: g.Context, URL: g.URL, TokenFile: g.TokenFile, CAFile: g.CAFile, Endpoint: g.Endpoint}
	if s.TokenFile.Text == "" && g.TokenVariable != "" {
		s.TokenFile = Value{From: g.TokenVariable}
	}
	needed := g.Context.Text != "" || g.URL.Text == "" || g.NeedsEndpoint && g.Endpoint.Text == ""
	c, err := find(&s, load)
	switch {
	case err == nil && s.Context.Text == "":
		return s, nil
	case err != nil && needed:
		return Settings{}, err
	case err != nil:
		s.Context = Value{}
		s.Warnings = append(s.Warnings, err.Error()+"; no context is used")
		return s, nil
	}
	from := FromContext + c.Name
	s.URL = First(s.URL, Value{c.URL, from})
	s.Endpoint = First(s.Endpoint, Value{c.Endpoint, from})
	if c.URL != "" && !sameOrigin(c.URL, s.URL.Text) {
		if c.TokenFile != "" && s.TokenFile == (Value{}) {
			s.Warnings = append(s.Warnings, "the token file of context "+c.Name+" is not used: it is for "+ShownURL(c.URL)+", and "+s.URL.From+" names another daemon; --token-file names a file for any daemon")
		}
		return s, nil
	}
	if s.TokenFile.From == "" {
		s.TokenFile = First(Value{c.TokenFile, from})
	}
	s.CAFile = First(s.CAFile, Value{c.CAFile, from})
	s.Principal, s.Tenant = c.Principal, c.Tenant
	return s, nil
}

// find looks the context up that s names, or the current one of the file; none
// where there is neither.
func find(s *Settings, load func() (*Contexts, error)) (Context, error) {
	all, err := load()
	if err != nil {
		return Context{}, err
	}
	s.Warnings = append(s.Warnings, all.Warnings...)
	if s.Context.Text == "" {
		if all.Current == "" {
			return Context{}, nil
		}
		s.Context = Value{all.Current, "the current one of " + all.Path}
	}
	c, err := all.Get(s.Context.Text)
	var unknown *UnknownError
	if errors.As(err, &unknown) {
		unknown.From = s.Context.From
	}
	return c, err
}

// sameOrigin reports whether two URLs lead to one scheme, host and port. What
// does not parse is the same as nothing.
func sameOrigin(a, b string) bool {
	x, err := url.Parse(a)
	if err != nil {
		return false
	}
	y, err := url.Parse(b)
	if err != nil {
		return false
	}
	return strings.EqualFold(x.Scheme, y.Scheme) && strings.EqualFold(x.Hostname(), y.Hostname()) && port(x) == port(y)
}

func port(u *url.URL) string {
	known := map[string]string{"http": "80", "https": "443"}[strings.ToLower(u.Scheme)]
	return cmp.Or(u.Port(), known)
}

// ShownURL is a URL as it may be shown. Credentials, a query and a fragment,
// where tokens are put by mistake, are left out; no daemon's URL has any.
func ShownURL(raw string) string {
	if u, err := url.Parse(raw); err != nil || u.User != nil || u.Opaque != "" {
		if i := strings.LastIndexByte(raw, '@'); i >= 0 {
			scheme, _, ok := strings.Cut(raw[:i], "://")
			if ok {
				scheme += "://"
			} else {
				scheme = ""
			}
			raw = scheme + "…@" + raw[i+1:]
		}
	}
	if i := strings.IndexAny(raw, "?#"); i >= 0 {
		raw = raw[:i+1] + "…"
	}
	return raw
}
