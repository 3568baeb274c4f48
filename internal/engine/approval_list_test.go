package engine

import (
	"context"
	"fmt"
	"testing"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/fault"
)

// endlessList always has one more page.
type endlessList struct{ pages int }

func (l *endlessList) Approvals(context.Context, string, string) ([]*aip.ApprovalView, string, error) {
	l.pages++
	name := fmt.Sprint(l.pages)
	return []*aip.ApprovalView{{Request: aip.ApprovalRequest{ID: "appr_" + name}}}, name, nil
}

func TestAListOfApprovalsHasAnEnd(t *testing.T) {
	var list endlessList
	_, err := ListApprovals(t.Context(), &list, "")
	if f := fault.As(err); f == nil || f.Class != fault.Unavailable || f.Hint == "" || list.pages != mostApprovalPages {
		t.Errorf("%v after %d pages", err, list.pages)
	}
}
