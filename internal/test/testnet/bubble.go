package testnet

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// InBubble runs a test over n embedded nodes in virtual time.
func InBubble(t *testing.T, n int, test func(t *testing.T, net *Net)) {
	t.Helper()
	InBubbleFor(t, longest(), n, test)
}

// InBubbleFor is InBubble for a test that takes up to limit, in virtual time.
func InBubbleFor(t *testing.T, limit time.Duration, n int, test func(t *testing.T, net *Net)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		net := newNet(t, n)
		net.bubble = true
		defer net.Stop()
		defer net.watch(limit)()
		test(t, net)
	})
}

// longest returns how long a test may take, in virtual time. The longest takes 13 minutes, and 65
// in make verify. A test that waits for the end of a lease that is renewed for ever would go on
// until go test ends it, minutes later, and with it all other tests.
func longest() time.Duration { return time.Duration(Tries(20, 120)) * time.Minute }

// watch starts a goroutine that fails the test if it takes longer than limit, and then closes the clients, so
// that leases and calls end. The caller must call over when the test has ended, and before it closes the
// clients: over waits until the goroutine has ended. If two goroutines closed a client at the same time,
// the second would wait for the first in a way that stops virtual time.
func (w *Net) watch(limit time.Duration) (over func()) {
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-ended:
			return
		case <-time.After(limit):
		}
		w.T.Errorf("the test has not ended within %v of virtual time", limit)
		var closing sync.WaitGroup
		for _, c := range w.Clients {
			closing.Go(func() { _ = c.Close() })
		}
		closing.Wait()
	}()
	return func() {
		close(ended)
		<-done
	}
}

// InRealTime makes n embedded nodes in real time, for tests that need the garbage collector,
// which does not run on virtual time. They stop when the test ends.
func InRealTime(t *testing.T, n int) *Net {
	net := newNet(t, n)
	t.Cleanup(net.Stop)
	return net
}

func newNet(t *testing.T, n int) *Net {
	net := &Net{T: t, Clock: &Clock{Origin: time.Now()}}
	for i := range n {
		net.Nodes = append(net.Nodes, NewNode(t, i))
	}
	return net
}
