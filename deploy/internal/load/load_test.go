package load_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/deploy/internal/load"
	"github.com/redlock-go/redlock/internal/test/testclient"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// running is a load that serves until stop is called or the test ends.
type running struct {
	url   string
	stop  context.CancelFunc
	ended chan error // of Serve
}

func start(t *testing.T, c load.Config) running {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	r := running{"http://" + listener.Addr().String() + "/metrics", cancel, make(chan error, 1)}
	go func() { r.ended <- load.Serve(ctx, listener, c) }()
	return r
}

// eventually expects the metrics to match all patterns at once.
func (r running) eventually(t *testing.T, patterns ...string) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		text, err := get(r.url)
		require.NoError(c, err)
		for _, pattern := range patterns {
			assert.Regexp(c, pattern, text)
		}
	}, time.Minute, 100*time.Millisecond)
}

// get returns a page.
func get(url string) (string, error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	response, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

func TestLoadMakesEachKindOfCallAndGivesAllBack(t *testing.T) {
	nodes := redlocktest.Start(t, 5)
	r := start(t, load.Config{
		Masters: nodes.URLs(), TTL: 4 * time.Second, NodeTimeout: time.Second, LoseEvery: time.Second,
		Options: []redlock.ClientOption{redlock.WithRestartGuard(0), redlock.WithLogger(nil)},
	})
	r.eventually(t,
		`redlock_operation_duration_seconds_count\{[^}]*redlock_operation_name="lock"`,
		`redlock_operation_duration_seconds_count\{[^}]*redlock_operation_name="trylock"`,
		`redlock_operation_duration_seconds_count\{[^}]*redlock_operation_name="rlock"`,
		`redlock_operation_duration_seconds_count\{[^}]*redlock_operation_name="acquire"`,
		`redlock_wait_duration_seconds_count\{[^}]*\} [1-9]`,
		`redlock_renewals_total\{[^}]*redlock_outcome="granted"[^}]*\} [1-9]`,
		`redlock_lease_ends_total\{[^}]*redlock_outcome="lost"[^}]*\} [1-9]`,
		`redlock_leases_held\{[^}]*\} [1-9]`,
	)

	r.stop()
	require.NoError(t, <-r.ended)
	_, err := get(r.url)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	next := testclient.Open(t, nodes.URLs())
	for _, name := range []string{"leader", "report", load.Catalogue, "order-0", "account-0", "deployments#0"} {
		_, err := next.Mutex(name).TryLock(t.Context())
		require.NoError(t, err, "%s is held by nobody", name)
	}
}

func TestLoadLosesNothingUnlessItShall(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	r := start(t, load.Config{
		Masters: nodes.URLs(), TTL: 20 * time.Second, NodeTimeout: time.Second,
		Options: []redlock.ClientOption{redlock.WithRestartGuard(0), redlock.WithLogger(nil)},
	})
	r.eventually(t, `redlock_lease_ends_total\{[^}]*redlock_outcome="released"[^}]*\} [2-9]\d`,
		`redlock_lease_ends_total\{[^}]*redlock_outcome="lost"[^}]*\} 0`)
	r.stop()
	require.NoError(t, <-r.ended)
}

func TestLoadRefusesWhatTheClientRefuses(t *testing.T) {
	r := start(t, load.Config{Masters: []string{"nonsense"}, TTL: time.Second, NodeTimeout: time.Millisecond})
	defer r.stop()
	require.ErrorIs(t, <-r.ended, redlock.ErrConfig)
	_, err := get(r.url)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}
