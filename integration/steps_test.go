package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/fence"
	"github.com/redlock-go/redlock/integration/chaos"
	"github.com/redlock-go/redlock/integration/cluster"
	"github.com/redlock-go/redlock/internal/test/long"
	"github.com/redlock-go/redlock/internal/test/testclient"
)

// Eight processes make steps under leases, while two servers of five fail at random. A sixth server is the store, whose
// values show whether two leases met.

// step is what a process does again and again. It returns what came of it: outcome 0 is that it got no lease.
type step = func(ctx context.Context, client *redlock.Client, store redis.Conn) (outcome int, err error)

// outcomes counts what came of steps.
type outcomes [4]int

// stepJob is the job of a process that makes steps. Its last line has its outcomes.
func stepJob(make step) func(args []string, lines <-chan string, say func(string, ...any)) error {
	return func(args []string, lines <-chan string, say func(string, ...any)) error {
		client, err := testclient.OpenInProcess(context.Background(), strings.Split(args[0], ","), redlock.WithTTL(tokensTTL),
			redlock.WithNodeTimeout(200*time.Millisecond), redlock.WithRestartGuard(tokensTTL), redlock.WithOwnerLabel(""))
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
		var came outcomes
		for ctx.Err() == nil {
			time.Sleep(rand.N(10 * time.Millisecond))
			outcome, err := make(ctx, client, store)
			if err != nil {
				return err
			}
			came[outcome]++
		}
		say("%d %d %d %d", came[0], came[1], came[2], came[3])
		return nil
	}
}

// stepWhileTwoFail runs the processes, and returns all outcomes.
func stepWhileTwoFail(t *testing.T, job string, nodes cluster.Nodes, length time.Duration) (all outcomes) {
	t.Helper()
	lockers, store := nodes[:5], nodes[5]
	workers := make([]*worker, 8)
	for i := range workers {
		workers[i] = startWorker(t, job, strings.Join(lockers.ProxyURLs(), ","), store.Addr())
	}
	for _, n := range lockers {
		awaitAdmission(t, n)
	}
	failTwoAtRandom(t, lockers, length)
	for i, w := range workers {
		var came outcomes
		_, err := fmt.Sscan(w.finish(t), &came[0], &came[1], &came[2], &came[3])
		require.NoError(t, err)
		assert.True(t, came != outcomes{came[0]} || !long.Tests(), "process %d never had a lease", i)
		for what, n := range came {
			all[what] += n
		}
	}
	t.Logf("steps without a lease, and others: %v", all)
	assertNoKeys(t, lockers)
	return all
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

// What comes of a step in which a process reads two values under a share, one after the other, or changes both alone.
const (
	readBoth = 1 + iota
	changedBoth
	cameTooLate
)

// The values are fenced: a writer that comes too late is refused, also by a token that a reader has shown.
func TestReadersSeeAConsistentPairWhileTwoServersFail(t *testing.T) {
	t.Parallel()
	notInShort(t)
	all := stepWhileTwoFail(t, "pairs", cluster.Use(t, 6), time.Minute)
	require.Greater(t, all[readBoth], 50)
	require.Greater(t, all[changedBoth], 20)
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

func changePair(ctx context.Context, client *redlock.Client, store redis.Conn) (outcome int, err error) {
	m := client.RWMutex("pair")
	if rand.N(3) > 0 {
		return readPair(ctx, m, store)
	}
	lease, err := m.Lock(ctx)
	if err != nil {
		return 0, nil //nolint:nilerr // too many servers fail, or the test is over
	}
	defer lease.Unlock(context.Background())
	if rand.N(10) == 0 {
		time.Sleep(rand.N(2 * tokensTTL)) // the write may come when the lease is over
	}
	if done, err := redis.Int(writePair.Do(store, "pair", lease.Token(), strconv.FormatInt(lease.Token(), 10))); done != 1 {
		return cameTooLate, err
	}
	return changedBoth, nil
}

// readPair reads the values one after the other. They count if the lease is valid after that,
// and must be equal then.
func readPair(ctx context.Context, m *redlock.RWMutex, store redis.Conn) (outcome int, err error) {
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
	return readBoth, nil
}

// bankAccounts are names of accounts, of their locks, and of their keys in the store.
var bankAccounts = []string{"account-1", "account-2", "account-3"}

const (
	openingBalance = 1000
	moved          = 1 // comes of a step in which a process moves money, or cameTooLate
)

// Processes move money between accounts, each transfer under a lock of both names. A process reads both balances, and
// writes them later: the sum stays only if nobody changes one of them meanwhile. Now and then a process is so slow that
// its lease has ended: then the store refuses its token for both accounts.
func TestTransfersKeepTheSumWhileTwoServersFail(t *testing.T) {
	t.Parallel()
	notInShort(t)
	nodes := cluster.Use(t, 6)
	for _, account := range bankAccounts {
		nodes[5].Do(t, "HSET", account, "value", openingBalance, "fence", 0)
	}
	all := stepWhileTwoFail(t, "transfers", nodes, time.Minute)
	sum := 0
	for _, account := range bankAccounts {
		balance, err := redis.Int(nodes[5].Do(t, "HGET", account, "value"), nil)
		require.NoError(t, err)
		sum += balance
	}
	require.Equal(t, len(bankAccounts)*openingBalance, sum)
	require.Greater(t, all[moved], 50)
	require.Positive(t, all[cameTooLate], "no transfer was late: the test shows less than it should")
}

// moveMoney sets two balances, if no greater token wrote one of them. It is fence.Set for two
// values.
var moveMoney = redis.NewScript(2, `
for _, account in ipairs(KEYS) do
  if tonumber(ARGV[1]) < tonumber(redis.call('HGET', account, 'fence')) then
    return 0
  end
end
redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'value', ARGV[2])
redis.call('HSET', KEYS[2], 'fence', ARGV[1], 'value', ARGV[3])
return 1`)

func makeTransfer(ctx context.Context, client *redlock.Client, store redis.Conn) (outcome int, err error) {
	order := rand.Perm(len(bankAccounts))[:2]
	names := []string{bankAccounts[order[0]], bankAccounts[order[1]]}
	accounts, takes := client.Multi(names), rand.N(10*time.Millisecond)
	if rand.N(10) == 0 { // the lease may be over before the transfer is made
		accounts, takes = client.Multi(names, redlock.WithoutRenewal()), rand.N(2*tokensTTL)
	}
	lease, err := accounts.Lock(ctx)
	if err != nil {
		return 0, nil //nolint:nilerr // too many servers fail, or the test is over
	}
	defer lease.Unlock(context.Background())
	var balances [2]int
	for i, account := range names {
		balances[i], err = redis.Int(fence.GetForUpdate(context.Background(), store, account, lease.Token()))
		switch {
		case errors.Is(err, fence.ErrStale):
			return cameTooLate, nil
		case err != nil:
			return 0, err
		}
	}
	time.Sleep(takes)
	amount := min(rand.N(100), balances[0])
	if done, err := redis.Bool(moveMoney.Do(store, names[0], names[1], lease.Token(), balances[0]-amount, balances[1]+amount)); !done {
		return cameTooLate, err
	}
	return moved, nil
}

// testPermits is how many permits the semaphore of the test has. What comes of a step is the number of those that it had.
const testPermits = 3

// Processes take one to three of three permits. Each writes down from when to when its lease said that it is valid, on
// the clock that all processes share: no slot is held twice at an instant, and its tokens increase.
func TestNeverMorePermitsThanThereAreWhileTwoServersFail(t *testing.T) {
	t.Parallel()
	length := time.Minute
	if !long.Tests() {
		length = 5 * time.Second // beside the start of servers, admission, and the end
	}
	nodes := cluster.Use(t, 6)
	all := stepWhileTwoFail(t, "permits", nodes, length)
	lines, err := redis.Strings(nodes[5].Do(t, "LRANGE", "held", 0, -1), nil)
	require.NoError(t, err)
	var held []permitHeld
	for _, line := range lines {
		var p permitHeld
		_, err := fmt.Sscan(line, &p.slot, &p.token, (*int64)(&p.from), (*int64)(&p.to))
		require.NoError(t, err, line)
		held = append(held, p)
	}
	require.Empty(t, faultsOfPermits(held))
	for n := 1; n <= testPermits; n++ {
		assert.Positive(t, all[n], "no lease of %d permits", n)
	}
}

// permitHeld is a permit that a lease had: from the first to the last instant at which the lease
// said that it is valid.
type permitHeld struct {
	slot     int
	token    int64
	from, to time.Duration
}

// faultsOfPermits returns what cannot be true of a semaphore.
func faultsOfPermits(all []permitHeld) (faults []string) {
	slices.SortFunc(all, func(a, b permitHeld) int { return int(a.from - b.from) })
	var last [testPermits]permitHeld // of each slot
	for _, p := range all {
		if p.slot < 0 || p.slot >= testPermits {
			faults = append(faults, fmt.Sprintf("there is no slot %d", p.slot))
			continue
		}
		before := last[p.slot]
		if last[p.slot] = p; before == (permitHeld{}) {
			continue
		}
		if p.from <= before.to {
			faults = append(faults, fmt.Sprintf("slot %d is held twice: %+v, %+v", p.slot, before, p))
		}
		if p.token <= before.token {
			faults = append(faults, fmt.Sprintf("tokens of slot %d do not increase: %+v, %+v", p.slot, before, p))
		}
	}
	return faults
}

func TestFaultsOfPermitsAreFound(t *testing.T) {
	t.Parallel()
	right := []permitHeld{{0, 5, 10, 20}, {1, 5, 12, 30}, {0, 6, 21, 22}, {2, 1, 11, 29}}
	require.Empty(t, faultsOfPermits(slices.Clone(right)))
	for want, wrong := range map[string]permitHeld{
		"there is no slot 3":   {3, 1, 50, 60},
		"slot 1 is held twice": {1, 6, 30, 40},
		"slot 0 is held twice": {0, 7, 19, 22},
		"tokens of slot 0":     {0, 6, 50, 60},
		"tokens of slot 2":     {2, 0, 50, 60},
	} {
		assert.Contains(t, strings.Join(faultsOfPermits(append(slices.Clone(right), wrong)), "\n"), want)
	}
}

func usePermits(ctx context.Context, client *redlock.Client, store redis.Conn) (outcome int, err error) {
	s, takes := client.Semaphore("permits", testPermits), rand.N(20*time.Millisecond)
	switch rand.N(50) {
	case 0: // it is renewed
		takes = tokensTTL/2 + rand.N(tokensTTL)
	case 1: // it ends by itself, or nearly so
		s, takes = client.Semaphore("permits", testPermits, redlock.WithoutRenewal()), rand.N(2*tokensTTL)
	}
	acquire := s.Acquire
	if rand.N(3) == 0 {
		acquire = s.TryAcquire
	}
	lease, err := acquire(ctx, 1+rand.N(testPermits))
	if err != nil {
		return 0, nil //nolint:nilerr // too few permits are free, too many servers fail, or the test is over
	}
	defer lease.Unlock(context.Background())
	from, to := watchLease(lease, takes)
	if to == 0 {
		return 0, nil
	}
	for _, slot := range lease.Slots() {
		if _, err := store.Do("RPUSH", "held", fmt.Sprintln(slot, lease.Token(), int64(from), int64(to))); err != nil {
			return 0, err
		}
	}
	return len(lease.Slots()), nil
}

// watchLease keeps a lease for so long, or to its end. It returns the first and the last instant
// at which the lease is known to have been valid; 0 if there is none. The clock is read before the
// lease is asked: it was valid then too.
func watchLease(lease *redlock.Lease, takes time.Duration) (from, to time.Duration) {
	for end := time.Now().Add(takes); ; time.Sleep(min(takes, 5*time.Millisecond)) {
		now := chaos.Now()
		if !lease.Valid() {
			return from, to
		}
		if from == 0 {
			from = now
		}
		if to = now; !time.Now().Before(end) {
			return from, to
		}
	}
}
