package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
	"github.com/redlock-go/redlock/internal/test/testclient"
)

// Eight processes lock one name, with admission, while one server after the other is killed
// and comes back with all its data, with an old copy, or with none, or is wiped or made a
// replica for a while, and another one is frozen. Tokens increase, and there is one holder
// at a time.
func TestTokensIncreaseOverProcessesWhileServersLoseTheirMemory(t *testing.T) {
	t.Parallel()
	notInShort(t)
	const processes = 8
	nodes := cluster.Use(t, 5)
	dir := t.TempDir()
	workers := make([]*worker, processes)
	for i := range workers {
		workers[i] = startWorker(t, "tokens", dir, strings.Join(nodes.URLs(), ","))
	}
	held := func() int { return strings.Count(textOf(filepath.Join(dir, "tokens")), "\n") }
	goesOn := func(after string) {
		t.Helper()
		before := held()
		require.True(t, eventually(time.Minute, func() bool { return held() > before+5 }), "nobody gets the lock any more: "+after)
	}
	goesOn("at the start")
	faults := map[string]func(n *cluster.Node){
		"restarted with all its data": func(n *cluster.Node) { n.Save(t); n.Restart(t) },
		"restarted without its tail":  func(n *cluster.Node) { n.Save(t); goesOn("a save"); n.Restart(t) },
		"restarted empty":             func(n *cluster.Node) { n.Kill(t); goesOn("a kill"); n.Start(t) },
		"wiped":                       func(n *cluster.Node) { n.Do(t, "FLUSHALL") },
		"a replica for a while": func(n *cluster.Node) {
			other := nodes[0]
			if n == other {
				other = nodes[1]
			}
			n.FollowOther(t, other)
			goesOn("REPLICAOF")
			n.Lead(t)
		},
	}
	for name, fault := range faults {
		victim := rand.N(len(nodes))
		fault(nodes[victim])
		other := nodes[(victim+1+rand.N(len(nodes)-1))%len(nodes)]
		other.Freeze(t)
		goesOn(name)
		other.Thaw(t)
		awaitAdmission(t, nodes[victim]) // so that a minority forgets at a time
		goesOn(name + ", and back")
	}
	for _, w := range workers {
		w.finish(t)
	}
	var last int64
	tokens := strings.Fields(textOf(filepath.Join(dir, "tokens")))
	for i, text := range tokens {
		token, err := strconv.ParseInt(text, 10, 64)
		require.NoError(t, err)
		require.Greater(t, token, last, "lease %d of %d", i, len(tokens))
		last = token
	}
	t.Logf("%d leases, the last token is %d", len(tokens), last)
}

const tokensTTL = 2 * time.Second

// countTokens is the job of a process: it locks again and again and, as the holder, appends
// its token to a file that all share. Another file exists only while a client holds the
// lock.
func countTokens(args []string, lines <-chan string, say func(string, ...any)) error {
	dir, urls := args[0], strings.Split(args[1], ",")
	client, err := testclient.OpenInProcess(context.Background(), urls, redlock.WithTTL(tokensTTL),
		redlock.WithNodeTimeout(200*time.Millisecond), redlock.WithRestartGuard(tokensTTL))
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := untilInputEnds(lines)
	defer cancel()
	tokens, err := os.OpenFile(filepath.Join(dir, "tokens"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer tokens.Close()
	work := func(_ context.Context, lease *redlock.Lease) error {
		inside := filepath.Join(dir, "inside")
		alone, err := os.OpenFile(inside, os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return fmt.Errorf("two holders, one with token %d: %w", lease.Token(), err)
		}
		_ = alone.Close()
		_, err = fmt.Fprintln(tokens, lease.Token())
		time.Sleep(time.Millisecond)
		return errors.Join(err, os.Remove(inside))
	}
	for ctx.Err() == nil {
		err := client.Mutex("tokens").Do(ctx, work)
		if err != nil && ctx.Err() == nil && !errors.Is(err, redlock.ErrNoQuorum) {
			return err
		}
	}
	return nil
}

// A lease that renews itself outlasts its ttl while one server is killed.
func TestALeaseOutlastsItsTTLOnRealServers(t *testing.T) {
	t.Parallel()
	notInShort(t)
	nodes := cluster.Use(t, 5)
	client := openClient(t, nodes.URLs(), redlock.WithTTL(2*time.Second), shortTimeout())
	lease, err := client.Mutex("long").Lock(t.Context())
	require.NoError(t, err)
	nodes[0].Kill(t)
	nodes[1].Freeze(t)
	select {
	case <-lease.Done():
		t.Fatal(lease.Err())
	case <-time.After(5 * time.Second):
	}
	nodes[0].Start(t)
	nodes[1].Thaw(t)
	for i, n := range nodes {
		assert.True(t, eventually(soon, func() bool { return n.Get(t, prefix+"long") == lease.Owner() }), "its key is not back at node %d", i)
	}
	require.NoError(t, lease.Unlock(t.Context()))
	assertNoKeys(t, nodes)
}
