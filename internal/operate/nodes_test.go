package operate_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/operate"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

const noRight = "NOPERM User locks has no permissions to run the 'scan' command"

func TestLocksGoesOnWhereAMinorityForbidsSCAN(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		want := putMany(t, net, 3)
		net.Nodes[0].Refuse(noRight, "scan")
		net.Nodes[2].Refuse(noRight, "scan")
		requireListed(t, c, "*", want...)
	})
}

func TestLocksNamesTheNodesThatForbidSCAN(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		want := putMany(t, net, 3)
		for _, i := range []int{0, 2, 4} {
			net.Nodes[i].Refuse(noRight, "scan")
		}
		names, err := list(t.Context(), c, "many-*")
		require.Equal(t, want, names, "what can be listed is shown")
		var q *redlock.QuorumError
		require.ErrorAs(t, err, &q)
		require.Equal(t, "list", q.Op)
		require.Equal(t, "many-*", q.Name)
		require.Equal(t, 3, q.Need)
		for i, v := range q.Votes {
			if i%2 == 0 {
				require.ErrorContains(t, v.Cause, "grant the user +scan")
				require.Equal(t, redlock.Outcome("refused"), v.Outcome)
				continue
			}
			require.Equal(t, redlock.Outcome("granted"), v.Outcome)
		}
		require.ErrorContains(t, err, "node 4 (test-4): refused: NOPERM")
	})
}

func TestLocksFailsWhereTooFewNodesAnswer(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		want := putMany(t, net, 3)
		for _, i := range []int{1, 2, 3} {
			net.Nodes[i].Down()
		}
		time.Sleep(10 * ms)
		names, err := list(t.Context(), c, "*")
		require.Equal(t, want, names, "what the others say is shown")
		var q *redlock.QuorumError
		require.ErrorAs(t, err, &q)
		require.Equal(t, "*", q.Name, "too few nodes list their keys")
		names, err = list(t.Context(), c, "other")
		require.Empty(t, names)
		require.ErrorAs(t, err, &q)
		require.Equal(t, "other", q.Name)
	})
}

// A node that is silent costs one node timeout, and is not asked again before it has answered.
func TestLocksAsksASilentNodeOnce(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		want := putMany(t, net, 3*operate.BatchNames)
		net.Nodes[3].Freeze()
		took := testnet.Elapsed(func() { requireListed(t, c, "*", want...) })
		require.Less(t, took, 6*time.Second, "one node timeout, and nine for the rest")
		net.Nodes[3].Thaw()
		time.Sleep(time.Second)
		require.LessOrEqual(t, net.Nodes[3].Executed("inspect"), operate.BatchNames)

		net.Nodes[0].Freeze() // of which the keys are to be listed
		requireListed(t, c, "*", want...)
	})
}

// A page of keys is awaited for longer than a vote.
func TestLocksSaysHowLongItAwaitedAPage(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		require.NoError(t, c.Ping(t.Context()))
		net.Nodes[0].Freeze()
		net.Nodes[1].Freeze()
		var q *redlock.QuorumError
		for _, err := range c.Locks(t.Context(), "*") {
			require.ErrorAs(t, err, &q)
		}
		require.ErrorContains(t, q.Votes[0].Cause, "no answer within 2s")
	})
}

// A connection that breaks ends what was listed at its server: the next may be another run.
func TestLocksTakesAnotherNodeWhereAConnectionBreaks(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		want := putMany(t, net, 2*operate.PageSize)
		var names []string
		for s, err := range c.Locks(t.Context(), "*") {
			require.NoError(t, err)
			if names = append(names, s.Name); len(names) == 10 {
				net.Nodes[0].Cut()
			}
		}
		require.ElementsMatch(t, want, names)
		require.NotZero(t, net.Nodes[2].Executed("scan"))
	})
}

// At any time at most one page of names of each place and the questions about one batch are on their way.
func TestLocksReadsOnePageAndOneBatchAtATime(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		const pages = 3
		want := putMany(t, net, pages*operate.PageSize)
		shown := 0
		for _, err := range c.Locks(t.Context(), "*") {
			require.NoError(t, err)
			shown++
			batches := (shown + operate.BatchNames - 1) / operate.BatchNames
			if shown%100 == 0 {
				require.LessOrEqual(t, executed(net, "inspect"), 3*batches*operate.BatchNames)
				require.LessOrEqual(t, executed(net, "scan"), operate.Places*(1+(shown-1)*pages/len(want)+1))
			}
		}
		require.Equal(t, len(want), shown)
		require.Equal(t, 3*len(want), executed(net, "inspect"))
		require.Equal(t, 2*pages*operate.Places, executed(net, "scan"))
	})
}

// A server that says that it was busy for 3 ms rests for nine times as long; a slow network alone
// costs no rest.
func TestLocksLetsServersRest(t *testing.T) {
	const busy, trip = 3 * ms, 20 * ms
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		putMany(t, net, 1)
		net.Delay(trip / 2)
		quiet := testnet.Elapsed(func() { _, _ = list(t.Context(), c, "*") })
		for _, n := range net.Nodes {
			n.Set(func(n *testnet.Node) {
				n.Override = func(cmd string, _ []string) string {
					if cmd == "SCAN" {
						n.Redis.SetTime(time.Now().Add(busy)) // and there its clock stands still
					}
					return ""
				}
			})
		}
		rested := testnet.Elapsed(func() { _, _ = list(t.Context(), c, "*") })
		require.Equal(t, 3*trip+2*9*200*time.Microsecond, quiet, "two pages and a batch, with a rest between each two")
		require.Equal(t, 9*busy, rested-quiet, "the first page is not the last question")
	})
}
