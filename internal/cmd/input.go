package cmd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/state"
	"github.com/go-json-experiment/json/jsontext"
)

// inputError begins a refusal before anything is sent.
func inputError(code, format string, args ...any) hintless {
	return usageError("input."+code, format, args...)
}

// The right forms, as hints spell them.
const (
	chatForm      = `write {"prompt":"…","session_id":"…"} or {"messages":[{"role":"user","content":"…"}],"session_id":"…"}`
	responsesForm = `write {"body":{"input":"…","store":true}}, where input is a text, or an array of texts or messages`
	historyForm   = `write "conversation_history":[{"role":"user","content":"…"},…]`
)

// readSource reads JSON or text given inline, as @FILE, or as - for stdin.
// The size bound is the envelope's: more than that can never be sent.
func (r *run) readSource(value, flag string) ([]byte, error) {
	var src io.Reader
	switch {
	case value == "-":
		src = r.Stdin
	case strings.HasPrefix(value, "@@") && flag == "prompt":
		return []byte(value[1:]), nil
	case strings.HasPrefix(value, "@"):
		name := value[1:]
		if name == "" {
			return nil, inputError("file", "--%s @ names no file", flag).WithHint("write the path behind the @, as in --%s @request.json", flag)
		}
		f, err := os.Open(name)
		if err != nil {
			return nil, inputError("file", "the file of --%s cannot be read: %s", flag, fileReason(err)).WithHint("check the path after the @")
		}
		defer f.Close()
		src = f
	default:
		return []byte(value), nil
	}
	raw, err := io.ReadAll(io.LimitReader(src, aip.MaxEnvelopeBytes+1))
	if err != nil {
		return nil, inputError("file", "the input of --%s cannot be read: %s", flag, fileReason(err)).WithHint("give a file that can be read, or - for stdin")
	}
	if len(raw) > aip.MaxEnvelopeBytes {
		return nil, inputError("too_large", "the input is larger than the 2 MiB that a daemon takes").WithHint("shorten it; the envelope around it counts too")
	}
	return raw, nil
}

func fileReason(err error) string {
	var pe *os.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return "it failed to read"
}

// promptInput builds the smallest right input for a prompt.
func promptInput(operation string, prompt []byte) ([]byte, error) {
	if !utf8.Valid(prompt) {
		return nil, inputError("utf8", "the prompt is not valid UTF-8").WithHint("convert it, for example with iconv -t UTF-8")
	}
	if strings.TrimSpace(string(prompt)) == "" {
		return nil, inputError("blank", "the prompt is blank, which the connector refuses").WithHint("give --prompt a text, @FILE, or - for stdin")
	}
	q, err := jsontext.AppendQuote(nil, string(prompt))
	if err != nil {
		return nil, inputError("utf8", "the prompt cannot be written as JSON").WithHint("give the whole input with --input")
	}
	switch operation {
	case "chat", "chat_stream":
		return fmt.Appendf(nil, `{"prompt":%s}`, q), nil
	case "responses", "responses_stream":
		return fmt.Appendf(nil, `{"body":{"input":%s,"store":true}}`, q), nil
	}
	return nil, inputError("prompt", "--prompt builds inputs for chat and responses operations only").
		WithHint("give the whole input with --input")
}

// inputFacts is what the intent keeps of an input, and what a person should
// be warned of.
type inputFacts struct {
	sessionID, sessionKey string
	conversation          string
	previousResponseID    string
	responseID            string // the stored response to read or delete
	store                 *bool
	maxEvents             *uint64
	warnings              []string
}

type members = map[string]jsontext.Value

// checkInput refuses what no daemon or provider would take, before anything
// is sent, and gathers what the intent records.
func checkInput(operation string, input []byte) (*inputFacts, error) {
	if !utf8.Valid(input) {
		return nil, inputError("utf8", "the input is not valid UTF-8, which JSON has to be").WithHint("convert it, for example with iconv -t UTF-8")
	}
	v := jsontext.Value(bytes.TrimSpace(input))
	if !aip.Valid(v) {
		return nil, inputError("json", "the input is not one valid JSON value").WithHint("check it with a JSON tool; --prompt takes plain text")
	}
	if v.Kind() != '{' {
		return nil, inputError("object", "the input is no JSON object, which is all that an action takes").WithHint("write {…} around its members; --prompt takes plain text")
	}
	m := aip.Members(v)
	facts := &inputFacts{}
	if _, ok := m["_aip"]; ok {
		return nil, inputError("reserved", "the input has a key _aip, which belongs to the runtime").WithHint("leave the key out")
	}
	for _, holder := range []members{m, aip.Members(m["body"])} {
		if _, ok := holder["idempotency_key"]; ok {
			return nil, inputError("idempotency_key", "the input has an idempotency_key of its own").WithHint("give it with --idempotency-key; it belongs to the action")
		}
	}
	if err := checkSessions(m, facts); err != nil {
		return nil, err
	}
	if err := checkMaxEvents(m, facts); err != nil {
		return nil, err
	}
	warnCredentials(v, facts)
	switch operation {
	case "chat", "chat_stream":
		return facts, checkChat(m, facts)
	case "responses", "responses_stream":
		return facts, checkResponses(m, facts)
	case "response_get", "response_delete":
		facts.responseID = responseIDOf(m)
	}
	return facts, nil
}

// responseIDOf finds the id where the connector does: at the top, else inside
// body.
func responseIDOf(m members) string {
	if id, _ := aip.Unquote(m["response_id"]); id != "" {
		return id
	}
	id, _ := aip.Unquote(aip.Member(m["body"], "response_id"))
	return id
}

var visibleASCII = regexp.MustCompile(`^[!-~]+$`)

func checkSessions(m members, facts *inputFacts) error {
	for _, name := range []string{"session_id", "session_key"} {
		v, ok := m[name]
		if !ok {
			continue
		}
		s, isString := aip.Unquote(v)
		wrong := ""
		switch {
		case !isString:
			wrong = "is no string"
		case s == "":
			wrong = "is empty"
		case len(s) > 256:
			wrong = fmt.Sprintf("has %d bytes; the provider takes 256 characters", len(s))
		case !visibleASCII.MatchString(s):
			wrong = "is not visible ASCII"
		}
		if wrong != "" {
			return inputError("session", "%s %s; it travels in an HTTP header", name, wrong).
				WithHint(`write "%s":"…" with 1 to 256 visible ASCII characters and no space, or leave it out`, name)
		}
		if name == "session_id" {
			facts.sessionID = s
		} else {
			facts.sessionKey = s
		}
	}
	return nil
}

func checkMaxEvents(m members, facts *inputFacts) error {
	v, ok := m["max_events"]
	if !ok {
		return nil
	}
	var n uint64
	if _, err := fmt.Sscanf(string(v), "%d", &n); err != nil || fmt.Sprint(n) != string(v) || n < 1 || n > 100000 {
		return inputError("max_events", "max_events is no whole number from 1 to 100000, which is all that the connector takes").
			WithHint(`write "max_events":4096, or leave it out for as many`)
	}
	facts.maxEvents = &n
	if n < 256 {
		facts.warnings = append(facts.warnings, fmt.Sprintf("max_events %d is low: a stream that reaches it is cut, and its last frame is lost as evidence", n))
	}
	return nil
}

func checkChat(m members, facts *inputFacts) error {
	var present []string
	for _, name := range []string{"prompt", "query", "messages"} {
		if _, ok := m[name]; ok {
			present = append(present, name)
		}
	}
	if len(present) != 1 {
		return inputError("branch", "a chat input has exactly one of prompt, query and messages, not %d; the daemon's schema refuses anything else", len(present)).
			WithHint(chatForm)
	}
	if name := present[0]; name != "messages" {
		s, ok := aip.Unquote(m[name])
		if !ok {
			return inputError("branch", "%s is no string, which the daemon's schema refuses", name).WithHint(chatForm)
		}
		if strings.TrimSpace(s) == "" {
			return inputError("blank", "%s is blank, which the connector refuses", name).WithHint(chatForm)
		}
	} else {
		list, ok := aip.Elements(m[name])
		if !ok || len(list) == 0 {
			return inputError("branch", "messages is no array with at least one message, which the daemon's schema refuses").WithHint(chatForm)
		}
		for i, e := range list {
			if e.Kind() != '{' {
				return inputError("branch", "messages[%d] is no message object, which the provider refuses", i).WithHint(chatForm)
			}
		}
		if role, _ := aip.Unquote(aip.Members(list[len(list)-1])["role"]); role != "user" {
			facts.warnings = append(facts.warnings, "the last message is not the user's; the provider takes the last user or assistant message as the question")
		}
		if facts.sessionID != "" && len(list) > 1 {
			facts.warnings = append(facts.warnings, "session_id is given together with earlier messages: the provider takes its own transcript and leaves these out")
		}
	}
	if v, ok := m["max_tokens"]; ok && strings.HasPrefix(string(v), "-") {
		return inputError("max_tokens", "max_tokens is below 0, which the connector refuses").WithHint(`write "max_tokens":1024, or leave it out`)
	}
	if facts.sessionID == "" {
		facts.warnings = append(facts.warnings, "there is no session_id: the provider derives one that never comes back, so this conversation cannot be continued")
	}
	return nil
}

// controls belong beside the body, where the connector turns them into
// headers; inside it they reach the provider as JSON.
var controls = []string{"session_id", "session_key", "max_events"}

func checkResponses(m members, facts *inputFacts) error {
	body := m
	if raw, ok := m["body"]; ok {
		if raw.Kind() != '{' {
			return inputError("body", "body is no JSON object, and it is all that reaches the provider").WithHint(responsesForm)
		}
		body = aip.Members(raw)
		for _, name := range controls {
			if _, inside := body[name]; inside {
				return inputError("body", "%s stands inside body, where the connector does not read it", name).
					WithHint(`write {"body":{"input":…,"store":true},"%s":…}`, name)
			}
		}
		for name := range m {
			if name != "body" && name != "session_id" && name != "session_key" && name != "max_events" {
				facts.warnings = append(facts.warnings, "keys beside body other than controls do not reach the provider")
				break
			}
		}
	} else {
		for _, name := range controls {
			if _, ok := m[name]; ok {
				return inputError("body", "%s without a body would be sent to the provider as JSON", name).
					WithHint(`write {"body":{"input":…,"store":true},"%s":…}`, name)
			}
		}
	}
	if err := checkResponsesInput(body, facts); err != nil {
		return err
	}
	if err := checkHistory(body, facts); err != nil {
		return err
	}
	facts.store = storeOf(body["store"])
	return nil
}

func checkResponsesInput(body members, facts *inputFacts) error {
	v, ok := body["input"]
	if !ok {
		return inputError("responses", "the responses body has no input, which the provider requires").WithHint(responsesForm)
	}
	if s, isString := aip.Unquote(v); isString {
		if strings.TrimSpace(s) == "" {
			return inputError("blank", "input is blank, which the provider refuses").WithHint(responsesForm)
		}
		return nil
	}
	list, isArray := aip.Elements(v)
	if !isArray {
		return inputError("responses", "input is neither a string nor an array of strings or messages, which the provider refuses").WithHint(responsesForm)
	}
	if len(list) == 0 {
		return inputError("responses", "input is empty, which the provider refuses").WithHint(responsesForm)
	}
	for i, e := range list {
		if k := e.Kind(); k != '"' && k != '{' {
			return inputError("responses", "input[%d] is neither a string nor a message, which the provider refuses", i).WithHint(responsesForm)
		}
	}
	lastItem := list[len(list)-1]
	if role, _ := aip.Unquote(aip.Members(lastItem)["role"]); lastItem.Kind() == '{' && role != "user" {
		facts.warnings = append(facts.warnings, "the last item of input is not the user's; the provider takes it as the question all the same")
	}
	return nil
}

func checkHistory(body members, facts *inputFacts) error {
	facts.conversation, _ = aip.Unquote(body["conversation"])
	facts.previousResponseID, _ = aip.Unquote(body["previous_response_id"])
	if present(body["conversation"]) && present(body["previous_response_id"]) {
		return inputError("responses", "conversation and previous_response_id stand together, which the provider refuses").WithHint("name one of them; a conversation goes on from its own last response")
	}
	v, ok := body["conversation_history"]
	if !ok || v.Kind() == 'n' {
		return nil
	}
	list, isArray := aip.Elements(v)
	if !isArray {
		return inputError("responses", "conversation_history is no array, which the provider refuses").WithHint(historyForm)
	}
	for i, e := range list {
		entry := aip.Members(e)
		if !present(entry["role"]) || !present(entry["content"]) {
			return inputError("responses", "conversation_history[%d] has no role or no content, which the provider refuses", i).WithHint(historyForm)
		}
	}
	if facts.previousResponseID != "" {
		facts.warnings = append(facts.warnings, "conversation_history is given beside previous_response_id: the provider takes the history and leaves the chain out")
	}
	return nil
}

func present(v jsontext.Value) bool { return len(v) > 0 && v.Kind() != 'n' }

// storeOf reads store as the provider does: booleans, their usual words,
// numbers; anything else is the default, true.
func storeOf(v jsontext.Value) *bool {
	b := true
	s, _ := aip.Unquote(v)
	switch {
	case v.Kind() == 'f', v.Kind() == '0' && string(v) == "0":
		b = false
	}
	switch strings.ToLower(s) {
	case "false", "0", "no", "off":
		b = false
	}
	return &b
}

var credentialKey = regexp.MustCompile(`(?i)(^|[_-])(password|passwd|secret|token|credential|credentials|api[_-]?key|apikey|private[_-]?key|authorization|cookie)$`)

// warnCredentials looks for keys that look like credentials, at any depth.
func warnCredentials(v jsontext.Value, facts *inputFacts) {
	dec := jsontext.NewDecoder(bytes.NewReader(v), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for {
		tok, err := dec.ReadToken()
		if err != nil {
			return
		}
		if tok.Kind() != '"' {
			continue
		}
		depth := dec.StackDepth()
		kind, length := dec.StackIndex(depth)
		if kind == '{' && length%2 == 1 && credentialKey.MatchString(tok.String()) {
			facts.warnings = append(facts.warnings, "the input has keys that look like credentials; the provider and its tools can read them")
			return
		}
	}
}

// warnConversation speaks up when a conversation name is new to this state
// file: the provider would silently begin a new chain.
func (f *inputFacts) warnConversation(view *state.View) {
	if f.conversation == "" || view == nil {
		return
	}
	for _, a := range view.Actions() {
		if a.Intent != nil && a.Intent.Conversation == f.conversation {
			return
		}
	}
	f.warnings = append(f.warnings, "this state file has not seen the conversation before; if the provider has not either, it silently begins a new one")
}

// memberNames returns the names of an object in a stable order.
func memberNames(v jsontext.Value) []string {
	return slices.Sorted(maps.Keys(aip.Members(v)))
}
