package lock_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// transfer locks x, transfers the lease, and returns it with the text.
func transfer(t *testing.T, c *redlock.Client) (*redlock.Lease, string) {
	lease, err := c.Mutex("x").Lock(t.Context())
	require.NoError(t, err)
	synctest.Wait()
	text, err := lease.Transfer(t.Context())
	require.NoError(t, err)
	return lease, text
}

// transferValue returns what the keys of a lease that was transferred hold.
func transferValue(t *testing.T, text string) string {
	l, err := protocol.ParseTransferText(text)
	require.NoError(t, err)
	return protocol.TransferValue(l.Secret, l.Label)
}

// nodesWith returns how many nodes have x locked with this value.
func nodesWith(net *testnet.Net, value string) (nodes int) {
	synctest.Wait()
	for _, n := range net.Nodes {
		if got, err := n.Redis.Get("redlock:x"); err == nil && got == value {
			nodes++
		}
	}
	return nodes
}

// keeping returns how many nodes keep the lease of a text.
func keeping(t *testing.T, net *testnet.Net, text string) int {
	return nodesWith(net, transferValue(t, text))
}

func TestLeaseGoesOnInAnotherClient(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		a, b, other := net.Client(), net.Client(), net.Client()
		lease := net.Must(a.Mutex("x").Lock(t.Context()))
		synctest.Wait()
		ctx, cancel := lease.Context(t.Context())
		defer cancel()
		text := net.Text(lease.Transfer(t.Context()))
		require.ErrorIs(t, context.Cause(ctx), redlock.ErrTransferred)
		require.ErrorIs(t, lease.Err(), redlock.ErrTransferred)
		require.ErrorIs(t, lease.Extend(t.Context()), redlock.ErrTransferred)
		_, err := lease.Transfer(t.Context())
		require.ErrorIs(t, err, redlock.ErrTransferred)
		<-lease.Done()
		require.False(t, lease.Valid())
		require.NoError(t, lease.Unlock(t.Context()))
		require.NoError(t, a.Close())
		require.Equal(t, 5, keeping(t, net, text), "neither Unlock nor Close releases it")

		time.Sleep(8 * time.Second) // of a ttl of 10 s
		net.Held(other.Mutex("x").TryLock(t.Context()))
		resumed := net.Must(b.Resume(t.Context(), text))
		synctest.Wait()
		require.Equal(t, 5, net.Holders(resumed))
		require.NotEqual(t, lease.Owner(), resumed.Owner())
		require.Greater(t, resumed.Token(), lease.Token())
		require.Greater(t, resumed.Remaining(), 9*time.Second)
		require.Equal(t, "x", resumed.Name())
		time.Sleep(time.Minute)
		require.NoError(t, resumed.Err(), "it renews itself")
		net.Held(other.Mutex("x").TryLock(t.Context()))
		require.NoError(t, resumed.Unlock(t.Context()))
		synctest.Wait()
		net.RequireNoKeys()
	})
}

func TestTransferTakesOneTripAndSoDoesResume(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(), net.Client()
		lease, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, b.Ping(t.Context()))
		net.Delay(10 * ms)
		var text string
		require.Equal(t, 20*ms, testnet.Elapsed(func() { text, err = lease.Transfer(t.Context()) }))
		require.NoError(t, err)
		var resumed *redlock.Lease
		require.Equal(t, 20*ms, testnet.Elapsed(func() { resumed, err = b.Resume(t.Context(), text) }))
		require.NoError(t, err)
		require.Equal(t, 1, net.Nodes[0].Executed("resume"))
		require.Equal(t, lease.Token()+1, resumed.Token())
		require.NoError(t, resumed.Unlock(t.Context()))
		time.Sleep(time.Second)
		net.RequireNoKeys()
	})
}

// The keys last a little longer than the validity. As long as a quorum keeps them, nobody else can have had the lock.
func TestLeaseIsResumedWhileItsKeysStand(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		_, text := transfer(t, net.Client())
		time.Sleep(10*time.Second - ms)
		require.Equal(t, 3, keeping(t, net, text))
		lease := net.Must(net.Client().Resume(t.Context(), text))
		require.NoError(t, lease.Unlock(t.Context()))
	})
}

func TestLateResumeFailsAndLeavesNothing(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(), net.Client(redlock.WithOwnerLabel("late"))
		_, text := transfer(t, a)
		time.Sleep(10 * time.Second)
		var err error
		require.Zero(t, testnet.Elapsed(func() { _, err = b.Resume(t.Context(), text) }), "it does not try again in vain")
		require.ErrorIs(t, err, redlock.ErrLost)
		require.ErrorContains(t, err, `redlock: the lease of "x" is lost: it was transferred, and could not be resumed: too late, or another caller has the lock: resume "x": no quorum: 0 of 3 nodes granted, 2 needed; node `)
		require.ErrorContains(t, err, "refused: the lease's key is gone there: it has ended, or was taken away")
		var lost *redlock.LostError
		require.ErrorAs(t, err, &lost)
		require.Equal(t, redlock.LostTransferred, lost.Reason)
		require.Equal(t, transferValue(t, text), lost.Owner, "the lease was that of the text, and no owner's")
		require.Len(t, lost.Votes, 3)
		synctest.Wait()
		net.RequireNoKeys()
	})
}

func TestOneTextIsOneLease(t *testing.T) {
	for range 10 {
		testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
			a := net.Client()
			var clients []*redlock.Client
			for range 3 {
				clients = append(clients, net.Client())
			}
			_, text := transfer(t, a)
			var mu sync.Mutex
			var got []*redlock.Lease
			var all sync.WaitGroup
			for _, c := range clients {
				all.Go(func() {
					lease, err := c.Resume(t.Context(), text)
					if err != nil {
						assert.ErrorIs(t, err, redlock.ErrLost)
						return
					}
					mu.Lock()
					defer mu.Unlock()
					got = append(got, lease)
				})
			}
			all.Wait()
			synctest.Wait()
			require.LessOrEqual(t, len(got), 1)
			if len(got) == 1 {
				require.GreaterOrEqual(t, net.Holders(got[0]), 3, "the others released nothing of it")
				_, err := a.Resume(t.Context(), text)
				require.ErrorIs(t, err, redlock.ErrLost)
				require.NoError(t, got[0].Err())
				require.NoError(t, got[0].Unlock(t.Context()))
			}
			synctest.Wait()
			net.RequireNoKeys()
		})
	}
}

// Without a quorum that answers, the lease goes on, and so do its renewals.
func TestTransferWithoutAQuorumLeavesTheLeaseAsItWas(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		lease := net.Must(net.Client().Mutex("x").Lock(t.Context()))
		synctest.Wait()
		net.Nodes[1:].Freeze()
		_, err := lease.Transfer(t.Context())
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, `transfer "x": no quorum`)
		require.NoError(t, lease.Err())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = lease.Transfer(ctx)
		require.ErrorIs(t, err, context.Canceled)
		net.Nodes[1:].Thaw()
		time.Sleep(time.Minute)
		require.NoError(t, lease.Err())
		net.Text(lease.Transfer(t.Context()))
	})
}

// One node is away when the lease is transferred, and another one when it is resumed.
func TestTransferOutlivesAMinorityThatFails(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(), net.Client()
		lease := net.Must(a.Mutex("x").Lock(t.Context()))
		synctest.Wait()
		net.Nodes[0].Freeze()
		text := net.Text(lease.Transfer(t.Context()))
		net.Nodes[0].Thaw()
		synctest.Wait()
		require.Equal(t, 4, keeping(t, net, text), "a node that is not in the text drops the key")
		net.Nodes[1].Restart(net.Nodes[1].Snapshot())
		net.Nodes[2].Freeze()
		time.AfterFunc(time.Second, net.Nodes[2].Thaw)
		resumed := net.Must(b.Resume(t.Context(), text))
		require.NoError(t, resumed.Err())
		require.NoError(t, resumed.Unlock(t.Context()))
		time.Sleep(5 * time.Second)
		net.RequireNoKeys()
	})
}

func TestResumeEndsWithItsContext(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		b := net.Client()
		_, text := transfer(t, net.Client())
		net.Nodes[1:].Down()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		time.AfterFunc(time.Second, net.Nodes[0].Down) // it has transferred the key by then
		_, err := b.Resume(ctx, text)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, `redlock: resume "x": `)
		net.Nodes.Up()
		time.Sleep(3 * time.Second)
		net.RequireNoKeys()
	})
}

func TestResumeGivesUpWhenTheOldLeaseHasEnded(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		b := net.Client()
		_, text := transfer(t, net.Client())
		net.Nodes.Down()
		took := testnet.Elapsed(func() {
			_, err := b.Resume(t.Context(), text)
			require.ErrorIs(t, err, redlock.ErrLost)
			require.NotErrorIs(t, err, redlock.ErrNoQuorum, "the lease is lost for good")
		})
		require.InDelta(t, 9898*ms, took, float64(100*ms))
	})
}

func TestTransferIsARenewalAndSeesALoss(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		b := net.Client()
		lease := net.Must(net.Client(redlock.WithoutRenewal()).Mutex("x").Lock(t.Context()))
		time.Sleep(8 * time.Second)
		text := net.Text(lease.Transfer(t.Context()))
		time.Sleep(8 * time.Second)
		resumed := net.Must(b.Resume(t.Context(), text))
		synctest.Wait()
		for _, n := range net.Nodes[1:] {
			require.NoError(t, n.Redis.Set("redlock:x", "them"))
			n.Redis.SetTTL("redlock:x", 5*time.Second)
		}
		_, err := resumed.Transfer(t.Context())
		require.ErrorIs(t, err, redlock.ErrLost)
		require.Equal(t, 5*time.Second, net.Nodes[1].Redis.TTL("redlock:x"), "it does not prolong another owner's key")
	})
}

// Names, prefixes and labels are bytes, and need not be UTF-8.
func TestTransferOfANameThatIsNoText(t *testing.T) {
	for _, n := range []struct{ name, prefix, label string }{
		{"x\xff", "redlock:", "label"},
		{"x", "p\xfe\x00:", "label"},
		{"x", "redlock:", "\xfd\"\n"},
		{"\x80\x81", "\xc0", "\xc1"},
	} {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			a, b := net.Client(redlock.WithPrefix(n.prefix), redlock.WithOwnerLabel(n.label)), net.Client(redlock.WithPrefix(n.prefix))
			lease := net.Must(a.Mutex(n.name).Lock(t.Context()))
			synctest.Wait()
			text := net.Text(lease.Transfer(t.Context()))
			require.Equal(t, n.label, holderSeen(t, b, n.name).Label)
			resumed, err := b.Resume(t.Context(), text)
			require.NoError(t, err, "%q", n)
			require.Equal(t, n.name, resumed.Name())
			require.NoError(t, resumed.Unlock(t.Context()))
			synctest.Wait()
			net.RequireNoKeys()
		})
	}
}

// A server may name its run as it likes. A text that nobody could read is not begun: the lease goes
// on.
func TestTransferWhoseTextWouldBeTooLong(t *testing.T) {
	testnet.InBubble(t, 15, func(t *testing.T, net *testnet.Net) {
		net.Nodes.Set(func(n *testnet.Node) { n.RunID += strings.Repeat("r", 2800) })
		lease := net.Must(net.Client().Mutex("x").Lock(t.Context()))
		_, err := lease.Transfer(t.Context())
		require.ErrorIs(t, err, redlock.ErrConfig)
		require.Zero(t, net.Nodes[0].Executed("transfer"))
		require.Equal(t, 15, net.Holders(lease))
		require.NoError(t, lease.Extend(t.Context()))
	})
}

// Each link of a chain of transfers is shorter than a third of the ttl, and at each transfer
// another node is silent for a moment. That costs the text this node, and the next lease renews at
// once: so the node is back by the next link.
func TestChainOfShortLinksKeepsAllNodes(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(), net.Client()
		require.NoError(t, b.Ping(t.Context()))
		lease := net.Must(a.Mutex("x").Lock(t.Context()))
		synctest.Wait()
		net.Delay(ms)
		var kept, held []int
		for i := range 10 {
			silent := net.Nodes[i%5]
			silent.Freeze()
			text, err := lease.Transfer(t.Context())
			require.NoError(t, err, "link %d: nodes that kept the lease: %v, nodes that held it: %v", i, kept, held)
			silent.Thaw()
			time.Sleep(50 * ms)
			kept = append(kept, keeping(t, net, text))
			lease = net.Must(b.Resume(t.Context(), text))
			time.Sleep(100 * ms)
			held = append(held, net.Holders(lease))
		}
		require.Equal(t, []int{4, 4, 4, 4, 4, 4, 4, 4, 4, 4}, kept)
		require.Equal(t, []int{5, 5, 5, 5, 5, 5, 5, 5, 5, 5}, held)
	})
}

// A lease that is not renewed is not renewed behind a Resume either.
func TestResumeWithoutRenewal(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client(redlock.WithoutRenewal())
		_, text := transfer(t, c)
		net.Delay(ms)
		resumed := net.Must(c.Resume(t.Context(), text))
		time.Sleep(time.Second)
		require.Zero(t, net.Nodes[0].Executed("renew"))
		require.Less(t, resumed.Remaining(), 9*time.Second)
	})
}

// Calls of Resume that fail when a node has transferred the lease to them already.

// resumeAtOneNode begins a call of Resume that node 0 alone answers, and returns the channel that gets its error.
func resumeAtOneNode(t *testing.T, net *testnet.Net, b *redlock.Client, text string) <-chan error {
	t.Helper()
	net.Nodes[1:].Down()
	failed := make(chan error, 1)
	go func() {
		_, err := b.Resume(t.Context(), text)
		failed <- err
	}()
	for keeping(t, net, text) == 3 {
		time.Sleep(ms)
	}
	return failed
}

// Close waits until the call has given back what it got.
func TestCloseDuringAResumeLeavesNoKey(t *testing.T) {
	for range 30 {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			b := net.Client()
			_, text := transfer(t, net.Client())
			failed := resumeAtOneNode(t, net, b, text)
			time.Sleep(20 * ms)
			require.NoError(t, b.Close())
			assert.NotContains(t, net.Nodes[0].Keys(), "redlock:x")
			require.ErrorIs(t, <-failed, redlock.ErrClosed)
		})
	}
}

// All servers restart, with their keys, when one of them has transferred the lease.
func TestResumeGivesBackWhatItGotBeforeAllServersRestarted(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		unguarded := redlock.WithRestartGuard(0)
		b := net.Client(unguarded)
		_, text := transfer(t, net.Client(unguarded))
		failed := resumeAtOneNode(t, net, b, text)
		for _, n := range net.Nodes {
			n.Restart(n.Snapshot())
			n.Up()
		}
		require.ErrorIs(t, <-failed, redlock.ErrLost)
		time.Sleep(3 * time.Second) // all nodes are connected again, long before the keys end
		net.RequireNoKeys()
	})
}
