package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/overview"
	"github.com/redlock-go/redlock/internal/test/testclient"
	"github.com/redlock-go/redlock/redlocktest"
)

// share takes a share of a lock, at all nodes, until the test is over or it is released.
func share(t *testing.T, nodes *redlocktest.Nodes, name, label string) *redlock.Lease {
	t.Helper()
	client := testclient.Open(t, nodes.URLs(), redlock.WithOwnerLabel(label), redlock.WithTTL(10*time.Minute)) // it is not renewed within the test
	lease, err := client.RWMutex(name).RLock(t.Context())
	require.NoError(t, err)
	eventually(t, func() bool { // the verdict does not wait for the last node
		s, err := client.Inspect(t.Context(), name)
		for _, r := range s.Readers {
			if r.Owner == lease.Owner() {
				return r.Nodes == len(nodes.URLs())
			}
		}
		require.NoError(t, err)
		return false
	}, "held everywhere")
	return lease
}

func TestRunsWithReadHoldTheLockTogether(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	dir := t.TempDir()
	script := `echo $REDLOCK_TOKEN >"$1"; while [ ! -e "$2" ]; do sleep 0.01; done`
	var readers []*tool
	for i := range 2 {
		file := filepath.Join(dir, fmt.Sprint(i))
		readers = append(readers, start(t, nodes, "run", "--read", "job", "--", "sh", "-c", script, "sh", file, filepath.Join(dir, "go")))
		eventually(t, func() bool { text, _ := os.ReadFile(file); return len(text) > 0 }, "at work, beside the other")
	}
	r := call(nodes, "run", "job", "--no-wait", "--", "true")
	assert.Equal(t, codeHeld, r.code)
	assert.Contains(t, r.log, "held by readers")
	assert.Zero(t, call(nodes, "run", "job", "--read", "--no-wait", "--", "true").code)

	require.NoError(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
	for _, reader := range readers {
		r := reader.end()
		assert.Zero(t, r.code, r.log)
		assert.Empty(t, r.log)
	}
	assert.Zero(t, call(nodes, "run", "job", "--", "true").code, "they have released it")
	for i := range 2 {
		token, err := os.ReadFile(filepath.Join(dir, fmt.Sprint(i)))
		require.NoError(t, err)
		assert.NotEqual(t, "0\n", string(token))
	}
}

func TestARunWithReadIsKeptOutByAWriter(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	writer := hold(t, nodes, "job")
	r := call(nodes, "run", "--read", "job", "--no-wait", "--", "true")
	assert.Equal(t, codeHeld, r.code)
	assert.Contains(t, r.log, "the holder")
	waiting := start(t, nodes, "run", "--read", "job", "--", "true")
	eventually(t, func() bool { return strings.Contains(call(nodes, "inspect", "--json", "job").out, `"waiting":1`) }, "in the queue")
	assert.Regexp(t, `(?m)^     1\. .*, waiting for \S+, wants to read, at \d nodes?$`, call(nodes, "inspect", "job").out)
	require.NoError(t, writer.Unlock(t.Context()))
	assert.Zero(t, waiting.end().code)
}

func TestRunSaysHowManyReadersItWaitsFor(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	for _, want := range []string{"1 reader holds it, ", "2 readers hold it, "} {
		share(t, nodes, "job", "a reader")
		text := waitOnce(t, nodes, &runFlags{}, "job")
		assert.Regexp(t, `waiting for "job": `+want+"[01] in the wait queue", text, "0: it has not joined the queue yet")
	}
}

func TestARunInsideOneThatReadsIsRefused(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	for _, flags := range [][]string{{"run", "job"}, {"run", "--read", "job"}} {
		nested := append([]string{os.Args[0]}, append(nodesArgs(nodes), append(flags, "--", "true")...)...)
		r := start(t, nodes, append([]string{"run", "--read", "job", "--"}, nested...)...).end()
		assert.Equal(t, codeUsage, r.code, flags)
		assert.Contains(t, r.log, "wait for itself")
	}
}

func TestInspectShowsReaders(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	first, second := share(t, nodes, "job", "a reader"), share(t, nodes, "job", attack)
	nodes.Stop(2)
	r := call(nodes, "inspect", "job")
	require.Zero(t, r.code, r.log)
	requireHarmless(t, r.out)
	assert.Regexp(t, `(?m)^job: held by 2 readers for \d+s, for another \S+ unless renewed$`, r.out)
	assert.Regexp(t, `(?m)^  node 1 \(.*\) +2 readers +(10|9)m`, r.out)
	assert.Contains(t, r.out, "  readers: 2\n")
	assert.Regexp(t, `(?m)^     \d\. a reader \(`+first.Owner()[:6]+`…\) for \d+s, at 2 nodes, for another \S+ unless renewed$`, r.out)
	assert.Contains(t, r.out, `"x\x1b[2J\nother: free \u202e\u009b\xff" (`+second.Owner()[:6])

	v := inspectJSON(t, nodes, "job")
	assert.Equal(t, overview.Held, v.State)
	require.Len(t, v.Nodes[0].Holders, 2)
	assert.Empty(t, v.Nodes[2].Holders)
	require.Len(t, v.Holders, 2)
	assert.Equal(t, 2, v.Holders[0].Nodes)
	assert.InDelta(t, 600, *v.Holders[0].Remaining, 60)
}

func TestSharesWithoutAMajorityAreSplitVotes(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	share(t, nodes, "job", "a reader")
	nodes.Wipe(0)
	nodes.Wipe(1)
	r := call(nodes, "inspect", "job")
	assert.Contains(t, r.out, "job: nobody holds it: the votes are split")
	assert.Regexp(t, `(?m)^     1\. a reader \(.*…\), at 1 node, no majority has its share$`, r.out)
	assert.Equal(t, overview.Split, inspectJSON(t, nodes, "job").State)
	r = unlock(nodes, "--force", "job")
	require.Zero(t, r.code, r.log)
	assert.Contains(t, r.out, "job: nobody held it; the keys at 1 node are deleted.")
}

func TestInspectShowsAKeyThatOutlivesItsReaders(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	conn, err := redis.DialURL(nodes.URLs()[0])
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Do("SET", "redlock:job", "redlock::shared", "EX", 60)
	require.NoError(t, err)
	r := call(nodes, "inspect", "job")
	assert.Contains(t, r.out, "job: nobody holds it: the votes are split, or the last keys of a lease expire")
	assert.Regexp(t, `node 0 .*  0 readers  `, r.out)
}

func TestUnlockSaysHowManyReadersItBroke(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	first, second := share(t, nodes, "job", "a reader"), share(t, nodes, "job", "another reader")
	r := unlock(nodes, "--force", "job")
	require.Zero(t, r.code, r.log)
	assert.Regexp(t, `job: broken\. It was held by 2 readers for another (10|9)m`, r.out)
	for _, lease := range []*redlock.Lease{first, second} {
		assert.Contains(t, r.out, "reader ("+lease.Owner()[:6]+"…)")
		require.ErrorIs(t, lease.Extend(t.Context()), redlock.ErrLost)
	}
	// An Extend may restore a share before it learns that the lease is lost; its undo follows.
	eventually(t, func() bool { return strings.Contains(call(nodes, "inspect", "job").out, "job: free") }, "nothing is left of the readers")
}

func TestAFullListOfReadersIsALeastNumber(t *testing.T) {
	readers := make([]redlock.ShareStatus, overview.MostReaders)
	for i := range readers {
		readers[i] = redlock.ShareStatus{Owner: fmt.Sprint(i), Remaining: time.Second, Nodes: 1}
	}
	s := redlock.Status{Readers: readers, Nodes: []redlock.NodeStatus{{Readers: readers, Remaining: time.Second}}}
	assert.Equal(t, "at least 100 readers", countReaders(s))
	s.Readers, s.Nodes[0].Readers = readers[1:], readers[1:]
	assert.Equal(t, "99 readers", countReaders(s))
	s.Holder = "a writer"
	assert.Equal(t, "0 readers", countReaders(s))
}
