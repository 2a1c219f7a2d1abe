package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/lease"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestErrorsOfBadSettingsNameTheBrokenRelation(t *testing.T) {
	for want, opts := range map[string][]redlock.ClientOption{
		"the ttl must be between 50ms and a year": {redlock.WithTTL(49 * ms)},
		"WithTTL(-1s)":                                         {redlock.WithTTL(-time.Second)},
		"WithTTL(8761h0m0s)":                                   {redlock.WithTTL(8761 * time.Hour)},
		"the node timeout must be at least 1ms":                {redlock.WithNodeTimeout(0)},
		"the factor must be at least 0 and below 1":            {redlock.WithDrift(1, 0)},
		"WithDrift(NaN":                                        {redlock.WithDrift(math.NaN(), 0)},
		"the base must not be negative":                        {redlock.WithDrift(0, -1)},
		"and less than the ttl":                                {redlock.WithDrift(0.5, math.MaxInt64)},
		"and less than half of the ttl":                        {redlock.WithNodeTimeout(math.MaxInt64)},
		"at most 256 are allowed":                              {redlock.WithOwnerLabel(strings.Repeat("x", 257))},
		"the ttl (1s) must exceed the drift allowanc":          {redlock.WithTTL(time.Second), redlock.WithNodeTimeout(500 * ms)},
		"the ttl (1s) must exceed the drift allowance (950ms)": {redlock.WithTTL(time.Second), redlock.WithDrift(0.95, 0)},
		"plus two node timeouts (2 × 494ms)":                   {redlock.WithTTL(time.Second), redlock.WithNodeTimeout(494 * ms)},
		"option 1 is nil":                                      {redlock.WithTTL(time.Second), nil},
	} {
		t.Run(want, func(t *testing.T) {
			_, err := redlock.New([]redlock.Pool{&redis.Pool{}}, opts...)
			require.ErrorIs(t, err, redlock.ErrConfig)
			require.ErrorContains(t, err, want)
			_, err = redlock.Open([]string{"redis://127.0.0.1:1"}, opts...)
			require.ErrorIs(t, err, redlock.ErrConfig)
		})
	}
	var none redlock.Option
	_, err := redlock.New([]redlock.Pool{&redis.Pool{}}, none)
	require.ErrorContains(t, err, "option 0 is nil")
	c, err := redlock.New([]redlock.Pool{&redis.Pool{}}, redlock.WithTTL(time.Second), redlock.WithNodeTimeout(493*ms), redlock.WithLogger(nil))
	require.NoError(t, err, "1s > 12ms + 2 × 493ms")
	require.NoError(t, c.Close())
}

func TestErrorsOfBadPoolsNameThem(t *testing.T) {
	var none *redis.Pool
	for want, pools := range map[string][]redlock.Pool{
		"no pools":             nil,
		"pool 2 of 2 is nil":   {&redis.Pool{}, nil},
		"pool 1 of 1 is nil":   {none},
		"65 pools: at most 64": make([]redlock.Pool, 65),
	} {
		_, err := redlock.New(pools)
		require.ErrorIs(t, err, redlock.ErrConfig)
		require.ErrorContains(t, err, want)
	}
	_, err := redlock.Open(nil)
	require.ErrorIs(t, err, redlock.ErrConfig)
	require.ErrorContains(t, err, "no pools")
}

func TestLockReportsBadSettingsOfItsMutex(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		c := net.Client(redlock.WithTTL(2 * time.Second))
		for want, m := range map[string]*redlock.Mutex{
			"the lock's name is empty":     c.Mutex(""),
			"must exceed the drift":        c.Mutex("x", redlock.WithNodeTimeout(time.Second)),
			"option 1 is nil":              c.Mutex("x", redlock.WithTTL(time.Second), nil),
			"the ttl must be between 50ms": c.Mutex("x", redlock.WithTTL(0)),
		} {
			_, err := m.Lock(t.Context())
			require.ErrorIs(t, err, redlock.ErrConfig)
			require.ErrorContains(t, err, want)
			_, err = m.TryLock(t.Context())
			require.ErrorIs(t, err, redlock.ErrConfig)
		}
		require.Zero(t, net.Nodes[0].Executed("acquire"))
	})
}

func TestNodeTimeoutFollowsTheTTL(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		for ttl, want := range map[time.Duration]time.Duration{
			50 * ms:          5 * ms,
			time.Second:      50 * ms,
			10 * time.Second: 500 * ms,
			time.Hour:        500 * ms,
		} {
			net.Nodes[0].Thaw()
			c := net.Client(redlock.WithTTL(ttl))
			net.Nodes[0].Freeze()
			silent := net.NoQuorum(c.Mutex("x").TryLock(t.Context()))
			require.Equal(t, want, silent.Elapsed)
		}
	})
}

func TestTTLIsRoundedUpToMilliseconds(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		c := net.Client(redlock.WithTTL(1500*ms+1), redlock.WithDrift(0, 0))
		lease := net.Must(c.Mutex("x").Lock(t.Context()))
		require.Equal(t, 1501*ms, lease.Remaining(), "the nodes count milliseconds")
	})
}

func TestMutexOverridesTheClientsSettings(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client(redlock.WithTTL(20*time.Second), redlock.WithPrefix("app:"), redlock.WithOwnerLabel("worker 7"))
		lease := net.Must(c.Mutex("x", redlock.WithTTL(time.Second), redlock.WithPrefix("")).Lock(t.Context()))
		require.Contains(t, lease.Owner(), "@worker 7")
		require.Equal(t, "worker 7", lease.Label())
		require.Less(t, lease.Remaining(), time.Second)
		synctest.Wait()
		v, err := net.Nodes[0].Redis.Get("x")
		require.NoError(t, err)
		require.Equal(t, lease.Owner(), v)
		require.NoError(t, lease.Unlock(t.Context()))

		lease = net.Must(c.Mutex("x", redlock.WithOwnerLabel("")).Lock(t.Context()))
		require.NotContains(t, lease.Owner(), "@")
		require.Empty(t, lease.Label())
		synctest.Wait()
		require.True(t, net.Nodes[0].Redis.Exists("app:x"))
		require.Greater(t, lease.Remaining(), 19*time.Second)
		require.NoError(t, lease.Unlock(t.Context()))
	})
}

// refusingPool has no connections.
type refusingPool struct{}

func (refusingPool) GetContext(context.Context) (redis.Conn, error) { return nil, testnet.ErrRefused }

// The bounds of WithTTL.
const (
	shortestTTL = 50 * time.Millisecond
	longestTTL  = 365 * 24 * time.Hour
)

// Settings are refused as ErrConfig, or fit together.
func FuzzOptions(f *testing.F) {
	f.Add(uint16(0), int64(0), int64(0), 0.0, int64(0), int64(0), int64(0), int64(0), "", "")
	f.Add(uint16(0b1_1111_1111), int64(10*time.Second), int64(time.Second), 0.01, int64(2*time.Millisecond), int64(time.Second), int64(time.Minute), int64(time.Hour), "me", ":record")
	f.Add(uint16(0b1111), int64(shortestTTL), int64(5*time.Millisecond), math.Nextafter(1, 0), int64(0), int64(time.Millisecond), int64(shortestTTL), int64(1), "", "redlock:")
	f.Add(uint16(0b10_0011_0111), int64(longestTTL), int64(longestTTL), math.NaN(), int64(longestTTL), int64(longestTTL), int64(longestTTL), int64(longestTTL), "", "")
	f.Add(uint16(0b100000), int64(0), int64(0), 0.0, int64(0), int64(0), int64(math.MaxInt64), int64(0), "", "")
	f.Add(uint16(0b11), int64(time.Second), int64(500*time.Millisecond), 0.0, int64(0), int64(0), int64(0), int64(0), "", "")
	f.Add(uint16(0b1001), int64(time.Second), int64(0), 0.0, int64(0), int64(time.Second), int64(0), int64(0), "", "")
	f.Add(uint16(0b100), int64(0), int64(0), 0.0, int64(-time.Second), int64(0), int64(0), int64(0), "", "")
	f.Add(uint16(0b100), int64(0), int64(0), -1.0, int64(0), int64(0), int64(0), int64(0), "", "")
	f.Add(uint16(1<<15+0b1_1000_0000), int64(0), int64(0), 0.0, int64(0), int64(0), int64(0), int64(0), "label", "redlock::")
	f.Fuzz(func(t *testing.T, which uint16, ttl, timeout int64, factor float64, base, every, hold, guard int64, label, prefix string) {
		all := []redlock.Option{
			redlock.WithTTL(time.Duration(ttl)), redlock.WithNodeTimeout(time.Duration(timeout)), redlock.WithDrift(factor, time.Duration(base)),
			redlock.WithRenewEvery(time.Duration(every)), redlock.WithoutRenewal(), redlock.WithMaxHold(time.Duration(hold)),
			nil /* WithRestartGuard, a ClientOption */, redlock.WithOwnerLabel(label), redlock.WithPrefix(prefix), redlock.WithoutFencing(),
		}
		ofClient, ofMutex := []redlock.ClientOption{redlock.WithLogger(nil)}, []redlock.LockOption(nil)
		for i, o := range all {
			switch {
			case which>>i&1 == 0:
			case o == nil:
				ofClient = append(ofClient, redlock.WithRestartGuard(time.Duration(guard)))
			case which>>15 == 1:
				ofMutex = append(ofMutex, o)
			default:
				ofClient = append(ofClient, o)
			}
		}
		c, err := redlock.New([]redlock.Pool{refusingPool{}}, ofClient...)
		if err != nil {
			require.ErrorIs(t, err, redlock.ErrConfig)
			require.Nil(t, c)
			return
		}
		defer c.Close()
		m := c.Mutex("x", ofMutex...)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err = m.TryLock(ended); errors.Is(err, redlock.ErrConfig) {
			return
		}
		require.ErrorIs(t, err, context.Canceled)
		requireFit(t, c, m, which>>4&1 == 0)
	})
}

// requireFit checks the relations between a Mutex's settings, and that a lease which is
// granted at once is of use. renews says that leases renew themselves.
func requireFit(t *testing.T, c *redlock.Client, m *redlock.Mutex, renews bool) {
	e, l := testhook.Engine(c), testhook.Lock(m)
	o := l.Terms().Lease
	require.GreaterOrEqual(t, o.TTL, shortestTTL)
	require.Zero(t, o.TTL%time.Millisecond)
	require.Positive(t, o.NodeTimeout)
	require.LessOrEqual(t, o.Validity, o.TTL, "the drift allowance is not negative")
	require.Less(t, 2*o.NodeTimeout, o.Validity)
	require.Equal(t, renews, o.RenewEvery > 0)
	if renews {
		require.Less(t, o.RenewEvery+o.NodeTimeout, o.Validity, "a renewal can end in time")
	}
	left := e.Renewer.New(l, lease.Grant{Owner: "owner", Token: 1, Begun: e.Clock(), Validity: o.Validity}).Remaining()
	require.Positive(t, left)
	require.LessOrEqual(t, left, o.Validity)
	require.False(t, strings.HasPrefix(l.Keys()[0], protocol.Reserved))
}

func ExampleWithBackoff() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	ctx := context.Background()

	held, err := client.Mutex("report").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	poll := redlock.WithBackoff(func(try int) time.Duration {
		if try == 3 { // the holder is done
			fmt.Println("released:", held.Unlock(ctx))
		}
		limit := 10 * time.Millisecond << min(try, 5)
		return rand.N(limit) // so that callers do not ask at the same instants
	})
	lease, err := client.Mutex("report", poll).Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("holding", lease.Name())
	fmt.Println("released:", lease.Unlock(ctx))
	// Output:
	// released: <nil>
	// holding report
	// released: <nil>
}

func ExampleWithReentry() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	account := client.Mutex("account-7", redlock.WithReentry())

	var token int64
	// deposit locks the account, and so does its caller.
	deposit := func(ctx context.Context) error {
		return account.Do(ctx, func(_ context.Context, lease *redlock.Lease) error {
			fmt.Println("deposit, with the same token:", lease.Token() == token)
			return nil
		})
	}
	err := account.Do(context.Background(), func(ctx context.Context, lease *redlock.Lease) error {
		token = lease.Token()
		if err := deposit(ctx); err != nil { // joins the lease that ctx carries
			return err
		}
		fmt.Println("still held:", lease.Valid())
		return nil
	})
	fmt.Println("released with the last one:", err)
	// Output:
	// deposit, with the same token: true
	// still held: true
	// released with the last one: <nil>
}

func ExampleMutex_Held() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	account := client.Mutex("account-7")

	// post must be called by the holder of the account's lock.
	post := func(ctx context.Context) error {
		lease, held := account.Held(ctx)
		if !held {
			return errors.New("the caller must hold the account's lock")
		}
		fmt.Println("posting to", lease.Name())
		return nil
	}
	fmt.Println(post(context.Background()))
	err := account.Do(context.Background(), func(ctx context.Context, _ *redlock.Lease) error { return post(ctx) })
	fmt.Println(err)
	// Output:
	// the caller must hold the account's lock
	// posting to account-7
	// <nil>
}

func ExampleWithMinHold() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	ctx := context.Background()

	tick := client.Mutex("nightly-report", redlock.WithMinHold(5*time.Second))
	lease, err := tick.TryLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("ran, and released:", lease.Unlock(ctx))
	_, err = tick.TryLock(ctx) // a machine whose clock is behind starts the same job
	var held *redlock.HeldError
	fmt.Println("resting:", errors.As(err, &held) && held.Resting)
	// Output:
	// ran, and released: <nil>
	// resting: true
}

func ExampleWithLockDelay() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	ctx := context.Background()

	// If this process is cut off, nobody gets the lock for 30 s after its lease has ended.
	export := client.Mutex("export", redlock.WithLockDelay(30*time.Second))
	for range 2 {
		lease, err := export.Lock(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("released at once:", lease.Unlock(ctx))
	}
	// Output:
	// released at once: <nil>
	// released at once: <nil>
}

func TestCompilerRefusesOptionsInTheWrongPlace(t *testing.T) {
	text, err := os.ReadFile("testdata/options/options.go")
	require.NoError(t, err)
	var want, refused []int
	for i, line := range strings.Split(string(text), "\n") {
		if strings.HasSuffix(line, "// refused") {
			want = append(want, i+1)
		}
	}
	require.NotEmpty(t, want)
	out, err := exec.CommandContext(t.Context(), "go", "build", "-gcflags=-e", "./testdata/options").CombinedOutput()
	require.Error(t, err)
	for _, m := range regexp.MustCompile(`(?m)options\.go:(\d+):\d+: .* does not implement `).FindAllStringSubmatch(string(out), -1) {
		line, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		refused = append(refused, line)
	}
	require.Equal(t, want, refused, "%s", out)
}

func ExampleClientOption() {
	nodes, err := redlocktest.New(3)
	if err != nil {
		log.Fatal(err)
	}
	defer nodes.Close()

	// What all services of a company have in common.
	common := []redlock.ClientOption{redlock.WithRestartGuard(0), redlock.WithLogger(nil), redlock.WithTTL(5 * time.Second)}
	client, err := redlock.Open(nodes.URLs(), append(common, redlock.WithOwnerLabel("shop"))...)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	fmt.Println("ping:", client.Ping(context.Background()))
	// Output:
	// ping: <nil>
}

func ExampleLockOption() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	ctx := context.Background()

	brief := []redlock.LockOption{redlock.WithTTL(2 * time.Second), redlock.WithMaxHold(time.Minute)}
	lease, err := client.Mutex("cache", brief...).Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("at most two seconds left:", lease.Remaining() <= 2*time.Second)
	fmt.Println("released:", lease.Unlock(ctx))
	// Output:
	// at most two seconds left: true
	// released: <nil>
}

func ExampleOption() {
	nodes, err := redlocktest.New(3)
	if err != nil {
		log.Fatal(err)
	}
	defer nodes.Close()

	// An Option given to Open is the default of the client's locks. A lock's own one overrides it.
	client, err := redlock.Open(nodes.URLs(), redlock.WithRestartGuard(0), redlock.WithOwnerLabel("shop"))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	for _, m := range []*redlock.Mutex{client.Mutex("orders"), client.Mutex("report", redlock.WithOwnerLabel("night shift"))} {
		err := m.Do(context.Background(), func(_ context.Context, lease *redlock.Lease) error {
			fmt.Println(lease.Name(), "is held by", lease.Label())
			return nil
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// orders is held by shop
	// report is held by night shift
}
