package cmd

import (
	"errors"
	"path/filepath"
	"runtime"

	"github.com/aipctl/aipctl/internal/config"
	"github.com/aipctl/aipctl/internal/identity"
	"github.com/aipctl/aipctl/internal/render"
	"github.com/aipctl/aipctl/internal/sanitize"
	"github.com/aipctl/aipctl/internal/state"
)

// settings resolves which daemon, token, CA file and endpoint this run works
// with, and where each came from: argument and flags before the environment,
// the environment before the context. It reads the file of the contexts and
// nothing else. Once it succeeded, it gives the same again.
func (r *run) settings(urlArg string, needsEndpoint bool) (config.Settings, error) {
	if r.named != nil {
		return *r.named, nil
	}
	o := r.opts
	if urlArg != "" && o.changed("url") && o.url != urlArg {
		return config.Settings{}, usageError("url.twice", "two daemons are named: the argument and --url").
			WithHint("give one of them")
	}
	if urlArg == "" && o.url == "" && o.changed("url") {
		return config.Settings{}, usageError("url.missing", "no daemon is named: --url was given without a URL").
			WithHint("a shell variable may be empty; give a URL, or leave the flag out")
	}
	s, err := config.Resolve(r.given(urlArg, needsEndpoint), r.loadContexts)
	if err != nil {
		return config.Settings{}, unknownContext(err)
	}
	r.named = &s
	return s, nil
}

// given is what the command line and the environment name. A demo brings its
// own daemon and looks at no environment.
func (r *run) given(urlArg string, needsEndpoint bool) config.Given {
	o, env := r.opts, r.variable
	if r.demo {
		env = func(string) config.Value { return config.Value{} }
	}
	g := config.Given{
		Context:       config.First(flagValue("context", o.context), env(envContext)),
		URL:           config.First(config.Value{Text: urlArg, From: "the argument"}, flagValue("url", o.url), env(envURL)),
		TokenFile:     config.First(flagValue("token-file", o.tokenFile), flagValue("native-bearer-token-file", o.tokenFilePeer), env(envTokenFile), env(envTokenFilePeer)),
		CAFile:        config.First(flagValue("ca-file", o.caFile), flagValue("native-tls-ca-file", o.caFilePeer), env(envCAFilePeer)),
		NeedsEndpoint: needsEndpoint,
	}
	if env(envToken).Text != "" {
		g.TokenVariable = envToken
	}
	return g
}

// loadContexts reads the contexts; a demo has none.
func (r *run) loadContexts() (*config.Contexts, error) {
	if r.demo {
		return &config.Contexts{}, nil
	}
	return r.contexts().Load()
}

// flagValue is a value from the command line.
func flagValue(name, value string) config.Value { return config.Value{Text: value, From: "--" + name} }

// variable is a value from the environment.
func (r *run) variable(name string) config.Value {
	return config.Value{Text: r.Env(name), From: name}
}

// contexts is the file of the contexts.
func (r *run) contexts() *config.File { return config.New(r.configPath().Text) }

// configPath is where that file is; empty where nothing names a home.
func (r *run) configPath() config.Value {
	return config.First(r.variable(envConfig), config.Value{Text: config.DefaultPath(r.Env, runtime.GOOS), From: fromDefault})
}

// unknownContext adds to an error about a context that is not there which one
// may have been meant.
func unknownContext(err error) error {
	var unknown *config.UnknownError
	if !errors.As(err, &unknown) {
		return err
	}
	f := usageError("context.unknown", "%s", unknown.Error())
	names := unknown.Contexts.Names()
	switch near := nearest(unknown.Name, names); {
	case near != "":
		return f.WithHint("did you mean %s? `aipctl context list` shows all", near)
	case len(names) == 0:
		return f.WithHint("there are none yet: `aipctl context set NAME --url URL --token-file FILE` makes one, `aipctl context list` shows all")
	}
	return f.WithHint("`aipctl context list` shows all")
}

// noDaemon says how to name one.
func noDaemon(s config.Settings) error {
	f := usageError("url.missing", "no daemon is named")
	if name := s.Context.Text; name != "" {
		return f.WithHint("context %s has no URL: give it one with `aipctl context set %s --url URL`, or name the daemon with --url", name, name)
	}
	return f.WithHint("give its URL as the first argument, with --url, in AIP_URL, or in a context, see `aipctl context --help`; `aipctl demo` needs none")
}

// tokenSource is where the token of the settings is read from.
func (r *run) tokenSource(s config.Settings) identity.TokenSource {
	if s.TokenFile.From == envToken {
		return identity.TokenSource{Env: r.Env(envToken)}
	}
	return identity.TokenSource{File: s.TokenFile.Text}
}

// sayNamed warns of what the contexts have amiss and, with -v, says what this
// run works with and where it came from. Of a token it says only where it is.
func (r *run) sayNamed(out *render.Renderer, s config.Settings) {
	for _, w := range s.Warnings {
		warning := sanitize.Format("warning: %s", sanitize.Line(w))
		if r.opts.output != render.Text.String() && r.opts.verbose {
			out.Log(warning) // a note is for text alone
		}
		out.Note(warning)
	}
	r.saySetting(out, "contexts", r.configPath())
	r.saySetting(out, "context", s.Context)
	r.saySetting(out, "url", config.Value{Text: config.ShownURL(s.URL.Text), From: s.URL.From})
	switch {
	case s.TokenFile.Text != "":
		r.saySetting(out, "token file", s.TokenFile)
	case s.TokenFile.From != "":
		r.saySetting(out, "token", config.Value{Text: "(not shown)", From: s.TokenFile.From})
	default:
		r.saySetting(out, "token", config.Value{Text: "none", From: "nowhere"})
	}
	r.saySetting(out, "CA file", s.CAFile)
	r.saySetting(out, "endpoint", s.Endpoint)
	r.saySetting(out, "principal", config.Value{Text: s.Principal, From: config.FromContext + s.Context.Text})
	r.saySetting(out, "tenant", config.Value{Text: s.Tenant, From: config.FromContext + s.Context.Text})
	r.sayState(out)
}

// sayState says, with -v, where the state file is and what named it.
func (r *run) sayState(out *render.Renderer) {
	if v, err := r.statePath(); err == nil {
		r.saySetting(out, "state file", v)
	}
}

// saySetting says, with -v, what a setting is and where it came from; of one
// that is not set it says nothing.
func (r *run) saySetting(out *render.Renderer, what string, v config.Value) {
	if r.opts.verbose && v.Text != "" {
		out.Log(sanitize.Format("setting: %s %s, from %s", sanitize.Line(what), sanitize.Line(v.Text), sanitize.Line(v.From)))
	}
}

// stateOff is the value of --state that keeps nothing.
const stateOff = "off"

// fromDefault is what named a state file that nobody named.
const fromDefault = "the default"

// statePath is the path of the state file, or stateOff.
func (r *run) statePath() (config.Value, error) {
	if r.opts.stateFile == "" && r.opts.changed("state") {
		return config.Value{}, usageError("usage.state", "--state was given without a file name").WithHint("give a file, or off")
	}
	if v := config.First(flagValue("state", r.opts.stateFile), r.variable(envState)); v.Text != "" {
		return v, nil
	}
	path, err := state.DefaultPath(r.Env, runtime.GOOS)
	return config.Value{Text: path, From: fromDefault}, err
}

// journal opens the state file; nil for --state off. flag is the value of
// --state to repeat in commands, empty for the default.
func (r *run) journal() (file *state.File, flag string, err error) {
	v, err := r.statePath()
	switch {
	case err != nil:
		return nil, "", err
	case v.Text == stateOff:
		return nil, stateOff, nil
	case v.From != fromDefault:
		flag = absolute(v.Text)
	}
	return state.New(v.Text, state.WithNow(r.Now)), flag, nil
}

// absolute spells a path so that it means the same from any folder.
func absolute(path string) string {
	if path == "" || path == stateOff {
		return path
	}
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// stateRequired refuses --state off for what changes things.
func stateRequired(why string) error {
	return usageError("state.required", "%s", why).WithHint("give another file with --state FILE")
}
