//go:build unix

package e2eproc

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aipctl/aipctl/internal/aiptest"
	"github.com/aipctl/aipctl/internal/devserver"
	"github.com/rogpeppe/go-internal/testscript"
)

// Each transcript has a daemon of its own at $AIP_URL, whose token is in
// $AIP_TOKEN_FILE. $DOWN_URL is an address where nobody listens.
//
// Below $ODD_URL, the first segment of the path says what becomes of some
// requests before the daemon sees them: KINDS=ANSWER, with the kinds apart by
// commas (follow, page, status, result, submit, cancel; or all), and one of
// html, 302, or a status code. Everything else is let in.
//
// The program counted fails unless the daemon counts that many of something:
// submits, executions ACTION, or requests KIND.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	aiptest.RunTranscripts(t, "testdata", func(env *testscript.Env) error {
		srv := devserver.New(devserver.Options{Token: token})
		front := httptest.NewServer(odd(srv))
		env.Defer(func() {
			front.CloseClientConnections()
			srv.Close()
			front.Close()
		})
		tokenFile := filepath.Join(env.WorkDir, ".token")
		if err := os.WriteFile(tokenFile, []byte(token+"\n"), 0o600); err != nil {
			return err
		}
		down, err := nobody()
		if err != nil {
			return err
		}
		for name, value := range map[string]string{
			"AIP_URL": front.URL, "ODD_URL": front.URL + "/odd", "COUNT_URL": front.URL + "/count", "DOWN_URL": down,
			"AIP_TOKEN_FILE": tokenFile, "CHAT": "cap:hermes_agent:chat-stop:chat_stream",
			"STATE": filepath.Join(env.WorkDir, ".state", "aipctl", "state.jsonl"),
		} {
			env.Setenv(name, value)
		}
		return nil
	})
}

// nobody is the URL of a port that was just given back.
func nobody() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return "http://" + l.Addr().String(), l.Close()
}

// odd serves the daemon, the counts, and the odd answers.
func odd(srv *devserver.Server) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if what, ok := strings.CutPrefix(r.URL.Path, "/count/"); ok {
			fmt.Fprint(w, count(srv, what))
			return
		}
		rest, ok := strings.CutPrefix(r.URL.Path, "/odd/")
		if !ok {
			srv.Handler().ServeHTTP(w, r)
			return
		}
		rule, path, _ := strings.Cut(rest, "/")
		kinds, answer, _ := strings.Cut(rule, "=")
		r.URL.Path, r.URL.RawPath = "/"+path, ""
		if kinds != "all" && !strings.Contains(","+kinds+",", ","+kindOf(r)+",") {
			srv.Handler().ServeHTTP(w, r)
			return
		}
		switch answer {
		case "html":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<html><title>Sign in</title></html>")
		case "302":
			http.Redirect(w, r, "https://login.invalid/", http.StatusFound)
		default:
			status := 0
			if _, err := fmt.Sscan(answer, &status); err != nil {
				panic("no such answer: " + answer)
			}
			w.WriteHeader(status)
		}
	})
}

func count(srv *devserver.Server, what string) int {
	name, arg, _ := strings.Cut(what, "/")
	switch name {
	case "submits":
		return len(srv.Submits())
	case "executions":
		return srv.Executions(arg)
	case "requests":
		n := 0
		for _, r := range srv.Requests() {
			if arg == "" || kind(r.Method, r.Path, r.Query) == arg {
				n++
			}
		}
		return n
	}
	panic("nothing counts " + what)
}

// counted is the program of that name: counted WHAT [ARG] N.
func counted() {
	what, want := strings.Join(os.Args[1:len(os.Args)-1], "/"), os.Args[len(os.Args)-1]
	res, err := http.Get(os.Getenv("COUNT_URL") + "/" + what)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	got, err := io.ReadAll(res.Body)
	if err != nil || string(got) != want {
		fmt.Fprintf(os.Stderr, "%s: %s, want %s (%v)\n", what, got, want, err)
		os.Exit(1)
	}
}
