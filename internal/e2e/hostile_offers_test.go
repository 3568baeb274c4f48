package e2e_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
)

const hostileChat = "cap:hermes_agent:qa:chat"

// offerScenes are about what is asked before a call: what a daemon publishes,
// and whether anything works at all.
var offerScenes = []scene{
	{
		name: "every word of a capability",
		fields: map[string]string{
			"kind": "out json jsonl", "stability": "out json jsonl", "risk": "json jsonl", "effect": "out json jsonl", "compensation": "out json jsonl",
			"scheme": "out json jsonl", "source": "out json jsonl", "method": "out json jsonl", "path": "out json jsonl",
			"requirement": "out json jsonl", "scope": "json jsonl", "collision": "json jsonl", "expected": "json jsonl", "safety": "json jsonl",
			"selector": "json jsonl", "evidence": "json jsonl", "sensitivity": "out json jsonl", "digest": "json jsonl",
			"member": "out json jsonl", "type": "out json jsonl", "required": "out json jsonl", "constant": "json jsonl", "default": "json jsonl",
			"enum": "json jsonl", "pattern": "out json jsonl", "format": "out json jsonl",
		},
		bytes: true, light: true, wrapped: true,
		play: func(t *testing.T, _ *world, put, _ func(string) string) []string {
			page := `{"capabilities":[{"capability":` + wholeCapability(put) + `,"contract_digest":` + put("digest") + `}],"total":1}`
			return []string{"capability", "describe", answering(t, http.StatusOK, page, nil), hostileChat}
		},
	},
	{
		name: "the prose of a capability", fields: map[string]string{"description": "out json jsonl", "meaning": "out json jsonl"},
		bytes: true, light: true, wrapped: true, folded: true,
		play: func(t *testing.T, _ *world, put, _ func(string) string) []string {
			page := `{"capabilities":[{"capability":{"id":"` + hostileChat + `","description":` + put("description") +
				`,"input_schema":{"properties":{"x":{"type":"string","description":` + put("meaning") + `}}}}}],"total":1}`
			return []string{"capability", "describe", answering(t, http.StatusOK, page, nil), hostileChat}
		},
	},
	{
		name: "the title of a capability", fields: map[string]string{"name": "out json jsonl", "title": "out json jsonl", "among": "out json jsonl"},
		bytes: true, light: true, wrapped: true, folded: true,
		play: func(t *testing.T, _ *world, put, _ func(string) string) []string {
			page := `{"capabilities":[{"capability":{"id":"` + hostileChat + `","name":` + put("name") +
				`,"input_schema":{"properties":{"x":{"title":` + put("title") + `}},"oneOf":[{"required":[` + put("among") + `]}]}}}],"total":1}`
			return []string{"capability", "describe", answering(t, http.StatusOK, page, nil), hostileChat}
		},
	},
	{
		name: "a schema that is none", fields: map[string]string{"ref": "json jsonl", "draft": "json jsonl"},
		bytes: true, light: true,
		play: func(t *testing.T, _ *world, put, _ func(string) string) []string {
			page := `{"capabilities":[{"capability":{"id":"` + hostileChat + `","input_schema":{"$schema":` + put("draft") + `,"$ref":` + put("ref") + `}}}],"total":1}`
			return []string{"capability", "describe", answering(t, http.StatusOK, page, nil), hostileChat}
		},
	},
	{
		name: "a manifest in the place of a catalogue", fields: map[string]string{"id": "out json jsonl"},
		bytes: true, light: true, says: "this is the manifest",
		play: func(t *testing.T, _ *world, put, arg func(string) string) []string {
			return []string{"capability", "list", speak(t, func(w *bytes.Buffer, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/manifest") {
					respond(w, http.StatusOK, "application/json", nil, `{"manifest_version":`+put("version")+`,"capabilities":[`+capabilityOf(put)+`]}`)
					return
				}
				respond(w, http.StatusServiceUnavailable, "application/"+header(arg("type")), nil, `{"error":{"code":`+put("code")+`,"message":`+put("message")+`}}`)
			})}
		},
	},
	{
		name: "a capability that is near another", fields: map[string]string{"near": "err json jsonl"},
		bytes: true, light: true, says: "did you mean",
		play: func(t *testing.T, _ *world, put, _ func(string) string) []string {
			// Whatever begins with the word that was asked for is near it.
			near := `"` + hostileChat + put("near")[1:]
			return []string{"capability", "describe", answering(t, http.StatusOK, `{"manifest_version":"1","capabilities":[{"capability":{"id":`+near+`}}],"total":1}`, nil), hostileChat}
		},
	},
	{
		name: "an input against a schema", fields: map[string]string{"missing": "err json jsonl", "extra": "err json jsonl", "enum": "err json jsonl"},
		bytes: true, light: true, says: "does not fit the schema",
		play: func(t *testing.T, _ *world, put, arg func(string) string) []string {
			schema := `{"type":"object","required":["prompt",` + put("missing") + `],"additionalProperties":false,"properties":{"prompt":{"enum":[` + put("enum") + `]}}}`
			return validated(t, schema, `{"prompt":"x",`+string(encode(arg("extra")))+`:1}`)
		},
	},
	{
		name: "forms of an input", fields: map[string]string{"one": "err json jsonl", "constant": "err json jsonl"},
		bytes: true, light: true, says: "does not fit the schema",
		play: func(t *testing.T, _ *world, put, _ func(string) string) []string {
			schema := `{"properties":{"prompt":{"const":` + put("constant") + `}},"anyOf":[{"required":[` + put("one") + `]},{"required":["two"]}]}`
			return validated(t, schema, `{"prompt":"x"}`)
		},
	},
	{
		name: "a pattern of an input", fields: map[string]string{}, // most of the strings are no pattern, and so are not repeated
		bytes: true, light: true, says: "pattern",
		play: func(t *testing.T, _ *world, put, _ func(string) string) []string {
			return validated(t, `{"properties":{"prompt":{"pattern":`+put("pattern")+`}}}`, `{"prompt":"x"}`)
		},
	},
	{
		name: "a reference of a schema", fields: map[string]string{}, // is shown as a URL, in escapes
		bytes: true, light: true, says: "cannot be used",
		play: func(t *testing.T, _ *world, put, _ func(string) string) []string {
			return validated(t, `{"$ref":`+put("ref")+`}`, `{"prompt":"x"}`)
		},
	},
	{
		name: "a place of a schema", fields: map[string]string{},
		bytes: true, light: true, says: "cannot be used",
		play: func(t *testing.T, _ *world, put, _ func(string) string) []string {
			return validated(t, `{"$ref":"#/$defs/`+put("place")[1:]+`}`, `{"prompt":"x"}`)
		},
	},
	{
		name: "a draft of a schema", fields: map[string]string{},
		bytes: true, light: true, says: "cannot be used",
		play: func(t *testing.T, _ *world, put, _ func(string) string) []string {
			return validated(t, `{"$schema":`+put("draft")+`}`, `{"prompt":"x"}`)
		},
	},
	{
		name: "names of a schema", fields: map[string]string{},
		bytes: true, light: true, says: "cannot be used",
		play: func(t *testing.T, _ *world, put, _ func(string) string) []string {
			return validated(t, `{"$defs":{"a":{"$anchor":`+put("anchor")+`},"b":{"$id":`+put("id")+`},"c":{"type":`+put("type")+`}}}`, `{"prompt":"x"}`)
		},
	},
	{
		name: "what a doctor finds on this machine", fields: map[string]string{"token": "out json jsonl", "ca": "out json jsonl", "key": "out json jsonl", "state": "out json jsonl"},
		valid: true, light: true, wrapped: true,
		play: func(t *testing.T, w *world, put, arg func(string) string) []string {
			w.writeContexts(t, "config.toml", strings.Replace(aContext(put), inTOML(put("url")), `"`+nobody+`"`, 1)+inTOML(put("key"))+" = 1\n")
			return []string{"doctor", "--context", "lab", "--state", filepath.Join(t.TempDir(), fileName(arg("state")))}
		},
	},
	{
		name: "a state file that a doctor finds damaged", fields: map[string]string{"path": "out json jsonl"},
		bytes: true, light: true, wrapped: true, says: "state.jsonl",
		play: func(t *testing.T, w *world, put, arg func(string) string) []string {
			w.env["AIPCTL_STATE"] = filepath.Join(t.TempDir(), fileName(arg("path")), "state.jsonl")
			w.writeState(t, arg("noise")+"\n"+`{"v":1,"id":`+put("id")+`,"at":`+put("at")+`,"type":`+put("type")+`,"action_id":`+put("action")+`}`+"\n"+`{"v":1`)
			return []string{"doctor", nobody}
		},
	},
	{
		name: "what a doctor hears of a daemon", fields: map[string]string{"server": "err"},
		bytes: true, light: true, wrapped: true, says: "they cannot be read",
		play: func(t *testing.T, _ *world, put, arg func(string) string) []string {
			return []string{"doctor", speak(t, func(w *bytes.Buffer, r *http.Request) {
				headers := []string{"Server: " + header(arg("server")), "Date: " + header(arg("date"))}
				wrong := `{"error":{"code":` + put("code") + `,"message":` + put("message") + `,"category":` + put("category") + `}}`
				switch path := r.URL.Path; {
				case path == "/ready":
					respond(w, http.StatusOK, "application/json", headers, `{"status":`+put("status")+`}`)
				case strings.HasSuffix(path, "/actions"):
					respond(w, http.StatusOK, "application/json", headers, `{"action_list":{"actions":[],"cursor":`+put("cursor")+`}}`)
				case strings.HasSuffix(path, "/approvals"):
					respond(w, http.StatusForbidden, "application/json", headers, wrong)
				case strings.HasSuffix(path, "/manifest"):
					respond(w, http.StatusOK, "application/json", headers, `{"manifest_version":`+put("version")+`,"capabilities":[`+capabilityOf(put)+`]}`)
				default:
					respond(w, http.StatusServiceUnavailable, "x/"+header(arg("type")), headers, wrong)
				}
			}), "--state", "off"}
		},
	},
	{
		name: "a readiness that is nowhere", fields: map[string]string{},
		bytes: true, light: true, says: "doctor.foreign",
		play: func(t *testing.T, _ *world, put, arg func(string) string) []string {
			return []string{"doctor", speak(t, func(w *bytes.Buffer, r *http.Request) {
				respond(w, http.StatusFound, "text/"+header(arg("type")), []string{"Location: http://" + header(arg("host")) + "/", "Date: " + header(arg("date"))}, put("body"))
			}), "--state", "off", "-o", "jsonl"}
		},
	},
	{
		name: "something that speaks no HTTP", fields: map[string]string{},
		bytes: true, light: true, says: "doctor.unreached",
		play: func(t *testing.T, _ *world, _, arg func(string) string) []string {
			return []string{"doctor", speak(t, func(w *bytes.Buffer, _ *http.Request) {
				w.WriteString(arg("noise") + "\r\n" + arg("more") + "\r\n\r\n")
			}), "--state", "off", "-o", "jsonl"}
		},
	},
	{
		name: "a certificate that nobody trusts", fields: map[string]string{"subject": "out json jsonl", "issuer": "out json jsonl"},
		valid: true, light: true, wrapped: true, says: "signed by",
		play: func(t *testing.T, _ *world, put, _ func(string) string) []string {
			url, _ := speakTLS(t, pkix.Name{CommonName: unquoted(put("subject"))}, pkix.Name{CommonName: unquoted(put("issuer"))})
			return []string{"doctor", url, "--state", "off"}
		},
	},
	{
		name: "a certificate that is trusted", fields: map[string]string{"subject": "out json jsonl", "issuer": "out json jsonl"},
		valid: true, light: true, wrapped: true, says: "TLS 1.3",
		play: func(t *testing.T, _ *world, put, _ func(string) string) []string {
			url, ca := speakTLS(t, pkix.Name{CommonName: unquoted(put("subject"))}, pkix.Name{CommonName: unquoted(put("issuer"))})
			return []string{"doctor", url, "--state", "off", "--ca-file", ca}
		},
	},
	{
		name: "a certificate of an organization", fields: map[string]string{"organization": "out json jsonl"},
		valid: true, light: true, wrapped: true, says: "certificate of",
		play: func(t *testing.T, _ *world, put, _ func(string) string) []string {
			// A host name that Go takes for one at all holds nothing but ASCII.
			host := strings.Map(func(r rune) rune {
				if r > unicode.MaxASCII {
					return '_'
				}
				return r
			}, unquoted(put("host")))
			url, ca := speakTLS(t, pkix.Name{}, pkix.Name{Organization: []string{unquoted(put("organization"))}}, host)
			return []string{"doctor", url, "--state", "off", "--ca-file", ca}
		},
	},
	words("a capability to describe", "", func(word string) []string { return []string{"capability", "describe", nobody, word} }),
	words("an endpoint to list", "", func(word string) []string { return []string{"capability", "list", nobody, "--endpoint", word} }),
	words("how to validate", "", func(word string) []string { return callWith("--prompt", "x", "--validate", word) }),
	words("a daemon for the doctor", "", func(word string) []string { return []string{"doctor", "http://" + word, "--state", "off"} }),
}

// wholeCapability has a string in every place that is read.
func wholeCapability(put func(string) string) string {
	return `{"id":"` + hostileChat + `","name":"n","kind":` + put("kind") + `,"stability":` + put("stability") + `,"risk":` + put("risk") +
		`,"auth":{"scheme":` + put("scheme") + `,"source":` + put("source") + `},"requires_human_approval":true` +
		`,"bindings":[{"system":"x","operation":"chat","method":` + put("method") + `,"path":` + put("path") + `}]` +
		`,"contract":{"side_effects":[` + put("effect") + `],"compensation":{"mode":` + put("compensation") + `},"data":{"sensitivity":` + put("sensitivity") + `}` +
		`,"idempotency":{"requirement":` + put("requirement") + `,"key_scope":` + put("scope") + `,"collision_behavior":` + put("collision") + `}` +
		`,"execution":{"supports_sync":true,"supports_async":true,"expected_completion":` + put("expected") + `,"retry_safety":` + put("safety") + `}` +
		`,"approval":{"required":true,"approver_selector":{"type":` + put("selector") + `},"evidence_requirements":[` + put("evidence") + `]}}` +
		`,"input_schema":{"type":"object","required":[` + put("required") + `],"properties":{` + put("member") + `:{"type":"string"},"t":{"type":` + put("type") + `},"c":{"const":` + put("constant") +
		`},"d":{"default":` + put("default") + `},"e":{"enum":[` + put("enum") + `]},"p":{"pattern":` + put("pattern") + `},"f":{"format":` + put("format") + `}}}}`
}

// validated is a call whose input the daemon's schema has to allow.
func validated(t *testing.T, schema, input string) []string {
	t.Helper()
	page := `{"capabilities":[{"capability":{"id":"` + hostileChat + `","input_schema":` + schema + `}}],"total":1}`
	return []string{"action", "call", answering(t, http.StatusOK, page, nil), hostileChat, "--validate", "require", "--input", input}
}

func unquoted(literal string) string {
	var s string
	if err := json.Unmarshal([]byte(literal), &s); err != nil {
		panic(err)
	}
	return s
}

// speakTLS is a daemon whose certificate has these names, and a file with the
// authority that signed it. Without hosts it is for this one.
func speakTLS(t *testing.T, subject, issuer pkix.Name, hosts ...string) (url, caFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	until := time.Now().AddDate(1, 0, 0)
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: issuer, NotBefore: time.Now().Add(-time.Hour), NotAfter: until, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: subject, NotBefore: ca.NotBefore, NotAfter: until, DNSNames: hosts}
	if len(hosts) == 0 {
		leaf.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	caFile = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(caFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER}), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
	if err != nil {
		t.Fatal(err)
	}
	speakOn(t, l, func(w *bytes.Buffer, r *http.Request) {
		respond(w, http.StatusOK, "application/json", nil, `{"status":"ready"}`)
	})
	return "https://" + l.Addr().String(), caFile
}
