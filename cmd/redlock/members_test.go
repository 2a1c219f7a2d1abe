package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/redlocktest"
)

func TestMembersShowsTheListInForceAndWhoIsNotInIt(t *testing.T) {
	nodes := redlocktest.Start(t, 4)
	urls := nodes.URLs()
	in, early := strings.Join(urls[:3], ","), strings.Join(slices.Concat(urls[:2], urls[3:]), ",")
	require.Zero(t, toolSays("run", "job", "--nodes", in, "--restart-guard", "1ms", "--ttl", "1s", "--", "true").code)

	r := toolSays("members", "--nodes", in)
	require.Zero(t, r.code, r.log)
	assert.Len(t, strings.Split(strings.TrimSpace(r.out), "\n"), 3)
	assert.NotContains(t, r.out, "no master")
	assert.NotContains(t, r.out, "not among")
	r = toolSays("members", "--nodes", early, "--json")
	require.Zero(t, r.code, r.log)
	var v membersView
	require.NoError(t, json.Unmarshal([]byte(r.out), &v))
	require.Len(t, v.Others, 1)
	assert.Contains(t, v.Others[0].Node, strings.TrimPrefix(urls[3], "redis://"))
	require.Len(t, v.Masters, 3)
	for _, m := range v.Masters {
		assert.NotEmpty(t, m.Node, "also the one that is not among the nodes that were given")
	}

	unused := strings.Join(redlocktest.Start(t, 3).URLs(), ",")
	assert.Equal(t, codeNoQuorum, toolSays("members", "--nodes", unused).code, "a new cluster has no list yet")
}
