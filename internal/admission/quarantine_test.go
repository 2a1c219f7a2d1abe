package admission_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// A quarantine's name is also that of the record after it. Once a client has admitted the node, the quarantine is used: a
// node that loses the record alone gets a new one.

func TestNodeWithoutItsRecordWaitsForANewQuarantine(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Guarded(redlock.WithTTL(5 * time.Second))
		n := net.Nodes[0]
		first := n.Redis.HGet(protocol.Key("quarantine", n.RunID), "name")
		quarantine, record := testnet.LoseRecord(n, c)
		require.NotEqual(t, first, n.Redis.HGet(quarantine, "name"), "the new quarantine has a name of its own")
		require.Empty(t, n.Redis.HGet(quarantine, "used"))
		require.ErrorContains(t, members(c)[0].Current().Why(), "it does not vote for another 5s")
		time.Sleep(5*time.Second - ms)
		require.False(t, members(c)[0].Current().Votes)
		time.Sleep(time.Second)
		require.True(t, members(c)[0].Current().Votes)
		require.NotEqual(t, record, n.Record())
		require.Equal(t, "1", n.Redis.HGet(quarantine, "used"))
		require.Zero(t, n.Redis.TTL(quarantine), "the key of a quarantine that was used does not end")
	})
}

// The client that finds the record gone may not know the longest ttl; the quarantine has it.
func TestNodeWithoutItsRecordKeepsTheLongerGuardOfItsQuarantine(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		long := net.Guarded(redlock.WithTTL(time.Minute))
		require.NoError(t, long.Close())
		short := net.NewClient(redlock.WithTTL(2*time.Second), redlock.WithRestartGuard(time.Millisecond))
		require.NoError(t, short.Ping(t.Context()))
		n := net.Nodes[0]
		n.Redis.Del(n.Record())
		reply, err := protocol.ReadProbe(n.Eval(protocol.ProbeCall{Run: protocol.Run(n.RunID), Nodes: 3, Longest: 2 * time.Second, Guard: 2 * time.Second, Name: "another name"}.Call().Eval()))
		require.NoError(t, err)
		require.Equal(t, time.Minute, reply.Barred.Guard)
	})
}

// A client collects counters, and is slow to write them: meanwhile another client admits the
// node after the same quarantine, and the node loses the record after that.
func TestSlowAdmissionAfterAUsedQuarantineChangesNothing(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		net.Guarded(redlock.WithTTL(2 * time.Second))
		node := net.Nodes[0]
		name := node.Redis.HGet(node.Key("quarantine"), "name")
		record := node.Key("record") + ":" + name
		require.Equal(t, record, node.Record())
		call := protocol.AdmitCall{Run: protocol.Run(node.RunID), Quarantine: name, Nodes: 3, Longest: 2 * time.Second}
		call.Counts[0] = 5
		admit := func() bool {
			admitted, err := protocol.ReadAdmit(node.Eval(call.Eval()))
			require.NoError(t, err)
			return admitted
		}
		require.True(t, admit(), "a client that comes later finds the record")
		require.NotEqual(t, "5", node.Redis.HGet(record, "0"), "and leaves it as it is")
		node.Redis.Del(record)
		require.False(t, admit())
		require.False(t, node.Redis.Exists(record))
	})
}

// A client may find its quarantine over by a clock that runs fast, or by an answer of another run: the server decides.
func TestServerAdmitsItselfOnlyAfterTheQuarantineThatTheClientNames(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		n := net.Nodes[0]
		probe := protocol.ProbeCall{Run: protocol.Run(n.RunID), Nodes: 3, Longest: 2 * time.Second, Guard: 5 * time.Second, Name: "this"}
		_, err := n.Eval(probe.Call().Eval())
		require.NoError(t, err)
		call := protocol.AdmitCall{Run: probe.Run, Nodes: 3, Longest: 2 * time.Second}
		requireAdmitted := func(want bool, quarantine, when string) {
			t.Helper()
			before := n.Redis.Dump()
			call.Quarantine = quarantine
			admitted, err := protocol.ReadAdmit(n.Eval(call.Eval()))
			require.NoError(t, err)
			require.Equal(t, want, admitted, when)
			require.Equal(t, want, n.Redis.Exists(call.Run.Record(quarantine)), when)
			if !want {
				require.Equal(t, before, n.Redis.Dump(), when)
			}
		}
		requireAdmitted(false, "this", "it has just begun")
		time.Sleep(5*time.Second - ms)
		requireAdmitted(false, "this", "it is nearly over")
		time.Sleep(ms)
		requireAdmitted(false, "another", "it is another one")
		requireAdmitted(true, "this", "it is over")
	})
}

// Two clients come to the end of one quarantine at the same instant: one record, one mark.
func TestClientsThatAdmitANodeTogetherMakeOneRecord(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		all := []*redlock.Client{net.Guarded(redlock.WithTTL(2 * time.Second)), net.Guarded(redlock.WithTTL(2 * time.Second)), net.Guarded(redlock.WithTTL(2 * time.Second))}
		net.Nodes[0].Restart(nil)
		time.Sleep(4 * time.Second)
		require.Equal(t, "1", net.Nodes[0].Redis.HGet(protocol.Key("quarantine", net.Nodes[0].RunID), "used"))
		for _, c := range all {
			require.True(t, members(c)[0].Current().Votes)
			require.Equal(t, net.Nodes[0].Record(), members(c)[0].Current().Record)
		}
	})
}

// Older versions made records without the mark: the client sets it when it looks next.
func TestQuarantineOfAWholeRecordGetsItsMark(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Guarded(redlock.WithTTL(2 * time.Second))
		quarantine := protocol.Key("quarantine", net.Nodes[0].RunID)
		net.Nodes[0].Redis.HDel(quarantine, "used")
		time.Sleep(admission.ProbeInterval)
		require.Equal(t, "1", net.Nodes[0].Redis.HGet(quarantine, "used"))
		require.True(t, members(c)[0].Current().Votes, "it went on voting")
	})
}

// An attempt finds its counter far below any count of a record, and deletes the key in which
// it counted.
func TestNodeWhoseRecordAnAttemptDeletedWaitsForANewQuarantine(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Guarded(redlock.WithTTL(5 * time.Second))
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
		time.Sleep(500 * ms) // it is queued, so its attempts are scripts
		node, record := net.Nodes[0], net.Nodes[0].Record()
		node.Redis.HDel(record, protocol.StripeOf(testhook.Lock(waiter).Keys()[0]))
		node.Redis.Del("redlock:x")
		for range 40 { // its attempts come at random
			time.Sleep(100 * ms)
			if right := members(c)[0].Current(); right != nil && !right.Votes {
				break
			}
		}
		require.False(t, members(c)[0].Current().Votes)
		var quarantine *admission.QuarantineError
		require.ErrorAs(t, members(c)[0].Current().Why(), &quarantine)
		require.False(t, node.Redis.Exists(record))
		require.NoError(t, held.Unlock(t.Context()))
		require.NoError(t, <-got)
		time.Sleep(6 * time.Second)
		require.True(t, members(c)[0].Current().Votes)
	})
}
