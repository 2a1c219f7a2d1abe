package deploy_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/deploy/internal/load"
	"github.com/redlock-go/redlock/integration/cluster"
	"github.com/redlock-go/redlock/internal/test/long"
	"github.com/redlock-go/redlock/internal/test/testclient"
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

const (
	// The test's load has long timeouts, so that a busy machine loses no leases. Servers that are new do not vote for one ttl.
	chainTTL         = 8 * time.Second
	chainNodeTimeout = 2 * time.Second

	// longWait is the limit of RedlockLongWaits, and a scrape.
	longWait = 31 * time.Second
	// quiet is how long no alert may fire while all is well: longer than the rules wait here.
	quiet = 6 * time.Second
)

// chain is the whole way from servers to alerts: a client's load on real servers, its metrics, Prometheus, the rules.
type chain struct {
	t          *testing.T
	prometheus prometheusProcess
	planted    map[string]time.Time // when the fault for each alert was planted
}

// startChain starts all of it, over five masters.
func startChain(t *testing.T) (*chain, cluster.Nodes) {
	if !long.Tests() {
		t.Skip("make verify runs it: it takes more than a minute")
	}
	program, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("prometheus is not installed (Debian: apt-get install prometheus)")
	}
	if _, err := cluster.Kinds(); err != nil {
		t.Skip(err)
	}
	nodes := cluster.Use(t, 5)
	return &chain{t, startPrometheus(t, program, serveLoad(t, nodes.URLs())), map[string]time.Time{}}, nodes
}

// Masters that answer, and refuse, are as bad as masters that do not answer.
func TestAlertsFireForMastersThatRefuseOnRealServers(t *testing.T) {
	c, nodes := startChain(t)
	firing, err := c.prometheus.firing()
	require.NoError(t, err)
	require.Empty(t, firing)
	c.plant(func() { nodes[0].SetConfig(t, "maxmemory", "1") }, "RedlockMasterNotVoting")
	c.plant(func() { nodes[1].Do(t, "ACL", "SETUSER", "default", "-set") }, "RedlockNoReserve")
	c.plant(func() {
		for _, n := range nodes[:3] { // a master that is full renews leases
			n.SetConfig(t, "min-replicas-to-write", "1")
		}
	}, "RedlockNoMajority", "RedlockLeaseLost", "RedlockRenewalsFail")
	for _, n := range nodes[:3] {
		n.SetConfig(t, "min-replicas-to-write", "0")
	}
	c.requireEnd("RedlockNoMajority", "a third master accepts locks again")
	c.requireNoneBeforeItsFault()
}

// The rules and the dashboard are those of deploy/, but for the rules' "for": the limit of long waits, too, is the real one.
func TestEachAlertFiresForItsFaultOnRealServers(t *testing.T) {
	c, nodes := startChain(t)
	c.requireData("all masters are well")
	require.Never(t, func() bool {
		firing, err := c.prometheus.firing()
		return err != nil || len(firing) > 0
	}, quiet, time.Second, "an alert fires while all is well")

	release := c.holdForLong(nodes.URLs())
	c.plant(func() { nodes[0].Freeze(t) }, "RedlockMasterNotVoting")
	c.requireData("a master hangs")
	c.plant(func() { nodes[1].Kill(t) }, "RedlockNoReserve")
	c.requireData("another one is dead")
	release()
	c.requireFiring("RedlockLongWaits")
	c.plant(func() { nodes[2].Freeze(t) }, "RedlockNoMajority", "RedlockLeaseLost", "RedlockRenewalsFail")

	nodes.Thaw(t)
	c.requireEnd("RedlockNoMajority", "a majority is back")
	first := c.requireNoneBeforeItsFault()
	var all []string
	for _, rule := range readRules(t) {
		all = append(all, rule.Alert)
	}
	require.ElementsMatch(t, all, slices.Collect(maps.Keys(first)))
}

// requireEnd expects an alert to end after what was mended.
func (c *chain) requireEnd(alert, mended string) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		firing, err := c.prometheus.firing()
		return err == nil && !firing[alert]
	}, await, 100*time.Millisecond, "%s ends: %s", alert, mended)
}

// serveLoad runs the demo's load until the test ends, and returns the address of its metrics when all masters vote.
func serveLoad(t *testing.T, urls []string) (address string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- load.Serve(ctx, listener, load.Config{
			Masters: urls, TTL: chainTTL, NodeTimeout: chainNodeTimeout, Options: []redlock.ClientOption{redlock.WithLogger(nil)},
		})
	}()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-ended)
	})
	votes := regexp.MustCompile(`(?m)^redlock_node_status\{[^}]*redlock_node_state="up"[^}]*\} 1$`)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		response, err := http.Get(fmt.Sprintf("http://%s/metrics", listener.Addr()))
		require.NoError(c, err)
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		require.NoError(c, err)
		require.Len(c, votes.FindAll(text, -1), len(urls))
	}, await, 100*time.Millisecond)
	return listener.Addr().String()
}

// holdForLong takes locks that most of the load's callers wait for, as a holder that hangs does, and returns when they
// wait. The function that it returns releases the locks after longWait.
func (c *chain) holdForLong(urls []string) (release func()) {
	client := testclient.Open(c.t, urls, redlock.WithTTL(chainTTL), redlock.WithNodeTimeout(chainNodeTimeout), redlock.WithRestartGuard(chainTTL))
	names := []string{load.Catalogue}
	for i := range load.Orders {
		names = append(names, fmt.Sprint("order-", i))
	}
	c.planted["RedlockLongWaits"] = time.Now()
	lease, err := client.Multi(names).Lock(c.t.Context())
	require.NoError(c.t, err)
	const waiting = 7 // three of orders, four readers; a writer may wait, too
	require.Eventually(c.t, func() bool {
		found, err := c.prometheus.query(fmt.Sprint("redlock_calls_waiting >= ", waiting))
		return err == nil && len(found) > 0
	}, await, 100*time.Millisecond)
	over := time.After(longWait)
	return func() {
		<-over
		require.True(c.t, lease.Valid(), "the holder of the test lost its lease, so nobody waited for long: %v", lease.Err())
		require.NoError(c.t, lease.Unlock(c.t.Context()))
	}
}

// plant plants a fault, and expects the alerts to fire.
func (c *chain) plant(fault func(), alerts ...string) {
	c.t.Helper()
	for _, alert := range alerts {
		c.planted[alert] = time.Now()
	}
	fault()
	c.requireFiring(alerts...)
}

func (c *chain) requireFiring(alerts ...string) {
	c.t.Helper()
	require.EventuallyWithT(c.t, func(collect *assert.CollectT) {
		firing, err := c.prometheus.firing()
		require.NoError(collect, err)
		for _, alert := range alerts {
			assert.Contains(collect, firing, alert)
		}
	}, await, 100*time.Millisecond)
}

// requireData expects a number from each query of the dashboard.
func (c *chain) requireData(when string) {
	c.t.Helper()
	for _, panel := range readBoard(c.t).Panels {
		for _, target := range panel.Targets {
			expr := inGrafana.Replace(target.Expr)
			require.Eventually(c.t, func() bool {
				found, err := c.prometheus.query(expr)
				return err == nil && slices.ContainsFunc(found, func(s series) bool { return s.Value.hasNumber() })
			}, await, 100*time.Millisecond, "%s: panel %q has no data: %s", when, panel.Title, expr)
		}
	}
}

// requireNoneBeforeItsFault expects no alert to have fired before its fault was planted. It returns when each fired
// first.
func (c *chain) requireNoneBeforeItsFault() map[string]time.Time {
	c.t.Helper()
	first, err := c.prometheus.firstFired()
	require.NoError(c.t, err)
	for alert, at := range first {
		require.Contains(c.t, c.planted, alert, "it fired without a fault")
		c.t.Logf("%s fired %v after its fault", alert, at.Sub(c.planted[alert]).Round(100*time.Millisecond))
		require.False(c.t, at.Before(c.planted[alert]), "%s fired before its fault", alert)
	}
	return first
}
