package lock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// What is done to the end is given back, to be used again; what is not, must not be.
func TestWhatIsDoneToTheEndIsGivenBack(t *testing.T) {
	refuse := func(command, why string) func(n *testnet.Node) {
		return func(n *testnet.Node) {
			n.Set(func(n *testnet.Node) {
				n.Override = func(cmd string, _ []string) string {
					if cmd == command {
						return why
					}
					return ""
				}
			})
		}
	}
	for name, c := range map[string]struct {
		opts                     []redlock.ClientOption
		pool                     func(redlock.Pool) redlock.Pool // of the third node
		beforeLock, beforeUnlock func(third *testnet.Node)
		contended                bool // TryLock is refused
		attempts, releases       int
	}{
		"all goes well": {attempts: 1, releases: 1},
		"a node refuses one of the attempt's commands": {beforeLock: refuse("HINCRBY", "ERR not now"), releases: 1},
		"a node refuses the release":                   {beforeUnlock: refuse("EVALSHA", "ERR not now"), attempts: 1},
		"a node has forgotten the script":              {beforeUnlock: refuse("EVALSHA", "NOSCRIPT No matching script"), attempts: 1},
		"a node is cut off before the release":         {beforeUnlock: cutOff, attempts: 1},
		"a node is cut off before the attempt":         {beforeLock: cutOff, attempts: 1, releases: 1},
		"an answer to the attempt is out":              {beforeLock: func(n *testnet.Node) { n.Mute() }},
		"an answer to the release is out":              {beforeUnlock: func(n *testnet.Node) { n.Mute() }, attempts: 1},
		"a pool of another library":                    {pool: func(p redlock.Pool) redlock.Pool { return &recordingPool{Pool: p} }},
		"hooks see it":                                 {opts: []redlock.ClientOption{redlock.WithTrace(everyHook())}},
		"the attempt is refused":                       {contended: true},
	} {
		t.Run(name, func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				holder, third := net.Client(), net.Nodes[2]
				pools := []redlock.Pool{net.Nodes[0], net.Nodes[1], third}
				if c.pool != nil {
					pools[2] = c.pool(third)
				}
				client, err := redlock.New(pools, append([]redlock.ClientOption{redlock.WithLogger(nil), redlock.WithRestartGuard(0)}, c.opts...)...)
				require.NoError(t, err)
				net.Add(client)
				given := 0
				testhook.Engine(client).WatchSpares(func() { given++ })
				require.NoError(t, client.Ping(t.Context()))
				time.Sleep(time.Second)
				if c.contended {
					_, err := holder.Mutex("x").Lock(t.Context())
					require.NoError(t, err)
					_, err = client.Mutex("x").TryLock(t.Context())
					require.ErrorIs(t, err, redlock.ErrHeld)
					synctest.Wait()
					require.Zero(t, given)
					return
				}
				if c.beforeLock != nil {
					c.beforeLock(third)
					synctest.Wait()
				}
				lease, err := client.Mutex("x").Lock(t.Context())
				require.NoError(t, err)
				synctest.Wait()
				require.Equal(t, c.attempts, given, "attempts")
				given = 0
				if c.beforeUnlock != nil {
					c.beforeUnlock(third)
				}
				_ = lease.Unlock(t.Context()) // a quorum confirms it
				synctest.Wait()
				require.Equal(t, c.releases, given, "releases")
			})
		})
	}
}

// cutOff ends the connections to a node, and refuses new ones.
func cutOff(n *testnet.Node) {
	n.Set(func(n *testnet.Node) { n.Refusing = context.DeadlineExceeded })
	n.Cut()
	synctest.Wait()
}

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
	var given atomic.Int64
	for _, c := range clients {
		testhook.Engine(c).WatchSpares(func() { given.Add(1) })
	}
	sections := make([]section, 40)
	ended := make(chan struct{})
	var calling sync.WaitGroup
	for range 16 {
		calling.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
				}
				n := rand.IntN(len(sections))
				m := clients[rand.IntN(len(clients))].Mutex(fmt.Sprint("name ", n))
				call := m.TryLock
				if rand.IntN(20) == 0 {
					call = m.Lock
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
	t.Logf("%d attempts and releases were given back", given.Load())
	require.Greater(t, given.Load(), int64(200))
}
