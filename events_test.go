package redlock

import (
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestASlowHookDelaysNoLease(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		slow := &Trace{LeaseDanger: func(LeaseDanger) { time.Sleep(time.Minute) }}
		c := net.client(WithTTL(3*time.Second), WithTrace(slow))
		first, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Second)
		second, err := c.Mutex("y").Lock(t.Context())
		require.NoError(t, err)
		for _, n := range net.nodes {
			n.down()
		}
		for _, lease := range []*Lease{first, second} {
			left := lease.Remaining()
			require.Equal(t, left, elapsed(func() { <-lease.Done() }))
		}
	})
}

func TestALostLeaseIsLoggedOnce(t *testing.T) {
	for name, lose := range map[string]func(n *testNode){
		"taken away": func(n *testNode) { n.redis.Del("redlock:x") },
		"cut off":    func(n *testNode) { n.down() },
	} {
		inBubble(t, 3, func(t *testing.T, net *testNet) {
			var told strings.Builder
			c := net.client(WithTTL(3*time.Second), WithLogger(slog.New(slog.NewTextHandler(&told, nil))))
			lease, err := c.Mutex("x").Lock(t.Context())
			require.NoError(t, err)
			synctest.Wait()
			for _, n := range net.nodes {
				lose(n)
			}
			<-lease.Done()
			time.Sleep(time.Second)
			require.NoError(t, c.Close())
			require.Equal(t, 1, strings.Count(told.String(), "a lease is lost"), name)
		})
	}
}

// journal is a log that may be read while it is written.
type journal struct {
	mu   sync.Mutex // protects text
	text strings.Builder
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}
