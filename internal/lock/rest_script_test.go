package lock_test

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// What the scripts do with a resting key at one node: it is a holder that no owner is.

func TestEveryScriptRefusesARestingKey(t *testing.T) {
	const rests, ticket = protocol.Resting + "me", testnet.FirstTicket
	held := []any{[]byte(rests), int64(10_000)}
	reads := []any{4, "redlock:x", "record", "redlock::queue:redlock:x", "redlock::readers:redlock:x"}
	for name, c := range map[string]struct {
		script *protocol.Script
		args   []any
		answer any // of an array, what it begins with
	}{
		"acquire":                         {protocol.Acquire, []any{1, "redlock:x", "you", 1000, "", 1, ticket, "label", "", 0}, held},
		"acquire, of its own owner":       {protocol.Acquire, []any{1, "redlock:x", "me", 1000, "", 1, ticket, "label", "", 0}, held},
		"acquire, after an attempt of it": {protocol.Acquire, []any{1, "redlock:x", "you", 1000, "", 1, ticket, "label", "me", 0}, held},
		"acquireall":                      {protocol.AcquireAll, []any{2, "redlock:x", "redlock::queue:redlock:x", "you", 1000, "", 1, "", "label", "", 0}, held},
		"read":                            {protocol.Read, append([]any{5}, append(append(reads[1:len(reads):len(reads)], "challenged"), "you", 1000, "", 1, "", "label", "", 0)...), held},
		"renew":                           {protocol.Renew, []any{2, "redlock:x", "record", "me", 20_000, 1}, held},
		"renewall":                        {protocol.RenewAll, []any{2, "redlock:x", "record", "me", 20_000, 1}, held},
		"keep":                            {protocol.Keep, append(reads, "me", 20_000, 1, ""), held},
		"raise":                           {protocol.Raise, []any{2, "redlock:x", "record", "me", 7, 100, 1}, int64(0)},
		"raise, of a share":               {protocol.Raise, []any{3, "redlock:x", "record", "redlock::readers:redlock:x", "me", 7, 100, 1, 1}, int64(0)},
		"release":                         {protocol.Release, testnet.Keys("redlock:x", "me"), int64(0)},
		"release of a waiter":             {protocol.Release, testnet.Keys("redlock:x", "me", ticket), int64(0)},
		"release of a waiter that stays":  {protocol.Release, testnet.Keys("redlock:x", "me", ticket, "label"), int64(0)},
		"releaseall":                      {protocol.ReleaseAll, testnet.AllKeys([]string{"redlock:x"}, "me", ticket), int64(0)},
		"rest, of another":                {protocol.Rest, testnet.Keys("redlock:x", 1000, "you"), int64(0)},
		"rest, of another, with a ticket": {protocol.Rest, testnet.Keys("redlock:x", 1000, "you", ticket), int64(0)},
		"seize, of another":               {protocol.Seize, []any{3, "redlock:x", "record", "redlock::queue:redlock:x", "you", 1000, "", 1, 0, "me"}, held},
	} {
		t.Run(name, func(t *testing.T) {
			testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
				n, _ := testnet.Scripted(t, net)
				conn := testnet.Dial(t, n)
				defer conn.Close()
				for _, queue := range []bool{false, true} {
					require.NoError(t, n.Redis.Set("redlock:x", rests))
					n.Redis.SetTTL("redlock:x", 10*time.Second)
					if queue {
						parkWaiter(t, n)
					}
					reply, err := conn.Do("EVAL", append([]any{c.script.Text()}, c.args...)...)
					require.NoError(t, err)
					if values, is := reply.([]any); is {
						reply = values[:2]
					}
					require.Equal(t, c.answer, reply)
					require.Equal(t, rests, holderAt(n))
					require.Equal(t, 10*time.Second, n.Redis.TTL("redlock:x"))
				}
			})
		})
	}
}

// parkWaiter puts the waiter with SecondTicket into the queue, with a parked attempt, whose owner is "them".
func parkWaiter(t *testing.T, n *testnet.Node) {
	t.Helper()
	_, err := n.Redis.ZAdd("redlock::queue:redlock:x", 0, testnet.SecondTicket)
	require.NoError(t, err)
	require.NoError(t, n.Redis.Set("redlock::alive:BBBBBBBBBBBBBBBB", "!label"))
	require.NoError(t, n.Redis.Set("redlock::parked:"+testnet.SecondTicket, "  1 them"))
}

// Rest hands the lock to nobody while some of the hold is left, and as release does when nothing is.
func TestRestAtANode(t *testing.T) {
	const rests = protocol.Resting + "me"
	for name, c := range map[string]struct {
		has    string
		waits  bool
		left   int // milliseconds
		reply  int64
		holder string
		ttl    time.Duration
	}{
		"its key":                             {"me", false, 1000, 1, rests, time.Second},
		"its key, others wait":                {"me", true, 1000, 4, rests, time.Second},
		"its key, nothing is left":            {"me", false, 0, 1, "", 0},
		"its key, nothing left, others wait":  {"me", true, 0, 3, "them", protocol.ReservationTTL},
		"rests already":                       {rests, false, 1000, 1, rests, time.Second},
		"rests already, others wait":          {rests, true, 1000, 4, rests, time.Second},
		"rests already for less":              {rests, false, 20_000, 1, rests, 10 * time.Second},
		"rests already, nothing is left":      {rests, false, 0, 1, "", 0},
		"rests, nothing is left, others wait": {rests, true, 0, 3, "them", protocol.ReservationTTL},
		"another's key":                       {"you", false, 1000, 0, "you", 10 * time.Second},
		"another's rest":                      {protocol.Resting + "you", true, 1000, 0, protocol.Resting + "you", 10 * time.Second},
		"readers":                             {protocol.Shared, false, 1000, 0, protocol.Shared, 10 * time.Second},
		"no key":                              {"", false, 1000, 0, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
				n, eval := testnet.Scripted(t, net)
				if c.has != "" {
					require.NoError(t, n.Redis.Set("redlock:x", c.has))
					n.Redis.SetTTL("redlock:x", 10*time.Second)
				}
				if c.waits {
					parkWaiter(t, n)
				}
				reply, err := redis.Int64(eval(protocol.Rest, testnet.Keys("redlock:x", c.left, "me")...), nil)
				require.NoError(t, err)
				require.Equal(t, c.reply, reply)
				require.Equal(t, c.holder, holderAt(n))
				require.Equal(t, c.ttl, n.Redis.TTL("redlock:x"))
			})
		})
	}
}
