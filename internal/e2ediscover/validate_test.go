package e2ediscover_test

import (
	"net/http"
	"strings"
	"testing"
)

// call runs a call of the demo endpoint's stream, or of what more says instead.
func (w *world) call(validate string, more ...string) shot {
	w.t.Helper()
	args := []string{"action", "call", "cap:hermes_agent:demo:chat_stream", "--validate", validate}
	if len(more) == 0 {
		more = []string{"--input", `{"prompt":"Hi","session_id":"s"}`}
	}
	return w.run(append(args, more...)...)
}

// with replaces a part of a published capability.
func with(t testing.TB, name string, pairs ...string) string {
	t.Helper()
	c := capability(t, name)
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(c, pairs[i]) {
			t.Fatalf("%s has no %s", name, pairs[i])
		}
	}
	return strings.NewReplacer(pairs...).Replace(c)
}

// TestWhatACallIsCheckedAgainst: off asks nobody; auto goes on whatever
// discovery does, and says what it was left with; require wants a contract. The
// codes are stated by hand. A call that was refused sent nothing and recorded
// nothing.
func TestWhatACallIsCheckedAgainst(t *testing.T) {
	chat := capability(t, "chat_stream")
	foreign := with(t, "chat_stream", `"input_schema":{`, `"input_schema":{"$schema":"https://example.com/dialect",`)
	remote := with(t, "chat_stream", `"stop":{}`, `"stop":{"$ref":"file:///etc/hostname"}`)
	none := with(t, "chat_stream", `"input_schema":{"type":"object"`, `"input_schema":{"type":"objekt"`)
	const fits, breaks = `{"prompt":"Hi","session_id":"s"}`, `{"prompt":"Hi","session_id":"s","max_tokens":1.5}`
	for name, c := range map[string]struct {
		catalogue, manifest http.HandlerFunc
		validate, input     string
		code                int
		requests            int // about capabilities
		says                string
	}{
		"off asks nobody":                    {catalogueOf(chat), plainPage, "off", breaks, 12, 0, "action.input_schema_invalid"},
		"auto, catalogue, fits":              {catalogueOf(chat), plainPage, "auto", fits, 0, 1, ""},
		"auto, catalogue, breaks":            {catalogueOf(chat), plainPage, "auto", breaks, 2, 1, "/max_tokens is a number, not integer"},
		"auto, manifest, fits":               {disabled, manifestOf(chat), "auto", fits, 0, 2, "checked against the daemon's manifest: the catalogue of this daemon is switched off"},
		"auto, manifest, breaks":             {disabled, manifestOf(chat), "auto", breaks, 2, 2, "/max_tokens is a number, not integer"},
		"auto, nothing":                      {disabled, nothingThere, "auto", fits, 0, 2, "checked against the built-in contract: neither"},
		"auto, not published":                {catalogueOf(), plainPage, "auto", fits, 0, 2, "checked against the built-in contract: cap:hermes_agent:demo:chat_stream is neither"},
		"auto, token refused for it":         {refused, refused, "auto", fits, 0, 2, "checked against the built-in contract"},
		"auto, unavailable":                  {unavailable, unavailable, "auto", fits, 0, 2, "checked against the built-in contract"},
		"auto, a page":                       {webPage, webPage, "auto", fits, 0, 2, "checked against the built-in contract"},
		"auto, another dialect":              {catalogueOf(foreign), plainPage, "auto", fits, 0, 1, "warning: the input schema of cap:hermes_agent:demo:chat_stream cannot be used: the reference"},
		"auto, a file":                       {catalogueOf(remote), plainPage, "auto", fits, 0, 1, `the reference "file:///etc/hostname" leads out of the schema, and is not followed`},
		"auto, no schema at all":             {catalogueOf(none), plainPage, "auto", fits, 0, 1, "it is no schema: /type "},
		"require, catalogue, fits":           {catalogueOf(chat), plainPage, "require", fits, 0, 1, ""},
		"require, catalogue, breaks":         {catalogueOf(chat), plainPage, "require", breaks, 2, 1, "/max_tokens is a number, not integer"},
		"require, manifest":                  {disabled, manifestOf(chat), "require", fits, 0, 2, "the daemon's manifest"},
		"require, not published":             {catalogueOf(), plainPage, "require", fits, 12, 2, "no contract was found"},
		"require, no catalogue, not there":   {disabled, plainPage, "require", fits, 12, 2, "no contract was found"},
		"require, unavailable":               {unavailable, plainPage, "require", fits, 3, 2, "not available now"},
		"require, nobody answers for it":     {nothingThere, nothingThere, "require", fits, 3, 2, "neither the catalogue nor the manifest answered"},
		"require, a page":                    {webPage, webPage, "require", fits, 3, 2, "something else answered"},
		"require, token refused":             {refused, plainPage, "require", fits, 4, 2, "refused the token"},
		"require, no tenant":                 {noTenant, plainPage, "require", fits, 4, 2, "no tenant"},
		"require, another dialect":           {catalogueOf(foreign), plainPage, "require", fits, 12, 1, "leads out of the schema"},
		"require, a file":                    {catalogueOf(remote), plainPage, "require", fits, 12, 1, "is not followed"},
		"require, no schema at all":          {catalogueOf(none), plainPage, "require", fits, 12, 1, "cannot be used"},
		"require, an input refused anywhere": {catalogueOf(chat), plainPage, "require", `{"prompt":""}`, 2, 0, "blank"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFront(t, c.catalogue, c.manifest)
			w := newWorld(t, f.url)
			got := w.call(c.validate, "--input", c.input)
			if got.code != c.code || f.requests("capabilities")+f.requests("manifest") != c.requests {
				t.Errorf("exit %d, want %d, after %q: %s", got.code, c.code, f.asked, got.stderr)
			}
			if !strings.Contains(got.stderr, c.says) || c.says == "" && strings.Contains(got.stderr, "checked against") {
				t.Errorf("says %s", got.stderr)
			}
			sent := c.code == 0 || c.validate == "off"
			if n := f.requests("POST "); (n == 1) != sent || n > 1 {
				t.Errorf("%d submits", n)
			}
			if !sent && (w.recorded() != "" || got.stdout != "" || !strings.Contains(got.stderr, "next: ")) {
				t.Errorf("%s%s recorded %s", got.stdout, got.stderr, w.recorded())
			}
		})
	}
}

// TestABrokenInputNamesEachPlace and repeats nothing of what it holds.
func TestABrokenInputNamesEachPlace(t *testing.T) {
	f := newFront(t, catalogueOf(capability(t, "chat_stream")), plainPage)
	w := newWorld(t, f.url)
	got := w.call("auto", "--input", `{"messages":[{"role":"user","content":"a secret"}],"session_id":"s","temperature":"a secret","metadata":["a secret"],"max_tokens":1e400,"model":9007199254740993}`, "-o", "json")
	const want = `{"v":1,"type":"error","code":"input.schema","class":"usage","exit_code":2,"message":"the input does not fit the schema of cap:hermes_agent:demo:chat_stream: /metadata is an array, not object; /model is a number, not string; /temperature is a string, not number","hint":"` + "`aipctl capability describe cap:hermes_agent:demo:chat_stream`" + ` shows the input"}` + "\n"
	if got.code != 2 || got.stderr != want || got.stdout != "" || f.requests("POST ") != 0 {
		t.Errorf("%d %s%s", got.code, got.stdout, got.stderr)
	}
}

// TestThePublishedContractDecidesAboutTheCall: its key, its modes and its
// approval stand in place of what is built in.
func TestThePublishedContractDecidesAboutTheCall(t *testing.T) {
	keyed := with(t, "chat_stream", `"requirement":"optional"`, `"requirement":"required"`)
	slow := with(t, "chat_stream", `"supports_async":true,"supports_streaming":true`, `"supports_async":false,"supports_streaming":false`)
	guarded := with(t, "chat_stream", `"requires_human_approval":false`, `"requires_human_approval":true`)
	for name, c := range map[string]struct {
		published string
		more      []string
		code      int
		recorded  string
		says      string
	}{
		"a key that is required is made":    {keyed, nil, 0, `"idempotency_key":"`, ""},
		"a key that is given is kept":       {keyed, []string{"--idempotency-key", "mine"}, 0, `"idempotency_key":"mine"`, ""},
		"streaming that is gone is not had": {slow, nil, 0, `"mode":"sync"`, ""},
		"a mode that is gone is refused":    {slow, []string{"--mode", "streaming"}, 2, "", "--mode streaming is not what the contract of cap:hermes_agent:demo:chat_stream offers: sync"},
		"no detaching without async":        {slow, []string{"--detach"}, 2, "", "--detach, which submits async, is not what the contract"},
		"an approval is announced":          {guarded, nil, 0, `"mode":"streaming"`, "needs an approval"},
	} {
		f := newFront(t, catalogueOf(c.published), plainPage)
		w := newWorld(t, f.url)
		got := w.call("auto", append([]string{"--input", `{"prompt":"Hi","session_id":"s"}`}, c.more...)...)
		if got.code != c.code || !strings.Contains(w.recorded(), c.recorded) || !strings.Contains(got.stderr, c.says) {
			t.Errorf("%s: %d %s\n%s", name, got.code, got.stderr, w.recorded())
		}
		if c.code != 0 && (w.recorded() != "" || f.requests("POST ") != 0) {
			t.Errorf("%s: something was sent or recorded: %s", name, w.recorded())
		}
	}
	plain := newWorld(t, newFront(t, catalogueOf(capability(t, "chat_stream")), plainPage).url)
	if plain.call("auto"); strings.Contains(plain.recorded(), "idempotency_key") {
		t.Errorf("a key was made for nothing: %s", plain.recorded())
	}
}

// TestADiscoveryThatHangsStopsNoCall: in auto it is left after a moment.
func TestADiscoveryThatHangsStopsNoCall(t *testing.T) {
	t.Parallel()
	f := newFront(t, hangs, hangs)
	got := newWorld(t, f.url).call("auto")
	if got.code != 0 || !strings.Contains(got.stderr, "checked against the built-in contract: the daemon did not answer for its catalogue: stopped: the time to wait ran out") || f.requests("manifest") != 0 {
		t.Errorf("%d %s, asked %q", got.code, got.stderr, f.asked)
	}
}

// TestADryRunAsksNobody, about its contract either.
func TestADryRunAsksNobody(t *testing.T) {
	f := newFront(t, catalogueOf(capability(t, "chat_stream")), plainPage)
	w := newWorld(t, f.url)
	if got := w.call("auto", "--prompt", "Hi", "--dry-run"); got.code != 0 || !strings.Contains(got.stderr, "the built-in contract, since a dry run asks nobody") {
		t.Errorf("%d %s", got.code, got.stderr)
	}
	if got := w.call("require", "--prompt", "Hi", "--dry-run"); got.code != 2 || !strings.Contains(got.stderr, "leave one of the two out") {
		t.Errorf("%d %s", got.code, got.stderr)
	}
	if n := f.requests(""); n != 0 || w.recorded() != "" {
		t.Errorf("%d requests: %q", n, f.asked)
	}
}
