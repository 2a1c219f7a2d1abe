package docs_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/lease"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// measure is that of docs/choosing-ttl.md: TestTheProgramsOfThePagesAreThoseThatAreTested compares.

// measure takes a free lock many times. It returns the longest time for that, and the shortest validity.
func measure(ctx context.Context, client *redlock.Client, times int) (slowest, shortest time.Duration, err error) {
	shortest = time.Hour
	for range times {
		began := time.Now()
		lease, err := client.Mutex("measure").TryLock(ctx)
		if err != nil {
			return slowest, shortest, err
		}
		slowest = max(slowest, time.Since(began))
		shortest = min(shortest, lease.Remaining())
		if err := lease.Unlock(ctx); err != nil {
			return slowest, shortest, err
		}
		time.Sleep(50 * time.Millisecond)
	}
	return slowest, shortest, nil
}

const ttlPage = "docs/choosing-ttl.md"

// figuresRow is a row of the page: the settings, and what they yield.
var figuresRow = regexp.MustCompile(`(?m)^\| (\d+ s), (\S+ m?s) \| (.+) s \| (.+) s \| (\d+) \| (.+) s \| (.+) s \| (.+) to (.+) s \| (.+) s \|$`)

// situation is one pair of settings, and the terms that the library makes of them.
type situation struct {
	row          []string
	ttl, timeout time.Duration
	lease.Terms
}

// client makes a client with these settings.
func (s *situation) client(net *testnet.Net, opts ...redlock.ClientOption) *redlock.Client {
	return net.Client(append([]redlock.ClientOption{redlock.WithTTL(s.ttl), redlock.WithNodeTimeout(s.timeout)}, opts...)...)
}

// inEachSituation runs a test in virtual time for each row of the page's figures.
func inEachSituation(t *testing.T, test func(t *testing.T, net *testnet.Net, s *situation)) {
	t.Helper()
	rows := figuresRow.FindAllStringSubmatch(read(t, ttlPage), -1)
	require.Len(t, rows, 4)
	for _, row := range rows {
		t.Run(row[1]+", "+row[2], func(t *testing.T) {
			testnet.InBubbleFor(t, 24*time.Hour, 3, func(t *testing.T, net *testnet.Net) {
				s := &situation{row: row, ttl: duration(t, row[1]), timeout: duration(t, row[2])}
				s.Terms = testhook.Lock(s.client(net).Mutex("x")).Terms().Lease
				test(t, net, s)
			})
		})
	}
}

func duration(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(strings.ReplaceAll(text, " ", ""))
	require.NoError(t, err)
	return d
}

// seconds is a duration as the page has it: three digits.
func seconds(d time.Duration) string { return fmt.Sprintf("%.3g", d.Seconds()) }

func TestTheFiguresOfThePageFollowFromItsFormulas(t *testing.T) {
	inEachSituation(t, func(t *testing.T, net *testnet.Net, s *situation) {
		validity := s.ttl - (s.ttl/100 + 2*time.Millisecond)
		every := validity / 3
		fits := (validity - every) / (2 * s.timeout)
		assert.Equal(t, seconds(validity), s.row[3], "validity")
		assert.Equal(t, seconds(every), s.row[4], "renewed every")
		assert.Equal(t, fmt.Sprint(int64(fits)), s.row[5], "failed renewals")
		assert.Equal(t, seconds(s.ttl/2), s.row[6], "outage or pause")
		assert.Equal(t, seconds(s.ttl/5), s.row[7], "outage of the tool")
		assert.Equal(t, seconds(s.ttl-every), s.row[8], "free after a kill, at least")
		assert.Equal(t, seconds(s.ttl), s.row[9], "free after a kill, at most")
		assert.Equal(t, seconds(s.ttl), s.row[10], "the guard")

		assert.Equal(t, validity, s.Validity, "the library's")
		assert.InDelta(t, every, s.RenewEvery, 1)
		assert.Equal(t, s.timeout, s.NodeTimeout)
		lease, err := s.client(net).Mutex("x").TryLock(t.Context())
		require.NoError(t, err)
		assert.Equal(t, validity, lease.Remaining(), "no time has passed")
	})
}

func TestTheDefaultNodeTimeoutIsATwentiethOfTheTTL(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		require.Equal(t, 500*time.Millisecond, testhook.Engine(c).NodeTimeout)
		for ttl, timeout := range map[time.Duration]time.Duration{
			50 * time.Millisecond: 5 * time.Millisecond, time.Second: 50 * time.Millisecond, 3 * time.Second: 150 * time.Millisecond,
			10 * time.Second: 500 * time.Millisecond, time.Minute: 500 * time.Millisecond,
		} {
			require.Equal(t, timeout, testhook.Lock(c.Mutex("x", redlock.WithTTL(ttl))).Terms().Lease.NodeTimeout, ttl)
		}
		_, err := c.Mutex("x", redlock.WithTTL(time.Second), redlock.WithNodeTimeout(494*time.Millisecond)).TryLock(t.Context())
		require.ErrorIs(t, err, redlock.ErrConfig, "the drift allowance of 12 ms and two node timeouts are a second")
		_, err = c.Mutex("x", redlock.WithTTL(time.Second), redlock.WithNodeTimeout(493*time.Millisecond)).TryLock(t.Context())
		require.NoError(t, err)
		_, err = c.Mutex("x", redlock.WithNodeTimeout(2001*time.Millisecond)).TryLock(t.Context())
		require.ErrorIs(t, err, redlock.ErrConfig, "it is more than four of the client's")
	})
}

// The first renewal begins a third of the validity after the grant, or up to a quarter of that earlier. One that fails takes a
// node timeout at most, and less where the masters are known to be silent. The next one begins a node timeout later.
func TestSoManyFailedRenewalsFitAsThePageSays(t *testing.T) {
	inEachSituation(t, func(t *testing.T, net *testnet.Net, s *situation) {
		var left []time.Duration
		c := s.client(net, redlock.WithTrace(testnet.OnLease("danger", func(e redlock.LeaseEvent) { left = append(left, e.Remaining) })))
		lease, err := c.Mutex("x").TryLock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		net.Nodes.Freeze()
		<-lease.Done()
		synctest.Wait()
		first := s.Validity - left[0] - s.timeout // when the first one began
		assert.LessOrEqual(t, first, s.RenewEvery)
		assert.GreaterOrEqual(t, first, s.RenewEvery*3/4-s.RenewEvery/64-1, "the instants are rounded")
		for i := 1; left[i] > 4*s.timeout; i++ {
			assert.LessOrEqual(t, left[i-1]-left[i], 2*s.timeout+time.Millisecond, "a pause and a renewal")
		}
		assert.GreaterOrEqual(t, len(left), int(duration(t, s.row[5]+"ns")), "further ones follow at shorter intervals")
		var lost *redlock.LostError
		require.ErrorAs(t, lease.Err(), &lost)
		require.Equal(t, redlock.LostNoQuorum, lost.Reason)
	})
}

func TestAnOutageOrAPauseOfHalfATTLLosesNoLease(t *testing.T) {
	outages := map[string]struct{ begin, end func(*testnet.Node) }{
		"masters that do not answer": {(*testnet.Node).Freeze, (*testnet.Node).Thaw},
		"masters that refuse":        {(*testnet.Node).Down, (*testnet.Node).Up},
	}
	inEachSituation(t, func(t *testing.T, net *testnet.Net, s *situation) {
		instants := testnet.Tries(4, 12)
		for i := range instants {
			c := s.client(net)
			lease, err := c.Mutex("x").TryLock(t.Context())
			require.NoError(t, err)
			for name, outage := range outages {
				time.Sleep(s.ttl + s.RenewEvery*time.Duration(i)/time.Duration(instants))
				for _, n := range net.Nodes {
					outage.begin(n)
				}
				time.Sleep(s.ttl / 2)
				require.True(t, lease.Valid(), name)
				for _, n := range net.Nodes {
					outage.end(n)
				}
				time.Sleep(s.ttl)
				require.True(t, lease.Valid(), "%s: it is renewed again", name)
			}
			net.Clock.Sleep(s.ttl/2 - time.Second) // the machine was suspended: the renewer notices within a second
			time.Sleep(s.ttl)
			require.True(t, lease.Valid(), "suspended")
			net.Clock.Sleep(s.ttl)
			require.False(t, lease.Valid(), "suspended for a ttl")
			require.NoError(t, c.Close())
		}
	})
}

// stopBefore is the tool's own --stop-before for a ttl.
func stopBefore(t *testing.T, ttl time.Duration) time.Duration {
	t.Helper()
	require.Regexp(t, `default three tenths of the ttl\)(?s:.*)default the grace, at most a third of the ttl\)`, read(t, "docs/redlock.1"))
	return ttl * 3 / 10
}

// neverShort reports whether a lease has more validity than a limit for some time, as redlock run looks.
func neverShort(lease *redlock.Lease, limit, d time.Duration) bool {
	for end := time.Now().Add(d); time.Now().Before(end); {
		left := lease.Remaining()
		if left <= limit {
			return false
		}
		time.Sleep(left - limit)
	}
	return true
}

func TestRedlockRunOutlastsAnOutageOfAFifthOfATTL(t *testing.T) {
	inEachSituation(t, func(t *testing.T, net *testnet.Net, s *situation) {
		instants := testnet.Tries(4, 12)
		for i := range instants {
			lease, err := s.client(net).Mutex("x").TryLock(t.Context())
			require.NoError(t, err)
			time.Sleep(s.ttl + s.RenewEvery*time.Duration(i)/time.Duration(instants))
			net.Nodes.Freeze()
			time.AfterFunc(s.ttl/5, func() {
				net.Nodes.Thaw()
			})
			require.True(t, neverShort(lease, stopBefore(t, s.ttl), 2*s.ttl), "instant %d of %d", i, instants)
			require.NoError(t, lease.Unlock(t.Context()))
		}
	})
}

// Connections fall silent for good, and new ones work: from then on no answer comes until the client gives them up.
func TestAShortTTLDoesNotOutlastASilentCut(t *testing.T) {
	for _, c := range []struct {
		ttl        time.Duration
		lease, run bool // whether they outlast it
	}{
		{time.Second, false, false}, {2500 * time.Millisecond, true, false}, {3 * time.Second, true, false}, {5 * time.Second, true, true},
		{10 * time.Second, true, true}, {time.Minute, true, true},
	} {
		t.Run(c.ttl.String(), func(t *testing.T) {
			testnet.InBubbleFor(t, 24*time.Hour, 3, func(t *testing.T, net *testnet.Net) {
				lost, stopped := silentCuts(t, net, c.ttl)
				assert.Equal(t, c.lease, lost == 0, "%d leases lost", lost)
				assert.Equal(t, c.run, stopped == 0, "%d commands stopped", stopped)
			})
		})
	}
}

// silentCuts cuts leases at instants of their renewals, and returns how many are lost, and how many commands of redlock run
// would be stopped.
func silentCuts(t *testing.T, net *testnet.Net, ttl time.Duration) (lost, stopped int) {
	t.Helper()
	const instants = 12
	for i := range instants {
		client, pools := net.CuttableClient(redlock.WithTTL(ttl))
		lease, err := client.Mutex("x").TryLock(t.Context())
		require.NoError(t, err)
		time.Sleep(ttl + ttl/3*time.Duration(i)/instants)
		silence := func(silent bool) {
			for _, p := range pools {
				p.Node.Set(func(*testnet.Node) {
					for _, l := range p.Links {
						l.Held = silent
					}
				})
			}
		}
		silence(true)
		if !neverShort(lease, stopBefore(t, ttl), 2*ttl) {
			stopped++
		}
		time.Sleep(ttl)
		if !lease.Valid() {
			lost++
		}
		silence(false)
		require.NoError(t, client.Close())
		time.Sleep(ttl)
	}
	return lost, stopped
}

func TestAfterAKillOthersWaitForAsLongAsThePageSays(t *testing.T) {
	inEachSituation(t, func(t *testing.T, net *testnet.Net, s *situation) {
		instants := testnet.Tries(4, 12)
		for i := range instants {
			killed, pools := net.CuttableClient(redlock.WithTTL(s.ttl), redlock.WithNodeTimeout(s.timeout))
			other := s.client(net)
			_, err := killed.Mutex("x").TryLock(t.Context())
			require.NoError(t, err)
			time.Sleep(s.ttl + s.RenewEvery*time.Duration(i)/time.Duration(instants))
			testnet.Hold(pools, true) // nothing leaves the process any more
			took := testnet.Elapsed(func() {
				lease, err := other.Mutex("x").Lock(t.Context())
				require.NoError(t, err)
				require.NoError(t, lease.Unlock(t.Context()))
			})
			testnet.Hold(pools, false)
			require.GreaterOrEqual(t, took, s.ttl-s.RenewEvery)
			require.LessOrEqual(t, took, s.ttl+100*time.Millisecond, "keys end in whole milliseconds, and a waiter asks when they have ended")
			require.NoError(t, killed.Close())
			require.NoError(t, other.Close())
			time.Sleep(s.ttl)
		}
	})
}

func TestTheGuardIsTheLongestTTLOnRecord(t *testing.T) {
	withGuard := redlock.WithRestartGuard(time.Millisecond) // the ttls count in any case
	inEachSituation(t, func(t *testing.T, net *testnet.Net, s *situation) {
		c := net.NewClient(withGuard, redlock.WithTTL(s.ttl), redlock.WithNodeTimeout(s.timeout))
		took := testnet.Elapsed(func() { require.NoError(t, c.WaitReady(t.Context())) })
		require.InDelta(t, s.ttl, took, float64(time.Second), "a new cluster")

		for _, long := range []redlock.LockOption{redlock.WithTTL(2 * s.ttl), redlock.WithLockDelay(2 * s.ttl)} {
			l, err := c.Mutex("long", long).Lock(t.Context())
			require.NoError(t, err)
			require.NoError(t, l.Unlock(t.Context()))
		}
		l, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, l.ExtendTo(t.Context(), 4*s.ttl))
		require.NoError(t, l.Unlock(t.Context()))
		time.Sleep(time.Minute)
		require.InDelta(t, 4*s.ttl, restart(c, net.Nodes[0]), float64(time.Second), "the ttls above were 2, 1 + 2 and 4")
	})
}

// restart starts a master anew, without its data, and returns how long it does not vote.
func restart(c *redlock.Client, n *testnet.Node) time.Duration {
	const pause = 100 * time.Millisecond
	n.Down()
	synctest.Wait()
	n.Redis.FlushAll()
	n.Set(func(n *testnet.Node) { n.RunID += ", restarted" })
	n.Up()
	return testnet.Elapsed(func() {
		for patience := time.Hour; c.Stats().Nodes[n.Index].State != "up" && patience > 0; patience -= pause {
			time.Sleep(pause)
		}
	})
}

// The program of the page measures the way to a majority, and what it takes of the validity.
func TestTheProgramOfThePageMeasuresTheWayToAMajority(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		const way = 40 * time.Millisecond
		net.Nodes[0].Set(func(n *testnet.Node) { n.Delay = way })
		net.Nodes[1].Set(func(n *testnet.Node) { n.Delay = 5 * way })
		slowest, shortest, err := measure(t.Context(), c, 20)
		require.NoError(t, err)
		require.Equal(t, 2*way, slowest, "the second of three masters")
		require.Equal(t, 10*time.Second-102*time.Millisecond-2*way, shortest, "ttl − drift − elapsed")
	})
}
