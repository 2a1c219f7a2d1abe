package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/peek"
	"github.com/redlock-go/redlock/internal/test/testclient"
)

// The replacement of masters by the steps of docs/operations.md, while clients lock, and the
// step that must not be done.

// replaceTTL is also the guard, for which these tests mostly wait.
const replaceTTL = 2 * time.Second

// patience bounds what no promise limits: beside the servers of other tests, the start of one container has
// taken half a minute, and what follows it starves as well.
const patience = time.Minute

// openGuarded makes a client with admission on, as in production. New masters do not vote yet.
func openGuarded(t *testing.T, urls []string, opts ...redlock.ClientOption) *redlock.Client {
	t.Helper()
	return testclient.OpenUnready(t, urls, append([]redlock.ClientOption{redlock.WithRestartGuard(replaceTTL),
		redlock.WithTTL(replaceTTL), redlock.WithNodeTimeout(900 * time.Millisecond)}, opts...)...)
}

// traffic is clients that lock one name again and again. It checks that there is one holder
// at a time, and that each token is greater than all before.
type traffic struct {
	t      *testing.T
	inside atomic.Int32
	held   atomic.Int64

	mu   sync.Mutex // protects last
	last int64
}

// join lets a client with this list of nodes take part, until leave or the end of
// the test.
func (r *traffic) join(urls []string) (leave func()) {
	r.t.Helper()
	client := openGuarded(r.t, urls)
	ctx, cancel := context.WithCancel(r.t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		for ctx.Err() == nil {
			err := client.Mutex("busy").Do(ctx, r.visit)
			if err != nil && ctx.Err() == nil && !errors.Is(err, redlock.ErrNoQuorum) {
				assert.NoError(r.t, err)
				return
			}
		}
	}()
	leave = sync.OnceFunc(func() {
		cancel()
		<-over
		_ = client.Close()
	})
	r.t.Cleanup(leave)
	return leave
}

func (r *traffic) visit(_ context.Context, lease *redlock.Lease) error {
	assert.EqualValues(r.t, 1, r.inside.Add(1), "two are inside")
	defer r.inside.Add(-1)
	r.mu.Lock()
	defer r.mu.Unlock()
	assert.Greater(r.t, lease.Token(), r.last, "tokens must increase")
	r.last = lease.Token()
	r.held.Add(1)
	time.Sleep(time.Millisecond)
	return nil
}

// goesOn expects that locks are granted, and soon.
func (r *traffic) goesOn(when string) {
	r.t.Helper()
	before, began := r.held.Load(), time.Now()
	ok := eventually(patience, func() bool { return r.held.Load() > before+10 })
	r.t.Logf("%s: %d leases within %v", when, r.held.Load()-before, time.Since(began))
	require.True(r.t, ok, "no locks any more: "+when)
}

// admitted reports whether the node has a record of an admission, and so may vote.
func admitted(t *testing.T, n *cluster.Node) bool {
	return slices.ContainsFunc(n.Keys(t), func(key string) bool {
		return strings.HasPrefix(key, "redlock::record:") && n.Do(t, "HEXISTS", key, "nodes") == int64(1)
	})
}

// awaitTheVote expects that the node may vote soon, but not before one guard.
func awaitTheVote(t *testing.T, n *cluster.Node, since time.Time) {
	t.Helper()
	asked := time.Now()
	ok := eventually(patience, func() bool { return admitted(t, n) })
	t.Logf("admitted: %v, within %v; the test has waited for the last %v", ok, time.Since(since), time.Since(asked))
	require.True(t, ok, "it is never admitted")
	assert.GreaterOrEqual(t, time.Since(since), replaceTTL, "it votes before the leases of its predecessor have ended")
}

func TestANodeIsReplacedUnderItsAddressWhileClientsLock(t *testing.T) {
	t.Parallel()
	notInShort(t)
	nodes := cluster.Use(t, 5)
	r := &traffic{t: t}
	for range 4 {
		r.join(nodes.URLs())
	}
	r.goesOn("at the start")

	nodes[4].Kill(t) // for good: the next server has other data, none
	r.goesOn("the old one is gone")
	began := time.Now()
	nodes[4].Start(t)
	r.goesOn("the new one is in quarantine")
	awaitTheVote(t, nodes[4], began)
	nodes.Pick(0, 1).Kill(t)
	r.goesOn("the new one is needed for a quorum")
}

func TestANodeIsReplacedByOneOfAnotherAddressWhileClientsLock(t *testing.T) {
	t.Parallel()
	notInShort(t)
	all := cluster.Use(t, 6)
	before, after := all[:5].URLs(), append(all[:4].URLs(), all[5:6].URLs()...)
	r := &traffic{t: t}
	var old []func()
	for range 3 {
		old = append(old, r.join(before))
	}
	r.goesOn("at the start")

	all[4].Kill(t)
	r.goesOn("the old one is gone")
	began := time.Now()
	tool := openGuarded(t, all.URLs())
	changeTo(t, tool, all[:4])
	r.goesOn("the old one is no master")
	changeTo(t, tool, append(all[:4:4], all[5]))
	r.join(after)
	r.goesOn("both lists are in use, the new one is in quarantine")
	awaitTheVote(t, all[5], began)
	r.goesOn("both lists are in use, the new one votes")
	for _, leave := range old {
		leave()
		r.join(after)
		r.goesOn("one more client has the new list")
	}
	all.Pick(0, 1).Kill(t)
	r.goesOn("the new one is needed for a quorum")
}

// The wrong order: clients get the new list while the old node runs. The list that was first is in force.
func TestListsThatDifferLetOneHold(t *testing.T) {
	t.Parallel()
	notInShort(t)
	listsThatDiffer(t, 5*time.Second)
}

func TestSoakListsThatDifferLetOneHold(t *testing.T) {
	soakOnly(t)
	listsThatDiffer(t, time.Minute)
}

// listsThatDiffer has clients with two lists lock one name, in both orders of beginning, and both at once.
func listsThatDiffer(t *testing.T, mixed time.Duration) {
	for name, late := range map[string]time.Duration{"one list is in force": 2 * replaceTTL, "both begin": 0} {
		for _, third := range [][2]int{{2, 3}, {3, 2}} {
			t.Run(fmt.Sprint(name, third), func(t *testing.T) {
				t.Parallel()
				all := cluster.Use(t, 4)
				r := &traffic{t: t}
				for _, i := range third {
					for range 4 {
						r.join(append(all[:2].URLs(), all[i:i+1].URLs()...))
					}
					time.Sleep(late)
				}
				r.goesOn("both lists are in use")
				time.Sleep(mixed)
				r.goesOn("still")
				require.NotEqual(t, admitted(t, all[2]), admitted(t, all[3]), "one of them is a master of the list in force")
			})
		}
	}
}

// changeTo has the list in force followed by one of these nodes, and awaits their votes. tool is a client of all that are
// masters, or become one.
func changeTo(t *testing.T, tool *redlock.Client, masters cluster.Nodes) {
	t.Helper()
	var names []string
	for _, n := range masters {
		names = append(names, n.Addr())
	}
	group, why := peek.Group(tool).(*admission.Group), error(nil)
	require.True(t, eventually(time.Minute, func() bool {
		list, _ := group.InForce()
		if list.Len() == len(names) && !slices.ContainsFunc(names, func(name string) bool { return !list.Has(name) }) {
			return len(group.Voting(&list)) == len(names)
		}
		if list.ID != "" {
			_, why = group.Change(t.Context(), list, list.Next(names), admission.Kept)
		}
		return false
	}), "%v is not the list: %v", names, why)
}

// Clients that were given the first masters lock, and hold, while all of these are replaced, and their number changes.
func TestTheMastersChangeWhileClientsLock(t *testing.T) {
	t.Parallel()
	notInShort(t)
	all := cluster.Use(t, 6)
	r := &traffic{t: t}
	for range 3 {
		r.join(all[:3].URLs())
	}
	r.goesOn("at the start")
	held, err := openGuarded(t, all[:3].URLs()).Mutex("held").Lock(within(t, 2*soon))
	require.NoError(t, err)
	tool := openGuarded(t, all.URLs(), redlock.WithRestartGuard(admission.MajorityLossGuard)) // a second master needs it
	for _, masters := range [][]int{{0, 1, 2, 3}, {0, 1, 2, 3, 4}, {1, 2, 3, 4}, {2, 3, 4}, {3, 4}, {3}, {3, 5}, {3, 4, 5}} {
		changeTo(t, tool, all.Pick(masters...))
		r.goesOn(fmt.Sprint("the masters are ", masters))
		require.NoError(t, held.Err(), masters)
	}
	all[3].Kill(t)
	r.goesOn("without the one that all clients know best")
	require.NoError(t, held.Unlock(t.Context()))
}

// Persistence: all masters restart at once, with their data.
func TestLeasesOutlastARestartOfAllNodesThatKeepTheirData(t *testing.T) {
	t.Parallel()
	notInShort(t)
	nodes := cluster.Use(t, 3)
	client := openGuarded(t, nodes.URLs())
	awaitAllVotes(t, client, nodes) // one that is not admitted yet would wait for the longer ttl
	lease, err := client.Mutex("long", redlock.WithTTL(time.Minute)).Lock(within(t, 2*soon))
	require.NoError(t, err)
	var restarting sync.WaitGroup
	for _, n := range nodes {
		n.Save(t)
		restarting.Go(func() { n.Restart(t) })
	}
	restarting.Wait()
	require.True(t, eventually(2*soon, func() bool { return lease.Extend(t.Context()) == nil }), "it cannot be renewed")
	_, err = client.Mutex("other").TryLock(t.Context())
	require.ErrorIs(t, err, redlock.ErrNoQuorum, "they do not vote yet")
	require.NoError(t, lease.Unlock(t.Context()))
}
