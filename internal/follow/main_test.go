package follow

import (
	"testing"

	"go.uber.org/goleak"
)

// A follower that is over leaves nothing behind that reads on.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
