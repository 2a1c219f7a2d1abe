package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redlock-go/redlock/redlocktest"
)

func TestInspectSaysThatANodeDoesNotVote(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	var out, log strings.Builder
	assert.Zero(t, execute([]string{"--nodes", strings.Join(nodes.URLs(), ","), "inspect", "job"}, &out, &log))
	assert.Equal(t, 3, strings.Count(out.String(), ": it does not vote for another "), "%s", out.String())
	assert.NotContains(t, call(nodes, "inspect", "job").out, "it does not vote")
}
