// Package programs tests other programs that lock with this repository's adapters, in processes
// of their own and on real Redis servers that die: CertMagic, goose and golang-migrate.
//
// Each test has a twin without the lock, in which the programs do their work several times: so
// the tests fail where the lock does not exclude. The processes are the test binary again, and report
// what they are about to do and wait for an answer, so that no test depends on how fast they are.
//
// The servers are those of package cluster, as in the tests above this directory. Some
// representative tests run, and all with REDLOCK_LONG=1.
package programs

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
	"github.com/redlock-go/redlock/internal/test/long"
	"github.com/redlock-go/redlock/internal/test/testclient"
)

func TestMain(m *testing.M) {
	if job := os.Getenv(workerEnv); job != "" {
		os.Exit(runJob(job))
	}
	os.Exit(cluster.Main(m))
}

const (
	// ttl is how long the lock of a killed process is held. A busy machine may keep renewals
	// waiting for seconds.
	ttl = 6 * time.Second

	// soon is the limit for steps that take less than a second, or a little more than a ttl, on
	// an idle machine.
	soon = 40 * time.Second
)

// options are the settings of all clients.
func options() []redlock.ClientOption {
	return []redlock.ClientOption{
		redlock.WithTTL(ttl), redlock.WithNodeTimeout(ttl * 2 / 5),
	}
}

// openClient makes the tests' own client.
func openClient(t *testing.T, nodes cluster.Nodes) *redlock.Client {
	t.Helper()
	return testclient.Open(t, nodes.URLs(), options()...)
}

// awaitQueue waits until so many processes wait for a lock, and returns its holder.
func awaitQueue(t *testing.T, client *redlock.Client, name string, waiters int) (holder string) {
	t.Helper()
	waiting := 0
	require.Eventually(t, func() bool {
		status, err := client.Inspect(t.Context(), name)
		holder, waiting = status.Holder, len(status.Queue)
		return err == nil && holder != "" && waiting == waiters
	}, soon, 20*time.Millisecond, "not all other processes wait for the lock %q", name)
	return holder
}

// notInShort skips a test that is not among the representative ones.
func notInShort(t *testing.T) {
	t.Helper()
	if !long.Tests() {
		t.Skip("make soak runs it")
	}
}
