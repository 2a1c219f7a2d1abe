package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

const ms = time.Millisecond

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // the embedded nodes make a Lua state for each script
	goleak.VerifyTestMain(m)
}

// What the package promises, tested as users would test it.

func TestLockIsHeldByOneAndFreeAfterUnlock(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(), net.Client()

		lease := net.Must(a.Mutex("x").Lock(t.Context()))
		require.Equal(t, 5, net.Holders(lease))
		require.True(t, lease.Valid())

		_, err := b.Mutex("x").TryLock(t.Context())
		require.ErrorIs(t, err, redlock.ErrHeld)
		held := new(redlock.HeldError)
		require.ErrorAs(t, err, &held)
		require.Equal(t, lease.Owner(), held.Holder)
		require.Equal(t, "x", held.Name)
		require.InDelta(t, 10*time.Second, held.Remaining, float64(time.Second))

		require.NoError(t, lease.Unlock(t.Context()))
		require.NoError(t, lease.Unlock(t.Context()), "a second call returns nil")
		require.ErrorIs(t, lease.Err(), redlock.ErrReleased)
		<-lease.Done()
		require.ErrorIs(t, lease.Extend(t.Context()), redlock.ErrReleased)
		net.RequireNoKeys()

		other := net.Must(b.Mutex("x").TryLock(t.Context()))
		require.NoError(t, other.Unlock(t.Context()))
	})
}

func TestLockWorksWithoutAnyMinority(t *testing.T) {
	away := map[string]func(n *testnet.Node){
		"down":   func(n *testnet.Node) { n.Set(func(n *testnet.Node) { n.Refusing = testnet.ErrRefused }); n.Cut() },
		"frozen": (*testnet.Node).Freeze,
		"mute":   (*testnet.Node).Mute,
	}
	for name, leave := range away {
		for _, n := range []int{3, 5, 7} {
			t.Run(fmt.Sprintf("%s of %d", name, n), func(t *testing.T) {
				testnet.InBubble(t, n, func(t *testing.T, net *testnet.Net) {
					c := net.Client()
					for _, node := range net.Nodes[:n/2] {
						leave(node)
					}
					synctest.Wait()
					took := testnet.Elapsed(func() {
						lease := net.Must(c.Mutex("x").Lock(t.Context()))
						require.NoError(t, lease.Extend(t.Context()))
						require.NoError(t, lease.Unlock(t.Context()))
					})
					// Only the renewal may have to wait for the silent nodes.
					require.LessOrEqual(t, took, testhook.Engine(c).NodeTimeout)
				})
			})
		}
	}
}

func TestMajorityAwayGivesNoQuorumWithinANodeTimeout(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		c := net.Client(redlock.WithNodeTimeout(100 * ms))
		lease, err := c.Mutex("held").Lock(t.Context())
		require.NoError(t, err)
		net.Nodes[0].Freeze()
		net.Nodes[1].Freeze()
		net.Nodes[2].Set(func(n *testnet.Node) { n.Refusing = testnet.ErrRefused })
		net.Nodes[2].Cut()

		for op, call := range map[string]func() error{
			"lock": func() error { _, err := c.Mutex("x").TryLock(t.Context()); return err },
			// The second attempt finds the frozen ones stalled.
			"extend": func() error { return lease.Extend(t.Context()) },
		} {
			took := testnet.Elapsed(func() { err = call() })
			require.LessOrEqual(t, took, 100*ms)
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			var q *redlock.QuorumError
			require.ErrorAs(t, err, &q)
			require.Equal(t, op, q.Op)
			require.Len(t, q.Votes, 5)
			for _, v := range q.Votes[:3] {
				require.Contains(t, []redlock.Outcome{"unknown", "not sent"}, v.Outcome)
				require.Error(t, v.Cause)
				require.ErrorContains(t, err, v.Node)
			}
			require.Equal(t, redlock.Outcome("granted"), q.Votes[4].Outcome)
		}
		require.ErrorIs(t, c.Ping(t.Context()), redlock.ErrNoQuorum)
		require.ErrorIs(t, lease.Unlock(t.Context()), redlock.ErrNoQuorum)
		require.ErrorIs(t, lease.Err(), redlock.ErrReleased)

		net.Nodes[0].Thaw()
		net.Nodes[1].Thaw()
		net.Nodes[2].Set(func(n *testnet.Node) { n.Refusing = nil })
		time.Sleep(2 * time.Second) // the release was pending at three nodes
		net.RequireNoKeys()
	})
}

func TestLockWaitsUntilItsContextEnds(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(), net.Client()
		lease, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)

		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		took := testnet.Elapsed(func() { _, err = b.Mutex("x").Lock(ctx) })
		require.Equal(t, 3*time.Second, took)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, redlock.ErrHeld)

		reason := errors.New("the caller has gone")
		cancelled, stop := context.WithCancelCause(t.Context())
		stop(reason)
		_, err = b.Mutex("x").Lock(cancelled)
		require.ErrorIs(t, err, reason)
		require.NotErrorIs(t, err, redlock.ErrHeld, "no node was asked")

		go func() {
			time.Sleep(time.Second)
			_ = lease.Unlock(t.Context())
		}()
		next, err := b.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, next.Unlock(t.Context()))
		net.RequireNoKeys()
	})
}

func TestPermanentErrorsAtAMajorityEndLockAtOnce(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		for _, n := range net.Nodes[:3] {
			n.Refusing = redis.Error("WRONGPASS invalid username-password pair or user is disabled.")
		}
		c := net.NewClient()
		took := testnet.Elapsed(func() {
			_, err := c.Mutex("x").Lock(t.Context())
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			require.ErrorContains(t, err, "node 1 (test-1): not sent: cannot connect: WRONGPASS")
			require.ErrorContains(t, err, "check the user and the password")
		})
		require.LessOrEqual(t, took, testhook.Engine(c).NodeTimeout)

		net.Nodes.Set(func(n *testnet.Node) { n.Refusing = nil })
		time.Sleep(time.Second)
		require.NoError(t, c.Ping(t.Context()), "a node is back within a second of its recovery")
	})
}

// Two of three servers do not vote, which a person must mend: waiting does not.
func TestServerThatIsNoMasterOfItsOwnDoesNotVote(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(n *testnet.Node)
		says   []string // of one node, or of both
	}{
		{"one server under several pools", func(n *testnet.Node) { n.RunID = "run-0" }, []string{"it is the same server as node"}},
		{"a replica", func(n *testnet.Node) { n.Role = "slave" }, []string{"it is a replica"}},
		{"cluster mode", func(n *testnet.Node) { n.Mode = "cluster" }, []string{"it runs in cluster mode"}},
		{"unknown roles", func(n *testnet.Node) { n.Role = []string{"", "active-replica", "replica"}[n.Index] },
			[]string{`its role is "active-replica"; only masters vote`, "it is a replica"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				net.Nodes[0].Role, net.Nodes[0].Mode = "", "standalone" // a server that does not show its role counts as a master
				net.Nodes[1:].Set(c.change)
				client := net.NewClient()
				var lock error
				require.Zero(t, testnet.Elapsed(func() { _, lock = client.Mutex("x").Lock(t.Context()) }))
				for _, err := range []error{lock, client.Ping(t.Context())} {
					require.ErrorIs(t, err, redlock.ErrNoQuorum)
					for _, text := range c.says {
						require.ErrorContains(t, err, text)
					}
				}
				states := client.Stats().Nodes
				require.ElementsMatch(t, []string{"up", "unfit", "unfit"}, []string{states[0].State, states[1].State, states[2].State})
				if net.Nodes[1].RunID != net.Nodes[0].RunID { // else any of the pools may have the vote
					require.Equal(t, "up", states[0].State)
				}
				net.RequireNoKeys()
			})
		})
	}
}

func TestServerWithoutARunIDIsLoggedOnce(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		net.Nodes[0].RunID = ""
		var lines testnet.Journal
		net.Client(redlock.WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
		for range 3 {
			net.Nodes[0].Cut()
			time.Sleep(time.Second)
		}
		require.Equal(t, 1, strings.Count(lines.String(), "the server's INFO has no run_id"), "%s", &lines)
		require.Equal(t, 1, strings.Count(lines.String(), "level=WARN"), "%s", &lines)
	})
}

func TestMasterThatBecomesAReplicaVotesAgainAsAMaster(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		net.Nodes[0].Set(func(n *testnet.Node) {
			n.Role = "slave"
			n.Override = func(cmd string, _ []string) string {
				if cmd == "SET" || cmd == "EVALSHA" {
					return "READONLY You can't write against a read only replica."
				}
				return ""
			}
		})
		lease := net.Must(c.Mutex("x").Lock(t.Context()))
		time.Sleep(time.Second)
		require.ErrorContains(t, c.Stats().Nodes[0].Err, "it is a replica")

		net.Nodes[0].Set(func(n *testnet.Node) { n.Role, n.Override = "master", nil })
		time.Sleep(time.Second)
		require.NoError(t, lease.Extend(t.Context()))
		require.Equal(t, 3, net.Holders(lease), "the node is back and has the lease again")
		require.NoError(t, lease.Unlock(t.Context()))
		net.RequireNoKeys()
	})
}

func TestErrorRepliesCostOneNodesVote(t *testing.T) {
	for _, refusal := range []string{
		"LOADING Redis is loading the dataset in memory",
		"READONLY You can't write against a read only replica.",
		"OOM command not allowed when used memory > 'maxmemory'.",
		"NOPERM this user has no permissions to run the 'evalsha' command",
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
		"BUSY Redis is busy running a script.",
		"something that no server says",
	} {
		code, _, _ := strings.Cut(refusal, " ")
		t.Run(code, func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				c := net.Client()
				fail := func(cmd string, _ []string) string {
					if cmd == "SET" || cmd == "EVALSHA" || cmd == "EVAL" || cmd == "SCRIPT" {
						return refusal
					}
					return ""
				}
				net.Nodes[0].Set(func(n *testnet.Node) { n.Override = fail })
				lease := net.Must(c.Mutex("x").Lock(t.Context()))
				require.NoError(t, lease.Unlock(t.Context()))

				net.Nodes[1].Set(func(n *testnet.Node) { n.Override = fail })
				_, err := c.Mutex("x").TryLock(t.Context())
				require.ErrorIs(t, err, redlock.ErrNoQuorum)
				require.ErrorContains(t, err, "node 1 (test-1): ")
				require.ErrorContains(t, err, code)

				net.Nodes.Set(func(n *testnet.Node) { n.Override = nil })
				time.Sleep(time.Second)
				lease = net.Must(c.Mutex("x").TryLock(t.Context()))
				require.Equal(t, 3, net.Holders(lease))
				require.NoError(t, lease.Unlock(t.Context()))
				net.RequireNoKeys()
			})
		})
	}
}

func TestCloseEndsWaitersAndLeases(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(), net.Client()
		lease := net.Must(a.Mutex("x").Lock(t.Context()))
		waiting := make(chan error, 1)
		go func() {
			_, err := b.Mutex("x").Lock(t.Context())
			waiting <- err
		}()
		time.Sleep(time.Second)
		require.NoError(t, b.Close())
		require.ErrorIs(t, <-waiting, redlock.ErrClosed)

		require.NoError(t, a.Close())
		require.NoError(t, a.Close())
		<-lease.Done()
		require.ErrorIs(t, lease.Err(), redlock.ErrClosed)
		require.ErrorIs(t, lease.Unlock(t.Context()), redlock.ErrClosed)
		require.ErrorIs(t, lease.Extend(t.Context()), redlock.ErrClosed)
		_, err := a.Mutex("x").TryLock(t.Context())
		require.ErrorIs(t, err, redlock.ErrClosed)
		require.ErrorIs(t, a.Ping(t.Context()), redlock.ErrClosed)
		net.RequireNoKeys()
	})
}
