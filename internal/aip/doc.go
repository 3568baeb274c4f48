// Package aip holds the wire types of the Agent Interoperability Protocol as
// its native HTTP surface writes them: envelopes, results, statuses, events,
// stream chunks and every form of error.
//
// Invariants kept here:
//
//   - No I/O of its own and no net/http: readers and bytes come in, values go
//     out.
//   - Unknown fields are tolerated everywhere; free JSON stays raw, so numbers
//     keep their digits and times keep their spelling.
//   - A provider frame is decoded in one pass and its raw_data, a second copy
//     of the same data, is skipped unless the caller asks for it by name.
package aip

import "github.com/go-json-experiment/json/jsontext"

// lenient are the decoding rules for bytes that a daemon or a provider wrote:
// duplicate names and broken UTF-8 are somebody's mistake, but not a reason
// to lose the frame that carries the finish.
var lenient = []jsontext.Options{
	jsontext.AllowDuplicateNames(true),
	jsontext.AllowInvalidUTF8(true),
}
