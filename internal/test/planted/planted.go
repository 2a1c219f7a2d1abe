// Package planted has twelve states, of locks and of their masters, for the tests of the model under the views of the locks
// and of each face that shows it: all compare what they show with one table, and with Client.Inspect.
package planted

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/overview"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// Masters is how many masters the locks need.
const Masters = 5

// Lock is a lock in one of ten states, as a view must show it.
type Lock struct {
	Planted   string // the state, in the words of this test
	Title     string
	Names     []string
	Kind      overview.Kind
	State     overview.State
	HeldBy    string
	Holders   int
	Direction overview.Direction
	Signs     string // of the masters: all are up
	Odd       string
	Waiters   []string // "label", or "label wants something"
}

// Locks are the locks of Plant in the order of a view by need, after Settle.
var Locks = []Lock{
	{"free and waited for", "free", []string{"free"}, overview.None, overview.WaitedFor, "", 0, overview.Unknown, "○○○○○", "", []string{"(gone?)"}},
	{"exclusive", "exclusive", []string{"exclusive"}, overview.Exclusive, overview.Held, "web-3:4711", 1, overview.Renews, "●●●●●", "", []string{"web-4:12"}},
	{"permits", "deployments", []string{"deployments"}, overview.Permits, overview.Held, "3 permits", 2, overview.Renews, "●●●●●", "",
		[]string{"web-4:12 wants 2 permits"}},
	{"split", "split", []string{"split"}, overview.Exclusive, overview.Split, "", 2, overview.RunsDown, "◆◆◆◆○", overview.Split.Text(), nil},
	{"no ttl", "legacy-job", []string{"legacy-job"}, overview.Exclusive, overview.Held, "worker", 1, overview.Endless, "●●●●●",
		"no ttl: no client of this library leaves such a key", nil},
	{"delayed", "delayed", []string{"delayed"}, overview.Exclusive, overview.Held, "late-1", 1, overview.RunsDown, "●●●●●", "runs down: nobody renews it", nil},
	{"running down", "report", []string{"report"}, overview.Exclusive, overview.Held, "etl-3:9", 1, overview.RunsDown, "●●●●●", "runs down: nobody renews it", nil},
	{"resting", "nightly", []string{"nightly"}, overview.Exclusive, overview.Resting, "cron-1:5", 1, overview.RunsDown, "◐◐◐◐◐", overview.Resting.Text(), nil},
	{"set", "account-3 +1", []string{"account-3", "account-7"}, overview.Set, overview.Held, "pay-1:77", 1, overview.Renews, "●●●●●", "", nil},
	{"readers", "catalog", []string{"catalog"}, overview.Shared, overview.Held, "2 readers", 2, overview.Renews, "●●●●●", "", nil},
}

// Cluster is a state of the masters, in which each view must show the Locks.
type Cluster struct {
	Planted string
	Up      int      // masters, from the first
	Stale   bool     // the rows are those of before, with what the others say
	Shows   []string // texts about the masters, in each face
}

// Clusters are the states of the masters. A test goes from one to the next.
var Clusters = []Cluster{
	{"all up", 5, false, []string{"Locks are available: 5 of 5 masters vote, 2 more may fail."}},
	{"node down", 4, false, []string{"Locks are available: 4 of 5 masters vote, 1 more may fail.", "down", "connection refused",
		"Start the server, or see to the network and to firewalls between here and there."}},
	{"no quorum", 2, true, []string{"Locks are not available: 2 of 5 masters vote, and 3 must.", "2 of 5 masters answered, and 3 must", "down", "connection refused"}},
}

// Signs returns the signs of a lock in a state of the masters.
func (c *Cluster) Signs(l *Lock) string {
	return string([]rune(l.Signs)[:c.Up]) + strings.Repeat(overview.SaysNothing.Sign().Glyph, Masters-c.Up)
}

// Enter stops the masters that are down in this state, and waits until views show it.
func (c *Cluster) Enter(net *testnet.Net) {
	for _, n := range net.Nodes[c.Up:] {
		n.Down()
	}
	time.Sleep(10 * time.Second)
}

// Settle waits until views show what is planted: half of each ttl is over, so that they know which holders renew their locks.
func Settle() { time.Sleep(100 * time.Second) }

// Plant makes the Locks, in virtual time.
func Plant(t *testing.T, net *testnet.Net) {
	t.Helper()
	ctx := t.Context()
	client := func(label string, opts ...redlock.ClientOption) *redlock.Client {
		longer := redlock.WithTTL(time.Minute) // than the time without a quorum
		return net.Client(append([]redlock.ClientOption{longer, redlock.WithOwnerLabel(label)}, opts...)...)
	}
	take := func(lease *redlock.Lease, err error) *redlock.Lease {
		t.Helper()
		require.NoError(t, err)
		return lease
	}
	queue(t, net, "free", 40*time.Second)
	take(client("web-3:4711").Mutex("exclusive").Lock(ctx))
	waiter := client("web-4:12")
	go func() { _, _ = waiter.Mutex("exclusive").Lock(ctx) }()
	for _, label := range []string{"reader-1", "reader-2"} {
		take(client(label).RWMutex("catalog").RLock(ctx))
	}
	take(client("ci-1:17").Semaphore("deployments", 3).Acquire(ctx, 2))
	take(client("ci-2:40").Semaphore("deployments", 3).Acquire(ctx, 1))
	time.Sleep(time.Second)
	go func() { _, _ = waiter.Semaphore("deployments", 3).Acquire(ctx, 2) }()
	take(client("pay-1:77").Multi([]string{"account-7", "account-3"}).Lock(ctx))
	rests := take(client("cron-1:5", redlock.WithTTL(3*time.Minute)).Mutex("nightly", redlock.WithMinHold(3*time.Minute)).Lock(ctx))
	require.NoError(t, rests.Unlock(ctx))
	// Its lease expires, and its key stays for the delay.
	take(client("late-1", redlock.WithoutRenewal(), redlock.WithTTL(3*time.Second)).Mutex("delayed", redlock.WithLockDelay(3*time.Minute)).Lock(ctx))
	Put(t, net, "split", "one", time.Hour, 0, 1)
	Put(t, net, "split", "two", time.Hour, 2, 3)
	Put(t, net, "legacy-job", "worker", 0, 0, 1, 2, 3, 4)
	take(client("etl-3:9", redlock.WithoutRenewal(), redlock.WithTTL(3*time.Minute)).Mutex("report").Lock(ctx))
}

// Put sets a lock's key at nodes, as a holder without a client does; for ever without a ttl.
func Put(t *testing.T, net *testnet.Net, name, value string, ttl time.Duration, nodes ...int) {
	t.Helper()
	for _, i := range nodes {
		require.NoError(t, net.Nodes[i].Redis.Set("redlock:"+name, value))
		if ttl > 0 {
			net.Nodes[i].Redis.SetTTL("redlock:"+name, ttl)
		}
	}
}

// queue puts a waiter that has died into the wait queue of a lock at all nodes. It asked so long ago.
func queue(t *testing.T, net *testnet.Net, name string, ago time.Duration) {
	t.Helper()
	ticket := fmt.Sprintf("%016d-AAAAAAAAAAAAAAAA-1", time.Now().Add(-ago).UnixMicro())
	for _, n := range net.Nodes {
		_, err := n.Redis.ZAdd(protocol.Key("queue", "redlock:"+name), 0, ticket)
		require.NoError(t, err)
	}
}

// Row is the text that a face shows of a lock, wherever it stands.
type Row struct{ Title, Text string }

// RequireRows compares what a face shows of the locks with the table, and with what Inspect says. since returns how the face shows
// since when a lock is held.
func (c *Cluster) RequireRows(t *testing.T, client *redlock.Client, rows []Row, since func(time.Time) string) {
	t.Helper()
	var titles, want []string
	for i := range rows {
		titles = append(titles, rows[i].Title)
	}
	for i := range Locks {
		want = append(want, Locks[i].Title)
	}
	require.Equal(t, want, titles, "%s: the order", c.Planted)
	for i := range Locks {
		l := &Locks[i]
		for _, text := range append(c.texts(l), c.inspected(t, client, l, since)...) {
			assert.Contains(t, rows[i].Text, text, "%s, %s", c.Planted, l.Planted)
		}
	}
}

// texts are what the row of a lock has by the table.
func (c *Cluster) texts(l *Lock) (all []string) {
	all = append(all, c.Signs(l), l.HeldBy)
	if l.State != overview.Held {
		all = append(all, string(l.State))
	}
	if l.Direction == overview.Endless {
		all = append(all, overview.NoEnd)
	} else {
		all = append(all, l.Direction.Sign().Glyph)
	}
	if c.Stale {
		return append(all, "say the 2 masters that answer")
	}
	return append(append(all, l.Odd), l.Waiters...)
}

// inspected are what the row of a lock has by Inspect.
func (c *Cluster) inspected(t *testing.T, client *redlock.Client, l *Lock, since func(time.Time) string) (all []string) {
	t.Helper()
	is, err := client.Inspect(context.Background(), l.Names[0])
	require.True(t, err == nil || c.Stale && errors.Is(err, redlock.ErrNoQuorum), err)
	state := overview.StateOf(is)
	all = append(all, overview.HeldBy(is, state))
	if c.Stale {
		return all
	}
	assert.Equal(t, l.State, state, l.Planted)
	if begun := overview.HeldSince(is); !begun.IsZero() {
		all = append(all, since(begun))
	}
	for i := range is.Queue {
		all = append(all, overview.WaiterLabel(&is.Queue[i]))
	}
	return all
}
