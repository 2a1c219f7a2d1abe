package waitqueue_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/testnet"
)

// Many clients wait, and die together. The wait of a caller behind them must hardly grow with their number.

type mutexOf = func(*redlock.Client) *redlock.Mutex

func mutexA(c *redlock.Client) *redlock.Mutex { return c.Mutex("a") }
func mutexB(c *redlock.Client) *redlock.Mutex { return c.Mutex("b") }
func setAB(c *redlock.Client) *redlock.Mutex  { return c.Multi([]string{"a", "b"}) }
func setBC(c *redlock.Client) *redlock.Mutex  { return c.Multi([]string{"b", "c"}) }

// dyingClients makes so many clients, of which each has a caller of Lock in the queues. die cuts all of them
// off, and end connects them again and ends their callers.
func dyingClients(t *testing.T, net *testnet.Net, clients int, of ...mutexOf) (die, end func()) {
	ctx, leave := context.WithCancel(t.Context())
	var all []*testnet.Cuttable
	var callers sync.WaitGroup
	for range clients {
		c, pools := net.CuttableClient()
		subscribe(t, c)
		for _, mutex := range of {
			callers.Go(func() { _, _ = mutex(c).Lock(ctx) })
		}
		all = append(all, pools...)
		time.Sleep(10 * ms)
	}
	return func() { testnet.Hold(all, true) }, func() {
		testnet.Hold(all, false)
		leave()
		callers.Wait()
	}
}

func TestManyDeadClientsThatWaitedDelayTheNextOneForSeconds(t *testing.T) {
	const ttl = 2 * time.Second
	for _, row := range []struct {
		name string
		dead []mutexOf
		next mutexOf
	}{
		{"a mutex behind mutexes", []mutexOf{mutexA}, mutexA},
		{"a set behind sets", []mutexOf{setAB}, setAB},
		{"a mutex behind sets", []mutexOf{setAB}, mutexB},
		{"a set behind overlapping sets", []mutexOf{setAB}, setBC},
		{"a set behind mutexes of each name", []mutexOf{mutexA, mutexB}, setAB},
	} {
		for _, dead := range []int{27, 9, 54}[:testnet.Tries(1, 3)] {
			t.Run(fmt.Sprintf("%s, %d clients", row.name, dead), func(t *testing.T) {
				testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
					holder, c := net.Client(redlock.WithTTL(ttl)), testnet.ListeningClient(t, net)
					lease, err := setAB(holder).Lock(t.Context())
					require.NoError(t, err)
					synctest.Wait() // it has all nodes
					die, end := dyingClients(t, net, dead, row.dead...)
					next := queued(t.Context(), row.next(c))
					time.Sleep(3 * time.Second)
					die()
					took := testnet.Elapsed(func() {
						assert.NoError(t, lease.Unlock(t.Context()))
						lease = <-next
					})
					t.Log(took)
					assert.Less(t, took, ttl+3*time.Second+time.Duration(dead/9)*500*ms)
					assert.NoError(t, lease.Unlock(t.Context()))
					end()
				})
			})
		}
	}
}
