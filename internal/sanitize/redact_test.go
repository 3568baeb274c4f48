package sanitize

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
)

func TestRedactor(t *testing.T) {
	const secret = `s3cr/t+"<é😀>&key`
	base := base64.StdEncoding.EncodeToString
	asJSON, err := json.Marshal(secret)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ rule, in, want string }{
		{"the secret itself", "token " + secret + " refused", "token [redacted] refused"},
		{"every time", secret + " and " + secret, "[redacted] and [redacted]"},
		{"next to itself", secret + secret, "[redacted]"},
		{"JSON", "got " + string(asJSON), `got "[redacted]"`},
		{"JSON without HTML escapes", `"s3cr/t+\"<é😀>&key"`, `"[redacted]"`},
		{"JSON with escaped slashes", `"s3cr\/t+\"<é😀>&key"`, `"[redacted]"`},
		{"JSON in ASCII", `"s3cr/t+\"<\u00e9\ud83d\ude00>&key"`, `"[redacted]"`},
		{"JSON in ASCII, capital digits", `"s3cr/t+\"<\u00E9\uD83D\uDE00>&key"`, `"[redacted]"`},
		{"JSON in ASCII with escaped slashes", `"s3cr\/t+\"<\u00e9\ud83d\ude00>&key"`, `"[redacted]"`},
		{"JSON in ASCII with HTML escapes", `"s3cr/t+\"\u003c\u00e9\ud83d\ude00\u003e\u0026key"`, `"[redacted]"`},
		{"URL query", "?t=" + url.QueryEscape(secret) + "&u=1", "?t=[redacted]&u=1"},
		{"URL path", "/" + url.PathEscape(secret) + "/x", "/[redacted]/x"},
		{"URL with small digits", "?t=s3cr%2ft%2b%22%3c%c3%a9%f0%9f%98%80%3e%26key", "?t=[redacted]"},
		{"base64", "Basic " + base([]byte(secret)) + ".", "Basic [redacted]."},
		{"base64 without padding", "Basic " + base64.RawStdEncoding.EncodeToString([]byte(secret)) + ".", "Basic [redacted]."},
		{"nothing else", "token s3cr refused", "token s3cr refused"},
		{"an empty text", "", ""},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			if got := NewRedactor(secret).String(tc.in); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// Within a longer value the first and last digit belong to the neighbours as
// well; all the others have to go.
func TestRedactorFindsBase64WithinOtherValues(t *testing.T) {
	const secret = "correct-horse-battery"
	for _, before := range []string{"a:", "ab:", "abc:", "abcd:"} {
		for _, after := range []string{"", "x", "yz"} {
			in := base64.StdEncoding.EncodeToString([]byte(before + secret + after))
			got := NewRedactor(secret).String(in)
			rest := strings.ReplaceAll(got, "[redacted]", "")
			if own := (len(before) + len(after) + 2) * 8 / 6; len(rest) > own+4 {
				t.Errorf("%s: %s leaves %q", before+after, got, rest)
			}
			if got == in {
				t.Errorf("%s: not found in %s", before+after, in)
			}
		}
	}
}

func TestRedactorSecrets(t *testing.T) {
	for _, tc := range []struct {
		rule    string
		secrets []string
		in      string
		want    string
	}{
		{"no secrets", nil, "as it was", "as it was"},
		{"a short secret is left out", []string{"abc", ""}, "abcabc", "abcabc"},
		{"four bytes are enough", []string{"abcd"}, "xabcdx", "x[redacted]x"},
		{"white space around it is not part of it", []string{" abcdef\n"}, "<abcdef>", "<[redacted]>"},
		{"white space alone is left out", []string{"     "}, "a      b", "a      b"},
		{"a longer secret hides the shorter one in it", []string{"abcd", "abcdefgh"}, "abcdefgh", "[redacted]"},
		{"the order of the secrets does not matter", []string{"cdefgh", "abcd"}, "x abcdefgh abcd cdefgh.", "x [redacted] [redacted] [redacted]."},
		{"a blank in a URL is %20", []string{"ab cd&é"}, "?t=ab%20cd%26%C3%A9", "?t=[redacted]"},
		{"a blank in a URL is %20 with small digits", []string{"ab cd&é"}, "?t=ab%20cd%26%c3%a9", "?t=[redacted]"},
		{"a blank in a URL is a plus sign", []string{"ab cd&é"}, "?t=ab+cd%26%C3%A9", "?t=[redacted]"},
		{"base64 of the common alphabet", []string{"~~~???>>"}, "fn5+Pz8/Pj4= fn5+Pz8/Pj4", "[redacted] [redacted]"},
		{"base64 of the URL alphabet", []string{"~~~???>>"}, "fn5-Pz8_Pj4= fn5-Pz8_Pj4", "[redacted] [redacted]"},
		{"secrets that overlap leave no end over", []string{"abcd", "cdefgh"}, "abcdefgh.", "[redacted]."},
		{"a secret that overlaps itself leaves no end over", []string{"abab"}, "ababab.", "[redacted]."},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			if got := NewRedactor(tc.secrets...).String(tc.in); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestNoRedactorChangesNothing(t *testing.T) {
	var none *Redactor
	if got := none.String("abc") + new(Redactor).String("def"); got != "abcdef" {
		t.Errorf("got %q", got)
	}
}

func TestRedactorDoesNotPrintItsSecrets(t *testing.T) {
	r := NewRedactor("hunter2hunter2")
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		if got := fmt.Sprintf(verb, r); got != "redactor" {
			t.Errorf("%s prints %q", verb, got)
		}
		if got := fmt.Sprintf(verb, *r); strings.Contains(got, "hunter2") {
			t.Errorf("%s of the value prints %q", verb, got)
		}
	}
}

func TestRedactedJSONIsJSON(t *testing.T) {
	for _, tc := range []struct{ rule, secret, in, want string }{
		{"nothing to do", "secret", `{"a":"b"}`, `{"a":"b"}`},
		{"a value", "secret", `{"a":"x secret y","b":["secret"]}`, `{"a":"x [redacted] y","b":["[redacted]"]}`},
		{"a name", "secret", `{"secret":"secret"}`, `{"secret":"[redacted]"}`},
		{"a name before white space", "secret", `{"secret" : 1}`, `{"secret" : 1}`},
		{"a number", "1234", `{"n":1234,"s":"1234"}`, `{"n":1234,"s":"[redacted]"}`},
		{"a word", "true", `{"b":true,"s":"true"}`, `{"b":true,"s":"[redacted]"}`},
		{"over the border of strings", `","b":"`, `{"a":"x","b":"y"}`, `{"a":"x","b":"y"}`},
		{"within an escape", "001b", `{"a":"\u001b[2J"}`, `{"a":"\u001b[2J"}`},
		{"beside an escape", "secret", `{"a":"\u001b\u202e\ud83d\udc68\\secret\""}`, `{"a":"\u001b\u202e👨\\[redacted]\""}`},
		{"with escapes", `se"cr\et`, `{"a":"se\"cr\\et"}`, `{"a":"[redacted]"}`},
		{"no JSON", "secret", `{"a":"secret`, `{"a":"[redacted]`},
	} {
		if got := NewRedactor(tc.secret).JSON(tc.in); got != tc.want {
			t.Errorf("%s: %s gives %s, want %s", tc.rule, tc.in, got, tc.want)
		}
	}
}

func FuzzRedactedJSON(f *testing.F) {
	f.Add("secret", `{"a":"secret","secret":[1234,"x"]}`)
	f.Add("1234", `[1234,"\u12341234"]`)
	f.Add(`":"`, `{"":""}`)
	f.Fuzz(func(t *testing.T, secret, text string) {
		got := NewRedactor(secret).JSON(text)
		if !json.Valid([]byte(text)) {
			return
		}
		if !json.Valid([]byte(got)) {
			t.Fatalf("%q of %s leaves %s", secret, text, got)
		}
	})
}
