package integration

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

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
	return func() { holder.crash(t) }
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
