package node_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// tryLock takes a lock and releases it.
func tryLock(t *testing.T, m *redlock.Mutex) {
	t.Helper()
	lease, err := m.TryLock(t.Context())
	require.NoError(t, err)
	require.NoError(t, lease.Unlock(t.Context()))
}

// requireLoaded expects that each node was sent so many scripts, and clears the logs.
func requireLoaded(t *testing.T, net *testnet.Net, scripts int, when string) {
	t.Helper()
	time.Sleep(time.Second)
	for _, n := range net.Nodes {
		require.Equal(t, scripts, n.Executed("script"), when)
	}
	net.ClearLogs()
}

// A client loads the scripts of a mutex when it connects, and those of another kind of lock when its first lock of
// that kind is made. A script that came too late would be loaded twice.
func TestClientLoadsTheScriptsThatItUses(t *testing.T) {
	mutexes := len(protocol.ForMutexes.Scripts())
	for name, c := range map[string]struct {
		more protocol.Families
		use  func(t *testing.T, c *redlock.Client)
	}{
		"a mutex":        {0, func(t *testing.T, c *redlock.Client) { tryLock(t, c.Mutex("x")) }},
		"a minimum hold": {protocol.ForRests, func(t *testing.T, c *redlock.Client) { tryLock(t, c.Mutex("x", redlock.WithMinHold(ms))) }},
		"readers":        {protocol.ForReaders, func(t *testing.T, c *redlock.Client) { tryLock(t, c.RWMutex("x").RLocker()) }},
		"several names":  {protocol.ForSeveral, func(t *testing.T, c *redlock.Client) { tryLock(t, c.Multi([]string{"x", "y"})) }},
		"permits": {protocol.ForPermits | protocol.ForSeveral, func(t *testing.T, c *redlock.Client) {
			lease, err := c.Semaphore("x", 2).TryAcquire(t.Context(), 1)
			require.NoError(t, err)
			require.NoError(t, lease.Unlock(t.Context()))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				client, more := net.Client(), len(c.more.Scripts())
				requireLoaded(t, net, mutexes, "by the handshake")
				c.use(t, client)
				requireLoaded(t, net, more, "by the first lock")
				c.use(t, client)
				requireLoaded(t, net, 0, "by the second lock")
				for _, n := range net.Nodes {
					n.Cut()
				}
				requireLoaded(t, net, mutexes+more, "by the next handshake")
				c.use(t, client)
				requireLoaded(t, net, 0, "by a lock after it")
			})
		})
	}
}

// The first lock of a kind is made while the client connects: at some time before, in, or after the handshake.
func TestScriptsOfALockThatIsMadeInAHandshakeAreLoaded(t *testing.T) {
	for at := time.Duration(0); at < 300*ms; at += 5 * ms {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			client := net.Client()
			net.Delay(10 * ms)
			requireLoaded(t, net, len(protocol.ForMutexes.Scripts()), "by the first handshake")
			for _, n := range net.Nodes {
				n.Cut()
			}
			time.Sleep(at)
			readers := client.RWMutex("x").RLocker()
			time.Sleep(time.Second)
			tryLock(t, readers)
			for _, n := range net.Nodes {
				require.Equal(t, len((protocol.ForMutexes | protocol.ForReaders).Scripts()), n.Executed("script"), "made after %v", at)
			}
		})
	}
}
