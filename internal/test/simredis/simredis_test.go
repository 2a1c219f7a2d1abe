package simredis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	lua "github.com/yuin/gopher-lua"
)

// simulation is one server, and a connection to it.
func simulation(t *testing.T) (*Server, *Conn) {
	world := NewWorld(nil)
	server := world.Server(0, func(now time.Duration) time.Duration { return time.Duration(time.Now().UnixNano()) })
	link := server.Link("test", func(time.Duration, bool, int) Fate { return Fate{} })
	conn, err := link.GetContext(context.Background())
	require.NoError(t, err)
	return server, conn.(*Conn)
}

func ask(t *testing.T, c redis.Conn, command string, args ...any) any {
	require.NoError(t, c.Send(command, args...))
	require.NoError(t, c.Flush())
	reply, err := c.Receive()
	if err != nil {
		return fmt.Sprintf("error %.9s", err)
	}
	return reply
}

// The commands that the scripts call answer as another implementation's do, after any
// commands.
func TestCommandsAnswerAsMiniredisDoes(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) { compare(t, rand.New(rand.NewPCG(seed, 0))) })
	}
}

func compare(t *testing.T, draw *rand.Rand) {
	_, ours := simulation(t)
	other := miniredis.NewMiniRedis()
	other.ClockTTL(true)
	defer other.Close()
	socket, err := other.Dial()
	require.NoError(t, err)
	theirs := redis.NewConn(socket, 0, 0)
	defer func() { _ = theirs.Close() }()
	for range 400 {
		c := draws(draw)
		its := ask(t, theirs, c[0].(string), c[1:]...) // first: it takes no time
		mine := ask(t, ours, c[0].(string), c[1:]...)
		require.Equal(t, its, mine, "%v", c)
		// A command takes some nanoseconds in the simulation and none in miniredis, so the
		// next one begins at a full millisecond.
		time.Sleep(time.Until(time.Now().Truncate(time.Millisecond).Add(time.Duration(1+draw.IntN(20)) * time.Millisecond)))
	}
	require.NoError(t, ours.Close())
}

// draws returns a command, with keys and members that few others share.
func draws(draw *rand.Rand) []any {
	pick := func(words ...string) string { return words[draw.IntN(len(words))] }
	key, member := pick("a", "b", "c"), pick("x", "y", "z", "1")
	commands := [][]any{
		{"SET", key, member},
		{"SET", key, member, "NX", "PX", "100"},
		{"SET", key, member, "PX", "250"},
		{"GET", key},
		{"EXISTS", key},
		{"EXISTS", key, pick("a", "b", "c")},
		{"DEL", key, pick("a", "b", "c")},
		{"PTTL", key},
		{"PEXPIRE", key, "150"},
		{"PERSIST", key},
		{"HSET", key, member, "7", pick("x", "q"), "1"},
		{"HGET", key, member},
		{"HEXISTS", key, member},
		{"HINCRBY", key, "n", "3"},
		{"ZADD", key, "0", member},
		{"ZCARD", key},
		{"ZREM", key, member},
		{"ZRANK", key, member},
		{"ZRANGE", key, pick("0", "1", "-1"), pick("0", "1", "99", "-1")},
		{"ZADD", key, score(draw), member},
		{"ZSCORE", key, member},
		{"ZREMRANGEBYSCORE", key, "-inf", score(draw)},
		{"ZRANGE", key, "-1", "-1", "WITHSCORES"},
		{"PEXPIREAT", key, time.Now().Add(170 * time.Millisecond).UnixMilli()},
		{"SET", key, member, "PXAT", time.Now().Add(130 * time.Millisecond).UnixMilli()},
	}
	return commands[draw.IntN(len(commands))]
}

// score is a small number: miniredis writes large ones as 1.7e+12.
func score(draw *rand.Rand) string { return fmt.Sprint(draw.IntN(5)) }

func TestScriptsAreLuaAsInRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := simulation(t)
		for script, want := range map[string]any{
			`return 1.9`:                                   int64(1),
			`return {1, 'a', false, 2}`:                    []any{int64(1), []byte("a"), nil, int64(2)},
			`return {1, nil, 2}`:                           []any{int64(1)},
			`return redis.call('SET', KEYS[1], ARGV[1])`:   "OK",
			`return redis.call('GET', 'missing')`:          nil,
			`return redis.call('GET', 'missing') == false`: int64(1),
			`return redis.pcall('NOSUCH').err ~= nil`:      int64(1),
			`return redis.call('NOSUCH')`:                  "error ERR scrip",
			`return string.match('a-b', '^%w')`:            []byte("a"),
			`syntax error`:                                 "error ERR Error",
		} {
			require.Equal(t, want, ask(t, c, "EVAL", script, "1", "key", "value"), script)
		}
		require.Equal(t, "error NOSCRIPT ", ask(t, c, "EVALSHA", "00", "0"))
		require.NoError(t, c.Close())
	})
	require.Equal(t, lua.LuaVersion, "Lua 5.1", "Redis has this one")
}

func TestServerRefusesTheCommandsThatRedisRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, c := simulation(t)
		eval := func(script string) any { return ask(t, c, "EVAL", script, "0") }
		require.Equal(t, "OK", ask(t, c, "SET", "key", "value"))

		server.Refuse(Busy)
		require.Equal(t, "error BUSY Redi", ask(t, c, "GET", "key"))
		require.Equal(t, "error BUSY Redi", eval(`return 1`))
		require.Equal(t, "PONG", ask(t, c, "PING"))

		server.Refuse(Unsaved)
		require.Equal(t, []byte("value"), ask(t, c, "GET", "key"))
		require.Equal(t, "error MISCONF R", ask(t, c, "DEL", "key"))
		require.Contains(t, eval(`return redis.call('DEL', 'key')`), "error")
		require.Equal(t, int64(1), ask(t, c, "EXISTS", "key"))

		server.Refuse(Full)
		require.Equal(t, "error OOM comma", ask(t, c, "SET", "key", "value"))
		require.Contains(t, eval(`return redis.call('SET', 'key', 'value')`), "error")
		require.Equal(t, "OK", eval(`redis.call('DEL', 'key'); return redis.call('SET', 'key', 'value')`))
		require.Contains(t, eval(`return redis.call('SET', 'key', 'value')`), "error")

		server.Refuse("")
		require.Equal(t, int64(1), ask(t, c, "DEL", "key"))
		require.NoError(t, c.Close())
	})
}

// What users may not do is refused to their scripts too; one client may lack the right to subscribe alone.
func TestServerRefusesWhatUsersMayNotDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, c := simulation(t)
		server.Forbid("PUBLISH")
		require.Contains(t, ask(t, c, "PUBLISH", "channel", "message"), "error NOPERM")
		require.Equal(t, int64(1), ask(t, c, "EVAL", `return redis.pcall('PUBLISH', 'channel', '').err ~= nil`, "0"))
		require.Contains(t, ask(t, c, "EVAL", `return redis.call('PUBLISH', 'channel', '')`, "0"), "error ERR")
		require.Equal(t, []any{[]byte("channel"), int64(0)}, ask(t, c, "PUBSUB", "NUMSUB", "channel"))
		link := server.Link("deaf", func(time.Duration, bool, int) Fate { return Fate{} })
		link.Deafen()
		deaf, err := link.GetContext(context.Background())
		require.NoError(t, err)
		require.Contains(t, ask(t, deaf, "SUBSCRIBE", "channel"), "error NOPERM")
		require.Equal(t, []any{[]byte("subscribe"), []byte("channel"), int64(1)}, ask(t, c, "SUBSCRIBE", "channel"))
		require.NoError(t, deaf.Close())
		require.NoError(t, c.Close())
	})
}

// A subscription can break alone: the client's other connections stay.
func TestSubscriptionsBreakAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, _ := simulation(t)
		link := server.Link("client", func(time.Duration, bool, int) Fate { return Fate{} })
		dial := func() redis.Conn {
			c, err := link.GetContext(context.Background())
			require.NoError(t, err)
			return c
		}
		ears, mouth := dial(), dial()
		require.Equal(t, []any{[]byte("subscribe"), []byte("channel"), int64(1)}, ask(t, ears, "SUBSCRIBE", "channel"))
		require.Equal(t, int64(1), ask(t, mouth, "PUBLISH", "channel", ""))
		link.BreakSubscriptions()
		require.Equal(t, int64(0), ask(t, mouth, "PUBLISH", "channel", ""))
		_, err := ears.Receive()
		require.NoError(t, err, "the message came before")
		_, err = ears.Receive()
		require.ErrorIs(t, err, errEOF)
		require.NoError(t, ears.Close())
		require.NoError(t, mouth.Close())
	})
}

func TestEachMessageHasItsFate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		world := NewWorld(nil)
		server := world.Server(0, func(now time.Duration) time.Duration { return now })
		fates := map[int]Fate{2: {Twice: true}, 3: {Lost: true}}
		link := server.Link("test", func(_ time.Duration, toServer bool, n int) Fate {
			if toServer {
				return fates[n]
			}
			return Fate{Delay: time.Millisecond}
		})
		conn, err := link.GetContext(context.Background())
		require.NoError(t, err)
		began := time.Now()
		require.Equal(t, int64(1), ask(t, conn, "HINCRBY", "h", "f", "1"))
		require.Equal(t, time.Millisecond, time.Since(began).Round(10*time.Microsecond))
		require.Equal(t, int64(2), ask(t, conn, "EVAL", "return redis.call('HINCRBY', 'h', 'f', 1)", "0"))
		require.Contains(t, ask(t, conn, "PING"), "error", "the request is lost, and the connection with it")
		require.NoError(t, conn.Close())

		conn, err = link.GetContext(context.Background())
		require.NoError(t, err)
		require.Equal(t, int64(4), ask(t, conn, "HINCRBY", "h", "f", "1"), "one was executed twice")
		server.Crash(false)
		require.Contains(t, ask(t, conn, "PING"), "error")
		_, err = link.GetContext(context.Background())
		require.ErrorIs(t, err, errRefused)
		server.Start(nil)
		conn, err = link.GetContext(context.Background())
		require.NoError(t, err)
		require.Equal(t, int64(1), ask(t, conn, "HINCRBY", "h", "f", "1"), "it forgot")
		require.NoError(t, conn.Close())
	})
}
