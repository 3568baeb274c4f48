package client

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aipctl/aipctl/internal/aip"
)

// TestAnswersThatAreNoneOfOurs: every route ends in one clear error, whatever
// stands between us and the daemon.
func TestAnswersThatAreNoneOfOurs(t *testing.T) {
	for _, tc := range []struct {
		rule   string
		h      http.HandlerFunc
		form   aip.Form // of the answer, where it is read as one
		follow aip.Form // of the answer to a follow
	}{
		{"204", answer(204, "", ""), "", aip.FormEmpty},
		{"nothing", answer(200, "", ""), "", aip.FormText},
		{"nothing that calls itself JSON", answer(200, "application/json", ""), "", aip.FormJSON},
		{"a page", answer(200, "text/html; charset=utf-8", "<html>"+canary+"</html>"), aip.FormHTML, aip.FormHTML},
		{"a page that calls itself JSON", answer(200, "application/json", "<html>"+canary+"</html>"), "", aip.FormJSON},
		{"text", answer(200, "text/plain", canary), aip.FormText, aip.FormText},
		{"text without a type", answer(200, "", canary), "", aip.FormText},
		{"an event stream", answer(200, "text/event-stream", "data: "+canary+"\n\n"), aip.FormText, ""},
		{"an event stream in a 202", answer(202, "text/event-stream", "data: "+canary+"\n\n"), aip.FormText, aip.FormText},
		{"somebody's JSON", answer(200, "application/json", `{"`+canary+`":1}`), "", aip.FormJSON},
		{"a JSON array", answer(200, "application/json", `["`+canary+`"]`), "", aip.FormJSON},
		{"JSON that breaks off", answer(200, "application/json", `{"action_status":{"state":"`+canary), "", aip.FormJSON},
		{"JSON with an odd byte", answer(200, "application/json", `{"action_status":{"state":`+canary+`}}`), "", aip.FormJSON},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			c := open(t, serve(t, tc.h), nil)
			for _, call := range calls {
				err := call.do(t.Context(), c)
				quiet(t, err)
				switch {
				case call.name == "cancel" && tc.form == "" && err == nil:
					// An acknowledgement is whatever JSON answers with success.
					if !strings.Contains(tc.rule, "JSON") {
						t.Error("cancel is acknowledged")
					}
				case call.name == "follow" && tc.follow == "":
					if err != nil {
						t.Errorf("follow: %v", err)
					}
				case err == nil:
					t.Errorf("%s takes it", call.name)
				case call.name == "follow":
					if re := remote(t, err); re.Form != tc.follow || !re.NotStream {
						t.Errorf("follow: %+v", re)
					}
				case tc.form != "":
					if re := remote(t, err); re.Form != tc.form || re.Proto != nil {
						t.Errorf("%s: %+v", call.name, re)
					}
				}
			}
		})
	}
}

// TestContentTypesOfJSON: parameters, letter case and a suffix are no reason
// to refuse a body; neither is a type that is left out.
func TestContentTypesOfJSON(t *testing.T) {
	for _, ct := range []string{"application/json", "application/json; charset=utf-8", "Application/JSON", "application/problem+json", "", "nonsense;;"} {
		c := open(t, serve(t, answer(200, ct, result)), nil)
		if r, err := c.Result(t.Context(), "act_1", aip.ResultDecoding{}); err != nil || r.Status != "completed" {
			t.Errorf("%q: %+v (%v)", ct, r, err)
		}
	}
}

// TestBytesThatAreNoHTTP: the library repeats what it cannot read; we do not.
func TestBytesThatAreNoHTTP(t *testing.T) {
	const c = canary
	head := func(more string) string {
		return "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" + more + "\r\n"
	}
	for rule, response := range map[string]string{
		"words":                    c + " " + c + "\r\n\r\n",
		"another protocol":         "SSH-2.0-" + c + "\r\n",
		"a version":                "HTTP/9." + c + " 200 OK\r\n\r\n",
		"a status":                 "HTTP/1.1 " + c + " OK\r\n\r\n",
		"a header without a colon": "HTTP/1.1 200 OK\r\n" + c + "\r\n\r\n",
		"a length":                 head("Content-Length: " + c + "\r\n"),
		"two lengths":              head("Content-Length: 5\r\nContent-Length: 6" + c + "\r\n"),
		"a transfer encoding":      head("Transfer-Encoding: " + c + "\r\n"),
		"a chunk size":             head("Transfer-Encoding: chunked\r\n") + c + "\r\n",
		"a chunk that breaks off":  head("Transfer-Encoding: chunked\r\n") + "400\r\n{\"" + c,
		"a body that breaks off":   head("Content-Length: 400\r\n") + `{"` + c,
		"a chunk that is too long": head("Transfer-Encoding: chunked\r\n") + "4\r\n{\"" + c + "\r\n",
		"half a head":              "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-" + c,
		"nothing":                  "",
	} {
		t.Run(rule, func(t *testing.T) {
			w := plug(t, says(response))
			client := open(t, w.URL, nil)
			for _, call := range calls {
				err := call.do(t.Context(), client)
				quiet(t, err)
				if strings.Contains(rule, "chunk") || strings.Contains(rule, "body") {
					// The head was read: a follow may be content with it,
					// everybody else misses the body.
					if call.name == "follow" {
						continue
					}
				}
				if te := transported(t, err); te.NoConnection {
					t.Errorf("%s: %+v", call.name, te)
				}
			}
		})
	}
}

// TestTheOtherEndOfAConnection tells in our own words how a body ended.
func TestTheOtherEndOfAConnection(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 400\r\n\r\n"
	for _, tc := range []struct {
		rule   string
		handle func(w *wire, c *net.TCPConn, r *bufio.Reader)
		what   string
	}{
		{"closed", says(head + `{"x":`), "the answer was cut"},
		{"reset", func(w *wire, c *net.TCPConn, r *bufio.Reader) {
			w.take(r)
			_, _ = io.WriteString(c, head+`{"x":`)
			reset(c)
		}, "the answer was cut: the connection was reset"},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			w := plug(t, tc.handle)
			c := open(t, w.URL, nil)
			for _, call := range calls[:4] {
				te := transported(t, call.do(t.Context(), c))
				// A reset may overtake the head of the answer.
				if te.Error() != tc.what && te.Error() != "the connection was reset" {
					t.Errorf("%s: %q, want %q", call.name, te.Error(), tc.what)
				}
			}
		})
	}
}

// TestHTTP10 has no length and no chunks: its end is the end of the
// connection, so only the JSON can say whether it is whole.
func TestHTTP10(t *testing.T) {
	const head = "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n"
	whole := plug(t, says(head+result))
	c := open(t, whole.URL, nil)
	if r, err := c.Result(t.Context(), "act_1", aip.ResultDecoding{}); err != nil || r.Status != "completed" {
		t.Errorf("%+v (%v)", r, err)
	}
	if r, err := c.Submit(t.Context(), []byte(`{}`), nil, aip.ResultDecoding{}); err != nil || r.Result == nil {
		t.Errorf("%+v (%v)", r, err)
	}
	for n := range len(result) {
		cut := plug(t, says(head+result[:n]))
		if _, err := open(t, cut.URL, nil).Result(t.Context(), "act_1", aip.ResultDecoding{}); err == nil {
			t.Fatalf("a result of %d bytes of %d is taken for one", n, len(result))
		}
	}
	stream := plug(t, says("HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n"))
	body, err := open(t, stream.URL, nil).Follow(t.Context(), aip.EventsQuery{ActionID: "act_1"})
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if got, err := io.ReadAll(body); string(got) != "data: 1\n\n" || err != nil {
		t.Errorf("%q (%v)", got, err)
	}
}

func TestRefusals(t *testing.T) {
	const envelope = `{"body":{"error":{"error":{"code":"storage.unavailable","message":"` + canary + `","category":"temporary","retry_after_ms":2500,"details":{"x":"` + canary + `"}}}}}`
	date := time.Date(2030, 1, 15, 9, 30, 0, 0, time.UTC)
	for _, tc := range []struct {
		rule, contentType, body, retry string
		form                           aip.Form
		code                           string
		wait                           time.Duration
	}{
		{"an envelope", "application/json", envelope, "", aip.FormEnvelope, "storage.unavailable", 2500 * time.Millisecond},
		{"the longer of two waits", "application/json", envelope, "9", aip.FormEnvelope, "storage.unavailable", 9 * time.Second},
		{"the catalogue's form", "application/json", `{"error":{"code":"connector_catalog.disabled"}}`, "1", aip.FormPlain, "connector_catalog.disabled", time.Second},
		{"a page", "text/html", "<html>" + canary, "86401", aip.FormHTML, "", 24 * time.Hour},
		{"words", "text/plain; charset=utf-8", canary, "4294967296", aip.FormText, "", 0},
		{"a huge wait", "text/plain", canary, "9223372036854775807", aip.FormText, "", 0},
		{"a wait below zero", "text/plain", canary, "-5", aip.FormText, "", 0},
		{"half a second", "text/plain", canary, "0.5", aip.FormText, "", 0},
		{"a wait until a date", "text/plain", canary, "Tue, 15 Jan 2030 10:00:00 GMT", aip.FormText, "", 0},
		{"somebody's JSON", "application/json", `{"detail":"` + canary + `"}`, "", aip.FormJSON, "", 0},
		{"nothing", "", "", "", aip.FormEmpty, "", 0},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Date", date.Format(http.TimeFormat))
				if tc.retry != "" {
					w.Header().Set("Retry-After", tc.retry)
				}
				answer(503, tc.contentType, tc.body)(w, r)
			})
			c := open(t, url, nil)
			for _, call := range calls[:6] { // a 503 of the readiness is no error
				err := call.do(t.Context(), c)
				quiet(t, err)
				re := remote(t, err)
				if re.Status != 503 || re.Form != tc.form || re.Code() != tc.code || re.Retry != tc.wait || !re.Date.Equal(date) || re.Redirect != "" || re.NotStream {
					t.Errorf("%s: %+v", call.name, re)
				}
			}
		})
	}
	t.Run("without a clock", func(t *testing.T) {
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header()["Date"] = nil
			answer(401, "", "")(w, r)
		})
		if re := remote(t, submitCall().do(t.Context(), open(t, url, nil))); !re.Date.IsZero() {
			t.Errorf("the date is %s", re.Date)
		}
	})
}

// TestAnErrorBodyIsReadInPart: one of any length ends in one error.
func TestAnErrorBodyIsReadInPart(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(500)
		for range 400 {
			if _, err := io.WriteString(w, strings.Repeat(canary, 2000)); err != nil {
				return
			}
		}
	})
	err := submitCall().do(t.Context(), open(t, url, nil))
	quiet(t, err)
	if re := remote(t, err); re.Form != aip.FormText {
		t.Errorf("%+v", re)
	}
}

// TestAResultIsGivenFrameByFrame, and an error of the taker ends the reading.
func TestAResultIsGivenFrameByFrame(t *testing.T) {
	body := `{"action_result":{"status":"completed","output":{"events":[{"data":1},{"data":2}],"terminal":true}}}`
	c := open(t, serve(t, answer(200, "application/json", body)), nil)
	var got []string
	res, err := c.Result(t.Context(), "act_1", aip.ResultDecoding{OnFrame: func(i int, f aip.Frame) error {
		got = append(got, fmt.Sprint(i, " ", string(f.Data)))
		return nil
	}})
	if err != nil || res.Output.Events != 2 || strings.Join(got, ",") != "0 1,1 2" {
		t.Errorf("%+v (%v), frames %q", res, err, got)
	}
	enough := errors.New("enough")
	if _, err := c.Result(t.Context(), "act_1", aip.ResultDecoding{OnFrame: func(int, aip.Frame) error { return enough }}); !errors.Is(err, enough) {
		t.Errorf("the error is %v", err)
	}
}
