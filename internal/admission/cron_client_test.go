package admission_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// Cron starts the job on several machines at the same second. The nodes are being admitted while the calls ask: that
// takes none of the tries by which callers settle a split vote.
func TestOneOfSeveralShortClientsAfterTheGuardGetsItsLock(t *testing.T) {
	const machines = 3
	for run := range testnet.Tries(20, 120) {
		t.Run(fmt.Sprint(run), func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				draw := rand.New(rand.NewPCG(1, uint64(run)))
				var opening sync.Mutex // the test's list of clients has no lock
				open := func() *redlock.Client {
					opening.Lock()
					defer opening.Unlock()
					return net.NewClient(redlock.WithTTL(2*time.Second), redlock.WithRestartGuard(time.Millisecond))
				}
				c := open()
				require.ErrorIs(t, c.Ping(t.Context()), redlock.ErrNoQuorum)
				require.NoError(t, c.Close())
				time.Sleep(2*time.Second + time.Millisecond)
				for _, node := range net.Nodes {
					way := time.Duration(draw.Int64N(int64(10 * ms)))
					node.Set(func(node *testnet.Node) { node.Delay = way })
				}
				granted := make(chan *redlock.Lease, machines)
				var all sync.WaitGroup
				for range machines {
					late := time.Duration(draw.Int64N(int64(5 * ms)))
					all.Go(func() {
						time.Sleep(late)
						c := open()
						lease, err := c.Mutex("job").TryLock(t.Context())
						if err != nil {
							assert.True(t, errors.Is(err, redlock.ErrHeld) || errors.Is(err, redlock.ErrNoQuorum), "%v", err)
							return
						}
						granted <- lease
					})
				}
				all.Wait()
				require.Len(t, granted, 1)
			})
		})
	}
}

// A new cluster has a node that is frozen. The clients live for one TryLock, which is too short to find the node silent.
func TestShortClientsAloneAdmitAClusterWithAFrozenNode(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		net.Nodes[2].Freeze()
		began := time.Now()
		for runShortClient(t, net) != nil {
			require.Less(t, time.Since(began), time.Minute)
			time.Sleep(time.Second)
		}
	})
}
