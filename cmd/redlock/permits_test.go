//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
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

// permits takes permits of the semaphore "job", which has three, at all nodes, until the test is over or
// they are released.
func permits(t *testing.T, nodes *redlocktest.Nodes, n int, label string) *redlock.Lease {
	t.Helper()
	client := testclient.Open(t, nodes.URLs(), redlock.WithOwnerLabel(label), redlock.WithTTL(10*time.Minute)) // it is not renewed within the test
	lease, err := client.Semaphore("job", 3).Acquire(t.Context(), n)
	require.NoError(t, err)
	for _, slot := range lease.Slots() { // the verdict does not wait for the last node
		for i := range nodes.URLs() {
			eventually(t, func() bool {
				owner, _ := nodes.Get(i, fmt.Sprintf("%s#%d", jobKey, slot))
				return owner == lease.Owner()
			}, "held everywhere")
		}
	}
	return keep(t, lease)
}

func TestRunsWithPermitsWorkSideBySide(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	dir := t.TempDir()
	script := `echo $REDLOCK_SLOTS >"$1.new"; mv "$1.new" "$1"; while [ ! -e "$2" ]; do sleep 0.01; done`
	var runs []*tool
	for i, flags := range [][]string{{}, {"--take", "2"}} {
		file := filepath.Join(dir, fmt.Sprint(i))
		args := slices.Concat([]string{"run", "job", "--permits", "3"}, flags, []string{"--", "sh", "-c", script, "sh", file, filepath.Join(dir, "go")})
		runs = append(runs, start(t, nodes, args...))
		eventually(t, func() bool { return textOf(file) != "" }, "at work, beside the other")
	}
	slots := strings.Fields(textOf(filepath.Join(dir, "0")) + " " + textOf(filepath.Join(dir, "1")))
	slices.Sort(slots)
	assert.Equal(t, []string{"0", "1", "2"}, slots)
	r := call(nodes, "run", "job", "--permits", "3", "--no-wait", "--", "true")
	assert.Equal(t, codeHeld, r.code)
	assert.Contains(t, r.log, "too few permits")
	assert.Zero(t, call(nodes, "run", "job", "--no-wait", "--", "sh", "-c", `test -z "$REDLOCK_SLOTS"`).code, "the mutex of this name is another lock")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
	for _, run := range runs {
		r := run.end()
		assert.Zero(t, r.code, r.log)
		assert.Empty(t, r.log)
	}
	assert.Zero(t, start(t, nodes, "run", "job", "--permits", "3", "--take", "3", "--wait", "5s", "--", "true").end().code, "they are back")
}

func TestRunWithPermitsRefusesBadFlags(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	for _, flags := range []string{"--take 2", "--permits 0", "--permits -1", "--permits 3 --take 4", "--permits 3 --take 0",
		"--permits 3 other", "--permits 3 --read", "--permits 3 --min-hold 1s"} {
		r := call(nodes, slices.Concat([]string{"run", "job"}, strings.Fields(flags), []string{"--", "true"})...)
		assert.Equal(t, codeUsage, r.code, "%s: %s", flags, r.log)
	}
	r := call(nodes, "run", "job", "--permits", "257", "--", "true")
	assert.Equal(t, codeConfig, r.code)
	assert.Contains(t, r.log, "257 permits")
}

func TestARunInsideOneThatHasPermitsGetsWhatIsLeft(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	for take, code := range map[string]int{"1": 0, "2": codeUsage} {
		nested := slices.Concat([]string{os.Args[0]}, nodesArgs(nodes), []string{"run", "job", "--permits", "3", "--take", take, "--", "true"})
		r := start(t, nodes, append([]string{"run", "job", "--permits", "3", "--take", "2", "--"}, nested...)...).end()
		assert.Equal(t, code, r.code, "%s more: %s", take, r.log)
		assert.Equal(t, code != 0, strings.Contains(r.log, "wait for itself"), r.log)
	}
}

func TestRunSaysHowManyPermitsItWaitsFor(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	permits(t, nodes, 2, "the holder")
	text := waitOnce(t, nodes, &runFlags{permits: 3, take: 2}, "job")
	assert.Regexp(t, `waiting for 2 permits of "job": 2 of 3 are held, [01] in the wait queue`, text, "0: it has not joined the queue yet")
}

func TestInspectShowsPermits(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	two, one := permits(t, nodes, 2, attack), permits(t, nodes, 1, "one")
	start(t, nodes, "run", "job", "--permits", "3", "--take", "2", "--", "true")
	eventually(t, func() bool { return strings.Contains(call(nodes, "inspect", "job").out, "waiting: 1") }, "in the queue")
	nodes.Stop(2)
	r := call(nodes, "inspect", "job")
	require.Zero(t, r.code, r.log)
	requireHarmless(t, r.out)
	assert.Regexp(t, `(?m)^job: 3 permits held$`, r.out)
	assert.NotContains(t, r.out, "  token  ")
	assert.Regexp(t, `(?m)^  node 1 \(.*\) +3 permits +-`, r.out)
	assert.Regexp(t, fmt.Sprintf(`(?m)^    slot %d: one \(%s…\) for \d+s, at 2 nodes, for another (10|9)m\S+ unless renewed, greatest token \d+$`, one.Slots()[0], one.Owner()[:6]), r.out)
	assert.Contains(t, r.out, fmt.Sprintf(`    slot %d: "x\x1b[2J\nother: free`, two.Slots()[0]))
	assert.Regexp(t, `(?m)^     1\. .*, waiting for \S+, wants 2 of 3 permits, at \d nodes$`, r.out)
	assert.NotContains(t, r.out, "different numbers")

	v := inspectJSON(t, nodes, "job")
	require.Len(t, v.Nodes[0].Holders, 3)
	assert.Empty(t, v.Nodes[2].Holders)
	assert.Equal(t, overview.Held, v.State)
	assert.Equal(t, [2]int{2, 3}, [2]int{v.Waiters[0].Permits, v.Waiters[0].Limit})
	require.Len(t, v.Holders, 2)
	for _, h := range v.Holders {
		assert.Len(t, h.Slots, map[bool]int{true: 1, false: 2}[h.Owner == one.Owner()])
		assert.InDelta(t, 600, *h.Remaining, 60)
	}
}

func TestPermitsWithoutAMajorityAreShown(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	permits(t, nodes, 1, "one")
	nodes.Wipe(0)
	nodes.Wipe(1)
	r := call(nodes, "inspect", "job")
	assert.Contains(t, r.out, "job: free")
	assert.Regexp(t, `(?m)^    slot \d: one \(.*…\), at 1 node, no majority has it, greatest token \d+$`, r.out)
}

func TestUnlockTakesOnePermitOrAll(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	r := unlock(nodes, "--force", "--permits", "job")
	assert.Equal(t, codeFree, r.code)
	two, one := permits(t, nodes, 2, "two"), permits(t, nodes, 1, "one")
	assert.Equal(t, codeUsage, unlock(nodes, "--permits", "job").code)
	r = unlock(nodes, "--force", "job")
	assert.Equal(t, codeUsage, r.code, "the mutex of this name is another lock")

	slot := fmt.Sprintf("job#%d", one.Slots()[0])
	r = unlock(nodes, "--force", slot)
	require.Zero(t, r.code, r.log)
	assert.Contains(t, r.out, slot+": broken. It was held by one ("+shortOwner(one.Owner())+")")
	require.ErrorIs(t, one.Extend(t.Context()), redlock.ErrLost)
	require.NoError(t, two.Extend(t.Context()))

	r = unlock(nodes, "--force", "--permits", "job")
	require.Zero(t, r.code, r.log)
	for _, slot := range two.Slots() {
		assert.Contains(t, r.out, fmt.Sprintf("job#%d: broken. It was held by two (%s)", slot, shortOwner(two.Owner())))
	}
	require.ErrorIs(t, two.Extend(t.Context()), redlock.ErrLost)
	for slot := range 3 {
		awaitFree(t, nodes, fmt.Sprintf("%s#%d", jobKey, slot))
	}
	r = call(nodes, "run", "job", "--permits", "3", "--take", "3", "--no-wait", "--", "true")
	assert.Zero(t, r.code, r.log)
}

func TestInspectAndDoctorSayThatCallersGiveDifferentNumbersOfPermits(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	lease := permits(t, nodes, 3, "holder") // all that there are
	doctor := func() result { return call(nodes, "doctor", "--for", "0s") }
	start(t, nodes, "run", "job", "--permits", "2", "--", "true")
	eventually(t, func() bool { return strings.Contains(call(nodes, "inspect", "job").out, "waiting: 1") }, "in the queue")
	require.NotContains(t, doctor().out, "different numbers")
	start(t, nodes, "run", "job", "--permits", "1", "--", "true")
	eventually(t, func() bool { return strings.Contains(call(nodes, "inspect", "job").out, "waiting: 2") }, "both in the queue")
	r := call(nodes, "inspect", "job")
	assert.Contains(t, r.out, "different numbers of permits, 1 and 2: as many as the greatest may be held", r.out)
	assert.Contains(t, r.out, "wants 1 of 1 permit,")
	r = doctor()
	assert.Regexp(t, `WARNING  callers of the semaphore job give different numbers of permits, 1 and 2\n    so:  .*\n    do:  give all callers the same number`, r.out)
	require.NoError(t, lease.Unlock(t.Context()))
}

// A semaphore has a row of its own while somebody waits for its permits.
func TestLsListsASemaphoreWithWaiters(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	keep(t, permits(t, nodes, 3, "the worker"))
	assert.NotRegexp(t, `(?m)^job `, call(nodes, "ls").out, "nobody waits")
	start(t, nodes, "run", "job", "--permits", "3", "--", "true")
	eventually(t, func() bool { return strings.Contains(call(nodes, "inspect", "job").out, "waiting: 1") }, "in the queue")
	r := call(nodes, "ls")
	require.Zero(t, r.code, r.log)
	assert.Regexp(t, `(?m)^job +3 permits +- +- +1 +held$`, r.out)
	assert.Regexp(t, `(?m)^job#0 +the worker +\d+s +\d[\dms.]* +0 +held$`, r.out)
	assert.Len(t, strings.Split(strings.TrimSpace(r.out), "\n"), 5)
}
