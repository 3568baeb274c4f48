package devserver

import (
	"fmt"
	"maps"
	"slices"
)

// Recording is a provider's answer that a caller brings along to have it played
// through the rules of the connector, without pauses.
type Recording struct {
	// Operation is the Hermes operation that the provider was asked for. It has
	// to be one whose provider answers with an event stream.
	Operation string
	// SSE are the bytes of the body as the provider wrote them.
	SSE []byte
	// Cut says that the transfer broke off behind these bytes; otherwise the
	// body ended as it should.
	Cut bool
}

// scenariosOf makes scenarios of the recordings, in the order of their names.
// The input of each is that of the first scenario with the same operation. It
// panics where a name is a scenario's already, or where the operation has no
// event stream: both are mistakes of the program that starts the daemon.
func scenariosOf(recordings map[string]Recording, known []Scenario) []Scenario {
	var list []Scenario
	for _, name := range slices.Sorted(maps.Keys(recordings)) {
		rec := recordings[name]
		if slices.ContainsFunc(known, func(sc Scenario) bool { return sc.Name == name }) {
			panic(fmt.Sprintf("devserver: %s is a scenario already", name))
		}
		model := slices.IndexFunc(known, func(sc Scenario) bool { return sc.Operation == rec.Operation })
		if model < 0 || known[model].contract().form != eventStream {
			panic(fmt.Sprintf("devserver: the operation %q of recording %s has no event stream", rec.Operation, name))
		}
		sc := Scenario{Name: name, Summary: "a recording brought along", play: script{frames: recording{{data: rec.SSE}}}}
		if rec.Cut {
			sc.play.end = endCut
		}
		list = append(list, group(rec.Operation, known[model].Demo, []Scenario{sc})...)
	}
	return list
}
