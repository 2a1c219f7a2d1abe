package redlock

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
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
func bidding(t *testing.T, net *testNet, ttl time.Duration, least int64) (n *testNode, eval func(s *script, args ...any) any) {
	net.client() // loads the scripts
	synctest.Wait()
	n = net.nodes[0]
	conn := dialTest(t, n)
	t.Cleanup(func() { _ = conn.Close() })
	eval = func(s *script, args ...any) any {
		reply, err := conn.Do("EVALSHA", append([]any{s.sha}, args...)...)
		require.NoError(t, err)
		return reply
	}
	_, err := conn.Do("SET", "redlock:x", "holder", "PX", ttl.Milliseconds())
	require.NoError(t, err)
	for _, ticket := range []string{firstTicket, secondTicket, thirdTicket} {
		reply := eval(acquireScript, 2, "redlock:x", "record", "of "+ticket, 10_000, "7", least, ticket, "label", "", 150)
		held, err := redis.Values(reply, nil)
		require.NoError(t, err)
		require.Len(t, held, 3)
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
		require.EqualValues(t, handedOver, eval(releaseScript, 1, "redlock:x", "holder"))
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
			eval(releaseScript, append([]any{1, "redlock:x"}, args...)...)
			require.False(t, strings.HasPrefix(n.holderOf(), "of "), name)
			require.True(t, n.redis.Exists("redlock::bid:"+firstTicket), name)
		})
	}
}

func TestABidIsNotCountedInARecordThatIsNotWhole(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, net *testNet) {
		n, eval := bidding(t, net, time.Minute, firstCount)
		require.EqualValues(t, handedOver, eval(releaseScript, 1, "redlock:x", "holder"))
		require.Equal(t, reservation+firstTicket, n.holderOf())
		require.False(t, n.redis.Exists("record"), "what was counted there must not become one")
	})
}

func TestABidExpiresSoon(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, net *testNet) {
		n, eval := bidding(t, net, time.Minute, 1)
		time.Sleep(bidLife)
		eval(releaseScript, 1, "redlock:x", "holder")
		require.Equal(t, reservation+firstTicket, n.holderOf())
	})
}

// Who is near is told by the first renewal; by the release only where the holder before
// had not come to that.
func TestSomebodyIsToldToWatchOverWhoGotABid(t *testing.T) {
	for ttl, near := range map[time.Duration]int{time.Minute: 0, claim: 2} {
		inBubble(t, 1, func(t *testing.T, net *testNet) {
			n, eval := bidding(t, net, ttl, 1)
			told := n.redis.NewSubscriber()
			defer told.Close()
			told.Psubscribe("redlock::wake:*")
			said := 0
			count := func() {
				for range 3 {
					synctest.Wait()
					select {
					case m := <-told.Pmessages():
						if strings.HasPrefix(m.Message, "near ") {
							said++
						}
					default:
					}
				}
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				eval(releaseScript, 1, "redlock:x", "holder")
			}()
			count()
			<-done
			require.Equal(t, near, said, "%v", ttl)
			done = make(chan struct{})
			go func() {
				defer close(done)
				require.EqualValues(t, 1, eval(renewScript, 2, "redlock:x", "record", "of "+firstTicket, 10_000, 1, firstTicket))
			}()
			count()
			<-done
			require.Equal(t, near+1, said, "%v", ttl)
		})
	}
}

func TestAnAttemptThatDoesNotReachANodeTakesItsBidAwayThere(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		w, leave := waiting(t, net)
		defer leave()
		bid := "redlock::bid:" + w.ticket
		require.True(t, net.nodes[2].redis.Exists(bid))
		restand(w.mutex.client.nodes[2], func(s *standing) { s.votes, s.why = false, errForgot })
		_, _, err := w.mutex.attempt(t.Context(), w)
		require.NoError(t, err)
		synctest.Wait()
		require.True(t, net.nodes[1].redis.Exists(bid))
		require.False(t, net.nodes[2].redis.Exists(bid))
		require.False(t, net.nodes[2].redis.Exists("redlock::line:redlock:x"))
	})
}

// Who yielded a node, and got the lock by its bids at others, does not join the line
// again there when its first renewal takes over the reservation.
func TestARenewalTakesItsOwnReservationWithoutJoiningTheLine(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, net *testNet) {
		n, eval := bidding(t, net, time.Minute, 1)
		for _, ticket := range []string{firstTicket, secondTicket} {
			_, err := n.redis.ZRem("redlock::line:redlock:x", firstTicket)
			require.NoError(t, err)
			require.NoError(t, n.redis.Set("redlock:x", reservation+firstTicket))
			require.EqualValues(t, 2, eval(renewScript, 2, "redlock:x", "record", "of "+ticket, 10_000, "1", ticket))
			line, err := n.redis.ZMembers("redlock::line:redlock:x")
			require.NoError(t, err)
			require.Equal(t, ticket == secondTicket, slices.Contains(line, firstTicket))
		}
	})
}
