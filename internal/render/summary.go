package render

import (
	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/sanitize"
	"github.com/aipctl/aipctl/internal/verdict"
	"github.com/go-json-experiment/json/jsontext"
)

// summary is the last line of a run: how it ended, and what it took.
func summary(o *verdict.Outcome) sanitize.Text {
	var parts []sanitize.Text
	add := func(t sanitize.Text) { parts = append(parts, t) }

	head := sanitize.Format("verdict: %s", sanitize.LineMax(o.Verdict, nameMax))
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
	if o.ErrorCode != "" {
		add(sanitize.Format("code %s", sanitize.LineMax(o.ErrorCode, idMax)))
	}
	if o.ApprovalID != "" {
		add(sanitize.Format("approval %s", sanitize.LineMax(o.ApprovalID, idMax)))
	}
	add(finish(o))
	add(tokens(o.Usage))
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

// finish is the provider's own word for the end.
func finish(o *verdict.Outcome) sanitize.Text {
	switch {
	case o.FinishReason != "":
		return sanitize.Format("finish %s", sanitize.LineMax(o.FinishReason, nameMax))
	case o.ProviderStatus != "":
		return sanitize.Format("finish %s", sanitize.LineMax(o.ProviderStatus, nameMax))
	default:
		return sanitize.Static("finish none")
	}
}

// tokens reads the count of the provider, digit for digit. Chat and Responses
// have different names for it.
func tokens(usage jsontext.Value) sanitize.Text {
	in := count(usage, "prompt_tokens", "input_tokens")
	out := count(usage, "completion_tokens", "output_tokens")
	if in.IsEmpty() && out.IsEmpty() {
		return sanitize.Static("tokens not reported")
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
