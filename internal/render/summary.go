package render

import (
	"strings"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/sanitize"
	"github.com/aipctl/aipctl/internal/verdict"
	"github.com/go-json-experiment/json/jsontext"
)

// summary is the last line of a run: how it ended, and what it took.
func summary(o *verdict.Outcome) sanitize.Text {
	var parts []sanitize.Text
	add := func(t sanitize.Text) { parts = append(parts, t) }

	head := sanitize.Format("verdict: %s", sanitize.LineMax(o.Verdict, nameMax))
	if o.Stored != nil && o.Stored.Status != "" {
		// The verdict is that of the read; nobody should take it for one about
		// what was read.
		head = sanitize.Format("stored response %s: %s", sanitize.LineMax(o.Stored.ResponseID, idMax), sanitize.LineMax(o.Stored.Status, nameMax))
	}
	if o.Recorded {
		head = sanitize.Format("%s, as recorded", head)
	}
	if o.ExitCode != 0 {
		head = sanitize.Format("%s (exit %s)", head, sanitize.Int(int64(o.ExitCode)))
	}
	add(head)
	if o.Reason != "" {
		add(sanitize.LineMax(o.Reason, reasonMax))
	}
	if o.ErrorCode != "" && !strings.Contains(o.Reason, o.ErrorCode) {
		add(sanitize.Format("code %s", sanitize.LineMax(o.ErrorCode, idMax)))
	}
	if o.ApprovalID != "" {
		add(sanitize.Format("approval %s", sanitize.LineMax(o.ApprovalID, idMax)))
	}
	if r := o.Receipt; r != nil && r.Deleted {
		t := sanitize.Format("receipt: %s deleted", sanitize.LineMax(r.ResponseID, idMax))
		if r.DecisionID != "" {
			t = sanitize.Format("%s, decision %s", t, sanitize.LineMax(r.DecisionID, idMax))
		}
		add(t)
	}
	// An action that was not let run, or not to its end, is not asked for them.
	if f := finish(o); !f.IsEmpty() {
		add(f)
	} else if ran(o) {
		add(sanitize.Static("finish none"))
	}
	if t := tokens(o.Usage); !t.IsEmpty() {
		add(t)
	} else if ran(o) {
		add(sanitize.Static("tokens not reported"))
	}
	switch {
	case o.FirstTextMS != nil:
		add(sanitize.Format("first text %s", millis(*o.FirstTextMS)))
	case o.TextBytes == 0:
		add(sanitize.Static("no text"))
	}
	add(sanitize.Format("total %s", millis(o.TotalMS)))
	add(sanitize.Format("reconnects %s", sanitize.Int(int64(o.Reconnects))))
	add(sanitize.Format("warnings %s", sanitize.Int(int64(len(o.Warnings)))))
	return sanitize.Join("; ", parts...)
}

// ran reports whether the verdict is one of an action that came to its end.
func ran(o *verdict.Outcome) bool {
	switch o.Verdict {
	case fault.Pending.String(), fault.Cancelled.String(), fault.Rejected.String(),
		fault.Auth.String(), fault.NotFound.String(), fault.Unavailable.String():
		return false
	}
	return o.Receipt == nil // a deletion has no finish and no tokens
}

// finish is the provider's own word for the end; empty for none.
func finish(o *verdict.Outcome) sanitize.Text {
	switch {
	case o.FinishReason != "":
		return sanitize.Format("finish %s", sanitize.LineMax(o.FinishReason, nameMax))
	case o.ProviderStatus != "":
		return sanitize.Format("finish %s", sanitize.LineMax(o.ProviderStatus, nameMax))
	}
	return sanitize.Text{}
}

// tokens reads the count of the provider, digit for digit; it is empty where
// there is none. Chat and Responses have different names for it.
func tokens(usage jsontext.Value) sanitize.Text {
	in := count(usage, "prompt_tokens", "input_tokens")
	out := count(usage, "completion_tokens", "output_tokens")
	if in.IsEmpty() && out.IsEmpty() {
		return sanitize.Text{}
	}
	unknown := sanitize.Static("?")
	if in.IsEmpty() {
		in = unknown
	}
	if out.IsEmpty() {
		out = unknown
	}
	return sanitize.Format("tokens %s in, %s out", in, out)
}

func count(usage jsontext.Value, names ...string) sanitize.Text {
	for _, name := range names {
		if v := aip.Member(usage, name); len(v) > 0 && v.Kind() == '0' {
			return sanitize.LineMax(string(v), nameMax)
		}
	}
	return sanitize.Text{}
}
