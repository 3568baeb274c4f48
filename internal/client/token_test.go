package client

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/fault"
)

// rotating hands out its tokens one after the other, then the last one.
type rotating struct {
	mu     sync.Mutex
	tokens []string
	asked  int
}

func (r *rotating) next() (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	return r.tokens[min(r.asked, len(r.tokens))-1], nil
}

// guarded lets one token in and keeps what was shown.
func guarded(t *testing.T, good string) (url string, shown func() []string) {
	var mu sync.Mutex
	var all []string
	url = serve(t, func(w http.ResponseWriter, r *http.Request) {
		got := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		mu.Lock()
		all = append(all, got)
		mu.Unlock()
		if got != good {
			answer(401, "application/json", `{"body":{"error":{"error":{"code":"auth.native_http_unauthorized","message":"`+canary+`","category":"auth"}}}}`)(w, r)
			return
		}
		answer(200, "application/json", result)(w, r)
	})
	return url, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

// TestARefusedTokenIsReadAgainOnce, for what may be sent twice.
func TestARefusedTokenIsReadAgainOnce(t *testing.T) {
	for _, tc := range []struct {
		rule   string
		tokens []string // as the file holds them, reading by reading
		shown  []string
		good   bool
	}{
		{"a new token gets one more try", []string{"old", "new"}, []string{"old", "new"}, true},
		{"the same token does not", []string{"old", "old"}, []string{"old"}, false},
		{"a second new token does not", []string{"old", "older", "new"}, []string{"old", "older"}, false},
	} {
		for _, call := range reads() {
			t.Run(tc.rule+"/"+call.name, func(t *testing.T) {
				url, shown := guarded(t, "new")
				// The first reading after a refusal only looks whether it changed.
				src := &rotating{}
				for i, tok := range tc.tokens {
					src.tokens = append(src.tokens, tok)
					if i > 0 {
						src.tokens = append(src.tokens, tok)
					}
				}
				c := open(t, url, func(o *Options) { o.Token = src.next })
				err := call.do(t.Context(), c)
				quiet(t, err)
				if got := shown(); !slices.Equal(got, tc.shown) {
					t.Errorf("the tokens shown are %q, want %q", got, tc.shown)
				}
				refused := err != nil && strings.Contains(err.Error(), "auth.native_http_unauthorized")
				if refused == tc.good {
					t.Errorf("the error is %v", err)
				}
			})
		}
	}
}

// TestASubmitIsNeverRepeatedForAToken, although the refusal says that nothing
// ran: who decides that is whoever records it.
func TestASubmitIsNeverRepeatedForAToken(t *testing.T) {
	url, shown := guarded(t, "new")
	src := &rotating{tokens: []string{"old", "new"}}
	c := open(t, url, func(o *Options) { o.Token = src.next })
	err := submitCall().do(t.Context(), c)
	if re := remote(t, err); re.Status != 401 || !re.AIP() {
		t.Errorf("%+v", re)
	}
	if got := shown(); !slices.Equal(got, []string{"old"}) || src.asked != 1 {
		t.Errorf("the tokens shown are %q, the file was read %d times", got, src.asked)
	}
}

func TestATokenThatIsGoneLeavesTheRefusal(t *testing.T) {
	url, shown := guarded(t, "new")
	asked := 0
	c := open(t, url, func(o *Options) {
		o.Token = func() (string, error) {
			if asked++; asked > 1 {
				return "", fault.New(fault.Auth, "token.unreadable", "gone")
			}
			return "old", nil
		}
	})
	_, err := c.Status(t.Context(), "act_1")
	if re := remote(t, err); re.Code() != "auth.native_http_unauthorized" || len(shown()) != 1 {
		t.Errorf("%+v after %q", re, shown())
	}
}

func TestOnlyARefusedTokenIsReadAgain(t *testing.T) {
	for _, status := range []int{403, 404, 500, 503} {
		n := 0
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			n++
			answer(status, "text/plain", canary)(w, r)
		})
		src := &rotating{tokens: []string{"old", "new"}}
		_, err := open(t, url, func(o *Options) { o.Token = src.next }).Status(t.Context(), "act_1")
		if re := remote(t, err); re.Status != status || n != 1 || src.asked != 1 {
			t.Errorf("%d: %d requests, the file was read %d times", status, n, src.asked)
		}
	}
}

// TestARequestKnowsItsOwnToken: another request that has shown the new token
// meanwhile must not hide that this one has not.
func TestARequestKnowsItsOwnToken(t *testing.T) {
	slowCame, fastDone := make(chan struct{}), make(chan struct{})
	var mu sync.Mutex
	current := "old"
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		old := r.Header.Get("Authorization") == "Bearer old"
		if old {
			close(slowCame)
			<-fastDone
			answer(401, "text/plain", "")(w, r)
			return
		}
		answer(200, "application/json", `{"action_status":{"state":"running"}}`)(w, r)
	})
	c := open(t, url, func(o *Options) {
		o.Token = func() (string, error) {
			mu.Lock()
			defer mu.Unlock()
			return current, nil
		}
	})
	slow := make(chan error)
	go func() {
		_, err := c.Status(t.Context(), "act_slow")
		slow <- err
	}()
	<-slowCame
	mu.Lock()
	current = "new"
	mu.Unlock()
	if _, err := c.Status(t.Context(), "act_fast"); err != nil {
		t.Errorf("the fast one: %v", err)
	}
	close(fastDone)
	if err := <-slow; err != nil {
		t.Errorf("the slow one: %v", err)
	}
}

// TestRedirectsAreNeverFollowed, and no token goes where they lead: neither to
// another host, nor to another path of the same one.
func TestRedirectsAreNeverFollowed(t *testing.T) {
	var mu sync.Mutex
	strayed := 0
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		strayed++
		mu.Unlock()
		answer(200, "application/json", result)(w, r)
	}))
	defer elsewhere.Close()
	for _, status := range []int{301, 302, 303, 307, 308, 300, 304} {
		for where, tc := range map[string]struct{ location, origin string }{
			"elsewhere":    {elsewhere.URL + "/" + canary + "?t=" + canary, elsewhere.URL},
			"a userinfo":   {strings.Replace(elsewhere.URL, "://", "://"+canary+"@", 1), elsewhere.URL},
			"nowhere":      {"", "an unnamed place"},
			"not a place":  {"http://[" + canary, "an unnamed place"},
			"the same one": {"/login?" + canary, "SELF"},
		} {
			n := 0
			url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				mu.Lock()
				n++
				mu.Unlock()
				if tc.location != "" {
					w.Header().Set("Location", tc.location)
				}
				w.WriteHeader(status)
			})
			for i, call := range calls {
				err := call.do(t.Context(), open(t, url, nil))
				quiet(t, err)
				re := remote(t, err)
				want := tc.origin
				if want == "SELF" {
					want = url
				}
				if re.Status != status || re.Redirect != want || !strings.Contains(err.Error(), "not followed") {
					t.Errorf("%d to %s, %s: %+v", status, where, call.name, re)
				}
				mu.Lock()
				if n != i+1 {
					t.Errorf("%d to %s, %s: %d requests", status, where, call.name, n)
				}
				mu.Unlock()
			}
		}
	}
	if strayed != 0 {
		t.Errorf("%d requests went where a redirect leads", strayed)
	}
}

// TestAClientServesManyAtOnce runs all routes beside each other; the race
// detector watches.
func TestAClientServesManyAtOnce(t *testing.T) {
	url, shown := guarded(t, token)
	c := open(t, url, func(o *Options) { o.Log = func(Exchange) {} })
	var all sync.WaitGroup
	for range 8 {
		for _, call := range calls {
			all.Go(func() { _ = call.do(t.Context(), c) })
		}
		all.Go(func() {
			if _, err := c.Result(t.Context(), "act_1", aip.ResultDecoding{}); err != nil {
				t.Errorf("result: %v", err)
			}
		})
	}
	all.Wait()
	if n := len(shown()); n != 8*(len(calls)+1) {
		t.Errorf("%d requests came", n)
	}
}
