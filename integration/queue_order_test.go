package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
)

const (
	queueProcesses = 8
	queueClients   = 32 // over all processes

	// reservationTTL is how long a lock stays reserved for the first waiter. If the machine
	// stops for that long, the next waiter gets the lock.
	reservationTTL = 500 * time.Millisecond
)

// queue is clients in several processes that wait for one lock.
type queue struct {
	nodes   cluster.Nodes
	file    string // clients that are served append their numbers
	workers []*worker
}

// The client that asks first is served first, over processes, also if a node, the holder or
// the first waiter fails. Neighbours in the queue are of different processes.
func TestClientsOfManyProcessesAreServedInTheOrderOfTheirCalls(t *testing.T) {
	for _, c := range []struct {
		name  string
		short bool
		hold  func(t *testing.T, q *queue) (release func()) // while the others ask
		amid  func(t *testing.T, q *queue)                  // when half of them have asked
	}{
		{name: "healthy nodes", short: true},
		{name: "one node frozen", amid: func(t *testing.T, q *queue) { q.nodes[0].Freeze(t) }},
		{name: "one node restarted empty", amid: func(t *testing.T, q *queue) { q.nodes[0].Restart(t) }},
		{name: "after the holder's crash", hold: holdUntilCrash},
		{name: "after a dead head", hold: holdBeforeADeadHead},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !c.short {
				notInShort(t)
			}
			q := startQueue(t)
			hold := c.hold
			if hold == nil {
				hold = func(t *testing.T, q *queue) func() { return holdLock(t, q.nodes) }
			}
			late := watchHiccups(t, q.nodes[1:]...)
			release := hold(t, q)
			q.ask(t, 0, queueClients/2)
			if c.amid != nil {
				c.amid(t, q)
			}
			q.ask(t, queueClients/2, queueClients)
			release()
			q.assertServedInOrder(t, late)
			q.nodes.Thaw(t)
			assertNothingWaits(t, q.nodes)
		})
	}
}

// startQueue starts the processes; their clients are connected.
func startQueue(t *testing.T) *queue {
	t.Helper()
	q := &queue{nodes: cluster.Use(t, 5), file: filepath.Join(t.TempDir(), "served")}
	for p := range queueProcesses {
		var numbers []string
		for n := p; n < queueClients; n += queueProcesses {
			numbers = append(numbers, strconv.Itoa(n))
		}
		q.workers = append(q.workers, startWaiters(t, q.nodes, q.file, ttl, numbers...))
	}
	return q
}

// ask lets the clients from one number up to another ask one after the other: each when the
// one before is in the queues of a quorum.
func (q *queue) ask(t *testing.T, from, to int) {
	t.Helper()
	for n := from; n < to; n++ {
		before := queueLength(t, q.nodes[1:], queueKey)
		q.workers[n%queueProcesses].ask(t, strconv.Itoa(n), 2*time.Millisecond)
		awaitQueue(t, q.nodes[1:], before+1)
	}
}

func (q *queue) served() []string { return strings.Fields(textOf(q.file)) }

func (q *queue) assertServedInOrder(t *testing.T, late *hiccups) {
	t.Helper()
	took := timed(func() {
		eventually(time.Minute, func() bool { return len(q.served()) >= queueClients })
	})
	var asked []string
	for n := range queueClients {
		asked = append(asked, strconv.Itoa(n))
	}
	order, served := strings.Join(asked, " "), strings.Join(q.served(), " ")
	if served != order && late.longest() > reservationTTL/2 {
		t.Skipf("the machine stood still for %v, so the order shows nothing: %s", late.longest(), served)
	}
	assert.Equal(t, order, served, "asked and served")
	t.Logf("all were served within %v; the machine's worst hiccup was %v", took.Round(time.Millisecond), late.longest())
}

// holdUntilCrash holds in a process of its own, which is killed instead of
// releasing: its keys end with their ttl.
func holdUntilCrash(t *testing.T, q *queue) (crash func()) {
	t.Helper()
	holder := startHolder(t, q.nodes, 3*time.Second)
	return func() {
		holder.crash(t)
		require.True(t, eventually(3*time.Second+soon, func() bool { return len(q.served()) > 0 }),
			"nobody is served soon after the end of the dead holder's keys")
	}
}

// startHolder starts a process that holds the lock until it is killed.
func startHolder(t *testing.T, nodes cluster.Nodes, ttl time.Duration) *worker {
	t.Helper()
	holder := startWaiters(t, nodes, filepath.Join(t.TempDir(), "holder"), ttl, "holder")
	holder.ask(t, "holder", forever)
	holder.expect(t, "holds holder")
	return holder
}

// holdBeforeADeadHead lets another process be the first waiter, and kills it when the lock
// is about to be released.
func holdBeforeADeadHead(t *testing.T, q *queue) (release func()) {
	t.Helper()
	unlock := holdLock(t, q.nodes)
	head := startHead(t, q.nodes)
	return func() {
		head.crash(t)
		unlock()
	}
}

// startHead starts a process that waits, as the first, until it is killed.
func startHead(t *testing.T, nodes cluster.Nodes) *worker {
	t.Helper()
	file := filepath.Join(t.TempDir(), "head")
	head := startWaiters(t, nodes, file, 10*time.Second, "head")
	head.ask(t, "head", forever)
	awaitQueue(t, nodes, 1)
	t.Cleanup(func() { assert.Empty(t, textOf(file), "the head was served before it was killed") })
	return head
}

// Waiters get the lock long before a ttl ends though a wake-up is lost. Tests of internal/waitqueue show the cost in
// virtual time.

// awaitSubscriptions waits until each of the servers can wake the one waiter.
func awaitSubscriptions(t *testing.T, nodes cluster.Nodes) {
	t.Helper()
	for _, n := range nodes {
		require.True(t, eventually(soon, func() bool { return channels(t, n) == 1 }), "channels at %s", n.Addr())
	}
}

// channels returns the number of clients that a server can wake.
func channels(t *testing.T, n *cluster.Node) int {
	t.Helper()
	names, err := redis.Strings(n.Do(t, "PUBSUB", "CHANNELS"), nil)
	require.NoError(t, err)
	return len(names)
}

// With two of five nodes down each wake-up counts.
func TestWaiterIsServedSoonThoughWakeUpsWereLost(t *testing.T) {
	for name, lost := range map[string]int{"one of a quorum": 1, "all": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes := cluster.Use(t, 5)
			nodes[:2].Kill(t)
			alive := nodes[2:]
			release := holdLock(t, nodes)
			next := queueUp(t, openClient(t, nodes.URLs()))
			awaitQueue(t, alive, 1)

			silence(t, alive[:lost])
			release()
			assertServedSoon(t, next)
			assertNothingWaits(t, alive)
		})
	}
}

// silence removes the right to subscribe, which also ends the present subscriptions.
func silence(t *testing.T, nodes cluster.Nodes) {
	t.Helper()
	awaitSubscriptions(t, nodes)
	for _, n := range nodes {
		n.Do(t, "ACL", "SETUSER", "default", "resetchannels")
		require.Zero(t, channels(t, n), "channels at %s", n.Addr())
	}
}

// deadTicket is the ticket of a dead client that came before all others.
const deadTicket = "0000000000000001-deadclient-0000000001"

// The waiters find the key missing at nodes that lost their memory, and the nodes reserve it
// for one that is dead: the holder's renewal restores it all the same.
func TestRecoveredNodesGetTheHoldersKeyBackWhileOthersWait(t *testing.T) {
	t.Parallel()
	notInShort(t)
	nodes := cluster.Use(t, 5)
	holder := openClient(t, nodes.URLs(), redlock.WithTTL(3*time.Second), redlock.WithNodeTimeout(time.Second))
	lease, err := holder.Mutex(queueName).Lock(within(t, soon))
	require.NoError(t, err)
	var waiters []<-chan struct{}
	for range 4 {
		waiters = append(waiters, queueUp(t, openClient(t, nodes.URLs())))
	}
	awaitQueue(t, nodes, len(waiters))

	lost := nodes[:2]
	lost.Kill(t)
	lost.Start(t)
	for _, n := range lost {
		n.Do(t, "SET", prefix+queueName, "redlock::reserved:"+deadTicket, "PX", ttl.Milliseconds())
	}
	back := func() bool {
		return !slices.ContainsFunc(lost, func(n *cluster.Node) bool { return n.Get(t, prefix+queueName) != lease.Owner() })
	}
	// Long before the reservations end.
	assert.True(t, eventually(soon, back), "the key is not back")
	time.Sleep(time.Second) // while the waiters poll
	assert.True(t, back(), "the key did not stay")
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Unlock(t.Context()))
	for _, served := range waiters {
		assertServedSoon(t, served)
	}
	assertNothingWaits(t, nodes)
}

// Clients contend for a few locks, and many give up at random instants: when the last one
// has ended, the nodes are as before.
func TestNothingIsLeftAtTheNodesWhenAllIsReleased(t *testing.T) {
	t.Parallel()
	const clients, callers, names, rounds = 4, 16, 3, 25
	nodes := cluster.Use(t, 5)
	ctx := within(t, time.Minute)
	var served, gaveUp [callers]int
	var working sync.WaitGroup
	var client *redlock.Client
	for i := range callers {
		if i%(callers/clients) == 0 {
			client = openClient(t, nodes.URLs())
		}
		mutex := client.Mutex(fmt.Sprint("name-", i%names))
		working.Go(func() {
			for range rounds {
				if visitOrGiveUp(ctx, t, mutex) {
					served[i]++
				} else {
					gaveUp[i]++
				}
			}
		})
	}
	working.Wait()
	t.Logf("served, by caller: %v; gave up: %v", served, gaveUp)
	require.NoError(t, ctx.Err(), "too slow")
	assertNothingWaits(t, nodes)
}

// visitOrGiveUp locks and unlocks; it returns false if it ended the wait, after a few
// milliseconds.
func visitOrGiveUp(ctx context.Context, t *testing.T, mutex *redlock.Mutex) bool {
	if rand.N(3) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, rand.N(20*time.Millisecond))
		defer cancel()
	}
	lease, err := mutex.Lock(ctx)
	if err != nil {
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		return false
	}
	time.Sleep(rand.N(time.Millisecond))
	assert.NoError(t, lease.Unlock(context.WithoutCancel(ctx)))
	return true
}

// No node can wake a waiter: all waiters get the lock by polling.
func TestWithoutTheRightToPublishAndSubscribeAllAreServedByPolling(t *testing.T) {
	notInShort(t)
	for _, rights := range []string{"resetchannels", "-@pubsub"} {
		t.Run(rights, func(t *testing.T) {
			t.Parallel()
			nodes := cluster.Use(t, 5)
			for _, n := range nodes {
				n.Do(t, "ACL", append([]any{"SETUSER", "default"}, words(rights)...)...)
			}
			release := holdLock(t, nodes)
			var waiters []<-chan struct{}
			for i := range 3 {
				waiters = append(waiters, queueUp(t, openClient(t, nodes.URLs())))
				awaitQueue(t, nodes, i+1)
			}
			release()
			for _, served := range waiters {
				assertServedSoon(t, served)
			}
			assertNothingWaits(t, nodes)
		})
	}
}

func words(s string) []any {
	var all []any
	for _, word := range strings.Fields(s) {
		all = append(all, word)
	}
	return all
}
