package devserver

import (
	"encoding/json"
	"net/http"
	"sync"
)

// storedStates are the states a stored response can be found in, each with a
// recorded object.
var storedStates = []string{"completed", "failed", "incomplete", "in_progress"}

// SeededResponses returns the id of a stored response in each state: completed,
// failed, incomplete, in_progress. The endpoints whose scenario is about stored
// responses keep these four from the start.
func SeededResponses() map[string]string {
	ids := map[string]string{}
	for state, object := range seededResponses() {
		ids[state] = idOf(object)
	}
	return ids
}

// seededResponses are the recorded objects, by state.
var seededResponses = sync.OnceValue(func() map[string]json.RawMessage {
	objects := map[string]json.RawMessage{}
	for _, state := range storedStates {
		text, err := recordings.ReadFile("scenarios/stored/" + state + ".json")
		if err != nil {
			panic("devserver: " + err.Error())
		}
		objects[state] = bodyValue(string(text))
	}
	return objects
})

// storedTraps are what is wrong with a provider's dealing with stored responses.
type storedTraps struct {
	forgets    bool // nothing is ever stored, whatever was asked
	busy       int  // this many requests are answered 503 first
	afterwards int  // a deletion is carried out and answered with this status
	wrongID    bool // the receipt names another response
	notDeleted bool // the receipt says that nothing was deleted
}

// otherResponse is the id in a receipt that names the wrong one.
const otherResponse = "resp_00000000000000000000000000ff"

// storedObject is response_get and response_delete: one request for one stored
// response. The provider's JSON becomes the output as it is. Unknown, deleted,
// evicted and never stored ids are all the same 404, which the connector reports
// as rejected, without the provider's words.
func (s *Server) storedObject(r *run) outcome {
	sc, p := r.scenario, s.provider(r.scenario.Name)
	id, _ := stringValue(members(r.action.Input)[sc.contract().pathID])
	var out json.RawMessage
	var status int
	if sc.Operation == "response_get" {
		out, status = p.get(id)
	} else if status = p.remove(id); status == http.StatusOK {
		out, status = receipt(id, sc.play.stored)
	}
	if status != http.StatusOK {
		return outcome{err: providerRefusal(sc, status)}
	}
	return outcome{result: actionResult{ActionID: r.action.ID, Status: "completed", Output: out, Message: messageOf("", out)}}
}

// receipt is the provider's answer to a deletion that it carried out.
func receipt(id string, traps storedTraps) (json.RawMessage, int) {
	if traps.afterwards != 0 {
		return nil, traps.afterwards
	}
	if traps.wrongID {
		id = otherResponse
	}
	return encode(struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Deleted bool   `json:"deleted"`
	}{id, "response", !traps.notDeleted}), http.StatusOK
}

// serves lists the scenarios with the other capabilities of their endpoints: one
// that makes or keeps responses also reads and deletes them, and one that is
// about kept ones also makes them.
func serves(scenarios []Scenario) []Scenario {
	var list []Scenario
	for _, sc := range scenarios {
		list = append(list, sc)
		var others []Scenario
		switch sc.Operation {
		case "response_get", "response_delete":
			others = group("responses_stream", responsesDemo, []Scenario{{Summary: "makes a response, of a short answer"}})
			fallthrough
		case "responses", "responses_stream":
			others = append(others, group("response_get", storedDemo, []Scenario{{Summary: "reads a response that this endpoint keeps"}})...)
			others = append(others, group("response_delete", storedDemo, []Scenario{{Summary: "deletes a response that this endpoint keeps"}})...)
		}
		for _, other := range others {
			if other.Operation != sc.Operation {
				other.Name, other.play = sc.Name, sc.play
				list = append(list, other)
			}
		}
	}
	return list
}

// providersOf makes the provider of each endpoint, with what it keeps from the
// start.
func providersOf(scenarios []Scenario) map[string]*provider {
	all, ids := map[string]*provider{}, SeededResponses()
	for _, sc := range scenarios {
		p := newProvider()
		all[sc.Name] = p
		traps := sc.play.stored
		for range traps.busy {
			p.refusals = append(p.refusals, http.StatusServiceUnavailable)
		}
		if sc.contract().form != storedResponse || traps.forgets {
			continue
		}
		for _, state := range storedStates {
			p.keep(ids[state], seededResponses()[state])
		}
	}
	return all
}

// storedDemo reads or deletes the completed one of the seeded responses.
var storedDemo = `{"response_id":"` + SeededResponses()["completed"] + `"}`

// storedScenarios are about reading stored responses.
func storedScenarios() []Scenario {
	return keeping([]Scenario{
		{Name: "stored", Summary: "four stored responses, one of each state; this is the completed one"},
		{Name: "stored-missing", Summary: "404: never stored, deleted, evicted, or kept by another instance", play: script{stored: storedTraps{forgets: true}}},
		{Name: "stored-unauthorized", Summary: "the provider answers 401", play: script{providerStatus: 401}},
		{Name: "stored-busy", Summary: "the provider answers 503 twice, then as it should", play: script{stored: storedTraps{busy: 2}}},
		{Name: "stored-key-once", Summary: "a key that was used before is refused, whatever it was used for", play: script{key: KeyTerms{Collision: "reject_conflict"}}},
		{Name: "stored-key-same", Summary: "a key that was used before is refused for another input", play: script{key: KeyTerms{Collision: "revalidate_input_hash"}}},
	})
}

// deleteScenarios are about deletions. A human has to approve each of them.
func deleteScenarios() []Scenario {
	return keeping([]Scenario{
		{Name: "delete", Summary: "deletes a stored response once a human has approved"},
		{Name: "delete-wrong-id", Summary: "the receipt names another response", play: script{stored: storedTraps{wrongID: true}}},
		{Name: "delete-not-deleted", Summary: "the receipt says deleted: false", play: script{stored: storedTraps{notDeleted: true}}},
		{Name: "delete-answer-lost", Summary: "the response is deleted, and the provider answers 503", play: script{stored: storedTraps{afterwards: http.StatusServiceUnavailable}}},
		{Name: "delete-hash-changed", Summary: "the approval on record is about another input than the one submitted", play: script{otherHashes: true}},
		{Name: "delete-decision-lost", Summary: "the decision is recorded and the deletion runs, but the reply never arrives", play: script{loseDecision: true}},
	})
}

// keeping gives endpoints that are about kept responses what they play when they
// are asked for a new one.
func keeping(list []Scenario) []Scenario {
	for i := range list {
		list[i].play.frames = load("responses_ok")
	}
	return list
}
