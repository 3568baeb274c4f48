package verdict

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/aiptest"
	"github.com/aipctl/aipctl/internal/fault"
)

func reader(s string) io.Reader { return strings.NewReader(s) }

// protocolError writes the error object of a row.
func protocolError(code, category, uncertain, remoteStatus string) string {
	var details []string
	if uncertain != "" {
		details = append(details, `"uncertain_outcome":`+uncertain)
	}
	if remoteStatus != "" {
		details = append(details, `"remote_status":`+remoteStatus)
	}
	return fmt.Sprintf(`{"code":%q,"message":"canary","category":%q,"details":{%s}}`, code, category, strings.Join(details, ","))
}

// TestCodes holds the reading of every family of error codes against the
// table, once with nothing but the result and once beside a stream that would
// be accepted: no good stream softens a failed result.
func TestCodes(t *testing.T) {
	for _, row := range aiptest.Table(t, "codes.tsv") {
		code, status, operation := row.Get("code"), row.Get("status"), row.Get("operation")
		uncertain, remote, named := row.Get("uncertain_outcome"), row.Get("remote_status"), row.Get("last_named")
		t.Run(strings.Join([]string{code, status, operation, uncertain, remote, named}, "/"), func(t *testing.T) {
			body := fmt.Sprintf(`{"action_id":"act_1","status":%q}`, status)
			if code != "" {
				body = fmt.Sprintf(`{"action_id":"act_1","status":%q,"error":%s}`, status, protocolError(code, "connector", uncertain, remote))
			}
			res := result(t, body)
			word, exit := row.Get("verdict"), row.Get("exit_code")

			alone := Evidence{Operation: operation, Result: res}
			alone.Facts.Named = named
			want(t, Judge(alone).Verdict, word, exit)

			beside := good(operation)
			res.Output = beside.Result.Output
			beside.Result = res
			if named != "" {
				beside.Facts.Named = named
			}
			j := Judge(beside)
			want(t, j.Verdict, word, exit)
			if j.Checks.AIPStatus == Pass {
				t.Error("aip_status passed for a result that is not completed")
			}
			if status == aip.StatusFailed {
				want(t, ReadCode(res.Error, CodeContext{Operation: operation, LastNamed: named}), word, exit)
			}
		})
	}
}

var (
	dateWords = regexp.MustCompile(`^Date (\d+) s (ahead of|behind) ours$`)
	pairWords = regexp.MustCompile(`^(remote_status|uncertain_outcome) (\w+)(?: of (\w+))?$`)
)

// categories are the daemon's own for each HTTP status.
var categories = map[int]string{400: "permanent", 401: "auth", 402: "economic", 403: "policy", 502: "connector", 503: "temporary", 200: "transport"}

// answerOf plays a row of the table of answers: what the client's rooms make
// of such an answer, and the operation it was given to.
func answerOf(t *testing.T, row aiptest.Row) (Answer, CodeContext) {
	t.Helper()
	now := time.Date(2030, 1, 15, 9, 30, 0, 0, time.UTC)
	a, cx := Answer{Now: now}, CodeContext{Operation: "chat_stream"}
	status, _ := strconv.Atoi(row.Get("http_status"))
	extra, code := row.Get("extra"), row.Get("code")
	if status == 0 {
		switch extra {
		case "connection refused", "name does not resolve", "tls handshake refused":
			a.NoConnection = true
		case "request read, then closed without an answer", "reset after the request left", "no answer before --wait ran out":
			a.Lost = true
		default:
			t.Fatalf("the test does not know how to play %q", extra)
		}
		return a, cx
	}
	remote := &aip.RemoteError{Status: status, Date: now}
	var uncertain, remoteStatus string
	for _, words := range strings.Split(extra, ", ") {
		switch date, pair := dateWords.FindStringSubmatch(words), pairWords.FindStringSubmatch(words); {
		case date != nil:
			n, _ := strconv.Atoi(date[1])
			if date[2] == "behind" {
				n = -n
			}
			remote.Date = now.Add(time.Duration(n) * time.Second)
		case pair != nil && pair[1] == "remote_status":
			remoteStatus = pair[2]
			if pair[3] != "" {
				cx.Operation = pair[3]
			}
		case pair != nil:
			uncertain = pair[2]
		case words == "Location names another place":
			remote.Redirect = "https://elsewhere.example"
		case words == "Date within the window", words == "no details", words == "an error object that is no AIP body",
			words == "a page of something on the way", words == "a sign-in page", words == "error envelope inside 200",
			words == "the words runtime.handler_failed inside a page", words == "body ends inside the JSON",
			words == "Retry-After 1", words == "":
		default:
			t.Fatalf("the test does not know how to play %q", words)
		}
	}
	body, contentType := "", "application/json"
	switch row.Get("body") {
	case "aip":
		body = `{"aip_version":"1.0","message_type":"aip.core.v1.error","message_id":"msg_1","body":{"error":{"error":` +
			protocolError(code, categories[status], uncertain, remoteStatus) + `}}}`
	case "json":
		body = `{"error":{"code":"catalogue.disabled","message":"canary"}}`
	case "html":
		body, contentType = "<html><body>runtime.handler_failed</body></html>", "text/html"
	case "text":
		body, contentType = "runtime.handler_failed", "text/plain"
	case "cut":
		a.Lost = true
		return a, cx
	case "none":
		contentType = ""
	default:
		t.Fatalf("the test does not know a body of the kind %q", row.Get("body"))
	}
	remote.Proto, remote.Form = aip.DecodeError(contentType, []byte(body))
	remote.ContentType = contentType
	a.Remote = remote
	return a, cx
}

// TestSubmitAnswers holds the reading of every kind of answer to the submit
// against the table.
func TestSubmitAnswers(t *testing.T) {
	for _, row := range aiptest.Table(t, "submit_answers.tsv") {
		name := strings.Join([]string{row.Get("http_status"), row.Get("body"), row.Get("code"), row.Get("extra")}, "/")
		t.Run(name, func(t *testing.T) {
			got := ReadSubmit(answerOf(t, row))
			if got.NotSent != (row.Get("not_sent") == "yes") {
				t.Errorf("not sent %v, want %q", got.NotSent, row.Get("not_sent"))
			}
			if got.Closed != (row.Get("closed") == "yes") {
				t.Errorf("closed %v, want %q", got.Closed, row.Get("closed"))
			}
			if row.Get("reading") == "uncertain" {
				if got.Settled || got.Reading != fault.Unknown {
					t.Errorf("read as %+v, want uncertain", got)
				}
				return
			}
			if !got.Settled {
				t.Errorf("read as uncertain, want %s", row.Get("reading"))
			}
			want(t, got.Reading, row.Get("reading"), row.Get("exit_code"))
		})
	}
}

// TestAnAnswerNotNamedProvesNothing goes through every HTTP status: none but
// those of the table may say that nothing ran.
func TestAnAnswerNotNamedProvesNothing(t *testing.T) {
	proofs := map[int]Reading{
		300: fault.Unavailable, 400: fault.Rejected, 401: fault.Auth, 402: fault.Rejected, 403: fault.Rejected,
		404: fault.Unavailable, 413: fault.Rejected, 415: fault.Rejected, 422: fault.Rejected,
	}
	for status := 100; status < 600; status++ {
		for _, form := range []aip.Form{aip.FormEmpty, aip.FormText, aip.FormHTML, aip.FormJSON, aip.FormPlain} {
			got := ReadSubmit(Answer{Remote: &aip.RemoteError{Status: status, Form: form}}, CodeContext{})
			key := status
			if status >= 300 && status < 400 {
				key = 300
			}
			reading, proof := proofs[key]
			switch {
			case proof && (!got.Settled || !got.NotSent || got.Reading != reading):
				t.Errorf("%d %s is read as %+v, want %s", status, form, got, reading)
			case !proof && (got.Settled || got.NotSent || got.Closed || got.Reading != fault.Unknown):
				t.Errorf("%d %s is read as %+v, want uncertain", status, form, got)
			}
		}
	}
	if got := ReadSubmit(Answer{Lost: true}, CodeContext{}); got.Settled || got.NotSent {
		t.Errorf("a lost answer is read as %+v", got)
	}
	if got := ReadSubmit(Answer{}, CodeContext{}); got.Settled || got.NotSent {
		t.Errorf("no answer at all is read as %+v", got)
	}
}

// TestOnlyADaemonsOwnErrorSpeaksForIt gives codes that decide to bodies that
// no daemon wrote.
func TestOnlyADaemonsOwnErrorSpeaksForIt(t *testing.T) {
	for _, code := range []string{"runtime.handler_failed", "connector.hermes_agent.transport", "resource.not_found", "replay.message_id"} {
		r := &aip.RemoteError{Status: http.StatusBadGateway, Form: aip.FormPlain, Proto: &aip.ProtocolError{Code: code}}
		if got := ReadSubmit(Answer{Remote: r}, CodeContext{}); got.Settled {
			t.Errorf("%s of something on the way is read as %+v", code, got)
		}
	}
}

// TestAnErrorInsideA200ReadsAsItsCategory does: the daemon gives a status to
// some errors only, but a category to all.
func TestAnErrorInsideA200ReadsAsItsCategory(t *testing.T) {
	for category, want := range map[string]Reading{
		"auth": fault.Auth, "policy": fault.Rejected, "economic": fault.Rejected, "permanent": fault.Rejected,
		"connector": fault.Unknown, "temporary": fault.Unknown, "transport": fault.Unknown, "never_seen": fault.Unknown, "": fault.Unknown,
	} {
		r := &aip.RemoteError{Status: 200, Form: aip.FormEnvelope, Proto: &aip.ProtocolError{Code: "example.never_seen", Category: category}}
		got := ReadSubmit(Answer{Remote: r}, CodeContext{})
		if got.Reading != want || got.Settled != (want != fault.Unknown) || got.NotSent != got.Settled || got.Closed {
			t.Errorf("category %q is read as %+v, want %s", category, got, want)
		}
	}
	// Without an error in it, a 200 that is no reply proves nothing.
	if got := ReadSubmit(Answer{Remote: &aip.RemoteError{Status: 200, Form: aip.FormHTML}}, CodeContext{}); got.Settled {
		t.Errorf("a page is read as %+v", got)
	}
}

// TestTheReplayWindow holds the clock rule: an envelope is refused when it
// was sent more than 300 s ago or more than 30 s ahead by the daemon's clock,
// and at exactly these it is not.
func TestTheReplayWindow(t *testing.T) {
	now := time.Date(2030, 1, 15, 9, 30, 0, 0, time.UTC)
	for _, tc := range []struct {
		rule     string
		ahead    time.Duration
		rejected bool
	}{
		{"the clocks agree", 0, false},
		{"exactly at the past end", 300 * time.Second, false},
		{"past the past end", 301 * time.Second, true},
		{"exactly at the future end", -30 * time.Second, false},
		{"past the future end", -31 * time.Second, true},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			r := &aip.RemoteError{Status: 401, Form: aip.FormEnvelope, Proto: &aip.ProtocolError{Code: "replay.message_id", Category: "auth"}, Date: now.Add(tc.ahead)}
			got := ReadSubmit(Answer{Remote: r, Now: now}, CodeContext{})
			if got.NotSent != tc.rejected || (got.Reading == fault.Rejected) != tc.rejected {
				t.Errorf("read as %+v", got)
			}
			if tc.rejected && got.Skew != tc.ahead {
				t.Errorf("the skew is said to be %s", got.Skew)
			}
		})
	}
	r := &aip.RemoteError{Status: 401, Form: aip.FormEnvelope, Proto: &aip.ProtocolError{Code: "replay.message_id", Category: "auth"}}
	if got := ReadSubmit(Answer{Remote: r, Now: now}, CodeContext{}); got.Settled {
		t.Errorf("without a Date header it is read as %+v", got)
	}
}
