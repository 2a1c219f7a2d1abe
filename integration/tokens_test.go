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
	nodes := cluster.Use(t, 5)
	p := startProcesses(t, 8, nodes)
	goesOn := func(after string) { t.Helper(); p.goesOn(after) }
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
	p.finish()
}

// processes lock one name, and write down their tokens.
type processes struct {
	t   *testing.T
	dir string
	all []*worker
}

// startProcesses starts so many processes whose clients have these nodes.
func startProcesses(t *testing.T, n int, nodes cluster.Nodes) *processes {
	t.Helper()
	p := &processes{t: t, dir: t.TempDir()}
	for range n {
		p.start(nodes)
	}
	p.goesOn("at the start")
	return p
}

func (p *processes) start(nodes cluster.Nodes) *worker {
	p.t.Helper()
	w := startWorker(p.t, "tokens", p.dir, strings.Join(nodes.URLs(), ","))
	p.all = append(p.all, w)
	return w
}

// held returns how many leases there were, of the process of this id, or with "" of any.
func (p *processes) held(pid string) int {
	end := "\n"
	if pid != "" {
		end = " " + pid + end
	}
	return strings.Count(textOf(filepath.Join(p.dir, "tokens")), end)
}

func (p *processes) goesOn(after string) {
	p.t.Helper()
	p.heldMore("", after)
}

// getsLeases expects that a process goes on.
func (p *processes) getsLeases(w *worker, after string) {
	p.t.Helper()
	p.heldMore(strconv.Itoa(w.cmd.Process.Pid), after)
}

func (p *processes) heldMore(pid, after string) {
	p.t.Helper()
	before := p.held(pid)
	require.True(p.t, eventually(time.Minute, func() bool { return p.held(pid) > before+5 }), "no lock any more: %s %s", pid, after)
}

// isInside reports whether a process holds the lock, or has stopped while it did.
func (p *processes) isInside() bool {
	_, err := os.Stat(filepath.Join(p.dir, "inside"))
	return err == nil
}

// finish ends the processes, and expects that tokens have increased. It returns for how long each has waited at most.
func (p *processes) finish() (waits []time.Duration) {
	p.t.Helper()
	for _, w := range p.all {
		longest, err := time.ParseDuration(w.finish(p.t))
		require.NoError(p.t, err)
		waits = append(waits, longest)
	}
	var last int64
	tokens := strings.Split(strings.TrimSpace(textOf(filepath.Join(p.dir, "tokens"))), "\n")
	for i, line := range tokens {
		text, _, _ := strings.Cut(line, " ")
		token, err := strconv.ParseInt(text, 10, 64)
		require.NoError(p.t, err)
		require.Greater(p.t, token, last, "lease %d of %d", i, len(tokens))
		last = token
	}
	p.t.Logf("%d leases, the last token is %d; the longest waits: %v", len(tokens), last, waits)
	return waits
}

const tokensTTL = 2 * time.Second

// countTokens is the job of a process: it locks again and again and, as the holder, appends
// its token to a file that all share. Another file exists only while a client holds the
// lock. At its end the process says for how long it has waited at most.
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
	var longest time.Duration
	var began time.Time
	work := func(_ context.Context, lease *redlock.Lease) error {
		longest = max(longest, time.Since(began))
		if !lease.Valid() { // the process was stopped
			return nil
		}
		inside := filepath.Join(dir, "inside")
		alone, err := os.OpenFile(inside, os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return fmt.Errorf("two holders, one with token %d: %w", lease.Token(), err)
		}
		_ = alone.Close()
		_, err = fmt.Fprintln(tokens, lease.Token(), os.Getpid())
		time.Sleep(time.Millisecond)
		return errors.Join(err, os.Remove(inside))
	}
	for began = time.Now(); ctx.Err() == nil; {
		err := client.Mutex("tokens").Do(ctx, work)
		switch {
		case err == nil:
			began = time.Now()
		case ctx.Err() == nil && !errors.Is(err, redlock.ErrNoQuorum) && !errors.Is(err, redlock.ErrLost):
			return err
		}
	}
	say("%v", longest)
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
