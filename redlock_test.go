package redlock

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
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // the embedded nodes make a Lua state for each script
	goleak.VerifyTestMain(m)
}

// The promises of the package, as its users would test them.

func TestALockIsHeldByOneAndFreeAfterUnlock(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, net *testNet) {
		a, b := net.client(), net.client()

		lease, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		require.Equal(t, 5, net.holders(lease))
		require.True(t, lease.Valid())

		_, err = b.Mutex("x").TryLock(t.Context())
		require.ErrorIs(t, err, ErrHeld)
		held := HeldError{}
		require.ErrorAs(t, err, &held)
		require.Equal(t, lease.Owner(), held.Holder)
		require.Equal(t, "x", held.Name)
		require.InDelta(t, 10*time.Second, held.Remaining, float64(time.Second))

		require.NoError(t, lease.Unlock(t.Context()))
		require.NoError(t, lease.Unlock(t.Context()), "a second call returns nil")
		require.ErrorIs(t, lease.Err(), ErrReleased)
		<-lease.Done()
		require.ErrorIs(t, lease.Extend(t.Context()), ErrReleased)
		net.requireNoKeys()

		other, err := b.Mutex("x").TryLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, other.Unlock(t.Context()))
	})
}

func TestAnyMinorityMayBeAway(t *testing.T) {
	away := map[string]func(n *testNode){
		"down":   func(n *testNode) { n.set(func(n *testNode) { n.refusing = errRefused }); n.cut() },
		"frozen": (*testNode).freeze,
		"mute":   (*testNode).mute,
	}
	for name, leave := range away {
		for _, n := range []int{3, 5, 7} {
			t.Run(fmt.Sprintf("%s of %d", name, n), func(t *testing.T) {
				inBubble(t, n, func(t *testing.T, net *testNet) {
					c := net.client()
					for _, node := range net.nodes[:n/2] {
						leave(node)
					}
					synctest.Wait()
					took := elapsed(func() {
						lease, err := c.Mutex("x").Lock(t.Context())
						require.NoError(t, err)
						require.NoError(t, lease.Extend(t.Context()))
						require.NoError(t, lease.Unlock(t.Context()))
					})
					// Only the renewal has to know whether the silent ones matter.
					require.LessOrEqual(t, took, c.opts.voteTimeout())
				})
			})
		}
	}
}

func TestAMajorityAwayGivesNoQuorumWithinANodeTimeout(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, net *testNet) {
		c := net.client(WithNodeTimeout(100 * time.Millisecond))
		lease, err := c.Mutex("held").Lock(t.Context())
		require.NoError(t, err)
		net.nodes[0].freeze()
		net.nodes[1].freeze()
		net.nodes[2].set(func(n *testNode) { n.refusing = errRefused })
		net.nodes[2].cut()

		for op, call := range map[string]func() error{
			"lock": func() error { _, err := c.Mutex("x").TryLock(t.Context()); return err },
			// The second attempt finds the frozen ones stalled.
			"extend": func() error { return lease.Extend(t.Context()) },
		} {
			took := elapsed(func() { err = call() })
			require.LessOrEqual(t, took, 100*time.Millisecond)
			require.ErrorIs(t, err, ErrNoQuorum)
			var q *QuorumError
			require.ErrorAs(t, err, &q)
			require.Equal(t, op, q.Op)
			require.Len(t, q.Votes, 5)
			for _, v := range q.Votes[:3] {
				require.Contains(t, []Outcome{Unknown, NotSent}, v.Outcome)
				require.Error(t, v.Cause)
				require.ErrorContains(t, err, v.Node)
			}
			require.Equal(t, Granted, q.Votes[4].Outcome)
		}
		require.ErrorIs(t, c.Ping(t.Context()), ErrNoQuorum)
		require.ErrorIs(t, lease.Unlock(t.Context()), ErrNoQuorum)
		require.ErrorIs(t, lease.Err(), ErrReleased)

		net.nodes[0].thaw()
		net.nodes[1].thaw()
		net.nodes[2].set(func(n *testNode) { n.refusing = nil })
		time.Sleep(2 * time.Second) // the release stayed owed
		net.requireNoKeys()
	})
}

func TestLockWaitsUntilItsContextEnds(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, net *testNet) {
		a, b := net.client(), net.client()
		lease, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)

		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		took := elapsed(func() { _, err = b.Mutex("x").Lock(ctx) })
		require.Equal(t, 3*time.Second, took)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, ErrHeld)

		reason := errors.New("the caller has gone")
		cancelled, stop := context.WithCancelCause(t.Context())
		stop(reason)
		_, err = b.Mutex("x").Lock(cancelled)
		require.ErrorIs(t, err, reason)
		require.NotErrorIs(t, err, ErrHeld, "nobody was asked")

		go func() {
			time.Sleep(time.Second)
			_ = lease.Unlock(t.Context())
		}()
		next, err := b.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, next.Unlock(t.Context()))
		net.requireNoKeys()
	})
}

func TestPermanentErrorsOnAMajorityEndLockAtOnce(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, net *testNet) {
		for _, n := range net.nodes[:3] {
			n.refusing = redis.Error("WRONGPASS invalid username-password pair or user is disabled.")
		}
		c := net.newClient()
		took := elapsed(func() {
			_, err := c.Mutex("x").Lock(t.Context())
			require.ErrorIs(t, err, ErrNoQuorum)
			require.ErrorContains(t, err, "node 1 (test-1): not sent: cannot connect: WRONGPASS")
			require.ErrorContains(t, err, "check the user and the password")
		})
		require.LessOrEqual(t, took, c.opts.voteTimeout())

		for _, n := range net.nodes {
			n.set(func(n *testNode) { n.refusing = nil })
		}
		time.Sleep(time.Second)
		require.NoError(t, c.Ping(t.Context()), "a node is back within a second of its recovery")
	})
}

func TestOneServerUnderSeveralPoolsHasOneVote(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		net.nodes[1].runID, net.nodes[2].runID = "run-0", "run-0"
		c := net.newClient()
		err := c.Ping(t.Context())
		require.ErrorIs(t, err, ErrNoQuorum)
		require.ErrorContains(t, err, "it is the same server as node")
		_, err = c.Mutex("x").Lock(t.Context())
		require.ErrorIs(t, err, ErrNoQuorum)
		require.ErrorContains(t, err, "it is the same server as node")
		net.requireNoKeys()
	})
}

func TestAReplicaDoesNotVote(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		net.nodes[0].role, net.nodes[1].role = "slave", "slave"
		c := net.newClient()
		require.ErrorContains(t, c.Ping(t.Context()), "it is a replica")
		_, err := c.Mutex("x").Lock(t.Context())
		require.ErrorContains(t, err, "it is a replica")
	})
}

func TestServerOfAnUnknownRoleDoesNotVote(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		net.nodes[0].role = "active-replica"
		net.nodes[1].role = "replica"
		net.nodes[2].role = "" // a server that does not tell counts as a master
		c := net.newClient()
		err := c.Ping(t.Context())
		require.ErrorIs(t, err, ErrNoQuorum)
		require.ErrorContains(t, err, `its role is "active-replica"; only masters vote`)
		require.ErrorContains(t, err, "it is a replica")
		require.Equal(t, "misfit", c.Stats().Nodes[0].State)
		require.Equal(t, "up", c.Stats().Nodes[2].State)
	})
}

func TestServerWithoutARunIDIsLoggedOnce(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		net.nodes[0].runID = ""
		var lines journal
		net.client(WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
		for range 3 {
			net.nodes[0].cut()
			time.Sleep(time.Second)
		}
		require.Equal(t, 1, strings.Count(lines.String(), "the server's INFO has no run_id"), "%s", &lines)
		require.Equal(t, 1, strings.Count(lines.String(), "level=WARN"), "%s", &lines)
	})
}

func TestAMasterThatBecomesAReplicaIsAskedAnew(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client()
		net.nodes[0].set(func(n *testNode) {
			n.role = "slave"
			n.override = func(cmd string, _ []string) string {
				if cmd == "SET" || cmd == "EVALSHA" {
					return "READONLY You can't write against a read only replica."
				}
				return ""
			}
		})
		lease, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.ErrorContains(t, c.nodes[0].Why(), "it is a replica")

		net.nodes[0].set(func(n *testNode) { n.role, n.override = "master", nil })
		time.Sleep(time.Second)
		require.NoError(t, lease.Extend(t.Context()))
		require.Equal(t, 3, net.holders(lease), "the node is back and has the lease again")
		require.NoError(t, lease.Unlock(t.Context()))
		net.requireNoKeys()
	})
}

func TestErrorRepliesAreOneNodesMatter(t *testing.T) {
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
			inBubble(t, 3, func(t *testing.T, net *testNet) {
				c := net.client()
				fail := func(cmd string, _ []string) string {
					if cmd == "SET" || cmd == "EVALSHA" || cmd == "EVAL" || cmd == "SCRIPT" {
						return refusal
					}
					return ""
				}
				net.nodes[0].set(func(n *testNode) { n.override = fail })
				lease, err := c.Mutex("x").Lock(t.Context())
				require.NoError(t, err)
				require.NoError(t, lease.Unlock(t.Context()))

				net.nodes[1].set(func(n *testNode) { n.override = fail })
				_, err = c.Mutex("x").TryLock(t.Context())
				require.ErrorIs(t, err, ErrNoQuorum)
				require.ErrorContains(t, err, "node 1 (test-1): ")
				require.ErrorContains(t, err, code)

				for _, n := range net.nodes {
					n.set(func(n *testNode) { n.override = nil })
				}
				time.Sleep(time.Second)
				lease, err = c.Mutex("x").TryLock(t.Context())
				require.NoError(t, err)
				require.Equal(t, 3, net.holders(lease))
				require.NoError(t, lease.Unlock(t.Context()))
				net.requireNoKeys()
			})
		})
	}
}

func TestCloseEndsWaitersAndLeases(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, net *testNet) {
		a, b := net.client(), net.client()
		lease, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		waiting := make(chan error, 1)
		go func() {
			_, err := b.Mutex("x").Lock(t.Context())
			waiting <- err
		}()
		time.Sleep(time.Second)
		require.NoError(t, b.Close())
		require.ErrorIs(t, <-waiting, ErrClosed)

		require.NoError(t, a.Close())
		require.NoError(t, a.Close())
		<-lease.Done()
		require.ErrorIs(t, lease.Err(), ErrClosed)
		require.ErrorIs(t, lease.Unlock(t.Context()), ErrClosed)
		require.ErrorIs(t, lease.Extend(t.Context()), ErrClosed)
		_, err = a.Mutex("x").TryLock(t.Context())
		require.ErrorIs(t, err, ErrClosed)
		require.ErrorIs(t, a.Ping(t.Context()), ErrClosed)
		net.requireNoKeys()
	})
}
