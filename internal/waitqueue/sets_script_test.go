package waitqueue_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// What the scripts do at one node with waiters that want the locks a and b.

const (
	firstSet  = testnet.FirstTicket + "+"
	secondSet = testnet.SecondTicket + "+"
)

// setNode is a node at which sets wait.
type setNode struct {
	*testnet.Node
	t    *testing.T
	eval func(s *protocol.Script, args ...any) any
	sent []string // the wake-ups that the node sent, oldest first
}

// newSetNode returns a node at which these locks are held, each by "holder of" the lock.
func newSetNode(t *testing.T, net *testnet.Net, held ...string) *setNode {
	n, eval := testnet.Scripted(t, net)
	s := &setNode{Node: n, t: t, eval: eval}
	n.OnMessage(func(message string) { s.sent = append(s.sent, message) })
	for _, lock := range held {
		require.NoError(t, n.Redis.Set(lock, "holder of "+lock))
		n.Redis.SetTTL(lock, time.Minute)
	}
	return s
}

// ask is an attempt of a ticket for a and b; it returns the holder, and "" if it was granted.
func (s *setNode) ask(ticket string, parkFor time.Duration) (holder string) {
	s.t.Helper()
	return testnet.AskAll(s.t, s.eval, []string{"a", "b"}, ticket, parkFor)
}

// askOne is such an attempt for one lock.
func (s *setNode) askOne(lock, ticket string) (holder string) {
	s.t.Helper()
	return testnet.Ask(s.t, s.eval, lock, ticket)
}

// release releases a lock that has one key, and returns what the script answers.
func (s *setNode) release(lock, owner string) any {
	return s.eval(protocol.Release, testnet.Keys(lock, owner)...)
}

// requireNoOwner checks that nobody holds a lock; it may be reserved.
func (s *setNode) requireNoOwner(locks ...string) {
	s.t.Helper()
	for _, lock := range locks {
		value, _ := s.Redis.Get(lock)
		require.False(s.t, protocol.IsHolder(value), "%s is held by %s", lock, value)
	}
}

// requireValues checks that a and b have this value, for as long as a reservation.
func (s *setNode) requireValues(want string) {
	s.t.Helper()
	for _, lock := range []string{"a", "b"} {
		value, _ := s.Redis.Get(lock)
		require.Equal(s.t, want, value)
		require.Equal(s.t, protocol.ReservationTTL, s.Redis.TTL(lock))
	}
}

// queue returns the tickets that wait for a lock.
func (s *setNode) queue(lock string) (tickets []string) {
	tickets, _ = s.Redis.ZMembers(protocol.Key("queue", lock))
	return tickets
}

func TestParkedAttemptOfASetIsExecutedWhenTheLastOfItsNamesIsFree(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		n := newSetNode(t, net, "a", "b")
		n.Redis.HSet("record", "7", "20", "8", "30")
		require.Equal(t, "holder of a", n.ask(firstSet, parkFor))
		n.release("a", "holder of a")
		n.requireNoOwner("a")
		require.True(t, n.Redis.Exists("redlock::parked:"+firstSet))
		require.Empty(t, n.sent)

		require.EqualValues(t, handedOff, n.release("b", "holder of b"))
		n.requireValues("of " + firstSet)
		require.Equal(t, []string{"31", "31"}, []string{n.Redis.HGet("record", "7"), n.Redis.HGet("record", "8")})
		require.Equal(t, []string{"yours " + firstSet + " 31 of " + firstSet}, n.sent)
		require.False(t, n.Redis.Exists("redlock::parked:"+firstSet))
		require.Empty(t, n.queue("a"))
		require.Empty(t, n.queue("b"))
	})
}

// The set is the first in the queue of a, and the second in that of b.
func TestParkedAttemptOfASetIsNotExecutedAheadOfAnEarlierTicket(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		n := newSetNode(t, net, "a", "b")
		require.Equal(t, "holder of b", n.askOne("b", testnet.FirstTicket))
		require.Equal(t, "holder of a", n.ask(secondSet, parkFor))
		n.release("b", "holder of b")
		n.release("a", "holder of a")
		n.requireNoOwner("a", "b")
		require.Equal(t, []string{"ready " + testnet.FirstTicket + " b", "watch " + secondSet + " 500"}, n.sent)
		require.Empty(t, n.askOne("b", testnet.FirstTicket))
		require.EqualValues(t, handedOff, n.release("b", "of "+testnet.FirstTicket))
		n.requireValues("of " + secondSet)
	})
}

// The set is the second in the queue of b, which is free: the first one wants c too, which is held.
func TestParkedAttemptOfASetIsNotExecutedBehindAnotherSet(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		n := newSetNode(t, net, "a", "c")
		require.Equal(t, "holder of c", testnet.AskAll(t, n.eval, []string{"b", "c"}, firstSet, 0))
		require.Equal(t, "holder of a", n.ask(secondSet, parkFor))
		n.Redis.Del("b") // in case it is reserved: the reservation has ended
		n.release("a", "holder of a")
		n.requireNoOwner("a", "b")
		require.Empty(t, n.sent)
		n.Redis.Del("b")
		require.Equal(t, protocol.Reservation+firstSet, n.ask(secondSet, parkFor), "nor is an attempt granted")
		n.release("c", "holder of c")
		require.Empty(t, testnet.AskAll(t, n.eval, []string{"b", "c"}, firstSet, 0))
		n.requireNoOwner("a")
		require.EqualValues(t, handedOff, n.eval(protocol.ReleaseAll, testnet.AllKeys([]string{"b", "c"}, "of "+firstSet, firstSet)...))
		n.requireValues("of " + secondSet)
	})
}

// A rollback removes the parked attempt, and the keys if it was executed; and if the waiter leaves, all else
// that it has at the node.
func TestRollbackOfASetRemovesItsParkedAttempt(t *testing.T) {
	for name, c := range map[string]struct{ executed, stays bool }{
		"of a waiter that leaves":                {false, false},
		"of a waiter that stays":                 {false, true},
		"executed, of a waiter that leaves":      {true, false},
		"executed, of a waiter that tries again": {true, true},
	} {
		testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
			n := newSetNode(t, net, "a", "b")
			n.ask(firstSet, parkFor)
			if c.executed {
				n.release("a", "holder of a")
				n.release("b", "holder of b")
				n.requireValues("of " + firstSet)
			}
			args := []any{"of " + firstSet, firstSet}
			if c.stays {
				args = append(args, "label")
			}
			n.eval(protocol.ReleaseAll, testnet.AllKeys([]string{"a", "b"}, args...)...)
			require.False(t, n.Redis.Exists("redlock::parked:"+firstSet), name)
			require.Equal(t, c.stays, n.Redis.Exists("redlock::wants:"+firstSet), name)
			if c.executed {
				require.Equal(t, c.stays, n.Redis.Exists("a"), "%s: reserved for it again", name)
				n.requireNoOwner("a", "b")
				return
			}
			for _, lock := range []string{"a", "b"} {
				require.Equal(t, c.stays, len(n.queue(lock)) == 1, name)
				n.release(lock, "holder of "+lock)
				n.requireNoOwner(lock)
			}
		})
	}
}

// A record that is not whole gives no vote: the locks are reserved for the set, which asks again.
func TestParkedAttemptOfASetIsNotCountedInAnIncompleteRecord(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		n := newSetNode(t, net, "a", "b")
		require.Equal(t, "holder of a", n.ask(firstSet, parkFor))
		parked, err := n.Redis.Get("redlock::parked:" + firstSet)
		require.NoError(t, err)
		require.Equal(t, "record 7,8 1 of "+firstSet, parked)
		require.NoError(t, n.Redis.Set("redlock::parked:"+firstSet, "record 7,8 10 of "+firstSet))
		n.Redis.HSet("record", "7", "20") // and 8 is missing
		n.release("a", "holder of a")
		n.release("b", "holder of b")
		n.requireValues(protocol.Reservation + firstSet)
		require.Equal(t, "20", n.Redis.HGet("record", "7"))
		require.Empty(t, n.Redis.HGet("record", "8"))
	})
}

func TestNamesOfASetAreReservedTogether(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		n := newSetNode(t, net, "a", "b")
		require.Equal(t, "holder of a", n.ask(firstSet, 0))
		n.release("b", "holder of b")
		n.requireNoOwner("b")
		require.Empty(t, n.sent, "the set cannot use b yet")
		require.Equal(t, []string{firstSet}, n.queue("b"))
		n.release("a", "holder of a")
		n.requireValues(protocol.Reservation + firstSet)
		require.Len(t, n.sent, 1)
		require.Contains(t, n.sent[0], "ready "+firstSet)
		require.Empty(t, n.queue("a"))
		require.Empty(t, n.queue("b"))
	})
}

// A set keeps a free name from later tickets, and from no others.
func TestEarlierTicketTakesAFreeNameThatASetKeeps(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		n := newSetNode(t, net, "a")
		require.Equal(t, "holder of a", n.ask(secondSet, 0))
		require.Equal(t, protocol.Reservation+secondSet, n.askOne("b", testnet.ThirdTicket))
		require.Empty(t, n.askOne("b", testnet.FirstTicket))
		require.Equal(t, []string{secondSet, testnet.ThirdTicket}, n.queue("b"))
		n.release("b", "of "+testnet.FirstTicket)
		n.requireNoOwner("b")
		require.Equal(t, protocol.Reservation+secondSet, n.askOne("b", testnet.ThirdTicket))
		n.release("a", "holder of a")
		n.requireValues(protocol.Reservation + secondSet)
		require.Empty(t, n.ask(secondSet, 0))
	})
}

// All names are reserved for the set. An earlier ticket, which comes late, takes one of them over: the set
// is back in its queue, and uses none of the others meanwhile.
func TestEarlierTicketTakesAPartOfASetsReservation(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		n := newSetNode(t, net, "a", "b")
		require.Equal(t, "holder of a", n.ask(secondSet, 0))
		require.Equal(t, "holder of b", n.askOne("b", testnet.ThirdTicket))
		n.release("a", "holder of a")
		n.release("b", "holder of b")
		n.requireValues(protocol.Reservation + secondSet)

		require.Empty(t, n.askOne("a", testnet.FirstTicket))
		require.Equal(t, []string{secondSet}, n.queue("a"))
		require.Equal(t, "of "+testnet.FirstTicket, n.ask(secondSet, 0))
		n.requireNoOwner("b")
		require.Equal(t, []string{secondSet, testnet.ThirdTicket}, n.queue("b"))
		require.Equal(t, protocol.Reservation+secondSet, n.askOne("b", testnet.ThirdTicket))

		n.release("a", "of "+testnet.FirstTicket)
		n.requireValues(protocol.Reservation + secondSet)
		require.Empty(t, n.ask(secondSet, 0))
		require.Equal(t, []string{testnet.ThirdTicket}, n.queue("b"))
	})
}

// The set's client was heard of long ago. It is challenged by the waiter behind the set: if it does not answer, that
// waiter gets the lock half a second later.
func TestSetThatKeepsAFreeNameIsChallenged(t *testing.T) {
	const first = "AAAAAAAAAAAAAAAA"
	for name, c := range map[string]struct {
		quiet               time.Duration // the time since its client was heard of
		challenged, answers bool
	}{
		"and answers":           {2 * time.Second, true, true},
		"and does not":          {2 * time.Second, true, false},
		"unless it just polled": {2*time.Second - ms, false, false},
	} {
		testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
			n := newSetNode(t, net, "a")
			n.ask(firstSet, 0)
			n.Redis.Del("b") // in case it is reserved: the reservation has ended
			time.Sleep(c.quiet)
			require.Equal(t, protocol.Reservation+firstSet, n.askOne("b", testnet.SecondTicket))
			if !c.challenged {
				require.Empty(t, n.sent, name)
				require.Equal(t, protocol.QueueTTL-c.quiet, aliveAt(n.Node, first), name)
				return
			}
			require.Equal(t, []string{"look " + firstSet + " b"}, n.sent, name)
			require.Equal(t, protocol.ReservationTTL, aliveAt(n.Node, first), name)
			if c.answers {
				n.ask(firstSet, 0)
			}
			time.Sleep(protocol.ReservationTTL)
			if c.answers {
				require.Equal(t, protocol.Reservation+firstSet, n.askOne("b", testnet.SecondTicket), name)
				require.Equal(t, []string{firstSet, testnet.SecondTicket}, n.queue("b"), name)
				return
			}
			require.Empty(t, n.askOne("b", testnet.SecondTicket), name)
			require.Empty(t, n.queue("b"), name)
		})
	}
}
