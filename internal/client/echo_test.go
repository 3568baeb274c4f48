package client

import (
	"net/http"
	"strings"
	"testing"

	"github.com/aipctl/aipctl/internal/aip"
)

// TestWordsThatRepeatTheTokenAreNone: codes, types and hosts are the only
// words of an answer that are shown and kept.
func TestWordsThatRepeatTheTokenAreNone(t *testing.T) {
	host := "https://" + strings.ToLower(token) + ".example"
	for rule, h := range map[string]http.HandlerFunc{
		"a code":            answer(400, "application/json", `{"body":{"error":{"error":{"code":"auth.`+token+`","category":"auth"}}}}`),
		"a plain code":      answer(400, "application/json", `{"error":{"code":"`+token+`"}}`),
		"a code in a 200":   answer(200, "application/json", `{"body":{"error":{"error":{"code":"auth.`+token+`","category":"auth"}}}}`),
		"a type":            answer(400, "text/"+token, "x"),
		"a type in a 200":   answer(200, "text/"+token, "x"),
		"a host":            func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Location", host+"/"); w.WriteHeader(302) },
		"a type with a 204": answer(204, "text/"+token, ""),
	} {
		t.Run(rule, func(t *testing.T) {
			c := open(t, serve(t, h), nil)
			for _, call := range calls {
				err := call.do(t.Context(), c)
				if err == nil {
					if call.name != "ready" {
						t.Errorf("%s takes it", call.name)
					}
					continue
				}
				if strings.Contains(strings.ToLower(err.Error()), strings.ToLower(token)) {
					t.Errorf("%s: %v", call.name, err)
				}
			}
		})
	}
	t.Run("a code in a result", func(t *testing.T) {
		const body = `{"action_result":{"action_id":"act_1","status":"failed","error":{"code":"x.` + token + `"}}}`
		c := open(t, serve(t, answer(200, "application/json", body)), nil)
		res, err := c.Result(t.Context(), "act_1", aip.ResultDecoding{})
		if err != nil || res.Status != "failed" || res.Error.Code != "" {
			t.Errorf("%+v (%v)", res, err)
		}
	})
}

func TestAWordThatOnlyLooksLikeATokenStays(t *testing.T) {
	const body = `{"body":{"error":{"error":{"code":"auth.not_authorized","category":"auth"}}}}`
	for _, short := range []string{"auth", "not_aut", ""} {
		c := open(t, serve(t, answer(403, "application/json", body)), func(o *Options) {
			o.Token = func() (string, error) { return short, nil }
		})
		if re := remote(t, submitCall().do(t.Context(), c)); re.Code() != "auth.not_authorized" {
			t.Errorf("with the token %q the code is %q", short, re.Code())
		}
	}
}

// TestEveryTokenThatWasShownCounts, a renewed one as well as the first.
func TestEveryTokenThatWasShownCounts(t *testing.T) {
	src := &rotating{tokens: []string{"the-first-token", "the-second-token"}}
	h := func(w http.ResponseWriter, r *http.Request) {
		answer(400, "application/json", `{"error":{"code":"x.THE-first-token"}}`)(w, r)
	}
	c := open(t, serve(t, h), func(o *Options) { o.Token = src.next })
	for range 2 {
		if re := remote(t, submitCall().do(t.Context(), c)); re.Code() != "" {
			t.Errorf("the code is %q", re.Code())
		}
	}
}
