package integration

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
)

// A process with 20 clients that wait for three permits is killed while two are free. They do not keep these from a
// caller that wants one.
func TestKilledClientsThatWaitedForManyPermitsKeepFreeOnesForSeconds(t *testing.T) {
	const clients = 20
	nodes := cluster.Use(t, 5)
	holder := openClient(t, nodes.URLs(), redlock.WithNodeTimeout(time.Second))
	awaitAllVotes(t, holder, nodes)
	held, err := holder.Semaphore(queueName, permitsOfQueue).Acquire(t.Context(), 1)
	require.NoError(t, err)
	var numbers []string
	for i := range clients {
		numbers = append(numbers, fmt.Sprintf("permits%d", i))
	}
	w := startWaiters(t, nodes, filepath.Join(t.TempDir(), "turns"), 10*time.Second, numbers...)
	for _, number := range numbers {
		w.ask(t, number, time.Minute)
	}
	eventually(soon, func() bool {
		s, err := holder.Inspect(t.Context(), queueName)
		return err == nil && len(s.Queue) >= clients
	})
	time.Sleep(2 * time.Second)
	next := openClient(t, nodes.URLs(), redlock.WithNodeTimeout(time.Second))
	require.NoError(t, next.Ping(t.Context()))
	w.crash(t)
	served := make(chan struct{}, 1)
	began := time.Now()
	go func() {
		defer close(served)
		lease, err := next.Semaphore(queueName, permitsOfQueue).Acquire(t.Context(), 1)
		if assert.NoError(t, err) {
			t.Log(time.Since(began))
			served <- struct{}{}
			assert.NoError(t, lease.Unlock(t.Context()))
		}
	}()
	assertServedWithin(t, served, 10*time.Second)
	require.NoError(t, held.Unlock(t.Context()))
}
