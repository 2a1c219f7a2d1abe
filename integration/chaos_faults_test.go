package integration

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/integration/chaos"
	"github.com/redlock-go/redlock/integration/cluster"
)

// play makes the faults of a phase, and returns when all nodes and clients are healthy.
func (r *chaosRun) play(t *testing.T, phase chaos.Phase) {
	t.Helper()
	var blows sync.WaitGroup
	for _, blow := range phase.Nodes {
		blows.Go(func() {
			time.Sleep(blow.After)
			span := chaos.Span{From: chaos.Now()}
			r.strikeNode(t, blow)
			span.To = chaos.Now()
			if blow.Fault.Forgets() {
				r.memory.Forgot(blow.Target, span)
			}
		})
	}
	for _, blow := range phase.Clients {
		blows.Go(func() {
			time.Sleep(blow.After)
			r.strikeClient(t, blow)
		})
	}
	blows.Wait()
	for _, blow := range phase.Nodes {
		if blow.Fault.Forgets() {
			awaitAdmission(t, r.nodes[blow.Target])
		}
	}
	time.Sleep(chaosSettling)
}

// chaosSettling is how soon all clients are connected to a node again: a handshake with the
// sick server lasts up to four node timeouts, and dials are half a second apart.
const chaosSettling = 4*chaosNodeTimeout + 600*time.Millisecond

// strikeNode makes a fault of a node, and ends it in time.
func (r *chaosRun) strikeNode(t *testing.T, blow chaos.Blow) {
	n := r.nodes[blow.Target]
	wait := func(share time.Duration) { time.Sleep(blow.For / share) }
	switch blow.Fault {
	case chaos.Kill:
		n.Kill(t)
		wait(1)
		n.Start(t)
	case chaos.Restart:
		n.Save(t)
		n.Kill(t)
		wait(1)
		n.Start(t)
	case chaos.Rewind:
		n.Save(t)
		wait(2)
		n.Kill(t)
		wait(2)
		n.Start(t)
	case chaos.Wipe:
		n.Do(t, "FLUSHALL")
	case chaos.Replica:
		n.FollowOther(t, r.nodes[blow.Other])
		wait(1)
		n.Lead(t)
	case chaos.Freeze:
		n.Freeze(t)
		wait(1)
		n.Thaw(t)
	case chaos.Reset:
		n.Reset()
	default:
		disturbLink(n, blow)
		wait(1)
		n.Heal()
	}
}

// disturbLink makes a fault of the network.
func disturbLink(n *cluster.Node, blow chaos.Blow) {
	switch blow.Fault {
	case chaos.Cut:
		n.Cut()
	case chaos.HoldReplies:
		n.HoldReplies()
	case chaos.Strand:
		n.Strand()
	case chaos.Latency:
		n.Delay(time.Duration(blow.Amount) * time.Millisecond)
	case chaos.LoseReplies:
		for range blow.Amount {
			n.LoseReply()
		}
	}
}

// strikeClient makes a fault of a process whose place has a fence.
func (r *chaosRun) strikeClient(t *testing.T, blow chaos.Blow) {
	w := r.fenced[blow.Target]
	if blow.Fault == chaos.Pause {
		require.NoError(t, cluster.FreezeProcess(w.cmd.Process))
		time.Sleep(blow.For)
		require.NoError(t, cluster.ThawProcess(w.cmd.Process))
		return
	}
	require.NoError(t, w.cmd.Process.Kill())
	w.awaitEnd(t)
	r.deaths = append(r.deaths, chaos.Now())
	r.fenced[blow.Target] = r.startClients(t, "register")
}

// awaitEnd waits for the end of a process. If it failed, the histories are checked all the
// same.
func (w *worker) awaitEnd(t *testing.T) {
	t.Helper()
	for line := range w.lines {
		assert.False(t, strings.HasPrefix(line, "failed"), line)
	}
}

// awaitAdmission waits until the node has a record of the present run of its
// server: it votes again.
func awaitAdmission(t *testing.T, n *cluster.Node) {
	t.Helper()
	const timeout = 40 * time.Second // a majority that forgot waits for twenty
	assert.True(t, eventually(timeout, func() bool { return n.HasRecord(t) }), "a node that forgot was not admitted again within %v", timeout)
}
