package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/redlocktest"
)

// GODEBUG=fips140=only ends a process that uses an algorithm beside those of FIPS 140-3.
func TestToolWorksUnderStrictFIPS(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	t.Setenv("GODEBUG", "fips140=only")
	for _, args := range [][]string{
		{"run", "job", "--", "true"}, {"run", "--read", "job", "--", "true"}, {"run", "--permits", "2", "job", "--", "true"},
		{"run", "job", "other", "--", "true"}, {"inspect", "job"}, {"ls"}, {"doctor"}, {"bench", "--for", "100ms"},
	} {
		r := start(t, nodes, args...).end()
		require.Zero(t, r.code, "%v: %s%s", args, r.out, r.log)
	}
}
