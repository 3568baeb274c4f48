package aiptest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const followPath = "/aip/v1/actions/act_x/events?include_chunks=true&follow=true"

// writeCase makes a case folder of the given files and returns its path.
func writeCase(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// get asks the player over a connection of its own.
func get(t *testing.T, p *Player, target string) *http.Response {
	t.Helper()
	c := &http.Client{Transport: GuardNetwork(t)}
	res, err := c.Get(p.URL() + target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res
}

func readAll(t *testing.T, res *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestEveryPlanOfEveryCaseLoads(t *testing.T) {
	for _, name := range Cases(t) {
		plays, err := filepath.Glob(filepath.Join(CaseDir(t, name), "play*.json"))
		if err != nil || len(plays) == 0 {
			t.Errorf("%s has no plan (%v)", name, err)
		}
		for _, play := range plays {
			p, err := loadPlan(CaseDir(t, name), filepath.Base(play))
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if !strings.HasPrefix(p.ActionID, "act_") {
				t.Errorf("%s %s speaks of action %q", name, filepath.Base(play), p.ActionID)
			}
		}
	}
}

func TestPlanIsRefused(t *testing.T) {
	for name, plan := range map[string]string{
		"unknown key":            `{"action_id":"act_x","follows":[]}`,
		"unknown key in answer":  `{"action_id":"act_x","follow":[{"file":"a"}]}`,
		"missing file":           `{"action_id":"act_x","follow":[{"body":"nowhere.sse"}]}`,
		"unknown end":            `{"action_id":"act_x","follow":[{"end":"explode"}]}`,
		"hang without a number":  `{"action_id":"act_x","follow":[{"end":"hang:long"}]}`,
		"unknown cuts":           `{"action_id":"act_x","follow":[{"cuts":"sometimes"}]}`,
		"tail of three":          `{"action_id":"act_x","follow":[{"tail":[[1,"a","b"]]}]}`,
		"unknown after":          `{"action_id":"act_x","after":"maybe"}`,
		"not JSON":               `follow: []`,
		"answer that is no list": `{"action_id":"act_x","follow":{}}`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := writeCase(t, map[string]string{"play.json": plan})
			if p, err := openCase(dir, "play.json"); err == nil {
				p.Close()
				t.Error("the plan was played")
			}
		})
	}
}

func TestFollowServesTheRecordedBytes(t *testing.T) {
	dir := CaseDir(t, "03-utf8-split")
	want, err := os.ReadFile(filepath.Join(dir, "stream.sse"))
	if err != nil {
		t.Fatal(err)
	}
	for _, cuts := range []any{"whole", "each", "cr", "multibyte", 17, []int{5, 900, 901}} {
		t.Run(fmt.Sprint(cuts), func(t *testing.T) {
			p := PlayCase(t, dir, "play.json", WithCuts(cuts))
			res := get(t, p, followPath)
			if ct := res.Header.Get("Content-Type"); ct != "text/event-stream" {
				t.Errorf("content type %q", ct)
			}
			if got := readAll(t, res); got != string(want) {
				t.Errorf("served %d bytes, want %d", len(got), len(want))
			}
		})
	}
}

// wirePieces asks for the follow stream on a bare connection and returns the
// chunks of the transfer coding, which http.Client would join.
func wirePieces(t *testing.T, p *Player) []string {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(p.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", followPath)
	in := bufio.NewReader(c)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if line == "\r\n" {
			break
		}
	}
	var pieces []string
	for {
		size, err := in.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.ParseInt(strings.TrimSpace(size), 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, n+2)
		if _, err := io.ReadFull(in, b); err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return pieces
		}
		pieces = append(pieces, string(b[:n]))
	}
}

func TestCutsFallWhereTheyAreAsked(t *testing.T) {
	for _, tc := range []struct {
		name string
		body string
		cuts any
		want []string
	}{
		{"whole", "a\r\nä", "whole", []string{"a\r\nä"}},
		{"each byte", "aä", "each", []string{"a", "\xc3", "\xa4"}},
		{"behind every CR", "a\r\nb\r", "cr", []string{"a\r", "\nb\r"}},
		{"inside every character", "aä€", "multibyte", []string{"a\xc3", "\xa4\xe2", "\x82", "\xac"}},
		{"one offset", "abcd", 3, []string{"abc", "d"}},
		{"offsets outside are left out", "abcd", []int{0, 2, 4, 9}, []string{"ab", "cd"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := writeCase(t, map[string]string{
				"s.sse": tc.body, "play.json": `{"action_id":"act_x","follow":[{"body":"s.sse"}]}`,
			})
			got := wirePieces(t, PlayCase(t, dir, "play.json", WithCuts(tc.cuts), WithSpeed(0)))
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// cutShort: the connection was closed in order, the body was not.
func cutShort(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) }

func TestEndingsReachTheClient(t *testing.T) {
	for _, tc := range []struct {
		end  string
		head bool             // an answer comes at all
		body func(error) bool // whether reading its body may end so
	}{
		{"clean", true, func(err error) bool { return err == nil }},
		{"cut", true, cutShort},
		{"reset", true, func(err error) bool { return err != nil && !cutShort(err) }},
		{"hang:0", true, cutShort},
		{"drop", false, nil},
	} {
		t.Run(tc.end, func(t *testing.T) {
			dir := writeCase(t, map[string]string{
				"play.json": `{"action_id":"act_x","follow":[{"text":"ab","end":"` + tc.end + `"}]}`,
			})
			p := PlayCase(t, dir, "play.json", WithSpeed(0))
			res, err := (&http.Client{Transport: GuardNetwork(t)}).Get(p.URL() + followPath)
			if !tc.head {
				if err == nil {
					res.Body.Close()
					t.Fatal("an answer came")
				}
				if n := len(p.Requests(Follow)); n != 1 {
					t.Errorf("%d requests were read, want 1", n)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			b, err := io.ReadAll(res.Body)
			if string(b) != "ab" {
				t.Errorf("read %q before the end", b)
			}
			if !tc.body(err) {
				t.Errorf("body ended with %v", err)
			}
		})
	}
}

func TestStatusZeroResetsWithoutAnAnswer(t *testing.T) {
	p := PlayCase(t, CaseDir(t, "28-delivery-versus-outcome"), "play-c.json")
	res, err := (&http.Client{Transport: GuardNetwork(t)}).Get(p.URL() + followPath)
	if err == nil {
		res.Body.Close()
		t.Fatal("an answer came")
	}
}

func TestHangTellsWhenTheClientLeft(t *testing.T) {
	p := PlayCase(t, CaseDir(t, "34-closed-pipe-and-ctrl-c"), "play-hang.json")
	res := get(t, p, followPath)
	if _, err := io.ReadFull(res.Body, make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	if p.Requests(Follow)[0].PeerClosed {
		t.Error("the client was said to have left while it was reading")
	}
	res.Body.Close()
	if err := p.AwaitPeerClosed(t.Context(), Follow); err != nil {
		t.Error(err)
	}
}

func TestAwaitEndsWithItsContext(t *testing.T) {
	p := PlayCase(t, CaseDir(t, "34-closed-pipe-and-ctrl-c"), "play-hang.json")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Await(ctx, Cancel, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	get(t, p, followPath)
	if err := p.Await(t.Context(), Follow, 1); err != nil {
		t.Error(err)
	}
}

func TestTailFollowsTheBody(t *testing.T) {
	p := PlayCase(t, CaseDir(t, "29-silence-and-sleep"), "play-quiet.json", WithSpeed(0))
	got := readAll(t, get(t, p, followPath))
	if n := strings.Count(got, ": keep-alive\n\n"); n < 20 {
		t.Errorf("%d keep-alives, want six minutes of them", n)
	}
	if !strings.Contains(got, "aip.stream.terminal") {
		t.Error("the rest of the stream is missing")
	}
}

// body asks for a target and returns the status and the body.
func body(t *testing.T, p *Player, target string) string {
	t.Helper()
	res := get(t, p, target)
	return fmt.Sprintf("%d %s", res.StatusCode, readAll(t, res))
}

const listsPlan = `{"action_id":"act_x",%s
 "follow":[{"text":"f0"},{"text":"f1"}], "page":[{"text":"p0"}],
 "status":[{"text":"s0"},{"text":"s1"},{"text":"s2"}], "result":[{"text":"r0"},{"text":"r1"},{"text":"r2"}],
 "post":[{"status":502,"text":"o0"}], "cancel":[{"text":"c0"},{"text":"c1"}]}`

func playLists(t *testing.T, after string) *Player {
	if after != "" {
		after = `"after":"` + after + `",`
	}
	dir := writeCase(t, map[string]string{"play.json": fmt.Sprintf(listsPlan, after)})
	return PlayCase(t, dir, "play.json")
}

func TestLastAnswerRepeats(t *testing.T) {
	p := playLists(t, "")
	got := []string{
		body(t, p, followPath), body(t, p, followPath), body(t, p, followPath),
		body(t, p, "/aip/v1/actions/act_x"), body(t, p, "/aip/v1/manifest"),
		body(t, p, "/aip/v1/actions/act_x"), body(t, p, "/aip/v1/actions/act_x"),
	}
	want := []string{"200 f0", "200 f1", "200 f1", "200 s0", "200 s1", "200 s2", "200 s2"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestAfterTheLastFollow(t *testing.T) {
	p := playLists(t, "404")
	body(t, p, followPath)
	body(t, p, followPath)
	if got := body(t, p, followPath); !strings.HasPrefix(got, "404 ") {
		t.Errorf("after 404: %q", got)
	}
	p = playLists(t, "refuse")
	body(t, p, followPath)
	body(t, p, followPath)
	if res, err := (&http.Client{Transport: GuardNetwork(t)}).Get(p.URL() + followPath); err == nil {
		res.Body.Close()
		t.Error("after refuse: an answer came")
	}
}

func TestPagePastItsListIsEmptyAndKeepsTheCursor(t *testing.T) {
	p := playLists(t, "")
	page := "/aip/v1/actions/act_x/events?cursor=aev_cursor_7_3"
	if got := body(t, p, page); got != "200 p0" {
		t.Errorf("first page %q", got)
	}
	want := `200 {"action_events":{"action_id":"act_x","events":[],"chunks":[],"cursor":"aev_cursor_7_3","terminal":true}}`
	if got := body(t, p, page); got != want {
		t.Errorf("second page %q", got)
	}
}

func TestResultNeverLagsBehindTheStatus(t *testing.T) {
	p := playLists(t, "")
	result := "/aip/v1/actions/act_x/result"
	if got := body(t, p, result); got != "200 r0" {
		t.Errorf("first result %q", got)
	}
	for range 3 {
		body(t, p, "/aip/v1/actions/act_x")
	}
	if got := body(t, p, result); got != "200 r2" {
		t.Errorf("result after the third status %q", got)
	}
}

func TestRequestsAreSortedByKind(t *testing.T) {
	for _, tc := range []struct {
		method, target string
		want           Kind
	}{
		{"GET", "/aip/v1/actions/act_x/events?follow=true", Follow},
		{"GET", "/prefix/aip/v1/actions/act_x/events?cursor=a&follow=1", Follow},
		{"GET", "/aip/v1/actions/act_x/events?follow=false", Page},
		{"GET", "/aip/v1/actions/act_x/events", Page},
		{"GET", "/aip/v1/actions/act_x/chunks?follow=true", Page},
		{"GET", "/aip/v1/actions/act_x/result?wait_ms=1", Result},
		{"GET", "/aip/v1/actions/act_x", Status},
		{"GET", "/aip/v1/capabilities", Status},
		{"POST", "/aip/v1/actions/act_x/cancel", Cancel},
		{"POST", "/aip/v1/messages", Post},
	} {
		if got := kindOf(tc.method, tc.target); got != tc.want {
			t.Errorf("%s %s is %s, want %s", tc.method, tc.target, got, tc.want)
		}
	}
}

func TestRequestIsRecordedWhole(t *testing.T) {
	p := playLists(t, "")
	req, err := http.NewRequest("POST", p.URL()+"/aip/v1/messages?a=b", strings.NewReader(`{"x":1}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer for-a-test")
	res, err := (&http.Client{Transport: GuardNetwork(t)}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	body(t, p, followPath)

	posts := p.Requests(Post, Cancel)
	if len(posts) != 1 {
		t.Fatalf("%d posts, want 1", len(posts))
	}
	r := posts[0]
	if r.Body != `{"x":1}` || r.Method != "POST" || r.Target != "/aip/v1/messages?a=b" ||
		r.Header.Get("Authorization") != "Bearer for-a-test" || r.Host != strings.TrimPrefix(p.URL(), "http://") {
		t.Errorf("recorded %+v", r)
	}
	if q := r.Query(); !slices.Equal(q["a"], []string{"b"}) {
		t.Errorf("query %v", url.Values(q))
	}
	all := p.Requests()
	if len(all) != 2 || all[0].Time > all[1].Time {
		t.Errorf("%d requests, or not in the order of time", len(all))
	}
}

func TestHeadersOfAPlan(t *testing.T) {
	dir := writeCase(t, map[string]string{"play.json": `{"action_id":"act_x","follow":[
		{"status":302,"reason":"Found","headers":{"location":"{SELF}/elsewhere","Cache-Control":null}}]}`})
	p := PlayCase(t, dir, "play.json")
	res, err := GuardNetwork(t).RoundTrip(httptest.NewRequest("GET", p.URL()+followPath, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.Status != "302 Found" || res.Header.Get("Location") != p.URL()+"/elsewhere" {
		t.Errorf("status %q, location %q", res.Status, res.Header.Get("Location"))
	}
	if v, ok := res.Header["Cache-Control"]; ok {
		t.Errorf("null kept the header %q", v)
	}
}

func TestPlayerSpeaksTLS(t *testing.T) {
	srv := httptest.NewTLSServer(http.NotFoundHandler()) // lends its certificate and a client that trusts it
	defer srv.Close()
	p := PlayCase(t, CaseDir(t, "30-not-an-event-stream"), "play-d.json", WithTLS(srv.TLS.Certificates[0]))
	res, err := srv.Client().Get(p.URL() + followPath)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if got := readAll(t, res); !strings.Contains(got, "aip.stream.terminal") {
		t.Errorf("served %q", got)
	}
}

func TestCloseEndsAHangingAnswer(t *testing.T) {
	p := PlayCase(t, CaseDir(t, "29-silence-and-sleep"), "play-no-headers.json")
	failed := make(chan error, 1)
	go func() {
		_, err := (&http.Client{Timeout: time.Minute}).Get(p.URL() + followPath)
		failed <- err
	}()
	if err := p.Await(t.Context(), Follow, 1); err != nil {
		t.Fatal(err)
	}
	p.Close()
	if err := <-failed; err == nil {
		t.Error("an answer came from a closed player")
	}
}
