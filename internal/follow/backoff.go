package follow

import (
	"math/rand/v2"
	"time"
)

// The waits between two connections.
const (
	waitFloor   = 250 * time.Millisecond
	waitFirst   = 500 * time.Millisecond
	waitCeiling = 15 * time.Second
	askCeiling  = 60 * time.Second // most that a daemon's own wish is honoured
)

// backoff grows by doubling, with full jitter above a floor. Only progress
// resets it: a connection that opens and brings nothing does not.
type backoff struct {
	rand    func() float64 // in [0,1)
	attempt int
}

func newBackoff(r func() float64) *backoff {
	if r == nil {
		r = rand.Float64
	}
	return &backoff{rand: r}
}

// next returns the wait before the next attempt. asked is the daemon's wish.
func (b *backoff) next(asked time.Duration) time.Duration {
	most := waitFirst << min(b.attempt, 10)
	most = min(most, waitCeiling)
	b.attempt++
	wait := waitFloor + time.Duration(b.rand()*float64(most-waitFloor))
	return max(wait, min(asked, askCeiling))
}

func (b *backoff) reset() { b.attempt = 0 }
