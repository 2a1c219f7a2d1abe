package redlock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/protocol"
)

// What the scripts make of a client that was called for a lock that was found free, at
// one node.

// scripted is a node, and how a script is run there by its hash.
func scripted(t *testing.T, net *testNet) (n *testNode, eval func(s *protocol.Script, args ...any) any) {
	net.client() // loads the scripts
	synctest.Wait()
	conn := dialTest(t, net.nodes[0])
	t.Cleanup(func() { _ = conn.Close() })
	return net.nodes[0], func(s *protocol.Script, args ...any) any {
		reply, err := conn.Do("EVALSHA", append([]any{s.SHA}, args...)...)
		require.NoError(t, err)
		return reply
	}
}

// ask is an attempt of a ticket for a lock, without a bid. The answer is the holder, and
// empty if it was granted.
func ask(t *testing.T, eval func(*protocol.Script, ...any) any, lock, ticket string) (holder string) {
	reply := eval(protocol.Acquire, 1, lock, "of "+ticket, 10_000, "", 1, ticket, "label", "", 0)
	if _, granted := reply.(int64); granted {
		return ""
	}
	values, err := redis.Values(reply, nil)
	require.NoError(t, err)
	require.Len(t, values, 5)
	holder, err = redis.String(values[0], nil)
	require.NoError(t, err)
	return holder
}

const anotherOfFirst = "0000000000000001-AAAAAAAAAAAAAAAA-0000000002"

func TestAClientThatDoesNotComeForOneLockLivesAtTheOthers(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, net *testNet) {
		n, eval := scripted(t, net)
		for _, lock := range []string{"redlock:x", "redlock:y"} {
			require.NoError(t, n.redis.Set(lock, "holder"))
			for _, ticket := range []string{firstTicket, secondTicket} {
				require.Equal(t, "holder", ask(t, eval, lock, ticket))
			}
		}
		n.redis.Del("redlock:x")
		require.Equal(t, reservation+firstTicket, ask(t, eval, "redlock:x", secondTicket))
		time.Sleep(claim)
		require.Empty(t, ask(t, eval, "redlock:x", secondTicket), "it did not come")
		n.redis.Del("redlock:y")
		require.Equal(t, reservation+firstTicket, ask(t, eval, "redlock:y", secondTicket))
	})
}

func TestAWaiterThatLeavesWhenItIsCalledShowsThatItsClientLives(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, net *testNet) {
		n, eval := scripted(t, net)
		require.NoError(t, n.redis.Set("redlock:x", "holder"))
		for _, ticket := range []string{firstTicket, anotherOfFirst, "0000000000000001-AAAAAAAAAAAAAAAA-0000000003", secondTicket} {
			require.Equal(t, "holder", ask(t, eval, "redlock:x", ticket))
		}
		n.redis.Del("redlock:x")
		require.Equal(t, reservation+firstTicket, ask(t, eval, "redlock:x", secondTicket))
		eval(protocol.Release, 1, "redlock:x", "of "+firstTicket, firstTicket)
		require.Equal(t, reservation+anotherOfFirst, n.holderOf())
		time.Sleep(claim)
		require.Equal(t, reservation+"0000000000000001-AAAAAAAAAAAAAAAA-0000000003", ask(t, eval, "redlock:x", secondTicket))
	})
}

// The dead of three clients cost one claim time: all are challenged at once.
func TestAllClientsInLineAreChallengedWhereTheLockWasFoundFree(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, net *testNet) {
		n, eval := scripted(t, net)
		require.NoError(t, n.redis.Set("redlock:x", "holder"))
		last := "0000000000000004-DDDDDDDDDDDDDDDD-0000000001"
		for _, ticket := range []string{firstTicket, anotherOfFirst, secondTicket, thirdTicket, last} {
			require.Equal(t, "holder", ask(t, eval, "redlock:x", ticket))
		}
		n.redis.Del("redlock:x")
		require.Equal(t, reservation+firstTicket, ask(t, eval, "redlock:x", last))
		time.Sleep(claim)
		require.Empty(t, ask(t, eval, "redlock:x", last))
	})
}

func TestTheClientsAheadAreCountedUpToThree(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, net *testNet) {
		n, eval := scripted(t, net)
		require.NoError(t, n.redis.Set("redlock:x", "holder"))
		ahead := func(ticket string) int64 {
			reply, err := redis.Values(eval(protocol.Acquire, 1, "redlock:x", "of "+ticket, 10_000, "", 1, ticket, "label", "", 0), nil)
			require.NoError(t, err)
			return reply[3].(int64)
		}
		for range 2 { // it joins, and stays
			require.EqualValues(t, 0, ahead(firstTicket))
			require.EqualValues(t, 0, ahead(anotherOfFirst))
			for range 200 {
				require.EqualValues(t, 1, ahead(secondTicket), "a client counts once")
			}
		}
		for i := range 200 {
			ask(t, eval, "redlock:x", secondTicket[:len(secondTicket)-4]+string([]byte{'1', '0' + byte(i/100), '0' + byte(i/10%10), '0' + byte(i%10)}))
		}
		require.EqualValues(t, 2, ahead(thirdTicket), "behind many of one")
		require.EqualValues(t, 3, ahead("0000000000000004-DDDDDDDDDDDDDDDD-0000000001"))
		require.EqualValues(t, 3, ahead("0000000000000005-EEEEEEEEEEEEEEEE-0000000001"))
	})
}

// A node calls a waiter that has just left: its release is not there yet. Another of the
// client looks in its place.
func TestACallOfATicketThatLeftIsAnsweredByTheForemost(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		w, leave := waiting(t, net)
		defer leave()
		w.mutex.client.line.Message(0, "ready "+anotherOfFirst+" "+w.mutex.key)
		require.True(t, w.called)
		w.called = false
		w.mutex.client.line.Message(0, "ready "+anotherOfFirst+" redlock:another")
		w.mutex.client.line.Message(0, "yours "+anotherOfFirst+" 7 owner")
		require.False(t, w.called)
		w.mutex.client.line.Message(0, "look "+w.ticket+" "+w.mutex.key)
		require.True(t, w.look)
	})
}

func TestNextWaiterBecomesTheForemostWhenTheFirstLeavesOrHolds(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client()
		var all []*waiter
		for range 5 {
			w, err := c.line.newWaiter(t.Context(), c.Mutex("x"))
			require.NoError(t, err)
			if w.ticket == "" {
				require.NoError(t, w.enqueue(t.Context()))
			}
			all = append(all, w)
			defer c.line.forget(w.ticket)
			defer w.leave(context.Canceled)
			time.Sleep(ms)
		}
		for _, i := range []int{3, 0, 4, 1, 2, 2} { // whatever the order in which they ask
			c.line.join(all[i])
		}
		require.Equal(t, queue(all), c.line.queues["redlock:x"])
		require.True(t, c.line.isForemost(all[0]))
		c.line.part(all[1])
		require.False(t, all[2].closer)
		all[0].got()
		require.True(t, all[2].closer)
		require.True(t, c.line.isForemost(all[2]))
		for _, w := range all[2:] {
			c.line.part(w)
		}
		require.Empty(t, c.line.queues)
	})
}
