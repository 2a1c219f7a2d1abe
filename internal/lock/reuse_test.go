package lock_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// section is a name's critical section: whoever holds the lock counts in it, without any other lock.
type section struct {
	inside atomic.Int32
	count  int
	token  int64
}

// enter checks that the caller is alone, and came later than those before. The race detector checks it too.
func (s *section) enter(t *testing.T, lease *redlock.Lease) {
	if !lease.Valid() {
		return
	}
	if n := s.inside.Add(1); n != 1 {
		t.Errorf("%d holders", n)
	}
	if s.count++; lease.Token() <= s.token {
		t.Errorf("token %d after token %d", lease.Token(), s.token)
	}
	s.token = lease.Token()
	s.inside.Add(-1)
}

// Attempts and releases are used again in real time, while answers come late and connections break beside them. An answer
// that counted for another attempt would be a second holder, and a write beside a late one a race.
func TestCallersWithBreakingConnectionsUseMemoryAgain(t *testing.T) {
	net := testnet.InRealTime(t, 3)
	clients := []*redlock.Client{net.Client(), net.Client()}
	sections := make([]section, 4)
	ended := make(chan struct{})
	var calling sync.WaitGroup
	for i := range 16 {
		calling.Go(func() {
			for round := 0; ; round++ {
				select {
				case <-ended:
					return
				default:
				}
				n := (i + round) % len(sections)
				m := clients[i%len(clients)].Mutex(fmt.Sprint("name ", n))
				call := m.Lock
				if round%3 == 0 {
					call = m.TryLock
				}
				if lease, err := call(t.Context()); err == nil {
					sections[n].enter(t, lease)
					_ = lease.Unlock(t.Context()) // the node may be cut off
				}
			}
		})
	}
	for range testnet.Tries(10, 100) { // one node at a time: the other two are a quorum
		time.Sleep(200 * ms)
		net.Nodes[rand.IntN(len(net.Nodes))].Cut()
	}
	close(ended)
	calling.Wait()
	for i := range sections {
		require.Greater(t, sections[i].count, 10)
	}
}
