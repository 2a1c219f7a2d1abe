package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/fence"
	"github.com/redlock-go/redlock/integration/cluster"
	"github.com/redlock-go/redlock/internal/test/testclient"
)

// Eight processes read two values under a share, one after the other, and change both alone,
// while two servers of five fail at random. The values are fenced: a writer that comes too late
// is refused, also by a token that a reader has shown.
func TestReadersSeeAConsistentPairWhileTwoServersFail(t *testing.T) {
	t.Parallel()
	notInShort(t)
	const processes = 8
	nodes := cluster.Use(t, 6)
	lockers, store := nodes[:5], nodes[5]
	workers := make([]*worker, processes)
	for i := range workers {
		workers[i] = startWorker(t, "pairs", strings.Join(lockers.ProxyURLs(), ","), store.Addr())
	}
	failTwoAtRandom(t, lockers, time.Minute)
	var reads, writes, stale int
	for _, w := range workers {
		var r, wr, s int
		_, err := fmt.Sscan(w.finish(t), &r, &wr, &s)
		require.NoError(t, err)
		reads, writes, stale = reads+r, writes+wr, stale+s
	}
	t.Logf("%d consistent pairs, %d changes, %d came too late and were refused", reads, writes, stale)
	require.Greater(t, reads, 50)
	require.Greater(t, writes, 20)
	assertNoKeys(t, lockers)
}

// failTwoAtRandom freezes, cuts off or kills two of five servers again and again, for so long. A
// minority forgets at a time: the next fault waits until the servers are admitted.
func failTwoAtRandom(t *testing.T, nodes cluster.Nodes, lasts time.Duration) {
	faults := []func(n cluster.Nodes) (end func()){
		func(n cluster.Nodes) func() { n.Freeze(t); return func() { n.Thaw(t) } },
		func(n cluster.Nodes) func() { n.Cut(); return n.Heal },
		func(n cluster.Nodes) func() { n.Kill(t); return func() { n.Start(t) } },
	}
	for deadline := time.Now().Add(lasts); time.Now().Before(deadline); {
		first := rand.N(5)
		second := (first + 1 + rand.N(4)) % 5
		end := faults[rand.N(len(faults))](nodes.Pick(first, second))
		time.Sleep(300*time.Millisecond + rand.N(700*time.Millisecond))
		end()
		for _, n := range nodes.Pick(first, second) {
			awaitAdmission(t, n)
		}
	}
}

// writePair sets both values, if no greater token wrote them and no such or greater one read
// them. It is fence.Set for two values.
var writePair = redis.NewScript(1, `
local write = tonumber(redis.call('HGET', KEYS[1], 'fence') or '0')
local read = tonumber(redis.call('HGET', KEYS[1], 'read') or '0')
local token = tonumber(ARGV[1])
if token < write or token <= read then
  return 0
end
redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'value', ARGV[2], 'other', ARGV[2])
return 1`)

// changePairs is the job of a process: it reads the pair under a share, or changes it alone. Its
// last line has the number of pairs that it read, of those that it changed, and of those
// refused.
func changePairs(args []string, lines <-chan string, say func(string, ...any)) error {
	client, err := testclient.OpenInProcess(context.Background(), strings.Split(args[0], ","), redlock.WithTTL(tokensTTL),
		redlock.WithNodeTimeout(200*time.Millisecond), redlock.WithRestartGuard(tokensTTL))
	if err != nil {
		return err
	}
	defer client.Close()
	store, err := redis.Dial("tcp", args[1])
	if err != nil {
		return err
	}
	defer store.Close()
	ctx, cancel := untilInputEnds(lines)
	defer cancel()
	m := client.RWMutex("pair")
	var reads, writes, stale int
	for ctx.Err() == nil {
		time.Sleep(rand.N(10 * time.Millisecond))
		if rand.N(3) > 0 {
			counted, err := readPair(ctx, m, store)
			if err != nil {
				return err
			}
			reads += counted
			continue
		}
		lease, err := m.Lock(ctx)
		if err != nil {
			continue
		}
		if rand.N(10) == 0 {
			time.Sleep(rand.N(2 * tokensTTL)) // the write may come when the lease is over
		}
		done, err := redis.Int(writePair.Do(store, "pair", lease.Token(), strconv.FormatInt(lease.Token(), 10)))
		if err != nil {
			return err
		}
		if done == 1 {
			writes++
		} else {
			stale++
		}
		_ = lease.Unlock(context.Background())
	}
	say("%d %d %d", reads, writes, stale)
	return nil
}

// readPair reads the values one after the other. They count if the lease is valid after that,
// and must be equal then.
func readPair(ctx context.Context, m *redlock.RWMutex, store redis.Conn) (counted int, err error) {
	lease, err := m.RLock(ctx)
	if err != nil {
		return 0, nil //nolint:nilerr // too many servers fail, or the test is over
	}
	defer lease.Unlock(context.Background())
	value, err := fence.Get(context.Background(), store, "pair", lease.Token())
	switch {
	case errors.Is(err, fence.ErrStale), errors.Is(err, redis.ErrNil):
		return 0, nil
	case err != nil:
		return 0, err
	}
	time.Sleep(rand.N(20 * time.Millisecond))
	other, err := redis.String(store.Do("HGET", "pair", "other"))
	switch {
	case err != nil:
		return 0, err
	case !lease.Valid():
		return 0, nil
	case string(value) != other:
		return 0, fmt.Errorf("a reader with token %d sees %s and %s", lease.Token(), value, other)
	}
	return 1, nil
}
