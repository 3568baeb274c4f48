package e2ediscover_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"io/fs"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aipctl/aipctl/internal/devserver"
)

// quietLog takes what a server says of handshakes that are meant to fail.
var quietLog = log.New(io.Discard, "", 0)

const secret = "a-token-of-this-test"

// clinic is a world with everything in order: a daemon with a token, a token
// file and a state file.
type clinic struct {
	*world
	front *front
	dir   string
	args  []string // what comes behind doctor
}

func newClinic(t testing.TB) *clinic {
	t.Helper()
	f := &front{other: map[string]http.HandlerFunc{}}
	s := httptest.NewServer(f.before(t, devserver.Options{Token: secret}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	f.url = s.URL
	w := newWorld(t, s.URL)
	dir := w.env["HOME"]
	w.env["AIP_TOKEN_FILE"] = filepath.Join(dir, "token")
	w.env["AIPCTL_CONFIG"] = filepath.Join(dir, "config.toml")
	c := &clinic{world: w, front: f, dir: dir}
	c.write("token", secret)
	if err := os.Mkdir(filepath.Join(dir, "state"), 0o700); err != nil {
		t.Fatal(err)
	}
	c.write("state/state.jsonl", `{"v":1,"id":"00000000000000000000000000000001","type":"intent","at":"2030-01-15T09:30:00Z","action_id":"act_1","intent":{"capability_id":"cap:x:y","mode":"sync","url":"http://x","principal":"anon","input_hash":"sha256:00"}}`+"\n")
	return c
}

func (c *clinic) path(name string) string { return filepath.Join(c.dir, filepath.FromSlash(name)) }

func (c *clinic) write(name, content string) {
	c.t.Helper()
	if err := os.WriteFile(c.path(name), []byte(content), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// answer puts an answer in front of a route.
func (c *clinic) answer(path string, h http.HandlerFunc) { c.front.other[path] = h }

// finding is one check as -o json shows it.
type finding struct {
	Name, Status, Detail, Code, Fix string
	Exit                            int
}

type findings struct {
	OK         bool
	ExitCode   int `json:"exit_code"`
	Checks     []finding
	NotChecked []string `json:"not_checked"`
}

// examine runs the doctor. It fails the test when anything was changed, or
// anything but a reading left.
func (c *clinic) examine() (findings, shot) {
	c.t.Helper()
	before := tree(c.t, c.dir)
	got := c.run(append(append([]string{"doctor"}, c.args...), "-o", "json")...)
	if after := tree(c.t, c.dir); after != before {
		c.t.Errorf("the doctor has changed something:\n%s\nis now\n%s", before, after)
	}
	if c.front.requests("GET ") != c.front.requests("") {
		c.t.Errorf("more than reading: %q", c.front.asked)
	}
	if strings.Contains(got.stdout+got.stderr, secret) {
		c.t.Errorf("the token is shown: %s%s", got.stdout, got.stderr)
	}
	var f findings
	if err := json.Unmarshal([]byte(got.stdout), &f); err != nil {
		c.t.Fatalf("%v: %s%s", err, got.stdout, got.stderr)
	}
	if f.ExitCode != got.code || f.OK != (got.code == 0) {
		c.t.Errorf("exit %d, and the record says %d, ok %v", got.code, f.ExitCode, f.OK)
	}
	return f, got
}

// tree is every file below a folder with its mode and its content.
func tree(t testing.TB, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := e.Info()
		if err != nil {
			return err
		}
		b.WriteString(path + " " + fi.Mode().String() + " " + fi.ModTime().String())
		if fi.Mode().IsRegular() {
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			b.Write(raw)
		}
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestTheDoctorFindsNothingAmiss where nothing is.
func TestTheDoctorFindsNothingAmiss(t *testing.T) {
	c := newClinic(t)
	f, _ := c.examine()
	var names []string
	for _, x := range f.Checks {
		names = append(names, x.Name)
		if x.Status != "ok" || x.Fix != "" || x.Code != "" || x.Detail == "" {
			t.Errorf("%+v", x)
		}
	}
	if want := []string{"contexts", "url", "token", "ready", "clock", "access", "approvals", "catalogue", "state"}; !f.OK || !slices.Equal(names, want) || f.NotChecked != nil {
		t.Errorf("%v %q %q", f.OK, names, f.NotChecked)
	}
	text := c.run("doctor")
	for _, line := range []string{
		"ok    contexts   there are none, and none is needed\n",
		"ok    url        " + c.front.url + ", from AIP_URL\n",
		"ok    clock      the same as the daemon's, to the second\n",
		"ok    access     actions may be read; whether they may be submitted is not tried\n",
	} {
		if !strings.Contains(text.stdout, line) {
			t.Errorf("%q is not in\n%s", line, text.stdout)
		}
	}
	if text.code != 0 || text.stderr != "" || strings.Contains(text.stdout, "fix:") {
		t.Errorf("%d %s%s", text.code, text.stdout, text.stderr)
	}
	// In JSON Lines the checks come one by one, and the end once.
	lines := strings.Split(strings.TrimSpace(c.run("doctor", "-o", "jsonl").stdout), "\n")
	if len(lines) != 10 || !strings.HasPrefix(lines[0], `{"v":1,"type":"check","name":"contexts","status":"ok",`) || lines[9] != `{"v":1,"type":"doctor","ok":true,"exit_code":0}` {
		t.Errorf("%d lines: %q", len(lines), lines)
	}
}

// TestTheDoctorFindsEachFault: one fault each, with the code of the table that
// fits it, stated by hand, and what mends it.
func TestTheDoctorFindsEachFault(t *testing.T) {
	unauthorized := answers(401, "application/json", `{"body":{"error":{"error":{"code":"auth.not_authorized","message":"x","category":"auth"}}},"aip_version":"1.0"}`)
	at := func(d time.Duration) func() time.Time { return func() time.Time { return time.Now().Add(d) } }
	for name, c := range map[string]struct {
		fault  func(c *clinic)
		check  string
		status string
		exit   int
		word   string // in the detail
		fix    string // in what mends it
	}{
		"contexts that are no TOML": {func(c *clinic) { c.write("config.toml", "= nonsense") }, "contexts", "fail", 2, "config.toml", ""},
		"a key nobody knows":        {func(c *clinic) { c.write("config.toml", "nonsense = 1\n") }, "contexts", "warn", 0, "nonsense", "aipctl context list"},
		"no daemon":                 {func(c *clinic) { delete(c.env, "AIP_URL") }, "url", "fail", 2, "no daemon is named", "--url"},
		"no URL":                    {func(c *clinic) { c.env["AIP_URL"] = "ftp://x" }, "url", "fail", 2, "neither http nor https", "http://host:port"},
		"a token in the open":       {func(c *clinic) { c.env["AIP_URL"] = "http://aip.example:1" }, "url", "fail", 2, "a token would cross http://", "--allow-plaintext"},
		"no token":                  {func(c *clinic) { delete(c.env, "AIP_TOKEN_FILE") }, "token", "warn", 4, "there is none", "--token-file"},
		"no token, at the door":     {func(c *clinic) { delete(c.env, "AIP_TOKEN_FILE") }, "access", "fail", 4, "wants a token", "--token-file"},
		"a token file that is gone": {func(c *clinic) { c.env["AIP_TOKEN_FILE"] = c.path("gone") }, "token", "fail", 4, "does not exist", "--token-file"},
		"an empty token file":       {func(c *clinic) { c.write("token", " \n") }, "token", "fail", 4, "nothing but white space", "write the token alone"},
		"another daemon's token":    {func(c *clinic) { c.write("token", "another") }, "access", "fail", 4, "refuses the token", "--token-file"},
		"a CA file without one":     {func(c *clinic) { c.args = []string{"--ca-file", c.path("token")} }, "ca file", "fail", 2, "no PEM certificate", "--ca-file"},
		"nobody there":              {func(c *clinic) { c.env["AIP_URL"] = "http://127.0.0.1:1" }, "ready", "fail", 3, "refused", "check the host"},
		"not ready":                 {func(c *clinic) { c.answer("/ready", answers(503, "application/json", `{"status":"not_ready"}`)) }, "ready", "fail", 3, "not ready", "try again"},
		"a web server":              {func(c *clinic) { c.answer("/ready", webPage) }, "ready", "fail", 3, "an HTML page", "path prefix"},
		"another path":              {func(c *clinic) { c.env["AIP_URL"] += "/elsewhere" }, "ready", "fail", 3, "HTTP 404", "path prefix"},
		"a daemon that says nothing": {func(c *clinic) {
			c.answer("/ready", hangs)
			c.args = []string{"--idle-timeout", "50ms"}
		}, "ready", "fail", 3, "no answer within the time limit", "check the host"},
		"a clock ahead":          {func(c *clinic) { c.now = at(90 * time.Second) }, "clock", "fail", 12, "ahead of the daemon", "set the clock"},
		"a clock behind":         {func(c *clinic) { c.now = at(-10 * time.Minute) }, "clock", "fail", 12, "behind the daemon", "set the clock"},
		"a clock a little ahead": {func(c *clinic) { c.now = at(22 * time.Second) }, "clock", "warn", 0, "close to what it refuses", "set the clock"},
		"a daemon without a time": {func(c *clinic) {
			c.answer("/ready", func(w http.ResponseWriter, r *http.Request) {
				w.Header()["Date"] = nil
				answers(200, "application/json", `{"status":"ready"}`)(w, r)
			})
		}, "clock", "warn", 0, "does not tell its time", ""},
		"no scope for actions":    {func(c *clinic) { c.answer("/aip/v1/actions", unauthorized) }, "access", "fail", 4, "lacks the scope action:read", "ask whoever"},
		"no scope for approvals":  {func(c *clinic) { c.answer("/aip/v1/approvals", unauthorized) }, "approvals", "warn", 0, "auth.not_authorized", "approval:read"},
		"no list of actions":      {func(c *clinic) { c.answer("/aip/v1/actions", nothingThere) }, "access", "fail", 3, "cannot be read", "path prefix"},
		"no catalogue":            {func(c *clinic) { c.front.catalogue = disabled }, "catalogue", "warn", 0, "only the manifest answers", "switch it on"},
		"no tenant":               {func(c *clinic) { c.front.catalogue = noTenant }, "catalogue", "warn", 0, "no tenant", "token with a tenant"},
		"no discovery at all":     {func(c *clinic) { c.front.catalogue, c.front.manifest = unavailable, unavailable }, "catalogue", "warn", 0, "calls work without", "try again"},
		"a damaged state file":    {func(c *clinic) { c.write("state/state.jsonl", "{\"v\":1,\n{}\n") }, "state", "fail", 14, "damaged", "aipctl state check"},
		"a folder as state file":  {func(c *clinic) { c.env["AIPCTL_STATE"] = c.dir }, "state", "fail", 14, "it is a directory", "--state FILE"},
		"no state file yet":       {func(c *clinic) { c.env["AIPCTL_STATE"] = c.path("new/state.jsonl") }, "state", "ok", 0, "the first call makes it", ""},
		"a state file of a later": {func(c *clinic) { c.write("state/state.jsonl", "{\"v\":99,\"type\":\"x\"}\n") }, "state", "warn", 0, "newer", "newer aipctl"},
		"no state":                {func(c *clinic) { c.args = []string{"--state", "off"} }, "state", "warn", 0, "nothing can be submitted", "--state off"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clinic := newClinic(t)
			c.fault(clinic)
			f, got := clinic.examine()
			i := slices.IndexFunc(f.Checks, func(x finding) bool { return x.Name == c.check && x.Status == c.status })
			if i < 0 || got.code != c.exit {
				t.Fatalf("exit %d, want %d: %s%s", got.code, c.exit, got.stdout, got.stderr)
			}
			x := f.Checks[i]
			if !strings.Contains(x.Detail, c.word) || !strings.Contains(x.Fix, c.fix) || (x.Status == "fail") != (x.Exit != 0) || (x.Status != "ok") != (x.Code != "") {
				t.Errorf("%+v", x)
			}
			// The state file is looked at whatever the daemon does.
			if f.Checks[len(f.Checks)-1].Name != "state" {
				t.Errorf("the state file was not looked at: %+v", f.Checks)
			}
			if c.check != "contexts" && f.Checks[0].Status != "ok" {
				t.Errorf("%+v", f.Checks[0])
			}
		})
	}
}

// TestTheDoctorNamesWhatItCouldNotLookAt, and how a fault looks to a person.
func TestTheDoctorNamesWhatItCouldNotLookAt(t *testing.T) {
	c := newClinic(t)
	c.write("token", "another")
	got := c.run("doctor")
	if got.code != 4 || !strings.Contains(got.stdout, "\nnot looked at: approvals, catalogue\n") || !strings.Contains(got.stdout, "fail  access     the daemon refuses the token (HTTP 401,\n                 auth.native_http_unauthorized)\n                 fix: is it this daemon's, and still valid?") {
		t.Errorf("%d %s%s", got.code, got.stdout, got.stderr)
	}
}

// TestTheDoctorReadsCertificates: whose they are, until when they hold, and why
// one does not.
func TestTheDoctorReadsCertificates(t *testing.T) {
	day := 24 * time.Hour
	for name, c := range map[string]struct {
		from, until time.Duration // from now
		host        string
		trusted     bool
		status      string
		exit        int
		word, fix   string
	}{
		"good":            {-day, 90 * day, "127.0.0.1", true, "ok", 0, "TLS 1.3; certificate of aipd of the test, signed by aipd of the test, valid from ", ""},
		"soon over":       {-day, 5*day + time.Hour, "127.0.0.1", true, "warn", 0, "which is in 5 days", "renew"},
		"over":            {-9 * day, -day, "127.0.0.1", true, "fail", 3, "it has expired or is not yet valid; certificate of aipd of the test", "renew it"},
		"nobody knows it": {-day, 90 * day, "127.0.0.1", false, "fail", 3, "signed by an unknown authority; certificate of aipd of the test", "--ca-file"},
		"another host's":  {-day, 90 * day, "127.0.0.2", true, "fail", 3, "is for another host name", "correct the URL"},
	} {
		t.Run(name, func(t *testing.T) {
			clinic := newClinic(t)
			cert, ca := selfSigned(t, time.Now().Add(c.from), time.Now().Add(c.until), c.host)
			s := httptest.NewUnstartedServer(clinic.front.before(t, devserver.Options{Token: secret}))
			s.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
			s.Config.ErrorLog = quietLog
			s.StartTLS()
			t.Cleanup(s.Close)
			clinic.env["AIP_URL"] = s.URL
			if c.trusted {
				clinic.write("ca.pem", ca)
				clinic.args = []string{"--ca-file", clinic.path("ca.pem")}
			}
			f, got := clinic.examine()
			i := slices.IndexFunc(f.Checks, func(x finding) bool { return x.Name == "tls" })
			if i < 0 || got.code != c.exit || f.Checks[i].Status != c.status || !strings.Contains(f.Checks[i].Detail, c.word) || !strings.Contains(f.Checks[i].Fix, c.fix) {
				t.Errorf("exit %d: %s%s", got.code, got.stdout, got.stderr)
			}
		})
	}
	// A daemon that speaks no TLS.
	clinic := newClinic(t)
	clinic.env["AIP_URL"] = strings.Replace(clinic.front.url, "http://", "https://", 1)
	if f, got := clinic.examine(); got.code != 3 || !slices.ContainsFunc(f.Checks, func(x finding) bool {
		return x.Name == "tls" && strings.Contains(x.Detail, "does not speak TLS") && strings.Contains(x.Fix, "correct the URL")
	}) {
		t.Errorf("%d %s", got.code, got.stdout)
	}
}

// selfSigned makes a certificate that signs itself, and its PEM form.
func selfSigned(t testing.TB, from, until time.Time, host string) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "aipd of the test"}, NotBefore: from, NotAfter: until,
		IPAddresses: []net.IP{net.ParseIP(host)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
