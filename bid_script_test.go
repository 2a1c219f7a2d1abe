package redlock

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/protocol"
)

// What the scripts make of a bid, at one node.

// Tickets of two clients, in their order.
const (
	firstTicket  = "0000000000000001-AAAAAAAAAAAAAAAA-0000000001"
	secondTicket = "0000000000000002-BBBBBBBBBBBBBBBB-0000000001"
	thirdTicket  = "0000000000000003-CCCCCCCCCCCCCCCC-0000000001"
)

// bidding is a node at which "holder" holds the lock for so long, and three wait with
// bids. It returns a connection on which a script is run by its hash.
func bidding(t *testing.T, net *testNet, ttl time.Duration, least int64) (n *testNode, eval func(s *protocol.Script, args ...any) any) {
	net.client() // loads the scripts
	synctest.Wait()
	n = net.nodes[0]
	conn := dialTest(t, n)
	t.Cleanup(func() { _ = conn.Close() })
	eval = func(s *protocol.Script, args ...any) any {
		reply, err := conn.Do("EVALSHA", append([]any{s.SHA}, args...)...)
		require.NoError(t, err)
		return reply
	}
	_, err := conn.Do("SET", "redlock:x", "holder", "PX", ttl.Milliseconds())
	require.NoError(t, err)
	for _, ticket := range []string{firstTicket, secondTicket, thirdTicket} {
		reply := eval(protocol.Acquire, 2, "redlock:x", "record", "of "+ticket, 10_000, "7", least, ticket, "label", "", 150)
		held, err := redis.Values(reply, nil)
		require.NoError(t, err)
		require.Len(t, held, 5)
	}
	return n, eval
}

// holderOf is the value of the lock's key.
func (n *testNode) holderOf() string {
	value, _ := n.redis.Get("redlock:x")
	return value
}

func TestAReleaseOfTheHoldersExecutesTheBidOfTheFirst(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, net *testNet) {
		n, eval := bidding(t, net, time.Minute, 1)
		require.EqualValues(t, handedOver, eval(protocol.Release, 1, "redlock:x", "holder"))
		require.Equal(t, "of "+firstTicket, n.holderOf())
		require.Equal(t, claim, n.redis.TTL("redlock:x"))
		require.Equal(t, "1", n.redis.HGet("record", "7"))
		require.False(t, n.redis.Exists("redlock::bid:"+firstTicket))
		line, err := n.redis.ZMembers("redlock::line:redlock:x")
		require.NoError(t, err)
		require.Equal(t, []string{secondTicket, thirdTicket}, line)
	})
}

func TestWhatAnAttemptGivesBackIsForNobodysBid(t *testing.T) {
	for name, args := range map[string][]any{
		"of who stays in line":              {"holder", thirdTicket, "label"},
		"of who found it free":              {"holder", ""},
		"of who has nothing, but was first": {"another"},
	} {
		inBubble(t, 1, func(t *testing.T, net *testNet) {
			n, eval := bidding(t, net, time.Minute, 1)
			eval(protocol.Release, append([]any{1, "redlock:x"}, args...)...)
			require.False(t, strings.HasPrefix(n.holderOf(), "of "), name)
			require.True(t, n.redis.Exists("redlock::bid:"+firstTicket), name)
		})
	}
}

func TestABidIsNotCountedInARecordThatIsNotWhole(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, net *testNet) {
		n, eval := bidding(t, net, time.Minute, protocol.FirstCount)
		require.EqualValues(t, handedOver, eval(protocol.Release, 1, "redlock:x", "holder"))
		require.Equal(t, reservation+firstTicket, n.holderOf())
		require.False(t, n.redis.Exists("record"), "what was counted there must not become one")
	})
}

func TestABidExpiresSoon(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, net *testNet) {
		n, eval := bidding(t, net, time.Minute, 1)
		time.Sleep(bidLife)
		eval(protocol.Release, 1, "redlock:x", "holder")
		require.Equal(t, reservation+firstTicket, n.holderOf())
	})
}

func TestAnAttemptThatDoesNotReachANodeTakesItsBidAwayThere(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		net.guarded()
		w, leave := waiting(t, net, WithRestartGuard(time.Millisecond))
		defer leave()
		bid := "redlock::bid:" + w.ticket
		require.True(t, net.nodes[2].redis.Exists(bid))
		loseRecord(net.nodes[2], w.mutex.client)
		require.False(t, w.mutex.client.nodes[2].Current().Votes)
		_, _, err := w.mutex.attempt(t.Context(), w)
		require.NoError(t, err)
		synctest.Wait()
		require.True(t, net.nodes[1].redis.Exists(bid))
		require.False(t, net.nodes[2].redis.Exists(bid))
		require.False(t, net.nodes[2].redis.Exists("redlock::line:redlock:x"))
	})
}

// A bid must not outlast an attempt that takes its place: no one would notice its grant.
func TestAnAttemptEndsTheBidOfTheOneBefore(t *testing.T) {
	for name, c := range map[string]struct {
		free bool // the attempt is granted
		life int
	}{"that makes none": {false, 0}, "that is granted": {true, 0}} {
		inBubble(t, 1, func(t *testing.T, net *testNet) {
			n, eval := bidding(t, net, time.Minute, 1)
			require.True(t, n.redis.Exists("redlock::bid:"+firstTicket))
			if c.free {
				n.redis.Del("redlock:x")
			}
			eval(protocol.Acquire, 2, "redlock:x", "record", "again", 10_000, "7", 1, firstTicket, "label", "of "+firstTicket, c.life)
			require.False(t, n.redis.Exists("redlock::bid:"+firstTicket), name)
		})
	}
}

// A node that lacks the script does not execute an attempt, so the attempt does not
// replace the one before there: the client undoes that one.
func TestAnAttemptWithoutAScriptUndoesTheOneBefore(t *testing.T) {
	for _, executed := range []bool{false, true} {
		inBubble(t, 3, func(t *testing.T, net *testNet) {
			w, leave := waiting(t, net)
			defer leave()
			n := net.nodes[2]
			n.set(func(n *testNode) {
				n.override = func(cmd string, args []string) string {
					if n.label(cmd, args) == "acquire" && cmd == "EVALSHA" {
						return "NOSCRIPT No matching script. Please use EVAL."
					}
					return ""
				}
			})
			if executed {
				conn := dialTest(t, n)
				_, err := conn.Do("EVALSHA", protocol.Release.SHA, 1, "redlock:x", n.holderOf())
				require.NoError(t, err)
				require.NoError(t, conn.Close())
				require.Equal(t, w.owner, n.holderOf())
			}
			_, r, err := w.mutex.attempt(t.Context(), w)
			require.NoError(t, err)
			require.ErrorIs(t, r.err, ErrHeld)
			synctest.Wait()
			require.False(t, n.redis.Exists("redlock::bid:"+w.ticket))
			require.Equal(t, !executed, n.redis.Exists("redlock:x"))
			require.True(t, net.nodes[1].redis.Exists("redlock::bid:"+w.ticket))
			require.Zero(t, w.mutex.client.nodes[2].Undos())
		})
	}
}
