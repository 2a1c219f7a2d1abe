package redlock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/protocol"
)

// A bar names one quarantine and one record after it. Once a client has admitted the node,
// the bar is used: a node that loses the record alone waits for a new quarantine.

// loseRecord deletes the node's record and leaves its bar. The client looks at it at once.
func loseRecord(node *testNode, c *Client) (bar, record string) {
	bar, record = protocol.Key("bar", node.runID), node.record()
	node.redis.Del(record)
	c.nodes[node.index].Nudge()
	synctest.Wait()
	return bar, record
}

func TestNodeWithoutItsRecordWaitsForANewQuarantine(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.guarded(WithTTL(5 * time.Second))
		n := net.nodes[0]
		first := n.redis.HGet(protocol.Key("bar", n.runID), "name")
		bar, record := loseRecord(n, c)
		require.NotEqual(t, first, n.redis.HGet(bar, "name"), "the new quarantine has a name of its own")
		require.Empty(t, n.redis.HGet(bar, "used"))
		require.ErrorContains(t, c.nodes[0].Current().Why(), "it does not vote for another 5s")
		time.Sleep(5*time.Second - ms)
		require.False(t, c.nodes[0].Current().Votes)
		time.Sleep(time.Second)
		require.True(t, c.nodes[0].Current().Votes)
		require.NotEqual(t, record, n.record())
		require.Equal(t, "1", n.redis.HGet(bar, "used"))
		require.Zero(t, n.redis.TTL(bar), "the bar of a node that votes does not end")
	})
}

// The client that finds the record gone may not know the longest ttl; the bar does.
func TestNodeWithoutItsRecordKeepsTheLongerGuardOfItsBar(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		long := net.guarded(WithTTL(time.Minute))
		require.NoError(t, long.Close())
		short := net.newClient(WithTTL(2*time.Second), WithRestartGuard(time.Millisecond))
		require.NoError(t, short.Ping(t.Context()))
		n := net.nodes[0]
		n.redis.Del(n.record())
		reply := n.run(protocol.Probe, 3, n.key("bar"), n.key("quarantine"), protocol.FormatKey,
			n.key("record")+":", 3, 2000, 2000, "another name")
		require.EqualValues(t, 60000, reply.([]any)[3])
	})
}

// A client gathered counters, and was slow to bring them: another client admitted the node
// by the same quarantine meanwhile, and the record was lost after that.
func TestSlowAdmissionAfterAUsedQuarantineChangesNothing(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		net.guarded(WithTTL(2 * time.Second))
		node := net.nodes[0]
		name := node.redis.HGet(node.key("bar"), "name")
		record := node.key("record") + ":" + name
		require.Equal(t, record, node.record())
		admit := func() any {
			return node.run(protocol.Admit, 7, record, node.key("quarantine"), node.key("bar"), protocol.NewestKey, record, node.key("bar"),
				protocol.FormatKey, name, 3, 2000, 5)
		}
		require.EqualValues(t, 1, admit(), "a client that comes later finds the record")
		require.NotEqual(t, "5", node.redis.HGet(record, "0"), "and leaves it as it is")
		node.redis.Del(record)
		require.EqualValues(t, 0, admit())
		require.False(t, node.redis.Exists(record))
	})
}

// Two clients come to the end of one quarantine at the same instant: one record, one mark.
func TestClientsThatAdmitANodeTogetherMakeOneRecord(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		all := []*Client{net.guarded(WithTTL(2 * time.Second)), net.guarded(WithTTL(2 * time.Second)), net.guarded(WithTTL(2 * time.Second))}
		net.nodes[0].restart(nil)
		time.Sleep(4 * time.Second)
		require.Equal(t, "1", net.nodes[0].redis.HGet(protocol.Key("bar", net.nodes[0].runID), "used"))
		for _, c := range all {
			require.True(t, c.nodes[0].Current().Votes)
			require.Equal(t, net.nodes[0].record(), c.nodes[0].Current().Record)
		}
	})
}

// Records that were made before the mark was known get it at the next look.
func TestBarOfAWholeRecordGetsItsMark(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.guarded(WithTTL(2 * time.Second))
		bar := protocol.Key("bar", net.nodes[0].runID)
		net.nodes[0].redis.HDel(bar, "used")
		time.Sleep(admission.ProbeInterval)
		require.Equal(t, "1", net.nodes[0].redis.HGet(bar, "used"))
		require.True(t, c.nodes[0].Current().Votes, "it went on voting")
	})
}

// An attempt finds its counter far below a record's, and deletes what it counted in.
func TestNodeWhoseRecordAnAttemptDeletedWaitsForANewQuarantine(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.guarded(WithTTL(5 * time.Second))
		held, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		waiter := c.Mutex("x")
		got := make(chan error, 1)
		go func() {
			lease, err := waiter.Lock(t.Context())
			if err == nil {
				err = lease.Unlock(t.Context())
			}
			got <- err
		}()
		time.Sleep(500 * ms) // it stands in line, so it asks by the script
		node, record := net.nodes[0], net.nodes[0].record()
		node.redis.HDel(record, waiter.stripe.(string))
		node.redis.Del("redlock:x")
		for range 40 { // its attempts come at random
			time.Sleep(100 * ms)
			if right := c.nodes[0].Current(); right != nil && !right.Votes {
				break
			}
		}
		require.False(t, c.nodes[0].Current().Votes)
		var quarantine *admission.QuarantineError
		require.ErrorAs(t, c.nodes[0].Current().Why(), &quarantine)
		require.False(t, node.redis.Exists(record))
		require.NoError(t, held.Unlock(t.Context()))
		require.NoError(t, <-got)
		time.Sleep(6 * time.Second)
		require.True(t, c.nodes[0].Current().Votes)
	})
}
