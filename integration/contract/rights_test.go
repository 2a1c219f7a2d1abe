package contract

import (
	"slices"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
)

// userOfTheDocs uses each primitive, with admission, as a user that has exactly the rights of
// docs/reference/rights.md. No server may refuse anything.
func userOfTheDocs(s scene) {
	rights := []any{"resetkeys", "~redlock:*", "resetchannels", "&redlock::wake:*"}
	for _, right := range slices.Concat(cluster.Permissions(s, "../../docs/reference/rights.md")...) {
		rights = append(rights, right)
	}
	servers := s.addUser(rights...)
	for _, n := range s.nodes {
		n.Do(s, "ACL", "LOG", "RESET")
	}
	a, b := s.guarded(servers), s.guarded(servers)
	lease := s.lock(a.Mutex(name))
	waiter := s.begin(b.Mutex(name).Lock)
	s.awaitWaiters(a, name, 1)
	require.NoError(s, lease.Extend(s.within(soon)))
	s.unlock(lease)
	s.unlock(<-waiter)

	share, err := a.RWMutex(name).RLock(s.within(soon))
	require.NoError(s, err)
	writer := s.begin(b.RWMutex(name).Lock)
	s.awaitWaiters(a, name, 1)
	s.unlock(share)
	alone := <-writer
	require.NotNil(s, alone)
	require.NoError(s, alone.Downgrade(s.within(soon)))
	s.unlock(alone)

	s.unlock(s.lock(a.Multi([]string{name, "other"})))
	permit, err := b.Semaphore(name, 2).Acquire(s.within(soon), 1)
	require.NoError(s, err)
	s.unlock(permit)
	for range a.Locks(s.within(soon), "*") {
		assert.Fail(s, "nothing is locked")
	}
	for _, n := range s.nodes {
		refused, err := redis.Values(n.Do(s, "ACL", "LOG"), nil)
		require.NoError(s, err)
		assert.Empty(s, refused, "refused commands, keys or channels")
	}
	s.awaitNoOrphans()
}

// wrongPassword expects that Lock fails at once and names the cause, instead of waiting for ctx.
func wrongPassword(s scene) {
	servers := s.addUser("allcommands")
	for i := range servers {
		servers[i].password = "wrong"
	}
	s.refusesAtOnce(s.clientOn(servers, redlock.WithTTL(ttl), redlock.WithRestartGuard(ttl)), "WRONGPASS")
}

// clusterMode expects that servers in cluster mode are named at once, also where the user may not ask
// for the mode, and the first script shows it.
func clusterMode(s scene) {
	s.nodes = s.kind.UseInClusterMode(s, 3)
	s.refusesAtOnce(s.clientOn(s.addresses(), redlock.WithTTL(ttl), redlock.WithRestartGuard(ttl)), "it runs in cluster mode")
	servers := s.addUser("allcommands", "-info")
	s.refusesAtOnce(s.clientOn(servers, redlock.WithTTL(ttl), redlock.WithRestartGuard(ttl)), "the server runs in cluster mode: give the pool the address of a server with cluster-enabled no")
}

// addUser creates a user with these rights on all keys and channels at all nodes, until the test ends,
// and returns the nodes' addresses with it.
func (s scene) addUser(rights ...any) []address {
	s.Helper()
	servers := s.addresses()
	for i, n := range s.nodes {
		n.Do(s, "ACL", append([]any{"SETUSER", "locks", "reset", "allkeys", "allchannels", "on", ">secret"}, rights...)...)
		s.Cleanup(func() { n.Do(s, "ACL", "DELUSER", "locks") })
		servers[i].user, servers[i].password = "locks", "secret"
	}
	return servers
}

// refusesAtOnce expects that Lock does not wait for its ctx, and that the error says why.
func (s scene) refusesAtOnce(client *redlock.Client, why string) {
	s.Helper()
	ctx := s.within(2 * soon)
	_, err := client.Mutex(name).Lock(ctx)
	require.ErrorIs(s, err, redlock.ErrNoQuorum)
	require.ErrorContains(s, err, why)
	require.NoError(s, ctx.Err(), "it must not wait for ctx")
}
