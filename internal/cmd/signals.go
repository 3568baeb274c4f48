package cmd

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/aipctl/aipctl/internal/fault"
)

// signals turns the first signal into the end of a context and the second
// one into the end of the process.
type signals struct {
	release func()

	mu    sync.Mutex
	delay func()
}

// stuck is how long a run may take to end after a signal before a write that
// waits for nobody is given up.
const stuck = 700 * time.Millisecond

// watchSignals listens for the signals that detach. The cause of the context
// is a *fault.Error whose class is the signal's.
func watchSignals(parent context.Context) (context.Context, *signals) {
	ctx, cancel := context.WithCancelCause(parent)
	c := make(chan os.Signal, 2)
	ignorePipe()
	for sig := range signalClasses {
		// nohup has a reason: a signal that is ignored stays ignored.
		if !signal.Ignored(sig) {
			signal.Notify(c, sig)
		}
	}
	done := make(chan struct{})
	s := &signals{release: func() { signal.Stop(c); close(done); cancel(nil) }}
	go func() {
		var first os.Signal
		select {
		case first = <-c:
		case <-done:
			return
		}
		cancel(fault.New(signalClasses[first], "signal", "%s received", first))
		timer := time.AfterFunc(stuck, s.delayed)
		defer timer.Stop()
		select {
		case second := <-c:
			os.Exit(signalClasses[second].Code())
		case <-done:
		}
	}()
	return ctx, s
}

// onDelay sets what is done when a run does not end soon after a signal.
func (s *signals) onDelay(f func()) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delay = f
}

func (s *signals) delayed() {
	s.mu.Lock()
	f := s.delay
	s.mu.Unlock()
	if f != nil {
		f()
	}
}
