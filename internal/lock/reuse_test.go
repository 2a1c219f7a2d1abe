package lock_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// countSpares counts the attempts and releases that a client gives back, and spoils them.
func countSpares(c *redlock.Client) *atomic.Int64 {
	given := new(atomic.Int64)
	spoil := testnet.Spoil(func() { panic("a ballot was reached that was given back") })
	testhook.Engine(c).WatchSpares(func(b *quorum.Ballot) bool {
		given.Add(1)
		return spoil(b)
	})
	return given
}

// refusing makes a node answer a command with an error.
func refusing(command, text string) func(*testnet.Node) {
	return func(n *testnet.Node) { n.Refuse(text, command) }
}

// An attempt or a release is given back only if no node had trouble with it.
func TestWhatIsDoneToTheEndIsGivenBack(t *testing.T) {
	for name, c := range map[string]struct {
		opts                     []redlock.ClientOption
		beforeLock, beforeUnlock func(third *testnet.Node)
		attempts, releases       int64
	}{
		"all goes well": {attempts: 1, releases: 1},
		"a node refuses one of the attempt's commands": {beforeLock: refusing("HINCRBY", "ERR not now"), releases: 1},
		"a node refuses the release":                   {beforeUnlock: refusing("EVALSHA", "ERR not now"), attempts: 1},
		"a node has forgotten the script":              {beforeUnlock: refusing("EVALSHA", "NOSCRIPT no"), attempts: 1},
		"a node is cut off before the release":         {beforeUnlock: (*testnet.Node).Down, attempts: 1},
		"a node is cut off before the attempt":         {beforeLock: (*testnet.Node).Down, attempts: 1, releases: 1},
		"an answer to the attempt is out":              {beforeLock: (*testnet.Node).Mute},
		"an answer to the release is out":              {beforeUnlock: (*testnet.Node).Mute, attempts: 1},
		"hooks see it":                                 {opts: []redlock.ClientOption{redlock.WithTrace(everyHook())}},
	} {
		t.Run(name, func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				client := net.Client(c.opts...)
				given := countSpares(client)
				happens := func(to func(*testnet.Node)) {
					if to != nil {
						to(net.Nodes[2])
					}
					synctest.Wait()
				}
				happens(c.beforeLock)
				lease := net.Must(client.Mutex("x").Lock(t.Context()))
				synctest.Wait()
				require.Equal(t, c.attempts, given.Load(), "attempts")
				happens(c.beforeUnlock)
				require.NoError(t, lease.Unlock(t.Context())) // a quorum confirms it
				synctest.Wait()
				require.Equal(t, c.releases, given.Load()-c.attempts, "releases")
			})
		})
	}
}

func TestARefusedAttemptIsNotGivenBack(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		net.Must(net.Client().Mutex("x").Lock(t.Context()))
		client := net.Client()
		given := countSpares(client)
		net.Held(client.Mutex("x").TryLock(t.Context()))
		synctest.Wait()
		require.Zero(t, given.Load())
	})
}

// Another library's connection may read arguments later.
func TestNothingIsGivenBackWhereOneConnectionIsAnotherLibrarys(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		pools := []redlock.Pool{net.Nodes[0], net.Nodes[1], &recordingPool{Pool: net.Nodes[2]}}
		client, err := redlock.New(pools, redlock.WithLogger(nil), redlock.WithRestartGuard(0))
		require.NoError(t, err)
		net.Add(client)
		given := countSpares(client)
		time.Sleep(time.Second) // all three are connected
		lockAndUnlock(t, client.Mutex("x"))
		synctest.Wait()
		require.Zero(t, given.Load())
	})
}

// section is a name's critical section. Only the lock protects count and token.
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

// The clients really use memory again here, while answers are late and connections break. If an answer counted for another
// attempt, there could be two holders.
func TestCallersWithBreakingConnectionsUseMemoryAgain(t *testing.T) {
	net := testnet.InRealTime(t, 3)
	clients := []*redlock.Client{net.Client(), net.Client()}
	given := []*atomic.Int64{countSpares(clients[0]), countSpares(clients[1])}
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
	back := func() int64 { return given[0].Load() + given[1].Load() }
	// One node is cut at a time: the other two are a quorum. On a busy machine it takes more cuts until enough memory has
	// come back.
	least := testnet.Tries(10, 100)
	for cuts := 0; cuts < 600 && (cuts < least || back() <= 200); cuts++ {
		time.Sleep(200 * ms)
		net.Nodes[rand.IntN(len(net.Nodes))].Cut()
	}
	close(ended)
	calling.Wait()
	t.Logf("%d attempts and releases were given back", back())
	require.Greater(t, back(), int64(200))
}
