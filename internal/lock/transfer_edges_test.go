package lock_test

import (
	"context"
	"encoding/base64"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
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
	first, err := a.Mutex("x").Lock(t.Context())
	require.NoError(t, err)
	synctest.Wait()
	got := make(chan *redlock.Lease, 1)
	go func() {
		l, err := b.Mutex("x").Lock(t.Context())
		assert.NoError(t, err)
		got <- l
	}()
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
	_, err = lease.Transfer(t.Context())
	require.NoError(t, err)
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
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		_, err := net.Client().Resume(t.Context(), text)
		require.ErrorIs(t, err, redlock.ErrConfig)
		require.ErrorContains(t, err, `in a cluster of 5 nodes, and this client has 3`)
	})
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		for _, n := range net.Nodes {
			n.Set(func(n *testnet.Node) { n.RunID += " of another cluster" })
		}
		_, err := net.Client().Resume(t.Context(), text)
		require.ErrorIs(t, err, redlock.ErrConfig)
		require.ErrorContains(t, err, "none of the nodes keeps the lease")
		require.Zero(t, net.Nodes[0].Executed("resume")+net.Nodes[0].Executed("release"))
	})
}

func TestLeaseThatOthersHoldToo(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		m := net.Client().Mutex("x", redlock.WithReentry())
		outer, err := m.Lock(t.Context())
		require.NoError(t, err)
		ctx, cancel := outer.Context(t.Context())
		defer cancel()
		inner, err := m.Lock(ctx)
		require.NoError(t, err)
		_, err = outer.Transfer(t.Context())
		require.ErrorIs(t, err, redlock.ErrConfig)
		require.ErrorContains(t, err, "others hold the lease with it")
		require.NoError(t, inner.Unlock(t.Context()))
		_, err = outer.Transfer(t.Context())
		require.NoError(t, err)
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
		net.Nodes[2].Set(func(n *testnet.Node) {
			n.Override = func(cmd string, args []string) string {
				if testnet.IsScript(cmd, args, protocol.Resume) {
					return "OOM command not allowed"
				}
				return ""
			}
		})
		resumed, err := b.Resume(t.Context(), text)
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, 3, net.Holders(resumed))
	})
}

// Where a node is silent, a transfer takes a while. A renewal that is due then does not come behind it: it could put the old
// key back after the new owner has released its own.
func TestNoRenewalBeginsBehindATransfer(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client(redlock.WithTTL(2*time.Second), redlock.WithRenewEvery(100*ms), redlock.WithNodeTimeout(500*ms))
		lease, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		net.Delay(200 * ms)
		time.Sleep(time.Second)
		renewals := func() int { return net.Nodes[0].Executed("renew") }
		handed := make(chan int, 1)
		go func() {
			time.Sleep(200 * ms)
			synctest.Wait() // the transfer arrives, behind all renewals
			handed <- renewals()
		}()
		_, err = lease.Transfer(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.Equal(t, <-handed, renewals())
	})
}

// A renewal that is still on its way over an old connection could put the old key back.
func TestNodeThatHasNotClosedOldConnectionsDoesNotKeepTheLease(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		n := net.Nodes[0]
		n.Set(func(n *testnet.Node) {
			n.Override = func(cmd string, args []string) string {
				if cmd == "CLIENT" && args[0] == "KILL" {
					return "NOPERM no permissions to run 'client|kill'"
				}
				return ""
			}
		})
		lease, err := net.Client().Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		n.Cut()
		time.Sleep(time.Second) // it is connected again
		require.Equal(t, 3, net.Holders(lease))
		text, err := lease.Transfer(t.Context())
		require.NoError(t, err)
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
		resumed, err := b.Resume(t.Context(), text)
		require.NoError(t, err)
		require.NoError(t, resumed.Unlock(t.Context()))
	})
}
