package identity

import (
	"strings"
	"testing"
)

func TestParseCapability(t *testing.T) {
	for _, tt := range []struct {
		rule, arg string
		want      Capability // with an empty ID for an error
		message   string     // part of message and hint
	}{
		{"an id of the Hermes connector", "cap:hermes_agent:north:chat_stream", Capability{"hermes_agent", "north", "chat_stream", "cap:hermes_agent:north:chat_stream"}, ""},
		{"an endpoint as it is spelled", "cap:hermes_agent:No-rth_1:chat", Capability{"hermes_agent", "No-rth_1", "chat", "cap:hermes_agent:No-rth_1:chat"}, ""},
		{"an operation nobody knows yet", "cap:hermes_agent:north:run_events.v2", Capability{"hermes_agent", "north", "run_events.v2", "cap:hermes_agent:north:run_events.v2"}, ""},
		{"another system with four parts", "cap:aip:server:health", Capability{"aip", "server", "health", "cap:aip:server:health"}, ""},
		{"another system with three parts", "cap:echo:say", Capability{"echo", "", "", "cap:echo:say"}, ""},
		{"another system with five parts", "cap:echo:a:b:c", Capability{"echo", "", "", "cap:echo:a:b:c"}, ""},
		{"an id of another form", "tool:local/grep", Capability{"", "", "", "tool:local/grep"}, ""},
		{"four parts of another form", "x:a:b:c", Capability{"", "", "", "x:a:b:c"}, ""},
		{"an empty endpoint", "cap:hermes_agent::chat", Capability{}, "--endpoint"},
		{"no endpoint", "cap:hermes_agent:chat", Capability{}, "--endpoint"},
		{"an operation alone", "chat_stream", Capability{}, "--endpoint"},
		{"too many parts", "cap:hermes_agent:north:x:chat", Capability{}, "5 parts"},
		{"two parts", "cap:hermes_agent", Capability{}, "2 parts"},
		{"an endpoint with a dot", "cap:hermes_agent:north.1:chat", Capability{}, "is no endpoint"},
		{"an endpoint of 129", "cap:hermes_agent:" + strings.Repeat("n", 129) + ":chat", Capability{}, "is no endpoint"},
		{"an empty operation", "cap:hermes_agent:north:", Capability{}, "does not end in an operation"},
		{"both empty", "cap:hermes_agent::", Capability{}, "no endpoint"},
		{"nothing", "", Capability{}, "missing"},
		{"blanks", "  ", Capability{}, "missing"},
		{"a blank inside", "cap:echo:a b", Capability{}, "white space"},
		{"a line end behind it", "cap:hermes_agent:north:chat\n", Capability{}, "white space"},
		{"an escape sequence", "cap:echo:\x1b[31m", Capability{}, "unprintable"},
		{"a direction override", "cap:echo:\u202e", Capability{}, "unprintable"},
		{"broken UTF-8", "cap:echo:\xff", Capability{}, "unprintable"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			got, err := ParseCapability(tt.arg)
			if tt.message == "" && err != nil {
				t.Fatal(err)
			}
			if tt.message != "" {
				if e := wantUsage(t, err); !strings.Contains(e.Message+" "+e.Hint, tt.message) {
					t.Errorf("message %q, hint %q", e.Message, e.Hint)
				}
			}
			if got != tt.want {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestQualifyCapability(t *testing.T) {
	for _, tt := range []struct {
		rule, arg, endpoint string
		want                string // id; empty for an error
		message             string
	}{
		{"a bare operation", "chat_stream", "north", "cap:hermes_agent:north:chat_stream", ""},
		{"the endpoint is trimmed and lower-cased", "chat", " North ", "cap:hermes_agent:north:chat", ""},
		{"an empty endpoint is filled in", "cap:hermes_agent::chat", "north", "cap:hermes_agent:north:chat", ""},
		{"a missing endpoint is filled in", "cap:hermes_agent:chat", "north", "cap:hermes_agent:north:chat", ""},
		{"a whole id with the same endpoint", "cap:hermes_agent:north:chat", "north", "cap:hermes_agent:north:chat", ""},
		{"a whole id without the flag", "cap:hermes_agent:north:chat", "", "cap:hermes_agent:north:chat", ""},
		{"another id without the flag", "cap:aip:server:health", "", "cap:aip:server:health", ""},
		{"a whole id with another endpoint", "cap:hermes_agent:north:chat", "south", "", "--endpoint south"},
		{"an id of another system with an endpoint", "cap:aip:server:health", "server", "", "--endpoint server"},
		{"an operation without the flag", "chat", "", "", "--endpoint"},
		{"a bad endpoint", "chat", "no rth", "", "is no endpoint"},
		{"a blank endpoint", "chat", " ", "", "is no endpoint"},
		{"a bad operation", "ch at", "north", "", "is no operation"},
		{"no operation", "", "north", "", "missing"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			got, err := QualifyCapability(tt.arg, tt.endpoint)
			if tt.want == "" {
				if e := wantUsage(t, err); !strings.Contains(e.Message+" "+e.Hint, tt.message) {
					t.Errorf("message %q, hint %q", e.Message, e.Hint)
				}
			} else if err != nil {
				t.Fatal(err)
			}
			if got.ID != tt.want {
				t.Errorf("got %q, want %q", got.ID, tt.want)
			}
		})
	}
}
