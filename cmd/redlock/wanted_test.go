package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestAskReachesAHolderThatWantsToBeTold(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	lease := hold(t, nodes, "job", redlock.WithWanted(), redlock.WithOwnerLabel("the exporter"))
	v := call(nodes, "inspect", "--json", "job")
	assert.Contains(t, v.out, `"notifiable":true`)
	r := call(nodes, "ask", "job")
	require.Zero(t, r.code, r.log)
	assert.Equal(t, `job: asked the exporter (`+shortOwner(lease.Owner())+").\n", r.out)
	<-lease.Wanted()
	require.True(t, lease.Valid())
}

func TestAskSaysWhoIsNotAsked(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	r := call(nodes, "ask", "job")
	require.Zero(t, r.code, r.log)
	assert.Equal(t, "job: nobody holds it.\n", r.out)

	lease := hold(t, nodes, "job")
	r = call(nodes, "ask", "job")
	require.Zero(t, r.code, r.log)
	assert.Contains(t, r.out, "job: nobody was asked. It is held by the holder ("+shortOwner(lease.Owner())+") for another ")
	assert.Contains(t, call(nodes, "inspect", "--json", "job").out, `"notifiable":false`)

	assert.Equal(t, codeUsage, call(nodes, "ask").code)
	assert.Equal(t, codeUsage, call(nodes, "ask", "").code)
	nodes.Stop(0)
	nodes.Stop(1)
	r = call(nodes, "ask", "job")
	assert.Equal(t, codeNoQuorum, r.code)
	assert.Empty(t, r.out)
}
