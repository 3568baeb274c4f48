package cmd

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/record"
)

// What waits stands first, and of that what expires soonest; of the rest what
// changed last.
func TestApprovalsThatWaitStandFirst(t *testing.T) {
	now := time.Date(2030, 1, 15, 9, 30, 0, 0, time.UTC)
	view := func(id, status, expires, updated string) *aip.ApprovalView {
		return &aip.ApprovalView{Status: status, CreatedAt: "2030-01-15T09:00:00Z", UpdatedAt: updated, Request: aip.ApprovalRequest{ID: id, ExpiresAt: expires}}
	}
	var list []record.ApprovalRecord
	for _, v := range []*aip.ApprovalView{
		view("denied-early", "denied", "2030-01-15T09:31:00Z", "2030-01-15T09:10:00Z"),
		view("late", "pending", "2030-01-15T10:00:00Z", ""),
		view("never", "pending", "", ""),
		view("over", "pending", "2030-01-15T09:29:59Z", ""),
		view("approved-late", "approved", "2030-01-15T09:31:00Z", "2030-01-15T09:20:00Z"),
		view("soon", "pending", "2030-01-15T09:31:00Z", ""),
	} {
		list = append(list, approvalRecord(v, now))
	}
	slices.SortStableFunc(list, soonest)
	var ids []string
	for _, a := range list {
		ids = append(ids, a.ApprovalID)
		if a.AgeMS == nil || *a.AgeMS != (30*time.Minute).Milliseconds() || (a.LeftMS != nil) != (a.Status == aip.ApprovalPending && a.ExpiresAt != "") {
			t.Errorf("%s: age %v, left %v", a.ApprovalID, a.AgeMS, a.LeftMS)
		}
	}
	if got, want := strings.Join(ids, " "), "over soon late never approved-late denied-early"; got != want {
		t.Errorf("order %s, want %s", got, want)
	}
	if line := approvalLine(list[0]).String(); !strings.Contains(line, "age 30m0s  left none") {
		t.Errorf("a record that has expired and is not said to be: %s", line)
	}
}
