package protocol_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/embedded"
	"github.com/redlock-go/redlock/internal/test/long"
)

// earlyExits are the conditions of the early exits, as each script has its own.
var earlyExits = []struct {
	script    *protocol.Script
	condition string // as it begins
	draw      func(s *state) []any
}{
	{protocol.AcquireAll, "redis.call('EXISTS', unpack(KEYS,", drawAcquireAll},
	{protocol.ReleaseAll, "not ticket and redis.call('EXISTS', unpack(KEYS,", drawReleaseAll},
	{protocol.Read, "before == '' and not holder and redis.call('EXISTS',", drawRead},
	{protocol.Keep, "holder == 'redlock::shared' and", drawKeep},
	{protocol.Permit, "ticket == '' and redis.call('EXISTS',", drawPermit},
}

// In random states of a server, a script does the same with its early exit and without: it replies the
// same, leaves the same keys with the same values and ttls, and sends the same messages.
func TestEarlyExitsDoWhatTheRestOfTheScriptDoes(t *testing.T) {
	states := 2000
	if !long.Tests() {
		states = 300
	}
	for i, c := range earlyExits {
		t.Run(c.script.Name, func(t *testing.T) {
			t.Parallel()
			conn := dial(t)
			// Messages become entries of lists, so that they are compared too.
			text := strings.ReplaceAll(c.script.Text().(string), "redis.pcall('PUBLISH',", "redis.pcall('RPUSH',")
			require.Equal(t, 1, strings.Count(text, "if "+c.condition), "the script has the condition")
			full := strings.Replace(text, "if "+c.condition, "if false and "+c.condition, 1)
			end := strings.Index(text, "if "+c.condition)
			end += strings.Index(text[end:], " then\n") + len(" then\n")
			const mark = "early string 1 -1"
			marked := text[:end] + "redis.call('SET', 'early', '1')\n" + text[end:]
			random := rand.New(rand.NewPCG(uint64(i), 1))
			taken := 0
			for range states {
				s := &state{Rand: random}
				args := c.draw(s)
				want, left := s.run(t, conn, full, args)
				got, has := s.run(t, conn, marked, args)
				about := fmt.Sprintf("%v in the state\n%s", args, s)
				if at := slices.Index(has, mark); at >= 0 {
					taken++
					has = slices.Delete(has, at, at+1)
				}
				require.Equal(t, want, got, about)
				require.Equal(t, left, has, about)
			}
			t.Logf("of %d states %d took the early exit", states, taken)
			require.Greater(t, taken, states/20)
			require.Less(t, taken, states*9/10)
		})
	}
}

// dial starts an embedded server, whose clock stands at the instant clock.
func dial(t *testing.T) redis.Conn {
	t.Helper()
	var server *miniredis.Miniredis
	embedded.Exempt(func() { server = miniredis.RunT(t) })
	server.SetTime(time.UnixMilli(clock))
	conn, err := redis.Dial("tcp", server.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

const (
	clock   int64 = 1_764_000_000_000 // of the server, in milliseconds
	me            = "MEMEMEMEMEMEMEMEMEMEMEMEME!AAAAAAAAAAAAAAAA@label"
	before        = "BEFOREBEFOREBEFOREBEFOREBE"
	own           = "0000000000000002-BBBBBBBBBBBBBBBB-0000000001"
	earlier       = "0000000000000001-AAAAAAAAAAAAAAAA-0000000001"
	later         = "0000000000000003-CCCCCCCCCCCCCCCC-0000000001"
	sibling       = "0000000000000001-BBBBBBBBBBBBBBBB-0000000002" // of the same client as own
)

// state is what a server has before a script runs: the commands that make it.
type state struct {
	*rand.Rand
	commands [][]any
}

func (s *state) String() string {
	var b strings.Builder
	for _, c := range s.commands {
		fmt.Fprintln(&b, c...)
	}
	return b.String()
}

func (s *state) do(command ...any) { s.commands = append(s.commands, command) }

// oneIn reports true once in n times.
func (s *state) oneIn(n int) bool { return s.IntN(n) == 0 }

func pick[T any](s *state, from ...T) T { return from[s.IntN(len(from))] }

// run makes the state, and runs the script in it. It returns the reply, and all that is there then.
func (s *state) run(t *testing.T, conn redis.Conn, text string, args []any) (reply string, left []string) {
	t.Helper()
	require.NoError(t, conn.Send("FLUSHALL"))
	for _, c := range s.commands {
		require.NoError(t, conn.Send(c[0].(string), c[1:]...))
	}
	require.NoError(t, conn.Send("EVAL", append([]any{text}, args...)...))
	require.NoError(t, conn.Send("EVAL", contents, 0))
	require.NoError(t, conn.Flush())
	for range 1 + len(s.commands) {
		_, err := conn.Receive()
		require.NoError(t, err)
	}
	answer, err := conn.Receive()
	reply = fmt.Sprintf("%T %v", answer, shown(answer))
	if err != nil {
		require.ErrorContains(t, err, "WRONGTYPE")
		reply = "WRONGTYPE" // behind its first words an error names the line
	}
	left, err = redis.Strings(conn.Receive())
	require.NoError(t, err)
	slices.Sort(left)
	return reply, left
}

// shown returns a reply with its bytes as text.
func shown(reply any) any {
	switch reply := reply.(type) {
	case []byte:
		return string(reply)
	case []any:
		all := make([]any, 0, len(reply))
		for _, r := range reply {
			all = append(all, shown(r))
		}
		return all
	}
	return reply
}

// contents is a script that returns each key with its value and its ttl.
const contents = `
local all = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  local kind, value = redis.call('TYPE', key).ok, {}
  if kind == 'string' then
    value = {redis.call('GET', key)}
  elseif kind == 'zset' then
    value = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  elseif kind == 'list' then
    value = redis.call('LRANGE', key, 0, -1)
  else
    local fields = redis.call('HKEYS', key)
    table.sort(fields)
    for _, field in ipairs(fields) do
      value[#value + 1] = field .. '=' .. redis.call('HGET', key, field)
    end
  end
  all[#all + 1] = key .. ' ' .. kind .. ' ' .. table.concat(value, ' ') .. ' ' .. redis.call('PTTL', key)
end
return all`

// drawLock draws the key of a lock, its readers and its queue; free says how often it is free, out of ten times.
func (s *state) drawLock(lock, suffix string, free int) {
	readers := protocol.Key("readers", lock)
	value := pick(s, me, me, me, before, "them", "THEMTHEMTHEMTHEMTHEMTHEMTH!CCCCCCCCCCCCCCCC", "", strings.Repeat("x", 600),
		protocol.Reservation+own+suffix, protocol.Reservation+own+suffix, protocol.Reservation+own+suffix, protocol.Reservation+earlier+suffix, protocol.Reservation+later, protocol.Reservation+later+"r",
		protocol.Resting+me, protocol.Shared, protocol.Shared, protocol.Shared)
	switch {
	case s.IntN(10) < free:
		value = "" // or what it had
	case s.oneIn(30):
		s.do("DEL", lock)
		s.do("HSET", lock, "of another", "type")
		value = ""
	default:
		s.do("SET", lock, value)
		if !s.oneIn(10) {
			s.do("PEXPIRE", lock, pick(s, 300, 9000, 70_000))
		}
	}
	switch {
	case value == protocol.Shared && s.oneIn(2): // one reader
		s.do("ZADD", readers, clock+pick[int64](s, -5, 2, 9000), pick(s, me, me, me, "them"))
		s.do("PEXPIRE", readers, 9000)
	case value == protocol.Shared && !s.oneIn(8), s.oneIn(12):
		for range 1 + s.IntN(3) {
			s.do("ZADD", readers, clock+pick[int64](s, -5, 2, 300, 9000, 70_000), pick(s, me, before, "them", "these"))
		}
		s.do("PEXPIRE", readers, 70_000)
	case s.oneIn(40):
		s.do("SET", readers, "of another type")
	}
	s.drawQueue(protocol.Key("queue", lock), own+suffix, earlier, earlier+"r", earlier+"+", later, later+"r", later+"+", sibling+suffix)
}

// drawQueue draws a queue, and which clients count as alive; most often nobody waits.
func (s *state) drawQueue(queue string, tickets ...string) {
	for _, client := range []string{"AAAAAAAAAAAAAAAA", "BBBBBBBBBBBBBBBB", "CCCCCCCCCCCCCCCC"} {
		if s.oneIn(2) {
			s.do("SET", protocol.Key("alive", client), pick(s, "?label", "?label", "!label"), "PX", pick(s, 400, 2500, 8000, 75_000))
		}
	}
	if s.oneIn(4) {
		s.do("SET", "redlock::watched:"+strings.TrimPrefix(queue, protocol.Key("queue", "")), earlier+" "+later, "PX", pick(s, 40, 900))
	}
	if s.oneIn(40) {
		s.do("SET", queue, "of another type")
		return
	}
	for s.oneIn(4) {
		s.do("ZADD", queue, 0, pick(s, tickets...))
		s.do("PEXPIRE", queue, 9000)
	}
}

// drawRecord draws the record with the counters, and the least count.
func (s *state) drawRecord(stripes ...string) (least any) {
	for _, stripe := range stripes {
		if !s.oneIn(20) {
			s.do("HSET", "record", stripe, pick(s, 19, 20, 20, 25))
		}
	}
	if !s.oneIn(5) {
		s.do("HSET", "record", "nodes", "5")
	}
	if s.oneIn(30) {
		s.do("DEL", "record")
		if s.oneIn(2) {
			s.do("SET", "record", "of another type")
		}
	}
	return pick(s, 1, 10, 10, 20, 21)
}

// drawTickets draws the parked attempts of tickets, and what they want.
func (s *state) drawTickets(locks ...string) {
	for _, ticket := range []string{own + "+", own + "r", own, earlier + "+", later + "+", later + "r", later} {
		if s.oneIn(3) {
			s.do("SET", "redlock::parked:"+ticket, pick(s, "record 7 10 ", "record 7,8 1 ", "  1 ", "of another program")+before, "PX", 150)
		}
		if s.oneIn(3) {
			wants := ""
			for _, lock := range locks {
				wants += fmt.Sprintf("%d:%s", len(lock), lock)
			}
			s.do("SET", "redlock::wants:"+ticket, wants, "PX", 9000)
		}
	}
}

// drawSet draws some locks. It returns all keys of a release, and their number ahead of them.
func (s *state) drawSet() (locks []string, keys []any) {
	locks = []string{"a", "b", "c"}[:1+s.IntN(3)]
	free := pick(s, 3, 7, 10, 10)
	if s.oneIn(3) {
		for _, lock := range locks {
			s.do("SET", lock, me, "PX", 9000) // it may be drawn anew
		}
	}
	for _, lock := range locks {
		s.drawLock(lock, "+", free)
	}
	s.drawTickets(locks...)
	keys = []any{3 * len(locks)}
	for _, kind := range []string{"", "queue", "readers"} {
		for _, lock := range locks {
			if kind != "" {
				lock = protocol.Key(kind, lock)
			}
			keys = append(keys, lock)
		}
	}
	return locks, keys
}

func drawAcquireAll(s *state) []any {
	locks, keys := s.drawSet()
	least := s.drawRecord("7", "8", "9")
	keys = append(keys[:1+2*len(locks)], "record")
	keys[0] = 2*len(locks) + 1
	return append(keys, me, 60_000, pick(s, "7,8,9", "7", "8,9"), least, pick(s, "", own+"+"), "label", pick(s, "", before), pick(s, 0, 150))
}

func drawReleaseAll(s *state) []any {
	_, keys := s.drawSet()
	s.drawRecord("7", "8")
	keys = append(keys, me)
	switch s.IntN(5) {
	case 0, 1:
		return keys
	case 2:
		return append(keys, "")
	case 3:
		return append(keys, own+"+", "label")
	}
	return append(keys, own+"+")
}

func drawRead(s *state) []any {
	s.drawLock("x", "r", pick(s, 2, 8))
	s.drawTickets("x")
	least := s.drawRecord("7")
	return []any{4, "x", "record", "redlock::queue:x", "redlock::readers:x",
		me, 60_000, pick(s, "", "7", "7"), least, pick(s, "", own+"r"), "label", pick(s, "", "", before), pick(s, 0, 150)}
}

func drawKeep(s *state) []any {
	if s.oneIn(2) {
		s.do("ZADD", "redlock::readers:x", clock+pick[int64](s, -5, 9000), me)
	}
	s.do("SET", "x", protocol.Shared, "PX", 9000)
	s.drawLock("x", "r", pick(s, 3, 9))
	s.drawTickets("x")
	s.drawRecord("7")
	if !s.oneIn(8) {
		s.do("HSET", protocol.MembersKey, "id", pick(s, "list", "list", "another"))
	}
	keys := []any{5, "x", "record", "redlock::queue:x", "redlock::readers:x", protocol.MembersKey}
	args := []any{me, pick(s, 60_000, 60_000, 1000, 0), pick(s, "", "list", "list"), pick(s, "", own+"r")}
	if s.oneIn(4) {
		s.do("SET", "asked", pick(s, protocol.Shared, "them"), "PX", 9000)
		keys, args = append(keys, "asked"), append(args, "1")
		keys[0] = 6
	}
	return append(keys, args...)
}

func drawPermit(s *state) []any {
	size := pick(s, 1, 2, 5)
	for slot := range size {
		switch {
		case s.oneIn(40):
			s.do("HSET", fmt.Sprintf("x#%d", slot), "of another", "type")
		case s.oneIn(3):
			s.do("SET", fmt.Sprintf("x#%d", slot), pick(s, me, "them", "THEMTHEM", ""), "PX", pick(s, 50, 9000))
		}
	}
	want := fmt.Sprintf("/%d*", size)
	s.drawQueue("queue", own+want+"1", earlier+want+"1", earlier+want+"2", later+want+"2", sibling+want+"1")
	least := s.drawRecord("255", "0", "1", "2", "3")
	for _, note := range [][2]string{{"redlock::full:queue", "40"}, {"redlock::split:queue", earlier + want + "1"}} {
		if s.oneIn(5) {
			s.do("SET", note[0], note[1], "PX", pick(s, 40, 1800))
		}
	}
	n := 1 + s.IntN(min(3, size))
	args := []any{2, "queue", "record", me, 60_000, "255", least, pick(s, "", "", fmt.Sprintf("%s%s%d", own, want, n)), "label", "x#", size, n, s.Uint32()}
	if args[len(args)-6] == "" && s.oneIn(2) {
		args = append(args, 1)
	}
	return args
}
