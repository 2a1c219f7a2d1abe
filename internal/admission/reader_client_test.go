package admission_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/peek"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// recordedTTLs returns what the nodes' records say of the longest ttl.
func recordedTTLs(net *testnet.Net) (ttls []string) {
	synctest.Wait()
	for _, n := range net.Nodes {
		ttls = append(ttls, n.Redis.HGet(n.Record(), "ttl"))
	}
	return ttls
}

// newReader opens a client as the commands of the tool do that take no lock.
func newReader(net *testnet.Net) *redlock.Client {
	return net.NewClient(redlock.WithRestartGuard(time.Millisecond), peek.ReadsOnly().(redlock.ClientOption))
}

// read asks the nodes all that a client can ask without a lock.
func read(t *testing.T, c *redlock.Client) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, c.WaitReady(ctx))
	require.NoError(t, c.Ping(ctx))
	_, err := c.Inspect(ctx, "x")
	require.NoError(t, err)
	for _, err := range c.Locks(ctx, "*") {
		require.NoError(t, err)
	}
	c.Stats()
}

// A tool that shows the locks has the default ttl. Nodes that forget must not wait that long because of it.
func TestClientThatOnlyReadsPutsNoTTLOnRecord(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		net.Guarded(redlock.WithTTL(2 * time.Second))
		require.Equal(t, []string{"2000", "2000", "2000"}, recordedTTLs(net))

		reader := newReader(net)
		read(t, reader)
		time.Sleep(time.Minute) // it probes the records meanwhile
		require.Equal(t, []string{"2000", "2000", "2000"}, recordedTTLs(net))

		_, err := reader.Mutex("x").TryLock(t.Context())
		require.NoError(t, err, "from its first lock on it uses its ttl")
		time.Sleep(11 * time.Second)
		require.Equal(t, []string{"10000", "10000", "10000"}, recordedTTLs(net))
	})
}

func TestClientThatOnlyReadsLengthensNoQuarantine(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		short := net.Guarded(redlock.WithTTL(2 * time.Second))
		net.Nodes[2].Restart(nil)
		time.Sleep(time.Second)
		require.False(t, members(short)[2].Current().Votes)
		read(t, newReader(net))
		time.Sleep(1500 * ms)
		require.True(t, members(short)[2].Current().Votes)
		require.Equal(t, []string{"2000", "2000", "2000"}, recordedTTLs(net))
	})
}

// A reader is the first client of a new cluster: it waits for the guard of its own ttl, since leases of others may have
// been forgotten, and leaves the record to those that lock.
func TestNewClusterThatAReaderAdmitsHasTheTTLOfItsFirstLock(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		reader := newReader(net)
		took := testnet.Elapsed(func() { read(t, reader) })
		require.Greater(t, took, 9*time.Second)
		require.Equal(t, []string{"0", "0", "0"}, recordedTTLs(net))
		_, took = lockWithin(t, net.NewClient(redlock.WithTTL(2*time.Second), redlock.WithRestartGuard(time.Millisecond)), time.Second)
		require.Less(t, took, time.Second)
		require.Equal(t, []string{"2000", "2000", "2000"}, recordedTTLs(net))
	})
}
