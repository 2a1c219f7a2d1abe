package main

import (
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/overview"
	"github.com/redlock-go/redlock/internal/test/testclient"
	"github.com/redlock-go/redlock/redlocktest"
)

// keep keeps a lease until the test is over: one that is dropped is released.
func keep(t *testing.T, l *redlock.Lease) *redlock.Lease {
	t.Helper()
	t.Cleanup(func() { runtime.KeepAlive(l) })
	return l
}

func TestLsListsNamesHoldersTimesAndWaiters(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	r := call(nodes, "ls")
	require.Zero(t, r.code, r.log)
	assert.Empty(t, r.out, "nothing is locked")

	keep(t, hold(t, nodes, "job-1"))
	keep(t, hold(t, nodes, "job-2", redlock.WithOwnerLabel("a\nlabel")))
	keep(t, hold(t, nodes, "a\x1b[2Jname"))
	keep(t, share(t, nodes, "catalog", "one"))
	keep(t, share(t, nodes, "catalog", "two"))
	start(t, nodes, "run", "job-1", "--", "true")
	eventually(t, func() bool { return strings.Contains(call(nodes, "inspect", "job-1").out, "waiting: 1") }, "in the queue")
	r = call(nodes, "ls")
	require.Zero(t, r.code, r.log)
	assert.Regexp(t, `(?m)^NAME +HOLDER +HELD FOR +REMAINING +WAITERS +STATE$`, r.out)
	assert.Regexp(t, `(?m)^job-1 +the holder +\d+s +\d[\d.]*s +1 +held$`, r.out)
	assert.Regexp(t, `(?m)^job-2 +"a\\nlabel" +\d+s +\d[\d.]*s +0 +held$`, r.out)
	assert.Regexp(t, `(?m)^catalog +2 readers +\d+s +\d[\dms.]* +0 +held$`, r.out)
	assert.Contains(t, r.out, `"a\x1b[2Jname"`)
	assert.Len(t, strings.Split(strings.TrimSpace(r.out), "\n"), 5)

	assert.Equal(t, 4, strings.Count(call(nodes, "ls", "--json").out, `"state":"held"`))
	r = call(nodes, "ls", "job-[2-9]")
	require.Zero(t, r.code, r.log)
	assert.NotContains(t, r.out, "job-1")
	assert.Contains(t, r.out, "job-2")
}

func TestLsShowsWhatAMinoritySaysAndFails(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	assert.Equal(t, codeUsage, call(nodes, "ls", "").code)
	assert.Equal(t, codeUsage, call(nodes, "ls", "a", "b").code)
	keep(t, hold(t, nodes, "job"))
	nodes.Stop(0)
	nodes.Stop(2)
	r := call(nodes, "ls", "--node-timeout", "100ms")
	assert.Equal(t, codeNoQuorum, r.code, r.log)
	assert.Contains(t, r.log, "list")
	assert.Regexp(t, `(?m)^job +the holder +- +\d[\d.]*s +0 +incomplete$`, r.out)
	r = call(nodes, "ls", "--node-timeout", "100ms", "--json")
	assert.Equal(t, codeNoQuorum, r.code, r.log)
	var v overview.LockJSON
	require.NoError(t, json.Unmarshal([]byte(r.out), &v))
	assert.Equal(t, overview.Incomplete, v.State)
	assert.False(t, v.Holders[0].Holds)
	assert.Contains(t, v.Nodes[1].Holders[0].Owner, "@the holder")
}

func TestRowsSayTheStateOfALock(t *testing.T) {
	const owner = "ABCDEFGHIJKLMNOPQRSTUVWXYZ@worker"
	queue := []redlock.WaiterStatus{{Ticket: "1"}}
	for want, s := range map[string]redlock.Status{
		"worker|5s|held":         {Holder: owner, Remaining: 5 * time.Second},
		"worker|5s|resting":      {Holder: owner, Remaining: 5 * time.Second, Resting: true},
		"1 reader|5s|held":       {Readers: []redlock.ShareStatus{{Owner: owner, Remaining: time.Second}}, Remaining: 5 * time.Second},
		"1 permit|-|held":        {Permits: []redlock.PermitStatus{{Owner: owner, Remaining: time.Second}}, Queue: queue},
		"-|-|reserved":           {Reserved: "1", Nodes: []redlock.NodeStatus{{Reserved: "1", Remaining: time.Second}}},
		"-|-|waited for":         {Queue: queue, Nodes: []redlock.NodeStatus{{Queue: []string{"1"}}}},
		"-|-|split":              {Nodes: []redlock.NodeStatus{{Holder: "a", Remaining: 1}, {Holder: "b", Remaining: 1}, {}}},
		"b|7s|incomplete":        {Incomplete: true, Nodes: []redlock.NodeStatus{{Holder: "a", Remaining: 7 * time.Second}, {Holder: "b", Remaining: 1}, {Holder: "b", Remaining: 1}}},
		"a|no end|incomplete":    {Incomplete: true, Nodes: []redlock.NodeStatus{{Holder: "a", Remaining: -1}, {Holder: "b", Remaining: 1}}},
		"2 readers|-|incomplete": {Incomplete: true, Readers: make([]redlock.ShareStatus, 2)},
		"3 permits|-|incomplete": {Incomplete: true, Permits: make([]redlock.PermitStatus, 3)},
		"-|-|incomplete":         {Incomplete: true, Queue: queue},
	} {
		v := newRow(s)
		assert.Equal(t, want, v.holder+"|"+v.remaining+"|"+v.state)
	}
}

// A pipe that is closed ends the listing.
func TestLsEndsWhenItCannotWrite(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	keep(t, hold(t, nodes, "job"))
	client := testclient.Open(t, nodes.URLs())
	err := listLocks(t.Context(), client, "*", newRowWriter(closedPipe{}, false).write)
	assert.ErrorIs(t, err, errClosedPipe)
}

// Long cells move the columns of the rows after them.
func TestLsWidensItsColumns(t *testing.T) {
	var out strings.Builder
	rows, owner := newRowWriter(&out, false), strings.Repeat("A", 26)+"@label"
	for _, name := range []string{"short", strings.Repeat("é", 40), "short"} {
		require.NoError(t, rows.write(redlock.Status{Name: name, Holder: owner, Remaining: -time.Second}))
	}
	lines := strings.Split(out.String(), "\n")
	assert.Equal(t, 32, strings.Index(lines[1], "label"))
	assert.Equal(t, 42, strings.Index(lines[3], "label"))
	assert.Contains(t, lines[1], "no end")
	require.NoError(t, rows.write(redlock.Status{Name: "x", Holder: owner, Resting: true}))
	assert.Contains(t, out.String(), "  resting\n")
}

var errClosedPipe = errors.New("closed pipe")

type closedPipe struct{}

func (closedPipe) Write([]byte) (int, error) { return 0, errClosedPipe }
