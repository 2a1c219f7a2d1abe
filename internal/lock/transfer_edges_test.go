package lock_test

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/lease"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// What stays at the nodes after a transfer, which texts are refused, and when it is too late.

// A waiter that got the lock stands in the queue of a node that refused it. A transfer leaves that queue.
func TestTransferLeavesTheQueues(t *testing.T) {
	for _, healed := range []bool{false, true} {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) { transferLeavesTheQueues(t, net, healed) })
	}
}

func transferLeavesTheQueues(t *testing.T, net *testnet.Net, healed bool) {
	a, b := net.Client(), net.Client()
	first := net.Must(a.Mutex("x").Lock(t.Context()))
	synctest.Wait()
	got := net.Begin(b.Mutex("x").Lock)
	time.Sleep(100 * ms)
	require.NoError(t, net.Nodes[0].Redis.Set("redlock:x", "them"))
	require.NoError(t, first.Unlock(t.Context()))
	lease := <-got
	synctest.Wait() // node 0 has refused, too
	if healed {
		net.Nodes[0].Redis.Del("redlock:x")
		require.NoError(t, lease.Extend(t.Context())) // puts the key there, and the ticket stays
		synctest.Wait()
		require.Equal(t, 3, net.Holders(lease))
	}
	require.Contains(t, net.Nodes[0].Keys(), "redlock::queue:redlock:x")
	net.Text(lease.Transfer(t.Context()))
	synctest.Wait()
	for _, n := range net.Nodes {
		require.NotContains(t, n.Keys(), "redlock::queue:redlock:x")
	}
}

func TestTextOfAnotherKindIsRefusedBeforeAnythingIsSent(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		_, text := transfer(t, c)
		body := strings.SplitN(text, ".", 3)[2]
		for name, bad := range map[string]string{
			"nothing":         "",
			"another text":    "hello",
			"cut off":         text[:len(text)-1],
			"another letter":  strings.Replace(text, body[20:24], "AAAA", 1),
			"another version": strings.Replace(text, "-3.", "-2.", 1),
			"no sum":          strings.Replace(text, body, base64.RawURLEncoding.EncodeToString([]byte("{}")), 1),
		} {
			_, err := c.Resume(t.Context(), bad)
			require.ErrorIs(t, err, redlock.ErrConfig, name)
			require.NotContains(t, err.Error(), body[:10], "the text is a secret")
		}
		for name, opts := range map[string][]redlock.LockOption{
			"another prefix": {redlock.WithPrefix("other:")},
			"a bad option":   {redlock.WithTTL(-1)},
		} {
			_, err := c.Resume(t.Context(), text, opts...)
			require.ErrorIs(t, err, redlock.ErrConfig, name)
		}
		for _, n := range net.Nodes {
			require.Zero(t, n.Executed("resume"))
		}
		require.Equal(t, 3, keeping(t, net, text))
	})
}

func TestTextOfAnotherClusterIsRefused(t *testing.T) {
	var text string
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) { _, text = transfer(t, net.Client()) })
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		net.Nodes.Set(func(n *testnet.Node) { n.RunID += " of another cluster" })
		_, err := net.Client().Resume(t.Context(), text)
		require.ErrorIs(t, err, redlock.ErrConfig)
		require.ErrorContains(t, err, "none of the nodes keeps the lease")
		require.Zero(t, net.Nodes[0].Executed("resume")+net.Nodes[0].Executed("release"))
	})
}

func TestLeaseThatOthersHoldToo(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		m := net.Client().Mutex("x", redlock.WithReentry())
		outer := net.Must(m.Lock(t.Context()))
		ctx, cancel := outer.Context(t.Context())
		defer cancel()
		inner := net.Must(m.Lock(ctx))
		_, err := outer.Transfer(t.Context())
		require.ErrorIs(t, err, redlock.ErrConfig)
		require.ErrorContains(t, err, "others hold the lease with it")
		require.NoError(t, inner.Unlock(t.Context()))
		net.Text(outer.Transfer(t.Context()))
	})
}

// Do ends as usual after a transfer, and a scheduled renewal does not revive the keys.
func TestTransferWithinADo(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		var text string
		require.NoError(t, net.Client(redlock.WithTTL(2*time.Second)).Mutex("x").Do(t.Context(), func(ctx context.Context, l *redlock.Lease) (err error) {
			time.Sleep(5 * time.Second)
			text, err = l.Transfer(ctx)
			return err
		}))
		time.Sleep(3 * time.Second)
		net.RequireNoKeys()
		_, err := net.Client().Resume(t.Context(), text)
		require.ErrorIs(t, err, redlock.ErrLost)
	})
}

// A node that did not transfer the key drops the old one, and the first renewal, at once, puts the
// new one there.
func TestOldKeyIsDroppedWhereItWasNotTransferred(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		b := net.Client()
		_, text := transfer(t, net.Client())
		net.Nodes[2].Refuse("OOM command not allowed", "resume")
		resumed := net.Must(b.Resume(t.Context(), text))
		synctest.Wait()
		require.Equal(t, 3, net.Holders(resumed))
	})
}

// Where a node is silent, a transfer takes a while. A renewal that is due then does not come behind it: it could put the old
// key back after the new owner has released its own.
func TestNoRenewalBeginsBehindATransfer(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client(redlock.WithTTL(2*time.Second), redlock.WithRenewEvery(100*ms), redlock.WithNodeTimeout(500*ms))
		lease := net.Must(c.Mutex("x").Lock(t.Context()))
		net.Delay(200 * ms)
		time.Sleep(time.Second)
		renewals := func() int { return net.Nodes[0].Executed("renew") }
		handed := make(chan int, 1)
		go func() {
			time.Sleep(200 * ms)
			synctest.Wait() // the transfer arrives, behind all renewals
			handed <- renewals()
		}()
		net.Text(lease.Transfer(t.Context()))
		time.Sleep(time.Second)
		require.Equal(t, <-handed, renewals())
	})
}

// A renewal that is still on its way over an old connection could put the old key back.
func TestNodeThatHasNotClosedOldConnectionsDoesNotKeepTheLease(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		n := net.Nodes[0]
		n.Refuse("NOPERM no permissions to run 'client|kill'", "client kill")
		lease := net.Must(net.Client().Mutex("x").Lock(t.Context()))
		synctest.Wait()
		n.Cut()
		time.Sleep(time.Second) // it is connected again
		require.Equal(t, 3, net.Holders(lease))
		text := net.Text(lease.Transfer(t.Context()))
		require.Equal(t, 2, keeping(t, net, text))
		require.Zero(t, net.Holders(lease))
	})
}

// A call of Resume that asks no node leaves the lease as it is, so that a later call can resume it.
func TestResumeThatAsksNobodyLeavesTheLease(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		_, text := transfer(t, net.Client())
		b := net.Client()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := b.Resume(ended, text)
		require.ErrorIs(t, err, context.Canceled)
		synctest.Wait()
		resumed := net.Must(b.Resume(t.Context(), text))
		require.NoError(t, resumed.Unlock(t.Context()))
	})
}

// A node that is still to undo an attempt of the lease drops its key, so it does not keep the lease for a text. A text that
// fewer than a quorum keep is of no use.
func TestTransferThatTooFewNodesKeepLeavesTheLease(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		m := c.Mutex("x")
		lease := net.Must(m.Lock(t.Context()))
		synctest.Wait()
		net.Delay(5 * ms)
		net.Nodes[2].Freeze()
		time.AfterFunc(25*ms, func() { // two nodes have granted, and the third is awaited for 5 ms more
			testhook.Engine(c).Cluster.Nodes()[1].Undo(testhook.Lock(m).NewUndo(lease.Owner(), ""))
		})
		text, err := lease.Transfer(t.Context())
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, "1 of 3 nodes granted, 2 needed")
		require.ErrorContains(t, err, "it has not confirmed yet that an attempt of the lease is undone")
		require.Empty(t, text)
		require.True(t, lease.Valid())

		net.Nodes[2].Thaw()
		time.Sleep(time.Second)
		require.Equal(t, 3, net.Holders(lease), "the keys are the owner's again")
		text = net.Text(lease.Transfer(t.Context()))
		resumed := net.Must(net.Client().Resume(t.Context(), text))
		require.NoError(t, resumed.Unlock(t.Context()))
		net.RequireNoKeys()
	})
}

// A lease that became shared when the caller of Transfer had already been told that it is not:
// nothing happens to it.
func TestSharedLeaseIsNotTransferred(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		l := net.Must(c.RWMutex("x").Lock(t.Context()))
		require.NoError(t, l.Downgrade(t.Context()))
		ballot := testhook.Exclusive(c.Mutex("x")).NewTransfer()
		_, e, err := testhook.Handle(l).Transfer(t.Context(), ballot)
		require.ErrorIs(t, err, lease.ErrShared)
		require.Zero(t, e)
		require.NoError(t, l.Err())
		require.Zero(t, net.Nodes[0].Executed("transfer"))
	})
}

// Downgrade and Transfer of one lease at the same time: one of them does what it is for, and the
// lease is not lost.
func TestDowngradeBesideATransfer(t *testing.T) {
	var downgraded, handed int
	for range 50 {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			c := net.Client()
			l, err := c.RWMutex("x").Lock(t.Context())
			require.NoError(t, err)
			var both sync.WaitGroup
			both.Go(func() {
				if err := l.Downgrade(t.Context()); err == nil {
					downgraded++
				} else {
					assert.ErrorIs(t, err, redlock.ErrTransferred)
				}
			})
			var text string
			var failed error
			both.Go(func() { text, failed = l.Transfer(t.Context()) })
			both.Wait()
			switch {
			case failed == nil:
				handed++
				l, err = c.Resume(t.Context(), text)
				require.NoError(t, err)
			default:
				require.ErrorIs(t, failed, redlock.ErrConfig)
				require.NoError(t, l.Err())
				require.True(t, l.Shared())
			}
			require.False(t, errors.Is(l.Unlock(t.Context()), redlock.ErrLost))
		})
	}
	t.Logf("%d downgrades, %d transfers", downgraded, handed)
	require.Equal(t, 50, downgraded+handed)
}

// A caller that joins the lease while the nodes are asked goes on holding it: there is no text, with which
// another process could hold the lock beside it.
func TestCallerThatJoinsDuringATransferKeepsTheLease(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		m := net.Client(redlock.WithTTL(2*time.Second)).Mutex("x", redlock.WithReentry())
		outer := net.Must(m.Lock(t.Context()))
		ctx, cancel := outer.Context(t.Context())
		defer cancel()
		net.Delay(10 * ms)
		result := make(chan error, 1)
		go func() {
			_, err := outer.Transfer(t.Context())
			result <- err
		}()
		time.Sleep(5 * ms)
		inner := net.Must(m.Lock(ctx))
		err := <-result
		require.ErrorIs(t, err, redlock.ErrConfig)
		require.ErrorContains(t, err, "others hold the lease with it")
		require.NoError(t, outer.Err())
		require.NoError(t, outer.Unlock(t.Context()))
		time.Sleep(time.Minute)
		require.NoError(t, inner.Err(), "it is renewed as before")
		require.NoError(t, inner.Unlock(t.Context()))
		time.Sleep(time.Second)
		net.RequireNoKeys()
	})
}

// A renewal behind the transfer could put the old key back when the new owner has released its own.
func TestLeaseIsNotExtendedDuringATransfer(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		lease := net.Must(net.Client().Mutex("x").Lock(t.Context()))
		synctest.Wait()
		before := net.Nodes[0].Executed("renew")
		net.Delay(10 * ms)
		result := make(chan error, 1)
		go func() {
			_, err := lease.Transfer(t.Context())
			result <- err
		}()
		time.Sleep(5 * ms)
		require.ErrorIs(t, lease.Extend(t.Context()), redlock.ErrTransferred)
		require.ErrorIs(t, lease.ExtendTo(t.Context(), 5*time.Second), redlock.ErrTransferred)
		require.NoError(t, <-result)
		time.Sleep(time.Second)
		require.Equal(t, before, net.Nodes[0].Executed("renew"))
	})
}

// Close ends the lease while the transfer still waits for a node that is silent. Then the lease is released when the Do
// returns, so a text would be one for a lock that is free.
func TestCloseDuringATransferWithinADoLeavesNoText(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		require.NoError(t, c.Ping(t.Context()))
		ended := make(chan error, 1)
		go func() {
			ended <- c.Mutex("x").Do(t.Context(), func(ctx context.Context, l *redlock.Lease) error {
				net.Delay(10 * ms)
				net.Nodes[2].Freeze()
				text, err := l.Transfer(ctx)
				assert.ErrorIs(t, err, redlock.ErrClosed)
				assert.Empty(t, text)
				time.Sleep(100 * ms)
				synctest.Wait()
				for _, n := range net.Nodes {
					assert.Contains(t, n.Keys(), "redlock:x", "the Do has not returned")
				}
				return nil
			})
		}()
		time.Sleep(30 * ms) // a quorum answers after 20 ms, and the transfer waits 30 ms more for the last node
		require.NoError(t, c.Close())
		require.NoError(t, <-ended)
		net.Nodes[2].Thaw()
		time.Sleep(time.Second)
		net.RequireNoKeys()
	})
}

// refuse makes a node refuse all scripts, until the returned function is called.
func refuse(n *testnet.Node) (over func()) {
	n.Refuse("BUSY Redis is busy running a script", "EVALSHA", "EVAL")
	return func() { n.Set(func(n *testnet.Node) { n.Override = nil }) }
}

// A node that refuses the release for longer than the lock's ttl keeps the key of an ExtendTo, and is asked again.
func TestLongKeyIsDroppedAtANodeThatIsNotInTheText(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		lease := net.Must(net.Client().Mutex("x").Lock(t.Context()))
		synctest.Wait()
		require.NoError(t, lease.ExtendTo(t.Context(), time.Hour))
		synctest.Wait()
		over := refuse(net.Nodes[0])
		text := net.Text(lease.Transfer(t.Context()))
		time.Sleep(time.Minute)
		over()
		time.Sleep(5 * time.Second)
		require.Equal(t, 2, keeping(t, net, text))
		require.Zero(t, net.Holders(lease))
	})
}

// The same where the old lease's ttl is longer than that of the client that resumes it.
func TestOldKeyIsDroppedAtANodeThatRefusesForLong(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		_, text := transfer(t, net.Client(redlock.WithTTL(time.Hour)))
		b := net.Client(redlock.WithTTL(2 * time.Second))
		require.NoError(t, b.Ping(t.Context()))
		synctest.Wait()
		over := refuse(net.Nodes[0])
		resumed := net.Must(b.Resume(t.Context(), text))
		require.NoError(t, resumed.Unlock(t.Context()))
		time.Sleep(time.Minute)
		over()
		time.Sleep(5 * time.Second)
		net.RequireNoKeys()
	})
}
