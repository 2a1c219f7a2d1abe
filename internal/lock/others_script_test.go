package lock_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// What every script does at one node with a key that another has. TestEveryScriptRefusesARestingKey has those at a resting key.

// The lock that another has, and one that "me" has for 5 s. The first is also a slot, so scripts for permits find it.
const (
	othersKey     = "redlock:x#0"
	othersQueue   = "redlock::queue:" + othersKey
	othersReaders = "redlock::readers:" + othersKey
	othersAsked   = "redlock::asked:" + othersKey
	mineKey       = "redlock:y"
	mineQueue     = "redlock::queue:" + mineKey
)

// Where the lock's key stands, for 10 s, when a script is called.
const (
	owned       = "of an owner"
	ownedShared = "of an owner, beside my share of an earlier time"
	empty       = "of a program that has set an empty value"
	shared      = "of a reader"
	forEarlier  = "reserved for an earlier waiter"
	forReader   = "reserved for an earlier reader"
	forLater    = "reserved for a later waiter"
)

// othersValues are the values of the key.
var othersValues = map[string]string{owned: "them", ownedShared: "them", empty: "", shared: protocol.Shared, forEarlier: protocol.Reservation + testnet.FirstTicket,
	forReader: protocol.Reservation + testnet.FirstTicket + "r", forLater: protocol.Reservation + testnet.ThirdTicket}

// othersNode is a node where the key stands so.
type othersNode struct {
	*testnet.Node
	before []string // its keys
}

func newOthersNode(t *testing.T, net *testnet.Net, where string) *othersNode {
	n, _ := testnet.Scripted(t, net)
	require.NoError(t, n.Redis.Set(othersKey, othersValues[where]))
	n.Redis.SetTTL(othersKey, 10*time.Second)
	if sharer, has := map[string]string{shared: "them", ownedShared: "me"}[where]; has {
		_, err := n.Redis.ZAdd(othersReaders, float64(time.Now().Add(10*time.Second).UnixMilli()), sharer)
		require.NoError(t, err)
	}
	require.NoError(t, n.Redis.Set(mineKey, "me"))
	n.Redis.SetTTL(mineKey, 5*time.Second)
	n.Redis.HSet("record", "nodes", "5", "7", "50")
	n.Redis.HSet("members", "id", "list")
	for _, client := range []string{"AAAAAAAAAAAAAAAA", "CCCCCCCCCCCCCCCC"} {
		require.NoError(t, n.Redis.Set(protocol.Key("alive", client), "!label"))
	}
	return &othersNode{n, n.Redis.Keys()}
}

// stands returns what stands at the node, but for what belongs to the waiter with SecondTicket.
func (n *othersNode) stands() string {
	value, _ := n.Redis.Get(othersKey)
	all := []string{fmt.Sprintf("%q for %v", value, n.Redis.TTL(othersKey))}
	if shares, err := n.Redis.ZMembers(othersReaders); err == nil {
		all = append(all, fmt.Sprintf("shares of %v", shares))
	}
	if count := n.Redis.HGet("record", "7"); count != "50" {
		all = append(all, "count "+count)
	}
	tickets, _ := n.Redis.ZMembers(othersQueue)
	tickets = slices.DeleteFunc(tickets, func(ticket string) bool { return strings.HasPrefix(ticket, testnet.SecondTicket) })
	if len(tickets) > 0 {
		all = append(all, fmt.Sprintf("queue %v", tickets))
	}
	if value, _ := n.Redis.Get(mineKey); value != "me" || n.Redis.TTL(mineKey) != 5*time.Second {
		all = append(all, fmt.Sprintf("mine %q for %v", value, n.Redis.TTL(mineKey)))
	}
	for _, key := range n.Redis.Keys() {
		mine := strings.Contains(key, testnet.SecondTicket) || strings.HasSuffix(key, ":BBBBBBBBBBBBBBBB") || strings.Contains(key, "redlock::slots:")
		if !mine && !slices.Contains(append(n.before, othersQueue, mineQueue, othersReaders), key) {
			all = append(all, key)
		}
	}
	return strings.Join(all, ", ")
}

// othersRow is a call of a script by "me", who does not have the lock.
type othersRow struct {
	script *protocol.Script
	args   []any
	reply  string            // "": the key's value, and how long it lasts; "*": any
	also   string            // changes wherever the key stands
	except map[string]string // where the call does more: its reply, and what stands at the node then
}

// What may take a key of another: a waiter with an earlier ticket, a renewal a reservation, a reader a share beside others.
var (
	grantedFirst = map[string]string{forLater: `51: "me" for 1s, count 51, queue [` + testnet.ThirdTicket + `]`}
	grantedRead  = map[string]string{
		shared:    `50: "redlock::shared" for 10s, shares of [me them]`,
		forReader: `50: "redlock::shared" for 1s, shares of [me]`,
	}
	grantedReadFirst = map[string]string{
		shared:    grantedRead[shared],
		forReader: grantedRead[forReader],
		forLater:  `50: "redlock::shared" for 1s, shares of [me], queue [` + testnet.ThirdTicket + `]`,
	}
)

// restoredAs returns what a renewal does with a reservation: it takes the key, and puts the ticket back.
func restoredAs(reply, format string) map[string]string {
	all := make(map[string]string)
	for where, ticket := range map[string]string{forEarlier: testnet.FirstTicket, forReader: testnet.FirstTicket + "r", forLater: testnet.ThirdTicket} {
		all[where] = reply + ": " + fmt.Sprintf(format, "queue ["+ticket+"]")
	}
	return all
}

// keptAs returns what a reader's renewal does: it shares the lock with readers, and those in front of the queue are let in.
func keptAs(writerWaits string) map[string]string {
	const alone = `: "redlock::shared" for 20s, shares of [me]`
	return map[string]string{
		shared:     `2: "redlock::shared" for 20s, shares of [them me]`,
		forReader:  "2" + alone,
		forEarlier: writerWaits + alone + ", queue [" + testnet.FirstTicket + "]",
		forLater:   writerWaits + alone + ", queue [" + testnet.ThirdTicket + "]",
	}
}

func othersRows() map[string]othersRow {
	const ticket, slots = testnet.SecondTicket, "redlock:x#"
	call := func(keys []any, args ...any) []any { return slices.Concat([]any{len(keys)}, keys, args) }
	release := func(args ...any) []any { return testnet.Keys(othersKey, args...) }
	releaseAll := func(args ...any) []any { return testnet.AllKeys([]string{othersKey, mineKey}, args...) }
	one, both := []any{othersKey, "record"}, []any{othersKey, mineKey, "record"}
	renewed, bothRenewed := append(one[:2:2], "members"), append(both[:3:3], "members")
	told, bothTold := append(renewed[:3:3], othersQueue, othersAsked), append(bothRenewed[:4:4], othersQueue, mineQueue, othersAsked, "asked")
	set := []any{othersKey, mineKey, othersQueue, mineQueue, "record"}
	share := []any{othersKey, "record", othersQueue, othersReaders}
	kept, keptTold := append(share[:4:4], "members"), append(share[:4:4], "members", othersAsked)
	queue, permits := []any{"redlock::slots:redlock:x"}, []any{"redlock::slots:redlock:x", "record"}
	const dropped, reserved, noPermits = `, mine "" for 0s`, `, mine "redlock::reserved:` + ticket + `+" for 2s`, "redlock::permits 10000"
	return map[string]othersRow{
		"acquire":                   {protocol.Acquire, call(one, "me", 1000, "7", 1, ticket, "label", "", 0), "", "", grantedFirst},
		"acquire, after an attempt": {protocol.Acquire, call(one, "me", 1000, "7", 1, ticket, "label", "before", 100), "", "", grantedFirst},
		"acquireall":                {protocol.AcquireAll, call(set, "new", 1000, "7,8", 1, "", "label", "", 0), "", "", nil},
		"acquireall, of a waiter": {protocol.AcquireAll, call(set, "new", 1000, "7,8", 1, ticket+"+", "label", "me", 0), "", reserved,
			map[string]string{forLater: `51: "new" for 1s, count 51, queue [` + testnet.ThirdTicket + `], mine "new" for 1s`}},
		"read":                               {protocol.Read, call(share, "me", 1000, "7", 1, "", "label", "", 0), "", "", grantedRead},
		"read, of a waiter":                  {protocol.Read, call(share, "me", 1000, "7", 1, ticket+"r", "label", "before", 0), "", "", grantedReadFirst},
		"permit":                             {protocol.Permit, call(permits, "me", 1000, "7", 1, "", "label", slots, 1, 1, 5), noPermits, "", nil},
		"permit, of a waiter":                {protocol.Permit, call(permits, "me", 1000, "7", 1, ticket+"/1*1", "label", slots, 1, 1, 5), noPermits, "", nil},
		"raise":                              {protocol.Raise, call(one, "me", "7", 100, 1), "0", "", nil},
		"raise, of several":                  {protocol.Raise, call(both, "me", "7", 100, 1), "0", "", nil},
		"raise, of a share":                  {protocol.Raise, call([]any{othersKey, "record", othersReaders}, "me", "7", 100, 1, 1), "0", "", nil},
		"renew":                              {protocol.Renew, call(renewed, "me", 20_000, "list"), "", "", restoredAs("2", `"me" for 20s, %s`)},
		"renew, of a holder that is told":    {protocol.Renew, call(told, "me", 20_000, "list", ticket), "", "", restoredAs("12", `"me" for 20s, %s`)},
		"renewall":                           {protocol.RenewAll, call(bothRenewed, "me", 20_000, "list"), "", "", restoredAs("2", `"me" for 20s, %s, mine "me" for 20s`)},
		"renewall, of a holder that is told": {protocol.RenewAll, call(bothTold, "me", 20_000, "list", ticket+"+"), "", "", restoredAs("12", `"me" for 20s, %s, mine "me" for 20s`)},
		"keep":                               {protocol.Keep, call(kept, "me", 20_000, "list", ""), "", "", keptAs("2")},
		"keep, of a holder that is told":     {protocol.Keep, call(keptTold, "me", 20_000, "list", ticket, 1), "", "", keptAs("12")},
		"keep, that prolongs nothing":        {protocol.Keep, call(kept, "me", 0, "list", ""), "", "", nil},
		"release":                            {protocol.Release, release("me"), "0", "", nil},
		"release, ahead of waiters":          {protocol.Release, release("me", ""), "0", "", nil},
		"release, of a waiter":               {protocol.Release, release("me", ticket), "0", "", nil},
		"release, of a waiter that stays":    {protocol.Release, release("me", ticket, "label"), "0", "", nil},
		"releaseall":                         {protocol.ReleaseAll, releaseAll("me"), "0", dropped, nil},
		"releaseall, ahead of waiters":       {protocol.ReleaseAll, releaseAll("me", ""), "0", dropped, nil},
		"releaseall, of a waiter":            {protocol.ReleaseAll, releaseAll("me", ticket+"+"), "0", dropped, nil},
		"releaseall, of a waiter that stays": {protocol.ReleaseAll, releaseAll("me", ticket+"+", "label"), "0", reserved, nil},
		"giveback":                           {protocol.GiveBack, call(queue, "me", slots, 1, "0"), "0", "", nil},
		"giveback, of all slots":             {protocol.GiveBack, call(queue, "me", slots, 1, "", ticket+"/1*1"), "0", "", nil},
		"rest":                               {protocol.Rest, release(1000, "me"), "0", "", nil},
		"rest, of a waiter":                  {protocol.Rest, release(1000, "me", ticket), "0", "", nil},
		"rest, of which nothing is left":     {protocol.Rest, release(0, "me"), "0", "", nil},
		"transfer":                           {protocol.Transfer, call([]any{othersKey, "members"}, "me", "passed", 20_000, ""), "", "", nil},
		"takeback":                           {protocol.TakeBack, call([]any{othersKey}, "passed", "me"), "0", "", nil},
		"resume":                             {protocol.Resume, call(one, "passed", "me", 20_000, int64(1)<<52, "7", 1), "", "", nil},
		"seize": {protocol.Seize, call([]any{othersKey, "record", othersQueue}, "me", 20_000, "7", 1, 0, "you", "passed"), "", "",
			restoredAs("51", `"me" for 20s, count 51, %s`)},
		"ask": {protocol.Ask, call([]any{othersKey, othersAsked}), "0", "",
			map[string]string{shared: `1: "redlock::shared" for 10s, shares of [them], ` + othersAsked}},
		"trim":         {protocol.Trim, call([]any{"record", "redlock::quarantine:x", othersKey, othersReaders}, 3650, 2000), "0", "", nil},
		"wake":         {protocol.Wake, call(queue, slots, 1), "0", "", nil},
		"inspect":      {protocol.Inspect, call(share, "7"), "*", "", nil},
		"inspectslots": {protocol.InspectSlots, call(permits, slots, 1, "7"), "*", "", nil},
		"observe":      {protocol.Observe, call([]any{"record", othersKey}, "7"), "*", "", nil},
	}
}

func TestEveryScriptLeavesAKeyToItsHolder(t *testing.T) {
	rows := othersRows()
	missing := []*protocol.Script{protocol.Look, protocol.Probe, protocol.Seal, protocol.Admit, protocol.Propose, protocol.Install, protocol.Level, protocol.Record} // they are about no lock
	for _, s := range protocol.All {
		has := false
		for _, row := range rows {
			has = has || row.script == s
		}
		require.NotEqual(t, has, slices.Contains(missing, s), "a row of %s", s.Name)
	}
	for name, row := range rows {
		for where := range othersValues {
			t.Run(name+"/"+where, func(t *testing.T) {
				testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
					n := newOthersNode(t, net, where)
					want, has := row.except[where]
					if reply := row.reply; !has {
						if reply == "" {
							reply = othersValues[where] + " 10000"
						}
						want = reply + ": " + n.stands() + row.also
					}
					reply, err := n.Eval(append([]any{row.script.Text()}, row.args...))
					require.NoError(t, err)
					require.Equal(t, want, othersReply(reply, row.reply)+": "+n.stands())
				})
			})
		}
	}
}

// othersReply returns a reply as rows have it: of an array, the first two values, of which a seizure has the first here.
func othersReply(reply any, row string) string {
	values, is := reply.([]any)
	switch {
	case row == "*":
		return row
	case !is:
		return fmt.Sprint(reply)
	}
	if count, is := values[0].(int64); is {
		return fmt.Sprint(count)
	}
	return fmt.Sprintf("%s %v", values[0], values[1])
}

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
		"acquire":                         {protocol.Acquire, []any{2, "redlock:x", "record", "you", 1000, "7", 1, ticket, "label", "", 0}, held},
		"acquire, of its own owner":       {protocol.Acquire, []any{2, "redlock:x", "record", "me", 1000, "7", 1, ticket, "label", "", 0}, held},
		"acquire, after an attempt of it": {protocol.Acquire, []any{2, "redlock:x", "record", "you", 1000, "7", 1, ticket, "label", "me", 0}, held},
		"acquireall":                      {protocol.AcquireAll, []any{3, "redlock:x", "redlock::queue:redlock:x", "record", "you", 1000, "7", 1, "", "label", "", 0}, held},
		"read":                            {protocol.Read, append([]any{5}, append(append(reads[1:len(reads):len(reads)], "challenged"), "you", 1000, "7", 1, "", "label", "", 0)...), held},
		"renew":                           {protocol.Renew, []any{3, "redlock:x", "record", "members", "me", 20_000, ""}, held},
		"renewall":                        {protocol.RenewAll, []any{3, "redlock:x", "record", "members", "me", 20_000, ""}, held},
		"keep":                            {protocol.Keep, []any{5, reads[1], reads[2], reads[3], reads[4], "members", "me", 20_000, "", ""}, held},
		"raise":                           {protocol.Raise, []any{2, "redlock:x", "record", "me", 7, 100, 1}, int64(0)},
		"raise, of a share":               {protocol.Raise, []any{3, "redlock:x", "record", "redlock::readers:redlock:x", "me", 7, 100, 1, 1}, int64(0)},
		"release":                         {protocol.Release, testnet.Keys("redlock:x", "me"), int64(0)},
		"release of a waiter":             {protocol.Release, testnet.Keys("redlock:x", "me", ticket), int64(0)},
		"release of a waiter that stays":  {protocol.Release, testnet.Keys("redlock:x", "me", ticket, "label"), int64(0)},
		"releaseall":                      {protocol.ReleaseAll, testnet.AllKeys([]string{"redlock:x"}, "me", ticket), int64(0)},
		"rest, of another":                {protocol.Rest, testnet.Keys("redlock:x", 1000, "you"), int64(0)},
		"rest, of another, with a ticket": {protocol.Rest, testnet.Keys("redlock:x", 1000, "you", ticket), int64(0)},
		"seize, of another":               {protocol.Seize, []any{3, "redlock:x", "record", "redlock::queue:redlock:x", "you", 1000, "7", 1, 0, "me"}, held},
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
	require.NoError(t, n.Redis.Set("redlock::parked:"+testnet.SecondTicket, "record 7 1 them"))
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

// A server whose memory is full refuses the commands that add something, but not in a script that has
// executed another write before. So each script that grants begins its writes with one that adds.
func TestScriptsThatGrantBeginWithACommandThatAFullServerRefuses(t *testing.T) {
	const ticket, dead = testnet.SecondTicket, testnet.FirstTicket
	read := []any{4, "x", "record", "redlock::queue:x", "redlock::readers:x", "me", 1000, "7", 1}
	permit := []any{2, "redlock::queue:x", "record", "me", 1000, "7", 1}
	for name, c := range map[string]struct {
		script *protocol.Script
		args   []any
	}{
		"acquire":                  {protocol.Acquire, []any{2, "x", "record", "me", 1000, "7", 1, ticket, "label", "", 0}},
		"read":                     {protocol.Read, append(read, "", "label", "", 0)},
		"read, of a waiter":        {protocol.Read, append(read, ticket+"r", "label", "", 0)},
		"acquireall":               {protocol.AcquireAll, []any{3, "x", "redlock::queue:x", "record", "me", 1000, "7", 1, "", "label", "", 0}},
		"acquireall, with a token": {protocol.AcquireAll, []any{3, "x", "redlock::queue:x", "record", "me", 1000, "7", 1, ticket + "+", "label", "", 0}},
		"permit":                   {protocol.Permit, append(permit, "", "label", "x#", 1, 1, 0)},
		"permit, of a waiter":      {protocol.Permit, append(permit, ticket+"*1", "label", "x#", 1, 1, 0)},
	} {
		for state, prepare := range map[string]func(n *testnet.Node){
			"free":                func(*testnet.Node) {},
			"a dead client waits": func(n *testnet.Node) { _, _ = n.Redis.ZAdd("redlock::queue:x", 0, dead) },
			"readers hold it": func(n *testnet.Node) {
				n.Run(protocol.Read, append(append([]any{}, read[:6]...), "another", 60_000, "7", 1, "", "label", "", 0)...)
			},
		} {
			t.Run(name+", "+state, func(t *testing.T) {
				testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
					n, eval := testnet.Scripted(t, net)
					prepare(n)
					var writes []string
					n.Set(func(n *testnet.Node) {
						n.Override = func(cmd string, _ []string) string {
							switch cmd {
							case "SET", "ZADD", "HSET", "HINCRBY":
								writes = append(writes, "adds")
							case "DEL", "ZREM", "ZREMRANGEBYSCORE", "PEXPIRE", "PEXPIREAT":
								writes = append(writes, strings.ToLower(cmd))
							}
							return ""
						}
					})
					eval(c.script, c.args...)
					require.NotEmpty(t, writes)
					require.Equal(t, "adds", writes[0])
				})
			})
		}
	}
}

// What passes a lease that is held on, or gives it back, begins with a command that such a server executes.
func TestScriptsThatPassALeaseOnBeginWithACommandThatAFullServerExecutes(t *testing.T) {
	for name, c := range map[string]struct {
		script *protocol.Script
		args   []any
		ttl    time.Duration
	}{
		"transfer": {protocol.Transfer, []any{2, "x", "members", "me", "new", 7000, ""}, 7 * time.Second},
		"takeback": {protocol.TakeBack, []any{1, "x", "me", "new"}, 5 * time.Second},
		"resume":   {protocol.Resume, []any{2, "x", "record", "me", "new", 7000, "7", 1}, 7 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
				n, _ := testnet.Scripted(t, net)
				require.NoError(t, n.Redis.Set("x", "me"))
				n.Redis.SetTTL("x", 5*time.Second)
				var writes []string
				n.Set(func(n *testnet.Node) {
					n.Override = func(cmd string, _ []string) string {
						if cmd == "SET" || cmd == "HINCRBY" || cmd == "PEXPIRE" {
							writes = append(writes, cmd)
						}
						return ""
					}
				})
				_, err := testnet.Dial(t, n).Do("EVAL", append([]any{c.script.Text()}, c.args...)...)
				require.NoError(t, err)
				require.Equal(t, "PEXPIRE", writes[0])
				value, err := n.Redis.Get("x")
				require.NoError(t, err)
				require.Equal(t, "new", value)
				require.Equal(t, c.ttl, n.Redis.TTL("x"))
			})
		})
	}
}
