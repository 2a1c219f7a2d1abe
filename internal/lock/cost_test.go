package lock_test

import (
	"context"
	"crypto/fips140"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/system"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// Nodes that answer at once: the counts are the library's own, with the encoding of commands and the decoding of
// replies, and exact. Another library's connections allocate more.
func TestAllocationsOfALockAndAnUnlock(t *testing.T) {
	if testnet.RaceDetector {
		t.Skip("the race detector allocates")
	}
	if fips140.Enabled() {
		t.Skip("the tests' own randomness allocates")
	}
	c := instantClient(t)
	pair := func(m *redlock.Mutex) {
		lease, err := m.Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(t.Context()))
	}
	made := c.Mutex("x")
	before := testing.AllocsPerRun(1000, func() { pair(made) })
	byName := testing.AllocsPerRun(1000, func() { pair(c.Mutex("x")) })
	t.Logf("%v allocations with a Mutex made before, %v by name", before, byName)
	require.LessOrEqual(t, before, 5.0)
	require.LessOrEqual(t, byName, 10.0)
	bytes, byNameBytes := bytesPerRun(1000, func() { pair(made) }), bytesPerRun(1000, func() { pair(c.Mutex("x")) })
	t.Logf("%d bytes with a Mutex made before, %d by name", bytes, byNameBytes)
	require.LessOrEqual(t, bytes, 1000) // 4 300 if the attempt and the release are not used again
	require.LessOrEqual(t, byNameBytes, 1500)
}

// bytesPerRun returns how many bytes f allocates, on average.
func bytesPerRun(runs int, f func()) int {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var before, after runtime.MemStats
	f()
	runtime.ReadMemStats(&before)
	for range runs {
		f()
	}
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc-before.TotalAlloc) / runs
}

// Each reading of the clock is a system call of some 0.3 µs.
func TestALockItsRenewalAndItsReleaseReadTheClockFewTimes(t *testing.T) {
	var readings atomic.Int64
	c := instantClient(t, testhook.WithClock(func() time.Duration {
		readings.Add(1)
		return system.Now()
	}).(redlock.ClientOption))
	m := c.Mutex("x")
	const runs = 1000
	each := func(f func()) float64 {
		before := readings.Load()
		for range runs {
			f()
		}
		return float64(readings.Load()-before) / runs
	}
	pair := each(func() { lockAndUnlock(t, m) })
	lease, err := m.Lock(t.Context())
	require.NoError(t, err)
	renewal := each(func() { require.NoError(t, lease.Extend(t.Context())) })
	t.Logf("%.2f readings for a pair, %.2f for a renewal", pair, renewal)
	require.Less(t, pair, 5.0)
	require.Less(t, renewal, 5.0) // 6 if each late answer reads it
}

var (
	randomName = regexp.MustCompile(`[0-9A-Z]{26}`)
	ticketTime = regexp.MustCompile(`\d{16}-[0-9A-Z]{16}`)
)

// anonymous replaces what is random, or an instant: names by the order in which they occur.
func anonymous(lines []string) string {
	known := make(map[string]string)
	text := randomName.ReplaceAllStringFunc(strings.Join(lines, "\n")+"\n", func(name string) string {
		if known[name] == "" {
			known[name] = fmt.Sprintf("(name %d)", len(known)+1)
		}
		return known[name]
	})
	text = ticketTime.ReplaceAllString(text, "(instant)-(client)")
	return regexp.MustCompile(`wake:[0-9A-Z]+`).ReplaceAllString(text, "wake:(client)")
}

// recordingPool records what its connections send.
type recordingPool struct {
	redlock.Pool
	mu   sync.Mutex // protects sent
	sent []string
}

type recordingConn struct {
	testnet.Conn
	pool *recordingPool
}

func (p *recordingPool) GetContext(ctx context.Context) (redis.Conn, error) {
	conn, err := p.Pool.GetContext(ctx)
	if err != nil {
		return nil, err
	}
	return recordingConn{conn.(testnet.Conn), p}, nil
}

func (c recordingConn) Send(command string, args ...any) error {
	line := command
	for _, arg := range args {
		line += fmt.Sprintf(" %v", arg)
	}
	c.pool.mu.Lock()
	c.pool.sent = append(c.pool.sent, scriptNames.Replace(line))
	c.pool.mu.Unlock()
	return c.Conn.Send(command, args...)
}

// scriptNames replaces the hashes of a mutex's scripts: their texts change with the wait queue.
var scriptNames = strings.NewReplacer(protocol.Acquire.SHA().(string), "ACQUIRE", protocol.Renew.SHA().(string), "RENEW",
	protocol.Release.SHA().(string), "RELEASE")

// What a mutex sends does not change when other kinds of locks come: testdata/mutex-commands.txt
// has the commands as they were recorded before there were any, with the keys that release has
// got since, and the scripts' names for their hashes.
func TestMutexSendsTheRecordedCommands(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		pool := &recordingPool{Pool: net.Nodes[0]}
		client := func() *redlock.Client {
			c, err := redlock.New([]redlock.Pool{pool}, redlock.WithOwnerLabel("label"), redlock.WithLogger(nil), redlock.WithoutRenewal())
			require.NoError(t, err)
			net.Add(c)
			return c
		}
		a, b := client(), client()
		time.Sleep(15 * time.Second) // the node is admitted
		pool.mu.Lock()
		pool.sent = nil
		pool.mu.Unlock()
		holder := net.Must(a.Mutex("x").Lock(t.Context()))
		net.Held(b.Mutex("x").TryLock(t.Context()))
		require.NoError(t, holder.Extend(t.Context()))
		for _, wait := range []time.Duration{50 * ms, 300 * ms} { // with a parked attempt, and without
			next := net.Begin(b.Mutex("x").Lock)
			time.Sleep(wait)
			require.NoError(t, holder.Unlock(t.Context()))
			holder = <-next
			time.Sleep(ms)
			synctest.Wait()
		}
		require.NoError(t, holder.Unlock(t.Context()))
		synctest.Wait()

		pool.mu.Lock()
		defer pool.mu.Unlock()
		sent := slices.DeleteFunc(pool.sent, func(line string) bool { return strings.HasPrefix(line, "TIME") || strings.HasPrefix(line, "PING") })
		want, err := os.ReadFile(filepath.Join("testdata", "mutex-commands.txt"))
		require.NoError(t, err)
		require.Equal(t, string(want), anonymous(sent))
	})
}

// instantClient is a client of five nodes that answer at once.
func instantClient(t testing.TB, opts ...redlock.ClientOption) *redlock.Client {
	c, err := redlock.New(testnet.InstantPools(5), append([]redlock.ClientOption{redlock.WithLogger(nil), redlock.WithRestartGuard(0)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.Ping(context.Background()))
	return c
}

func lockAndUnlock(t testing.TB, m *redlock.Mutex) {
	lease, err := m.Lock(context.Background())
	if err == nil {
		err = lease.Unlock(context.Background())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// everyHook is a Trace whose hooks are all set, and do nothing.
func everyHook() *redlock.Trace {
	return &redlock.Trace{
		CallStart:   func(redlock.CallEvent) {},
		CallEnd:     func(redlock.CallEvent) {},
		BallotStart: func(redlock.BallotEvent) {},
		BallotVote:  func(redlock.BallotVote) {},
		BallotEnd:   func(redlock.BallotEvent) {},
		WaitStart:   func(redlock.WaitEvent) {},
		WaitEnd:     func(redlock.WaitEvent) {},
		Lease:       func(redlock.LeaseEvent) {},
		Node:        func(redlock.NodeEvent) {},
	}
}

func TestUnsetHooksAllocateNothing(t *testing.T) {
	if testnet.RaceDetector {
		t.Skip("the race detector allocates by itself")
	}
	cost := func(opts ...redlock.ClientOption) float64 {
		m := instantClient(t, opts...).Mutex("x")
		lockAndUnlock(t, m)
		return testing.AllocsPerRun(500, func() { lockAndUnlock(t, m) })
	}
	without := cost()
	require.Equal(t, without, cost(redlock.WithTrace(&redlock.Trace{})), "no hook is set")
	rare := &redlock.Trace{Node: func(redlock.NodeEvent) {}}
	require.Equal(t, without, cost(redlock.WithTrace(rare)), "a lock that goes well does not call it")
	every := cost(redlock.WithTrace(everyHook()))
	require.Greater(t, every, without, "events are allocated, or this counts nothing")
	const notUsedAgain = 3 // what a hook has seen
	require.LessOrEqual(t, every, without+34+notUsedAgain, "an event that begins is not copied")
}

func BenchmarkLockAndUnlock(b *testing.B) {
	for name, opts := range map[string][]redlock.ClientOption{
		"no-trace":    nil,
		"empty-trace": {redlock.WithTrace(&redlock.Trace{})},
		"every-hook":  {redlock.WithTrace(everyHook())},
	} {
		b.Run(name, func(b *testing.B) {
			c := instantClient(b, opts...)
			m := c.Mutex("x")
			b.ReportAllocs()
			for b.Loop() {
				lockAndUnlock(b, m)
			}
		})
		b.Run(name+"-parallel", func(b *testing.B) {
			c := instantClient(b, opts...)
			m := c.Mutex("x")
			b.ReportAllocs()
			b.SetParallelism(32)
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					lockAndUnlock(b, m)
				}
			})
		})
	}
}

// A set of free names waits for one more that is held. What another attempt on the same names costs
// a node grows with their number, not with its square: the node serves nobody else meanwhile.
func TestRefusedAttemptOnASetCostsAsMuchAsItsNames(t *testing.T) {
	cost := make(map[int]int)
	for _, many := range []int{8, 32} {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			holder, c, d := net.Client(), testnet.ListeningClient(t, net), net.Client()
			var names []string
			for i := range many {
				names = append(names, fmt.Sprintf("n%02d", i))
			}
			held := net.Must(holder.Mutex(names[many-1]).Lock(t.Context()))
			ctx, leave := context.WithCancel(t.Context())
			go func() { _, _ = c.Multi(names).Lock(ctx) }()
			time.Sleep(100 * ms)
			n := net.Nodes[0]
			n.Set(func(n *testnet.Node) { n.Log = nil })
			_, err := d.Multi(names).TryLock(t.Context())
			require.Error(t, err)
			time.Sleep(10 * ms) // the verdict needs two nodes
			n.Set(func(n *testnet.Node) { cost[many] = len(n.Log) })
			leave()
			require.NoError(t, held.Unlock(t.Context()))
		})
	}
	t.Logf("commands that the script calls, by the number of names: %v", cost)
	assert.LessOrEqual(t, cost[32], 5*cost[8])
}
