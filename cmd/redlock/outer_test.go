package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/redlocktest"
)

// nested returns the command line of runs inside each other, each given by its words before the --.
func nested(nodes *redlocktest.Nodes, runs ...string) []string {
	line := []string{"true"}
	for i := len(runs) - 1; i >= 0; i-- {
		words := append(append([]string{"run"}, strings.Fields(runs[i])...), append([]string{"--"}, line...)...)
		if i > 0 {
			words = append(append([]string{os.Args[0]}, nodesArgs(nodes)...), words...)
		}
		line = words
	}
	return line
}

func TestARunInsideARunOfItsLockIsRefused(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	for _, c := range []struct {
		runs []string
		code int
	}{
		{[]string{"job", "job"}, codeUsage},
		{[]string{"job", "other"}, 0},
		{[]string{"job", "other", "job"}, codeUsage},
		{[]string{"job", "second", "third", "job"}, codeUsage},
		{[]string{"job other", "third", "other fourth"}, codeUsage},
		{[]string{"job", "--read other", "--read job"}, codeUsage},
		{[]string{"--read job", "other", "job"}, codeUsage},
		{[]string{"--read job", "other", "--read job"}, codeUsage},
		{[]string{"--permits 2 job", "other", "--permits 2 --take 2 job"}, codeUsage},
		{[]string{"--permits 2 job", "--permits 2 job", "--permits 2 job"}, codeUsage},
		{[]string{"--permits 3 job", "--permits 3 job", "--permits 3 job"}, 0},
		{[]string{"--permits 2 job", "job"}, 0}, // the mutex of this name is another lock
	} {
		r := start(t, nodes, nested(nodes, c.runs...)...).end()
		assert.Equal(t, c.code, r.code, "%v: %s", c.runs, r.log)
		assert.Equal(t, c.code != 0, strings.Contains(r.log, "wait for itself"), "%v: %s", c.runs, r.log)
	}
	t.Setenv(outerEnv, withOuter("somebody long gone", []string{"job"}))
	assert.Zero(t, start(t, nodes, "run", "job", "--", "true").end().code, "runs that have ended do not matter")
}

// A process that the command has left behind outlives the run around it.
func TestARunWaitsForALockThatRestsAfterItsOuterRun(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	outer := start(t, nodes, "run", "job", "--min-hold", "3s", "--", "sh", "-c", `echo "$REDLOCK_OUTER"`).end()
	require.Zero(t, outer.code, outer.log)
	t.Setenv(outerEnv, strings.TrimSpace(outer.out))
	r := start(t, nodes, "run", "job", "--", "true").end()
	assert.Zero(t, r.code, r.log)
}

func TestOuterLocksAreFoundByTheirName(t *testing.T) {
	t.Setenv(outerEnv, withOuter("vm:1@x", []string{"a b", "line\nline", ""}))
	t.Setenv(outerEnv, withOuter("vm:2@y", []string{"a b"}))
	assert.Equal(t, []string{"vm:1@x", "vm:2@y"}, outerOwners("a b"))
	assert.Equal(t, []string{"vm:1@x"}, outerOwners("line\nline"))
	require.Empty(t, outerOwners("line"))
}
