package e2ediscover_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/aipctl/aipctl/internal/fault"
)

// TestADeletionIsDescribedOnOneScreen: what it does and demands can be read
// without scrolling on the smallest terminal that is still in use.
func TestADeletionIsDescribedOnOneScreen(t *testing.T) {
	f := newFront(t, catalogueOf(capability(t, "response_delete")), plainPage)
	w := newWorld(t, f.url)
	for _, args := range [][]string{
		{"capability", "describe", "cap:hermes_agent:demo:response_delete"},
		{"capability", "describe", f.url, "response_delete", "--endpoint", "demo"},
	} {
		got := w.run(args...)
		if got.code != 0 || got.stderr != "" {
			t.Fatalf("%d %s", got.code, got.stderr)
		}
		golden(t, "describe-response_delete.txt", got.stdout)
		if lines := strings.Count(got.stdout, "\n"); lines > 24 {
			t.Errorf("it has %d lines", lines)
		}
		for line := range strings.Lines(got.stdout) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
				t.Errorf("%d cells: %s", n, line)
			}
		}
	}
	if n := f.requests(""); n != 2 {
		t.Errorf("%d requests: %q", n, f.asked)
	}
}

// TestAStoredResponseIsTreatedAsConfidential, whatever its contract says.
func TestAStoredResponseIsTreatedAsConfidential(t *testing.T) {
	w := newWorld(t, newFront(t, catalogueOf(capability(t, "response_get")), plainPage).url)
	text := w.run("capability", "describe", "response_get", "--endpoint", "demo")
	if flat := strings.Join(strings.Fields(text.stdout), " "); !strings.Contains(flat, "data treat as confidential with personal data: a stored response may hold whatever a model or a tool wrote, whatever the contract says (it says: internal, no personal data, to be redacted)") {
		t.Errorf("%d %s", text.code, text.stdout)
	}
	doc := w.run("capability", "describe", "response_get", "--endpoint", "demo", "-o", "json")
	var rec struct {
		Treat struct {
			Sensitivity string
			ContainsPII bool `json:"contains_pii"`
		}
	}
	if err := json.Unmarshal([]byte(doc.stdout), &rec); err != nil || rec.Treat.Sensitivity != "confidential" || !rec.Treat.ContainsPII {
		t.Errorf("%v %s", err, doc.stdout)
	}
	other := newWorld(t, newFront(t, catalogueOf(capability(t, "chat_stream")), plainPage).url)
	if got := other.run("capability", "describe", "chat_stream", "--endpoint", "demo", "-o", "json"); got.code != 0 || strings.Contains(got.stdout, `"treat"`) {
		t.Errorf("another operation is treated too: %s", got.stdout)
	}
}

// TestTheWholeContractReachesAScript: what this version does not know, and
// numbers that no float holds, come through.
func TestTheWholeContractReachesAScript(t *testing.T) {
	const strange = `{"id":"cap:hermes_agent:demo:chat","z":1,"a":{"big":12345678901234567890123,"f":1.50},"input_schema":{"type":"object"},"contract":{"future":[null,{}]}}`
	w := newWorld(t, newFront(t, catalogueOf(strange), plainPage).url)
	const record = `{"v":1,"type":"capability","source":"catalogue","catalog_revision":17,"capability":` + strange + `,"catalog":{"contract_digest":"d1","later":{"n":1.50}}}`
	for _, format := range []string{"json", "jsonl"} {
		if got := w.run("capability", "describe", "chat", "--endpoint", "demo", "-o", format); got.code != 0 || got.stdout != record+"\n" {
			t.Errorf("%s: %d\n%s\n%s%s", format, got.code, got.stdout, record, got.stderr)
		}
	}
	if got := w.run("capability", "list", "-o", "jsonl"); got.stdout != record+"\n" {
		t.Errorf("list: %s", got.stdout)
	}
	if got := w.run("capability", "list", "-o", "json"); got.stdout != `{"v":1,"type":"capabilities","source":"catalogue","catalog_revision":17,"capabilities":[`+record+"]}\n" {
		t.Errorf("list: %s", got.stdout)
	}
}

// TestTheListIsATable of what one looks for in it, and may be cut to an
// endpoint.
func TestTheListIsATable(t *testing.T) {
	other := strings.NewReplacer(":demo:", ":lab:", `"endpoint_id":"demo"`, `"endpoint_id":"lab"`).Replace(capability(t, "response_get"))
	f := newFront(t, catalogueOf(capability(t, "response_delete"), capability(t, "chat_stream"), other, `{"id":"cap:aip:server:health"}`), plainPage)
	w := newWorld(t, f.url)
	const table = `CAPABILITY                             RISK    APPROVAL  KEY       MODE
cap:aip:server:health                  ?       ?         ?         ?
cap:hermes_agent:demo:chat_stream      medium  -         -         streaming
cap:hermes_agent:demo:response_delete  high    required  required  sync
cap:hermes_agent:lab:response_get      low     -         -         sync
`
	if got := w.run("capability", "list"); got.code != 0 || got.stdout != table || got.stderr != "" {
		t.Errorf("%d\n%s%s", got.code, got.stdout, got.stderr)
	}
	if got := w.run("capability", "list", "--endpoint", "LAB", "-o", "jsonl", "--jq", ".capability.id"); got.stdout != "cap:hermes_agent:lab:response_get\n" {
		t.Errorf("%s%s", got.stdout, got.stderr)
	}
	if got := w.run("capability", "list", "--endpoint", "none"); got.code != 0 || got.stdout != "" || !strings.Contains(got.stderr, "there is no capability") {
		t.Errorf("%d %s%s", got.code, got.stdout, got.stderr)
	}
}

// TestWhyNeitherAnswered: each cause has its code, its words and a next step.
// The codes are stated by hand.
func TestWhyNeitherAnswered(t *testing.T) {
	known := manifestOf(`{"id":"cap:aip:server:health","input_schema":{"type":"object"}}`)
	for name, c := range map[string]struct {
		catalogue, manifest http.HandlerFunc
		list, describe      int
		word                string
	}{
		"catalogue":                 {catalogueOf(capability(t, "chat_stream")), plainPage, 0, 13, "neither in the catalogue nor in the manifest"},
		"manifest, catalogue off":   {disabled, known, 0, 13, "switched off"},
		"manifest, no tenant":       {noTenant, known, 0, 4, "no tenant"},
		"manifest, token refused":   {refused, known, 0, 4, "refused the token"},
		"manifest, unavailable":     {unavailable, known, 0, 3, "not available now"},
		"manifest, a page":          {webPage, known, 0, 3, "an HTML page"},
		"manifest, no such path":    {nothingThere, known, 0, 13, "no catalogue at this address"},
		"no aipd at all":            {nothingThere, nothingThere, 3, 3, "HTTP 404"},
		"a web server":              {webPage, webPage, 3, 3, "something else answered"},
		"token refused":             {refused, nothingThere, 4, 4, "refused the token"},
		"no tenant, no manifest":    {noTenant, unavailable, 4, 4, "no tenant"},
		"everything is unavailable": {unavailable, unavailable, 3, 3, "not available now"},
		"off, and no manifest":      {disabled, nothingThere, 3, 3, "switched off"},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://elsewhere.example/", http.StatusFound)
		}, nothingThere, 3, 3, "redirects to https://elsewhere.example, which is not followed"},
		"half an answer": {answers(200, "application/json", `{"capabilities":[`), nothingThere, 3, 3, "was cut"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newFront(t, c.catalogue, c.manifest).url)
			for _, x := range []struct {
				args []string
				code int
			}{
				{[]string{"capability", "list"}, c.list},
				{[]string{"capability", "describe", "cap:hermes_agent:demo:run_start"}, c.describe},
			} {
				got := w.run(x.args...)
				if got.code != x.code {
					t.Errorf("%v: %d, want %d: %s", x.args, got.code, x.code, got.stderr)
				}
				if name != "catalogue" && !strings.Contains(got.stderr, c.word) {
					t.Errorf("%v does not say %q: %s", x.args, c.word, got.stderr)
				}
				if got.code != 0 && (got.stdout != "" || !strings.Contains(got.stderr, "next: ")) {
					t.Errorf("%v: %s%s", x.args, got.stdout, got.stderr)
				}
			}
		})
	}
	w := newWorld(t, "http://127.0.0.1:1")
	if got := w.run("capability", "list"); got.code != 3 || !strings.Contains(got.stderr, "the connection was refused") {
		t.Errorf("nobody there: %d %s", got.code, got.stderr)
	}
}

// TestWhatMayHaveBeenMeant: a capability that is not there names the nearest.
func TestWhatMayHaveBeenMeant(t *testing.T) {
	w := newWorld(t, newFront(t, catalogueOf(capability(t, "response_delete"), capability(t, "chat_stream")), plainPage).url)
	got := w.run("capability", "describe", "chat_streem", "--endpoint", "demo")
	if got.code != 13 || !strings.Contains(got.stderr, "did you mean cap:hermes_agent:demo:chat_stream?") {
		t.Errorf("%d %s", got.code, got.stderr)
	}
	if got := w.run("capability", "describe", "chat_stream"); got.code != 2 || !strings.Contains(got.stderr, "--endpoint") {
		t.Errorf("%d %s", got.code, got.stderr)
	}
}

// TestPagesGoOnAfterAStaleCursor, once.
func TestPagesGoOnAfterAStaleCursor(t *testing.T) {
	for stales, want := range map[int]int{0: 0, 1: 0, 2: 3} {
		left := stales
		f := newFront(t, func(w http.ResponseWriter, r *http.Request) {
			n, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
			if n == 2 && left > 0 {
				left--
				codeOnly(409, "connector_catalog.stale_cursor")(w, r)
				return
			}
			next := `"` + strconv.Itoa(n+1) + `"`
			if n == 3 {
				next = "null"
			}
			answers(200, "application/json", `{"catalog_revision":1,"capabilities":[{"capability":{"id":"cap:x:`+strconv.Itoa(n)+`"}}],"next_cursor":`+next+`,"total":4}`)(w, r)
		}, nothingThere)
		got := newWorld(t, f.url).run("capability", "list", "-o", "jsonl", "--jq", ".capability.id")
		all := "cap:x:0\ncap:x:1\ncap:x:2\ncap:x:3\n"
		if want != 0 {
			all = ""
		}
		if got.code != want || got.stdout != all {
			t.Errorf("%d stale: %d %s%s", stales, got.code, got.stdout, got.stderr)
		}
	}
}

// TestHostileWordsOfADaemonStayWords: every field that is shown is printed,
// visibly, and none reaches the terminal as a control.
func TestHostileWordsOfADaemonStayWords(t *testing.T) {
	const evil = `\u001b]52;c;AAAA\u0007\u009b31m\r\n\u202e`
	field := func(name string) string { return `"` + name + evil + `"` }
	hostile := `{"id":` + field("cap:x") + `,"name":` + field("n") + `,"description":` + field("DESCRIPTION") + `,"kind":` + field("KIND") +
		`,"risk":` + field("RISK") + `,"stability":` + field("STABILITY") + `,"auth":{"scheme":` + field("SCHEME") + `,"source":` + field("SOURCE") + `}` +
		`,"bindings":[{"operation":` + field("o") + `,"method":` + field("METHOD") + `,"path":` + field("PATH") + `}]` +
		`,"input_schema":{"properties":{` + field("FIELD") + `:{"type":` + field("TYPE") + `,"description":` + field("MEANING") + `,"pattern":` + field("PATTERN") + `,"enum":[` + field("ENUM") + `]}},"required":[` + field("NEEDED") + `],"oneOf":[{"required":[` + field("ONE") + `]}]}` +
		`,"contract":{"side_effects":[` + field("EFFECT") + `],"idempotency":{"requirement":` + field("KEY") + `,"key_scope":` + field("SCOPE") + `}` +
		`,"execution":{"supports_sync":true,"supports_async":true,"expected_completion":` + field("EXPECTED") + `,"retry_safety":` + field("SAFETY") + `}` +
		`,"data":{"sensitivity":` + field("SENSITIVITY") + `},"approval":{"required":true,"approver_selector":{"type":` + field("SELECTOR") + `},"evidence_requirements":[` + field("EVIDENCE") + `]}` +
		`,"compensation":{"mode":` + field("COMPENSATION") + `}}}`
	// The daemon answers any question with it: the id is not what was asked for,
	// so the list is where it shows.
	f := newFront(t, func(w http.ResponseWriter, r *http.Request) {
		h := hostile
		if id := r.URL.Query().Get("capability_id"); id != "" {
			h = strings.Replace(hostile, field("cap:x"), `"`+id+`"`, 1)
		}
		answers(200, "application/json", `{"catalog_revision":1,"capabilities":[{"capability":`+h+`}],"next_cursor":null}`)(w, r)
	}, plainPage)
	w := newWorld(t, f.url)
	list := w.run("capability", "list")
	screen := w.run("capability", "describe", "cap:any:thing")
	if list.code != 0 || screen.code != 0 {
		t.Fatalf("%d %d %s%s", list.code, screen.code, list.stderr, screen.stderr)
	}
	for name, text := range map[string]string{"list": list.stdout, "describe": screen.stdout} {
		for _, r := range text {
			if unicode.IsControl(r) && r != '\n' || r == '\u202e' {
				t.Errorf("%s prints %U", name, r)
			}
		}
	}
	for _, word := range []string{
		"DESCRIPTION", "KIND", "RISK", "STABILITY", "SCHEME", "SOURCE", "METHOD", "PATH", "FIELD", "TYPE", "MEANING", "PATTERN", "NEEDED", "ONE",
		"EFFECT", "KEY", "SCOPE", "EXPECTED", "SAFETY", "SENSITIVITY", "SELECTOR", "EVIDENCE", "COMPENSATION",
	} {
		if flat := strings.Join(strings.Fields(screen.stdout), ""); !strings.Contains(flat, word+`\x1b`) {
			t.Errorf("%s is not shown with its control: %s", word, screen.stdout)
		}
	}
	if !strings.Contains(screen.stdout, `"ENUM\u001b]`) { // as JSON writes it
		t.Errorf("the words of an enum are not shown: %s", screen.stdout)
	}
	if !strings.Contains(list.stdout, `cap:x\x1b`) {
		t.Errorf("the id is not shown: %s", list.stdout)
	}
	var rec struct{ Capability struct{ Description string } }
	doc := w.run("capability", "describe", "cap:any:thing", "-o", "json")
	if err := json.Unmarshal([]byte(doc.stdout), &rec); err != nil || rec.Capability.Description != "DESCRIPTION\x1b]52;c;AAAA\a\u009b31m\r\n\u202e" {
		t.Errorf("%v %q", err, rec.Capability.Description)
	}
}

// TestASignalIsNoAnswerOfADaemon: who leaves a reading that hangs learns nothing
// about the daemon, and is told nothing.
func TestASignalIsNoAnswerOfADaemon(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"list"}, {"describe", "cap:hermes_agent:demo:chat_stream"}} {
		ctx, leave := context.WithCancelCause(t.Context())
		f := newFront(t, func(_ http.ResponseWriter, r *http.Request) {
			leave(fault.New(fault.Interrupt, "signal", "interrupt received"))
			<-r.Context().Done()
		}, hangs)
		got := newWorld(t, f.url).runContext(ctx, append([]string{"capability"}, args...)...)
		if got.code != 130 || got.stderr != "aipctl: interrupt received\n" {
			t.Errorf("%q: %d %s", args, got.code, got.stderr)
		}
	}
}
