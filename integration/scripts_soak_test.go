package integration

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
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

var scriptsBefore = flag.String("scripts.before", "", "another tree of this repository, whose scripts TestSoakServerTimeOfEachScript runs in turn with these")

// price is one kind of lock, and the calls of its scripts that meet nobody, as the client sends them.
type price struct {
	kind  string
	calls []pricedCall
}

type pricedCall struct {
	script string
	args   func(i int) []any // of the lock with this number
	answer string            // a part of every reply; all counts have granted in them
}

// prices returns the kinds. All names of a lock are its own, so that a script of one lock meets no other.
func prices() []price {
	const least, granted, list = 1 << 50, "11258", "0123456789abcdef"
	set := func(i int) (names []string) {
		for _, letter := range []string{"a", "b", "c"} {
			names = append(names, fmt.Sprintf("redlock:%s%d", letter, i))
		}
		return names
	}
	keys := func(names []string, kinds ...string) (all []any) {
		for _, kind := range kinds {
			for _, name := range names {
				if kind != "" {
					name = protocol.Key(kind, name)
				}
				all = append(all, name)
			}
		}
		return all
	}
	call := func(keys []any, args ...any) []any { return append(append([]any{len(keys)}, keys...), args...) }
	one := func(i int) []string { return []string{fmt.Sprintf("redlock:x%d", i)} }
	semaphore := func(i int) (keys []any, base string) {
		base = fmt.Sprintf("redlock:s%d", i)
		return []any{protocol.Key("slots", base)}, base + "#"
	}
	return []price{
		{"mutex", []pricedCall{
			{"acquire", func(i int) []any {
				return call(append(keys(one(i), ""), "record"), "owner", 60_000, "7", least, "1-A-1", "label", "", 0)
			}, granted},
			{"renew", func(i int) []any { return call(append(keys(one(i), ""), "record", "members"), "owner", 60_000, list) }, "1"},
			{"release", func(i int) []any { return call(keys(one(i), "", "queue", "readers"), "owner") }, "1"},
		}},
		{"set of three", []pricedCall{
			{"acquireall", func(i int) []any {
				return call(append(keys(set(i), "", "queue"), "record"), "owner", 60_000, "7,8,9", least, "", "label", "", 0)
			}, granted},
			{"renewall", func(i int) []any { return call(append(keys(set(i), ""), "record", "members"), "owner", 60_000, list) }, "1"},
			{"releaseall", func(i int) []any { return call(keys(set(i), "", "queue", "readers"), "owner") }, "1"},
		}},
		{"share", []pricedCall{
			{"read", func(i int) []any {
				return call(append(append(keys(one(i), ""), "record"), keys(one(i), "queue", "readers")...), "owner", 60_000, "7", least, "", "label", "", 0)
			}, granted},
			{"keep", func(i int) []any {
				all := append(append(keys(one(i), ""), "record"), keys(one(i), "queue", "readers")...)
				return call(append(all, "members"), "owner", 60_000, list, "")
			}, "1"},
			{"release", func(i int) []any { return call(keys(one(i), "", "queue", "readers"), "owner") }, "1"},
		}},
		{"permit of ten", []pricedCall{
			{"permit", func(i int) []any {
				k, base := semaphore(i)
				return call(append(k, "record"), "owner", 60_000, "7", least, "", "label", base, 10, 1, 0)
			}, granted},
			// By the seed 0 the slot 2 is tried first.
			{"giveback", func(i int) []any { k, base := semaphore(i); return call(k, "owner", base, 10, 2) }, "1"},
		}},
	}
}

// The server's own time for each script where it meets nobody, as the server counts that. The calls are
// pipelined, so that the server does not sleep between them. With -scripts.before the scripts of
// another tree run in turn with these, on the same server.
func TestSoakServerTimeOfEachScript(t *testing.T) {
	soakOnly(t)
	const rounds = 5
	nodes := cluster.Use(t, 1)
	conn := connect(t, nodes[0].Addr())
	defer conn.Close()
	trees := []map[string]string{textsOf(protocol.All)}
	if *scriptsBefore != "" {
		trees = append(trees, textsIn(t, *scriptsBefore))
	}
	now := make(map[string]float64) // by kind and script
	for _, p := range prices() {
		took := make([]map[string][]float64, len(trees)) // by script, of each tree: one figure for each round
		for i := range trees {
			took[i] = make(map[string][]float64)
		}
		for range rounds {
			p.measure(t, conn, trees, took)
		}
		for _, c := range p.calls {
			us := took[0][c.script]
			now[c.script+" of a "+p.kind] = median(us)
			line := fmt.Sprintf("%-14s %-11s %5.1f µs", p.kind, c.script, median(us))
			if len(trees) == 2 {
				before, ratios := took[1][c.script], make([]float64, rounds)
				for i := range ratios {
					ratios[i] = us[i] / before[i]
				}
				line += fmt.Sprintf(", before %5.1f µs: %.2f of it, in the rounds %.2f", median(before), median(ratios), ratios)
			}
			t.Log(line)
		}
	}
	acquire, release := now["acquireall of a set of three"]/now["acquire of a mutex"], now["releaseall of a set of three"]/now["release of a mutex"]
	t.Logf("a set of three takes %.1f times the server time of a lock by script, its release %.1f times that of a lock", acquire, release)
	assert.LessOrEqual(t, acquire, 4.0)
	assert.LessOrEqual(t, release, 3.0)
}

// measure adds to took, for each script of each tree, how many microseconds a call takes. Other programs on
// the machine make a batch of calls slower, never faster: the least time counts.
func (p price) measure(t *testing.T, conn redis.Conn, trees []map[string]string, took []map[string][]float64) {
	t.Helper()
	const batches, locks = 40, 100
	_, err := conn.Do("FLUSHALL")
	require.NoError(t, err)
	_, err = conn.Do("SCRIPT", "FLUSH")
	require.NoError(t, err)
	_, err = conn.Do("HSET", "record", "about", strings.Repeat("a hash table, as a node's record is", 2), "7", 1<<50, "8", 1<<50, "9", 1<<50)
	require.NoError(t, err)
	_, err = conn.Do("HSET", "members", "id", "0123456789abcdef")
	require.NoError(t, err)
	hashes := make([]map[string]string, len(trees))
	for i, tree := range trees {
		hashes[i] = make(map[string]string)
		for _, c := range p.calls {
			hashes[i][c.script], err = redis.String(conn.Do("SCRIPT", "LOAD", tree[c.script]))
			require.NoError(t, err)
			took[i][c.script] = append(took[i][c.script], math.Inf(1))
		}
	}
	for range batches {
		for i := range trees {
			for _, c := range p.calls {
				us := took[i][c.script]
				last := &us[len(us)-1]
				*last = min(*last, p.batch(t, conn, hashes[i][c.script], c, locks))
			}
		}
	}
}

// batch calls a script for each of so many locks, and returns the microseconds that the server spends on one.
func (p price) batch(t *testing.T, conn redis.Conn, sha string, c pricedCall, locks int) float64 {
	t.Helper()
	_, err := conn.Do("CONFIG", "RESETSTAT")
	require.NoError(t, err)
	for i := range locks {
		require.NoError(t, conn.Send("EVALSHA", append([]any{sha}, c.args(i)...)...))
	}
	require.NoError(t, conn.Flush())
	for range locks {
		reply, err := conn.Receive()
		require.NoError(t, err)
		require.Contains(t, fmt.Sprint(reply), c.answer, "%s of a %s: it meets nobody", c.script, p.kind)
	}
	return scriptTime(t, conn) / float64(locks)
}

// textsOf returns the scripts' texts by their names.
func textsOf(scripts []*protocol.Script) map[string]string {
	texts := make(map[string]string)
	for _, s := range scripts {
		texts[s.Name] = s.Text().(string)
	}
	return texts
}

// textsIn returns the scripts' texts in another tree. It runs a program there that is in no file of that tree.
func textsIn(t *testing.T, tree string) (texts map[string]string) {
	t.Helper()
	const program = `package main

import (
	"encoding/json"
	"os"

	"github.com/redlock-go/redlock/internal/protocol"
)

func main() {
	texts := make(map[string]any)
	for _, s := range protocol.All {
		texts[s.Name] = s.Text()
	}
	_ = json.NewEncoder(os.Stdout).Encode(texts)
}
`
	tree, err := filepath.Abs(tree)
	require.NoError(t, err)
	dir := t.TempDir()
	file, overlay := filepath.Join(dir, "main.go"), filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(file, []byte(program), 0o600))
	replaced, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(tree, "internal/printscripts/main.go"): file}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(overlay, replaced, 0o600))
	run := exec.Command("go", "run", "-overlay="+overlay, "./internal/printscripts")
	run.Dir, run.Stderr = tree, os.Stderr
	out, err := run.Output()
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(out, &texts))
	return texts
}

// The server's own time, as it counts that: for one of ten permits and its release, and for a lock by
// script and its release. The arguments are those that the client sends.
func TestSoakServerTimeOfAPermitIsAtMost250PercentOfALocks(t *testing.T) {
	soakOnly(t)
	const limit, batches, pairs = 2.5, 40, 1000
	nodes := cluster.Use(t, 5)
	client := openClient(t, nodes.URLs())
	awaitAllVotes(t, client, nodes)
	conn := connect(t, nodes[0].Addr())
	defer conn.Close()
	loadScripts(t, conn, protocol.Permit, protocol.GiveBack, protocol.Acquire, protocol.Release)
	_, err := conn.Do("HSET", "record", "7", 1<<50, "8", 1<<50, "16", 1<<50)
	require.NoError(t, err)
	const lock, queue, base = "redlock:y", "redlock::slots:redlock:x", "redlock:x#"
	takeLock := []any{protocol.Acquire.SHA(), 2, lock, "record", "owner", 10_000, "7", 1, "1-A-1", "label", "", 0}
	release := []any{protocol.Release.SHA(), 3, lock, "redlock::queue:" + lock, "redlock::readers:" + lock, "owner"}
	// By the seed 0 the slots are tried in the order 2, 3, 8, 7, 6, 0, 1, 5, 9, 4.
	takePermit := []any{protocol.Permit.SHA(), 2, queue, "record", "owner", 10_000, "7", 1, "", "label", base, 10, 1, 0}
	giveBack := func(slot int) []any {
		return []any{protocol.GiveBack.SHA(), 1, queue, "owner", base, 10, slot}
	}
	// Other programs on the machine make a batch slower, never faster: the least time counts.
	permit, last, alone := math.Inf(1), math.Inf(1), math.Inf(1)
	for range batches {
		permit = min(permit, serverTime(t, conn, pairs, takePermit, giveBack(2)))
		alone = min(alone, serverTime(t, conn, pairs, takeLock, release))
		for _, slot := range []int{0, 1, 2, 3, 5, 6, 7, 8, 9} {
			_, err := conn.Do("SET", fmt.Sprint(base, slot), "another", "PX", 600_000)
			require.NoError(t, err)
		}
		last = min(last, serverTime(t, conn, pairs, takePermit, giveBack(4)))
		for _, slot := range []int{0, 1, 2, 3, 5, 6, 7, 8, 9} {
			_, err := conn.Do("DEL", fmt.Sprint(base, slot))
			require.NoError(t, err)
		}
	}
	t.Logf("a permit of ten and its release: %.1f µs; the last of ten, found at the end: %.1f µs; a lock by script and its release: %.1f µs", permit, last, alone)
	t.Logf("a permit takes %.2f times the server time of a lock, the last of ten %.2f times", permit/alone, last/alone)
	assert.LessOrEqual(t, permit/alone, limit)
}

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
