package integration

import (
	"context"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
	"github.com/redlock-go/redlock/internal/protocol"
)

// Rounds of the two alternate over the same connections. A share takes a script, where a lock
// takes plain commands.
func TestSoakRLockTakesAtMost40PercentLongerThanLock(t *testing.T) {
	soakOnly(t)
	const limit, pairs = 1.4, 2000
	nodes := cluster.Use(t, 5)
	client := openClient(t, nodes.URLs())
	awaitAllVotes(t, client, nodes)
	m := client.RWMutex("x")
	measure := func(lock func(context.Context) (*redlock.Lease, error)) float64 {
		took := make([]float64, 0, pairs)
		for range pairs {
			began := time.Now()
			lease, err := lock(t.Context())
			took = append(took, time.Since(began).Seconds()*1e6)
			require.NoError(t, err)
			require.NoError(t, lease.Unlock(t.Context()))
		}
		return median(took)
	}
	measure(m.Lock)
	measure(m.RLock)
	var ratios, noise []float64
	for round := range 5 {
		alone, share, again := measure(m.Lock), measure(m.RLock), measure(m.Lock)
		ratios = append(ratios, share/alone)
		noise = append(noise, again/alone)
		t.Logf("round %d: Lock %.0f µs, RLock %.0f µs, Lock again %.0f µs: %.2f, noise %.2f", round, alone, share, again, ratios[round], noise[round])
	}
	t.Logf("RLock takes %.2f times as long as Lock; Lock %.2f times as long as itself", median(ratios), median(noise))
	assert.LessOrEqual(t, median(ratios), limit)
}

// The server's own time for the scripts, as it counts that: a share and its release, and a
// lock by script and its release. The arguments are those that the client sends.
func TestSoakServerTimeOfAShareIsAtMost250PercentOfALocks(t *testing.T) {
	soakOnly(t)
	const limit, pairs = 2.5, 20_000
	nodes := cluster.Use(t, 5)
	client := openClient(t, nodes.URLs())
	awaitAllVotes(t, client, nodes)
	conn := connect(t, nodes[0].Addr())
	defer conn.Close()
	loadScripts(t, conn, protocol.Read, protocol.Acquire, protocol.Release)
	_, err := conn.Do("HSET", "record", "7", 1<<50)
	require.NoError(t, err)
	const lock, queue, readers = "redlock:y", "redlock::queue:redlock:y", "redlock::readers:redlock:y"
	release := []any{protocol.Release.SHA(), 3, lock, queue, readers, "owner"}
	perPair := func(acquire ...any) float64 { return serverTime(t, conn, pairs, acquire, release) }
	var ratios []float64
	for range 5 {
		share := perPair(protocol.Read.SHA(), 4, lock, "record", queue, readers, "owner", 10_000, "7", 1, "", "label", "", 0)
		alone := perPair(protocol.Acquire.SHA(), 2, lock, "record", "owner", 10_000, "7", 1, "1-A-1", "label", "", 0)
		ratios = append(ratios, share/alone)
		t.Logf("%.1f µs for a share and its release, %.1f µs for a lock by script and its release", share, alone)
	}
	t.Logf("a share takes %.2f times the server time of a lock by script", median(ratios))
	assert.LessOrEqual(t, median(ratios), limit)
}

// serverTime returns how many microseconds the server spends on a pair of scripts, as it counts that.
func serverTime(t *testing.T, conn redis.Conn, pairs int, acquire, release []any) float64 {
	t.Helper()
	_, err := conn.Do("CONFIG", "RESETSTAT")
	require.NoError(t, err)
	for range pairs {
		_, err := conn.Do("EVALSHA", acquire...)
		require.NoError(t, err)
		done, err := redis.Int64(conn.Do("EVALSHA", release...))
		require.NoError(t, err)
		require.EqualValues(t, 1, done, "it was granted, and is released")
	}
	return scriptTime(t, conn) / float64(pairs)
}

var evalshaTime = regexp.MustCompile(`cmdstat_evalsha:calls=\d+,usec=(\d+)`)

// scriptTime returns how many microseconds the server has spent on EVALSHA since CONFIG RESETSTAT.
func scriptTime(t *testing.T, conn redis.Conn) float64 {
	t.Helper()
	stats, err := redis.String(conn.Do("INFO", "commandstats"))
	require.NoError(t, err)
	found := evalshaTime.FindStringSubmatch(stats)
	require.NotNil(t, found, stats)
	usec, err := strconv.Atoi(found[1])
	require.NoError(t, err)
	return float64(usec)
}

// loadScripts loads scripts that a client loads only when it uses them.
func loadScripts(t *testing.T, conn redis.Conn, scripts ...*protocol.Script) {
	t.Helper()
	for _, s := range scripts {
		_, err := conn.Do("SCRIPT", "LOAD", s.Text())
		require.NoError(t, err)
	}
}

// 64 callers on one name, sections of a millisecond.
func TestSoakReadersGetFiveTimesTheSectionsOfAMutex(t *testing.T) {
	soakOnly(t)
	const limit, callers, phase = 5.0, 64, 3 * time.Second
	nodes := cluster.Use(t, 5)
	client := openClient(t, nodes.URLs(), redlock.WithNodeTimeout(loadTimeout))
	awaitAllVotes(t, client, nodes)
	sections := func(lock func(context.Context) (*redlock.Lease, error)) float64 {
		ctx, cancel := context.WithTimeout(t.Context(), phase)
		defer cancel()
		var done atomic.Int64
		var all sync.WaitGroup
		for range callers {
			all.Go(func() {
				for ctx.Err() == nil {
					lease, err := lock(ctx)
					if err != nil {
						return
					}
					time.Sleep(time.Millisecond)
					assert.NoError(t, lease.Unlock(t.Context()))
					done.Add(1)
				}
			})
		}
		all.Wait()
		return float64(done.Load()) / phase.Seconds()
	}
	m := client.RWMutex("x")
	var ratios []float64
	for round := range 5 {
		alone, shared := sections(m.Lock), sections(m.RLock)
		ratios = append(ratios, shared/alone)
		t.Logf("round %d: %.0f sections a second with a mutex, %.0f with shares", round, alone, shared)
	}
	t.Logf("shares give %.1f times the sections of a mutex", median(ratios))
	assert.GreaterOrEqual(t, median(ratios), limit)
}
