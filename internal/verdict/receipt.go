package verdict

import (
	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/fault"
)

// The operations on stored responses.
const (
	OpResponseGet    = "response_get"
	OpResponseDelete = "response_delete"
)

// Receipt is what a store answered to a deletion, and who had allowed it. It is
// the audit record of a deletion.
type Receipt struct {
	ResponseID string `json:"response_id,omitempty"` // as the receipt names it
	Object     string `json:"object,omitempty"`      // what the receipt says was deleted
	Deleted    bool   `json:"deleted"`               // whether the receipt says that it was
	ApprovalID string `json:"approval_id,omitempty"` // the approval that it waited for
	DecisionID string `json:"decision_id,omitempty"` // the decision that let it run, where that could be read
}

// ReadReceipt reads the output of a completed deletion.
func ReadReceipt(out *aip.Output) *Receipt {
	deleted := aip.Bool(out.Member("deleted"))
	return &Receipt{ResponseID: out.String("id"), Object: out.String("object"), Deleted: deleted != nil && *deleted}
}

// stored holds the output of a stored-response operation against what was
// asked: a deletion has to say that this response was deleted, a read has to
// give this response. A replayed receipt may be shortened, but not changed.
func (j *judge) stored() (Status, string) {
	res := j.ev.Result
	if res == nil || res.Status != aip.StatusCompleted {
		return NotApplicable, ""
	}
	id := res.Output.String("id")
	other := id != "" && j.ev.ResponseID != "" && id != j.ev.ResponseID
	switch j.ev.Operation {
	case OpResponseGet:
		if other {
			return Fail, "the object that was read is another response"
		}
		return NotApplicable, ""
	case OpResponseDelete:
	default:
		return NotApplicable, ""
	}
	r := ReadReceipt(res.Output)
	short := len(res.Output.Member("idempotent_replay")) > 0
	switch {
	case other:
		return Fail, "the receipt names another response"
	case r.Object != "" && r.Object != "response":
		return Fail, "the receipt is not that of a response"
	case !r.Deleted && res.Output.Has("deleted"):
		return Fail, "the receipt does not say that the response was deleted"
	case !r.Deleted, !short && (r.ResponseID == "" || r.Object == ""):
		return Missing, "the receipt is incomplete"
	}
	return Pass, ""
}

// storedIntegrity takes the reading of [judge.stored] into the check of
// integrity; false where it has nothing to say.
func (j *judge) storedIntegrity() bool {
	status, why := j.stored()
	switch status {
	case NotApplicable:
		return false
	case Fail, Missing:
		j.read(fault.Incomplete, why)
	}
	j.out.Checks.Integrity = status
	return true
}
