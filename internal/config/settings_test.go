package config

import (
	"errors"
	"strings"
	"testing"

	"github.com/aipctl/aipctl/internal/fault"
)

func contexts(current string, all ...Context) func() (*Contexts, error) {
	c := &Contexts{Path: "config.toml", Current: current, byName: map[string]Context{}}
	for _, x := range all {
		c.byName[x.Name] = x
	}
	return func() (*Contexts, error) { return c, nil }
}

var (
	lab = Context{
		Name: "lab", URL: "https://lab.example.net/aip", TokenFile: "/lab/token", Endpoint: "north", CAFile: "/lab/ca.pem", Principal: "ada", Tenant: "red",
	}
	bare = Context{Name: "bare", TokenFile: "/bare/token"}
)

// spelled writes settings in one line: what is set, and from where.
func spelled(s Settings) string {
	var out []string
	for _, f := range []struct {
		name string
		v    Value
	}{{"context", s.Context}, {"url", s.URL}, {"token", s.TokenFile}, {"ca", s.CAFile}, {"endpoint", s.Endpoint}} {
		if f.v != (Value{}) {
			out = append(out, f.name+"="+f.v.Text+"<"+f.v.From+">")
		}
	}
	if s.Principal+s.Tenant != "" {
		out = append(out, "who="+s.Principal+"/"+s.Tenant)
	}
	return strings.Join(out, " ")
}

const fromLab = "token=/lab/token<context lab> ca=/lab/ca.pem<context lab> endpoint=north<context lab> who=ada/red"

func TestResolve(t *testing.T) {
	current := Value{"", "the current one of config.toml"}
	current.Text = "lab"
	at := "context=lab<" + current.From + "> "
	named := "context=lab<--context> "
	for _, tt := range []struct {
		rule string
		g    Given
		load func() (*Contexts, error)
		want string
		warn string // part of a warning; empty for none
	}{
		{"nothing names anything", Given{}, contexts(""), "", ""},
		{"contexts without a current one say nothing", Given{}, contexts("", lab), "", ""},
		{"the current context says everything", Given{}, contexts("lab", lab, bare), at + "url=https://lab.example.net/aip<context lab> " + fromLab, ""},
		{"the named context beats the current one", Given{Context: Value{"lab", "--context"}}, contexts("bare", lab, bare), named + "url=https://lab.example.net/aip<context lab> " + fromLab, ""},
		{"a given token file beats the context's", Given{TokenFile: Value{"/t", "--token-file"}}, contexts("lab", lab),
			at + "url=https://lab.example.net/aip<context lab> token=/t<--token-file> ca=/lab/ca.pem<context lab> endpoint=north<context lab> who=ada/red", ""},
		{"a token in the environment beats the context's file", Given{TokenVariable: "AIP_TOKEN"}, contexts("lab", lab),
			at + "url=https://lab.example.net/aip<context lab> token=<AIP_TOKEN> ca=/lab/ca.pem<context lab> endpoint=north<context lab> who=ada/red", ""},
		{"a given token file beats the token in the environment", Given{TokenFile: Value{"/t", "AIP_TOKEN_FILE"}, TokenVariable: "AIP_TOKEN"}, contexts(""), "token=/t<AIP_TOKEN_FILE>", ""},
		{"a given CA file beats the context's", Given{CAFile: Value{"/c", "--ca-file"}}, contexts("lab", lab),
			at + "url=https://lab.example.net/aip<context lab> token=/lab/token<context lab> ca=/c<--ca-file> endpoint=north<context lab> who=ada/red", ""},
		{"a given endpoint beats the context's", Given{Endpoint: Value{"south", "--endpoint"}}, contexts("lab", lab),
			at + "url=https://lab.example.net/aip<context lab> token=/lab/token<context lab> ca=/lab/ca.pem<context lab> endpoint=south<--endpoint> who=ada/red", ""},
		{"a given URL of the same daemon keeps what the context says of it", Given{URL: Value{"https://LAB.example.net:443/other", "the argument"}}, contexts("lab", lab),
			at + "url=https://LAB.example.net:443/other<the argument> " + fromLab, ""},
		{"another daemon is not sent the context's token", Given{URL: Value{"https://prod.example.net", "the argument"}}, contexts("lab", lab),
			at + "url=https://prod.example.net<the argument> endpoint=north<context lab>", "the token file of context lab is not used"},
		{"nor by a context that is named", Given{Context: Value{"lab", "--context"}, URL: Value{"https://prod.example.net", "AIP_URL"}}, contexts("", lab),
			named + "url=https://prod.example.net<AIP_URL> endpoint=north<context lab>", "AIP_URL names another daemon"},
		{"another port is another daemon", Given{URL: Value{"https://lab.example.net:8443/aip", "--url"}}, contexts("lab", lab),
			at + "url=https://lab.example.net:8443/aip<--url> endpoint=north<context lab>", "not used"},
		{"another scheme is another daemon", Given{URL: Value{"http://lab.example.net/aip", "--url"}}, contexts("lab", lab),
			at + "url=http://lab.example.net/aip<--url> endpoint=north<context lab>", "not used"},
		{"a host that begins alike is another daemon", Given{URL: Value{"https://lab.example.net.evil.example", "--url"}}, contexts("lab", lab),
			at + "url=https://lab.example.net.evil.example<--url> endpoint=north<context lab>", "not used"},
		{"with a token of its own there is nothing to warn of", Given{URL: Value{"https://prod.example.net", "--url"}, TokenFile: Value{"/t", "--token-file"}}, contexts("lab", lab),
			at + "url=https://prod.example.net<--url> token=/t<--token-file> endpoint=north<context lab>", ""},
		{"a context without a URL is for any daemon", Given{URL: Value{"https://prod.example.net", "AIP_URL"}, Context: Value{"bare", "AIPCTL_CONTEXT"}}, contexts("", bare),
			"context=bare<AIPCTL_CONTEXT> url=https://prod.example.net<AIP_URL> token=/bare/token<context bare>", ""},
		{"contexts that cannot be read are no matter where a daemon is named", Given{URL: Value{"https://prod.example.net", "--url"}}, broken, "url=https://prod.example.net<--url>", "no context is used"},
		{"nor is a current one that is not there", Given{URL: Value{"https://prod.example.net", "--url"}}, contexts("gone", lab), "url=https://prod.example.net<--url>", `no context "gone"`},
		{"an endpoint that is given needs no context", Given{URL: Value{"https://prod.example.net", "--url"}, Endpoint: Value{"e", "--endpoint"}, NeedsEndpoint: true}, broken, "url=https://prod.example.net<--url> endpoint=e<--endpoint>", "no context is used"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			s, err := Resolve(tt.g, tt.load)
			if err != nil {
				t.Fatal(err)
			}
			if got := spelled(s); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if got := strings.Join(s.Warnings, "\n"); tt.warn == "" && got != "" || !strings.Contains(got, tt.warn) {
				t.Errorf("warnings %q, want %q", got, tt.warn)
			}
		})
	}
}

var errBroken = fault.New(fault.Usage, "config.damaged", "config.toml:3:1: the file is damaged")

func broken() (*Contexts, error) { return nil, errBroken }

func TestResolveNeedsTheContext(t *testing.T) {
	url := Value{"https://prod.example.net", "--url"}
	for _, tt := range []struct {
		rule string
		g    Given
		load func() (*Contexts, error)
		want string // of the context that is not there; empty for a file that cannot be read
		from string
	}{
		{"nothing else names a daemon", Given{}, broken, "", ""},
		{"a context is named", Given{URL: url, Context: Value{"lab", "--context"}}, broken, "", ""},
		{"an endpoint is needed", Given{URL: url, NeedsEndpoint: true}, broken, "", ""},
		{"the named one is not there", Given{URL: url, Context: Value{"lob", "AIPCTL_CONTEXT"}}, contexts("lab", lab), "lob", "AIPCTL_CONTEXT"},
		{"the current one is not there", Given{}, contexts("gone", lab), "gone", "the current one of config.toml"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			s, err := Resolve(tt.g, tt.load)
			if got := spelled(s); got != "" {
				t.Errorf("something was resolved: %s", got)
			}
			var unknown *UnknownError
			switch {
			case tt.want == "" && !errors.Is(err, errBroken):
				t.Errorf("got %v", err)
			case tt.want != "" && (!errors.As(err, &unknown) || unknown.Name != tt.want || unknown.From != tt.from):
				t.Errorf("got %+v", err)
			}
		})
	}
}

func TestShownURL(t *testing.T) {
	for raw, want := range map[string]string{
		"":                                    "",
		"https://aipd.example.net":            "https://aipd.example.net",
		"https://aipd.example.net/a@b":        "https://aipd.example.net/a@b",
		"http://[::1]:8700/p":                 "http://[::1]:8700/p",
		"https://user:secret@aipd.example/p":  "https://…@aipd.example/p",
		"https://secret@aipd.example":         "https://…@aipd.example",
		"https://user:se/cr@et@aipd.example":  "https://…@aipd.example",
		"https://user:%zz@aipd.example":       "https://…@aipd.example",
		"user:secret@aipd.example":            "…@aipd.example",
		"https://aipd.example?token=secret":   "https://aipd.example?…",
		"https://aipd.example/p#secret":       "https://aipd.example/p#…",
		"https://u:p@aipd.example/?t=a@b.net": "https://…@b.net",
	} {
		if got := ShownURL(raw); got != want {
			t.Errorf("ShownURL(%q) = %q, want %q", raw, got, want)
		}
	}
}
