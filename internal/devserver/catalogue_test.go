package devserver

import (
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

const capabilitiesPath = "/aip/v1/capabilities"

// catalogueIDs reads the catalogue through all of its pages.
func (d *daemon) catalogueIDs(query string) (ids []string, pages int) {
	d.t.Helper()
	cursor := ""
	for {
		r := d.get(capabilitiesPath + "?" + query + cursor)
		r.want(d.t, 200)
		pages++
		var page struct {
			Capabilities []struct {
				Capability struct {
					ID string `json:"id"`
				} `json:"capability"`
				ContractDigest string `json:"contract_digest"`
				SchemaDigest   string `json:"schema_digest"`
			} `json:"capabilities"`
			NextCursor *string `json:"next_cursor"`
			Total      int     `json:"total"`
		}
		if err := json.Unmarshal([]byte(r.body), &page); err != nil {
			d.t.Fatal(err)
		}
		for _, row := range page.Capabilities {
			ids = append(ids, row.Capability.ID)
			if len(row.ContractDigest) != 64 || len(row.SchemaDigest) != 64 {
				d.t.Errorf("%s has digests %q and %q", row.Capability.ID, row.ContractDigest, row.SchemaDigest)
			}
		}
		if page.NextCursor == nil {
			if !strings.Contains(r.body, `"next_cursor":null`) {
				d.t.Error("the last cursor is not written as null")
			}
			if len(ids) != page.Total {
				d.t.Errorf("%d capabilities of %d", len(ids), page.Total)
			}
			return ids, pages
		}
		cursor = "&cursor=" + url.QueryEscape(*page.NextCursor)
	}
}

func TestCatalogueHasEveryCapabilityOnce(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		var want []string
		for _, sc := range serves(Scenarios()) {
			want = append(want, sc.CapabilityID())
		}
		for query, pages := range map[string]int{"": 2, "limit=200": 1, "limit=50": (len(want) + 49) / 50} {
			ids, n := d.catalogueIDs(query)
			if !slices.Equal(ids, want) || n != pages {
				t.Errorf("%q: %d capabilities in %d pages, want %d in %d", query, len(ids), n, len(want), pages)
			}
		}
		if slices.Sort(want); len(slices.Compact(want)) != len(serves(Scenarios())) {
			t.Error("an id stands twice")
		}
	})
}

func TestCatalogueFilters(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		for _, tc := range []struct{ query, want string }{
			{"capability_id=cap:hermes_agent:stored:response_get", "cap:hermes_agent:stored:response_get"},
			{"capability_id=cap:hermes_agent:stored", ""},
			{"text=KEEPALIVES", "cap:hermes_agent:chat-keepalive:chat_stream"},
			{"text=stored-busy:response_g&profile=" + bindingProfile, "cap:hermes_agent:stored-busy:response_get"},
			{"profile=aip.native.v1", ""},
		} {
			if ids, _ := d.catalogueIDs(tc.query); strings.Join(ids, " ") != tc.want {
				t.Errorf("%s: %v", tc.query, ids)
			}
		}
	})
}

func TestStaleCursor(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		first := d.get(capabilitiesPath + "?limit=10")
		first.want(t, 200, "/catalog_revision", "1")
		cursor := first.at(t, "/next_cursor").(string)
		d.get(capabilitiesPath+"?limit=20&cursor="+cursor).want(t, 200, "/catalog_revision", "1")
		d.get(capabilitiesPath+"?text=chat&cursor="+cursor).want(t, 400, "/error/code", "connector_catalog.invalid_query")
		d.server.ReviseCatalogue()
		d.get(capabilitiesPath+"?limit=10&cursor="+cursor).want(t, 409, "/error/code", "connector_catalog.stale_cursor", "/body", "<nil>")
		d.get(capabilitiesPath+"?limit=10").want(t, 200, "/catalog_revision", "2")
	})
}

func TestCatalogueQueries(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		for _, query := range []string{
			"limit=0", "limit=201", "text=", "capability_id=", "profile=", "cursor=none", "cursor=MQ",
			"text=" + strings.Repeat("x", 513), "cursor=" + strings.Repeat("x", 2049),
		} {
			r := d.get(capabilitiesPath + "?" + query)
			r.want(t, 400, "/error/code", "connector_catalog.invalid_query", "/body", "<nil>")
			if r.at(t, "/error/message") == nil {
				t.Errorf("%s: no message", query)
			}
		}
		d.get(capabilitiesPath+"?limit=-1").wantPlain(t, 400)
		d.get(capabilitiesPath+"?text="+strings.Repeat("x", 512)).want(t, 200, "/total", "0", "/capabilities", "[]")
		d.get(capabilitiesPath, "Authorization", "").want(t, 401, code, "auth.native_http_unauthorized")
		if r := d.post(capabilitiesPath, "{}"); r.status != 405 {
			t.Errorf("a POST is %d", r.status)
		}
	})
}

// TestPlacesOfDiscovery: either may be missing, closed or down, each in its own
// words, and the other does not care.
func TestPlacesOfDiscovery(t *testing.T) {
	for _, tc := range []struct {
		rule                string
		catalogue, manifest Discovery
		want                string // status and code of both; a 404 of the manifest has none
	}{
		{"both", DiscoveryOn, DiscoveryOn, "200 <nil> 200 <nil>"},
		{"no catalogue", DiscoveryOff, DiscoveryOn, "404 connector_catalog.disabled 200 <nil>"},
		{"neither", DiscoveryOff, DiscoveryOff, "404 connector_catalog.disabled 404 "},
		{"a token without a tenant", DiscoveryRefused, DiscoveryRefused, "403 connector_catalog.tenant_required 200 <nil>"},
		{"both down", DiscoveryUnavailable, DiscoveryUnavailable, "503 connector_catalog.unavailable 503 storage.unavailable"},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			withDaemon(t, Options{Catalogue: tc.catalogue, Manifest: tc.manifest}, func(t *testing.T, d *daemon) {
				c, m := d.get(capabilitiesPath), d.get("/aip/v1/manifest")
				got := fmt.Sprint(c.status, " ", c.at(t, "/error/code"), " ", m.status, " ")
				if m.body != "" {
					got += fmt.Sprint(m.at(t, code))
				}
				if got != tc.want {
					t.Errorf("got %s, want %s", got, tc.want)
				}
				if c.status == 404 && c.body != `{"error":{"code":"connector_catalog.disabled"}}` {
					t.Errorf("the 404 says %s", c.body)
				}
				// What runs does not depend on what is told.
				d.submit("chat-empty", "act_1", nil).want(t, 200, "/body/action_result/status", "completed")
			})
		})
	}
	withDaemon(t, Options{Catalogue: DiscoveryRefused}, func(t *testing.T, d *daemon) {
		d.get(capabilitiesPath).want(t, 403, "/error/principal_id", edgePrincipal.ID, "/error/message", "<nil>")
	})
}

// TestContractOfDeletion: everything that a careless client has to be told.
func TestContractOfDeletion(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		const c = "/capabilities/0/capability/"
		d.get(capabilitiesPath+"?capability_id=cap:hermes_agent:delete:response_delete").want(t, 200, "/total", "1",
			c+"risk", "high", c+"stability", "experimental", c+"requires_human_approval", "true", c+"kind", "agent",
			c+"contract/side_effects", "[read delete external_network]",
			c+"contract/idempotency/requirement", "required", c+"contract/idempotency/ttl_ms", "86400000",
			c+"contract/idempotency/collision_behavior", "return_original_result", c+"contract/idempotency/key_scope", "capability",
			c+"contract/execution/retry_safety", "unsafe", c+"contract/execution/supports_retry", "false",
			c+"contract/approval/ttl_ms", "900000", c+"contract/approval/evidence_requirements", "[reason input_snapshot policy_decision]",
			c+"contract/approval/separation_of_duties/requester_must_differ", "true",
			c+"contract/data/sensitivity", "restricted", c+"contract/data/contains_pii", "true",
			c+"contract/sla/timeout_ms", "60000", c+"contract/compensation/mode", "rollback_not_supported",
			c+"bindings/0/method", "DELETE", c+"input_schema/required", "[response_id]",
			c+"input_schema/$schema", "https://json-schema.org/draft/2020-12/schema")
		// The declaration of the read is weaker than what it reads.
		d.get(capabilitiesPath+"?capability_id=cap:hermes_agent:stored:response_get").want(t, 200,
			c+"contract/data/sensitivity", "internal", c+"contract/data/contains_pii", "false", c+"contract/data/redaction_required", "true",
			c+"contract/execution/retry_safety", "safe", c+"contract/idempotency/ttl_ms", "<nil>", c+"contract/approval", "<nil>")
	})
}

func TestManifestFilters(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		operations := func(query string) string {
			r := d.get("/aip/v1/manifest?" + query)
			r.want(t, 200)
			seen := map[string]bool{}
			list, _ := r.at(t, "/capabilities").([]any)
			for _, c := range list {
				seen[c.(map[string]any)["bindings"].([]any)[0].(map[string]any)["operation"].(string)] = true
			}
			var names []string
			for name := range seen {
				names = append(names, name)
			}
			slices.Sort(names)
			return strings.Join(names, " ")
		}
		for _, tc := range []struct{ query, want string }{
			{"capability_id=cap:hermes_agent:stored:response_get,cap:hermes_agent:health-ok:health", "health response_get"},
			{"side_effect=delete", "response_delete"},
			{"requires_approval=true", "chat_stream response_delete"},
			{"requires_approval=true&risk=low", ""},
			{"risk=low,critical", "health response_get run_events"},
			{"supports_streaming=true&risk=high", "chat_stream operator"},
			{"supports_transactions=true", ""},
			{"profile=other", ""},
			{"capability_id=", "chat chat_stream future_stream health operator response_delete response_get responses responses_stream run_events session_chat_stream"},
		} {
			if got := operations(tc.query); got != tc.want {
				t.Errorf("%s: %s", tc.query, got)
			}
		}
		d.get("/aip/v1/manifest?risk=grave").want(t, 400, code, "query.invalid")
		d.get("/aip/v1/manifest?supports_streaming=yes").wantPlain(t, 400)
	})
}

// TestAnnouncedSchema: a test may have a schema announced that the daemon does
// not hold anybody to; other daemons go on announcing their own.
func TestAnnouncedSchema(t *testing.T) {
	const id = "cap:hermes_agent:chat-stop:chat_stream"
	odd := json.RawMessage(`{"$ref":"https://example.com/schema.json"}`)
	schema := func(t *testing.T, d *daemon) any {
		r := d.get(capabilitiesPath + "?capability_id=" + id)
		m := d.get("/aip/v1/manifest?capability_id=" + id)
		one, other := r.at(t, "/capabilities/0/capability/input_schema"), m.at(t, "/capabilities/0/input_schema")
		if !reflect.DeepEqual(one, other) {
			t.Errorf("catalogue and manifest differ: %v, %v", one, other)
		}
		return one
	}
	withDaemon(t, Options{Schemas: map[string]json.RawMessage{id: odd}}, func(t *testing.T, d *daemon) {
		if got := schema(t, d); !reflect.DeepEqual(got, decoded(t, odd)) {
			t.Errorf("announced %v", got)
		}
		d.submit("chat-stop", "act_1", nil).want(t, 200, "/body/action_result/status", "completed")
	})
	synctest.Test(t, func(t *testing.T) {
		runDaemon(t, Options{}, func(t *testing.T, d *daemon) {
			if got := schema(t, d).(map[string]any); got["oneOf"] == nil {
				t.Errorf("announced %v", got)
			}
		})
	})
}
