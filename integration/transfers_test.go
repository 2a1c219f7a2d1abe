package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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

// bankAccounts are names of accounts, of their locks, and of their keys in the store.
var bankAccounts = []string{"account-1", "account-2", "account-3"}

const openingBalance = 1000

// Eight processes move money between accounts, each transfer under a lock of both names, while two
// servers of five fail at random. A process reads both balances, and writes them later: the sum
// stays only if nobody changes one of them meanwhile. Now and then a process is so slow that its
// lease has ended: then the store refuses its token for both accounts.
func TestTransfersKeepTheSumWhileTwoServersFail(t *testing.T) {
	t.Parallel()
	notInShort(t)
	nodes := cluster.Use(t, 6)
	lockers, store := nodes[:5], nodes[5]
	bank, err := redis.Dial("tcp", store.Addr())
	require.NoError(t, err)
	defer bank.Close()
	for _, account := range bankAccounts {
		_, err := bank.Do("HSET", account, "value", openingBalance, "fence", 0)
		require.NoError(t, err)
	}
	workers := make([]*worker, 8)
	for i := range workers {
		workers[i] = startWorker(t, "transfers", strings.Join(lockers.ProxyURLs(), ","), store.Addr())
	}
	failTwoAtRandom(t, lockers, time.Minute)
	var made, stale int
	for _, w := range workers {
		var m, s int
		_, err := fmt.Sscan(w.finish(t), &m, &s)
		require.NoError(t, err)
		made, stale = made+m, stale+s
	}
	sum := 0
	for _, account := range bankAccounts {
		balance, err := redis.Int(bank.Do("HGET", account, "value"))
		require.NoError(t, err)
		sum += balance
	}
	t.Logf("%d transfers, %d came too late and were refused", made, stale)
	require.Equal(t, len(bankAccounts)*openingBalance, sum)
	require.Greater(t, made, 50)
	require.Positive(t, stale, "no transfer was late: the test shows less than it should")
	assertNoKeys(t, lockers)
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

// makeTransfers is the job of a process. Its last line has the number of transfers that it made,
// and of those refused.
func makeTransfers(args []string, lines <-chan string, say func(string, ...any)) error {
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
	var made, stale int
	for ctx.Err() == nil {
		time.Sleep(rand.N(10 * time.Millisecond))
		order := rand.Perm(len(bankAccounts))
		from, to := bankAccounts[order[0]], bankAccounts[order[1]]
		accounts, takes := client.Multi([]string{from, to}), rand.N(10*time.Millisecond)
		if rand.N(10) == 0 { // the lease may be over before the transfer is made
			accounts, takes = client.Multi([]string{from, to}, redlock.WithoutRenewal()), rand.N(2*tokensTTL)
		}
		lease, err := accounts.Lock(ctx)
		if err != nil {
			continue // too many servers fail, or the test is over
		}
		done, err := moveSome(store, from, to, lease.Token(), takes)
		switch {
		case err != nil:
			return err
		case done:
			made++
		default:
			stale++
		}
		_ = lease.Unlock(context.Background())
	}
	say("%d %d", made, stale)
	return nil
}

// moveSome makes a transfer that takes so long. It returns false if it came too late, and was
// refused.
func moveSome(store redis.Conn, from, to string, token int64, takes time.Duration) (done bool, err error) {
	var balances [2]int
	for i, account := range []string{from, to} {
		balances[i], err = redis.Int(fence.GetForUpdate(context.Background(), store, account, token))
		switch {
		case errors.Is(err, fence.ErrStale):
			return false, nil
		case err != nil:
			return false, err
		}
	}
	time.Sleep(takes)
	amount := min(rand.N(100), balances[0])
	return redis.Bool(moveMoney.Do(store, from, to, token, balances[0]-amount, balances[1]+amount))
}
