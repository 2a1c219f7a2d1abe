package integration

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
	"github.com/redlock-go/redlock/internal/protocol"
)

// rightsInTheDocs returns the words of the ACL rule in docs/operations.md, as ACL SETUSER takes
// them: a user, a password, and all rights.
func rightsInTheDocs(t *testing.T) []any {
	t.Helper()
	for _, command := range operatorsCommands(t) {
		if _, rights, ok := strings.Cut(command, " ACL SETUSER "); ok {
			return words(strings.ReplaceAll(rights, "'", ""))
		}
	}
	t.Fatal("docs/operations.md has no ACL SETUSER")
	return nil
}

// rightsInTheReadme returns the lines of commands under Permissions.
func rightsInTheReadme(t *testing.T) (lines [][]string) {
	t.Helper()
	text, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	_, section, _ := strings.Cut(string(text), "### Permissions")
	_, block, _ := strings.Cut(section, "```\n")
	block, _, _ = strings.Cut(block, "```")
	for line := range strings.Lines(block) {
		lines = append(lines, strings.Fields(line))
	}
	return lines
}

// rightsForReaders returns the commands that readers need and mutexes do not.
func rightsForReaders(t *testing.T) []string {
	t.Helper()
	for _, line := range rightsInTheReadme(t) {
		if slices.Contains(line, "+zscore") {
			return line
		}
	}
	t.Fatal("README.md has no line of rights for readers")
	return nil
}

// The README has the same rights, in groups.
func TestTheReadmeHasTheSameRights(t *testing.T) {
	allowed := slices.Concat(rightsInTheReadme(t)...)
	var rights []string
	for _, word := range rightsInTheDocs(t) {
		if strings.HasPrefix(word.(string), "+") {
			rights = append(rights, word.(string))
		}
	}
	slices.Sort(allowed)
	slices.Sort(rights)
	assert.Equal(t, allowed, rights)
}

// restrict creates the user of the docs at all nodes, without some of its rights, and returns
// its URLs. The user is removed when the test ends.
func restrict(t *testing.T, nodes cluster.Nodes, without ...string) (urls []string) {
	t.Helper()
	rights := slices.DeleteFunc(rightsInTheDocs(t), func(word any) bool { return slices.Contains(without, word.(string)) })
	for _, n := range nodes {
		n.Do(t, "ACL", append([]any{"SETUSER"}, rights...)...)
		n.Do(t, "ACL", "LOG", "RESET")
		t.Cleanup(func() { n.Do(t, "ACL", "DELUSER", rights[0]) })
		urls = append(urls, "redis://locks:secret@"+n.Addr())
	}
	return urls
}

// requireNothingRefused expects that the nodes refused no command, key or channel.
func requireNothingRefused(t *testing.T, nodes cluster.Nodes) {
	t.Helper()
	for _, n := range nodes {
		log, err := redis.Values(n.Do(t, "ACL", "LOG"), nil)
		require.NoError(t, err)
		require.Empty(t, log, "refused commands, keys or channels")
	}
}

func TestTheRightsInTheDocsAreEnough(t *testing.T) {
	for name, c := range map[string]struct {
		without []string
		uses    func(t *testing.T, a, b *redlock.Client, nodes cluster.Nodes)
	}{
		"for mutexes": {rightsForReaders(t), useMutex},
		"for readers": {nil, useReaders},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			notInShort(t)
			nodes := cluster.Use(t, 3)
			urls := restrict(t, nodes, c.without...)
			for _, fencing := range []bool{true, false} {
				a, b := openGuarded(t, urls, redlock.WithFencing(fencing)), openGuarded(t, urls, redlock.WithFencing(fencing))
				c.uses(t, a, b, nodes)
			}
			requireNothingRefused(t, nodes)
		})
	}
}

// The release of a mutex names the key of its readers.
func TestAMutexNeedsThePatternOfReaders(t *testing.T) {
	t.Parallel()
	nodes := cluster.Use(t, 3)
	urls := restrict(t, nodes, "~redlock:*")
	for _, n := range nodes {
		n.Do(t, "ACL", append([]any{"SETUSER", "locks"}, allButReaders...)...)
	}
	client := openClient(t, urls)
	lease, err := client.Mutex("name").Lock(within(t, soon))
	require.NoError(t, err)
	require.ErrorIs(t, lease.Unlock(t.Context()), redlock.ErrNoQuorum)
}

// allButReaders are patterns of all keys but the readers', as ACL SETUSER takes them.
var allButReaders = []any{"~redlock:[^:]*", "~redlock::[^r]*", "~redlock::record:*"}

// useMutex uses each script and command of a mutex once: a renewal that restores keys, a wait
// and a hand-over, broken connections, a record that is refilled from others.
func useMutex(t *testing.T, a, b *redlock.Client, nodes cluster.Nodes) {
	t.Helper()
	ctx := within(t, 3*soon)
	lease, err := a.Mutex("name").Lock(ctx)
	require.NoError(t, err)
	require.True(t, eventually(soon, func() bool { return len(allKeys(t, nodes)) == len(nodes) }))
	nodes[0].Do(t, "DEL", prefix+"name")
	require.NoError(t, lease.Extend(ctx))
	next := lockAndUnlock(ctx, b.Mutex("name"))
	awaitWaiters(t, a, "name", 1)
	require.NoError(t, lease.Unlock(ctx))
	require.NoError(t, <-next)
	_, err = a.ForceUnlock(ctx, "name")
	require.NoError(t, err)
	nodes[1].Do(t, "FLUSHALL")
	for _, n := range nodes[1:] {
		n.Do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	}
	require.True(t, eventually(soon, func() bool { return admitted(t, nodes[1]) }))
	require.NoError(t, a.Ping(ctx))
}

// useReaders uses each script of readers, and the scripts of a mutex where there are readers:
// shares beside each other, a counter that is raised for a share, a renewal that restores keys,
// hand-overs in both directions, a waiter that gives up, a lease that is downgraded while readers
// wait, and readers from whom the lock is taken.
func useReaders(t *testing.T, a, b *redlock.Client, nodes cluster.Nodes) {
	t.Helper()
	ctx := within(t, 3*soon)
	require.NoError(t, <-lockAndUnlock(ctx, a.Mutex("name"))) // the nodes vote
	raiseCounter(t, nodes[0], "name", 100)                    // all counts differ, whichever nodes are the quorum
	raiseCounter(t, nodes[1], "name", 200)
	first, err := a.RWMutex("name").RLock(ctx)
	require.NoError(t, err)
	second, err := b.RWMutex("name").RLock(ctx)
	require.NoError(t, err)
	nodes[0].Do(t, "DEL", prefix+"name", protocol.Key("readers", prefix+"name"))
	require.NoError(t, first.Extend(ctx))
	impatient, giveUp := context.WithCancel(ctx)
	gaveUp := lockAndUnlock(impatient, b.Mutex("name"))
	awaitWaiters(t, a, "name", 1)
	giveUp()
	require.ErrorIs(t, <-gaveUp, context.Canceled)

	writer := lockAndUnlock(ctx, a.Mutex("name"))
	awaitWaiters(t, a, "name", 1)
	reader := lockAndUnlock(ctx, b.RWMutex("name").RLocker())
	awaitWaiters(t, a, "name", 2)
	require.NoError(t, first.Unlock(ctx))
	require.NoError(t, second.Unlock(ctx))
	require.NoError(t, <-writer)
	require.NoError(t, <-reader)

	alone, err := a.RWMutex("name").Lock(ctx)
	require.NoError(t, err)
	reader = lockAndUnlock(ctx, b.RWMutex("name").RLocker())
	awaitWaiters(t, a, "name", 1)
	require.NoError(t, alone.Downgrade(ctx))
	require.NoError(t, <-reader)
	_, err = b.ForceUnlock(ctx, "name")
	require.NoError(t, err)
	require.ErrorIs(t, alone.Unlock(ctx), redlock.ErrLost)
}

// lockAndUnlock takes a lock, and releases it, beside the caller.
func lockAndUnlock(ctx context.Context, m *redlock.Mutex) <-chan error {
	result := make(chan error, 1)
	go func() {
		lease, err := m.Lock(ctx)
		if err == nil {
			err = lease.Unlock(ctx)
		}
		result <- err
	}()
	return result
}

// awaitWaiters waits until so many callers wait for a lock.
func awaitWaiters(t *testing.T, c *redlock.Client, name string, n int) {
	t.Helper()
	require.True(t, eventually(soon, func() bool {
		s, err := c.Inspect(t.Context(), name)
		return err == nil && len(s.Queue) == n
	}), "%d waiters", n)
}

// raiseCounter makes a node count ahead of others: then the next lease raises theirs.
func raiseCounter(t *testing.T, n *cluster.Node, name string, by int) {
	t.Helper()
	require.True(t, eventually(soon, func() bool { return admitted(t, n) }))
	for _, key := range n.Keys(t) {
		if strings.HasPrefix(key, "redlock::record:") {
			n.Do(t, "HINCRBY", key, protocol.StripeOf(prefix+name), by)
		}
	}
}
