package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/examples/internal/demo"
	"github.com/redlock-go/redlock/fence"
)

func TestAllServicesAreDeployedOnThreeMachinesAtMost(t *testing.T) {
	out := demo.Run(t, run)
	var done, by, most int
	line := out[strings.LastIndex(strings.TrimSpace(out), "\n")+1:]
	_, err := fmt.Sscanf(line, "%d deployments by %d pipelines; %d machines", &done, &by, &most)
	require.NoError(t, err, line)
	assert.Equal(t, len(pipelines)*len(services), done)
	assert.LessOrEqual(t, most, machines)
}

func TestMachineRefusesALateHolderOfItsSlotOnly(t *testing.T) {
	f := newFleet()
	late, other := []int{1}, []int{2}
	require.NoError(t, f.begin(late, 7, "shop"))
	require.NoError(t, f.begin(other, 3, "mail"), "tokens of different slots have no order")
	assert.Equal(t, 2, f.most)

	next := []int{1}
	require.NoError(t, f.begin(next, 8, "search"), "it takes the machine over")
	assert.Equal(t, map[int]string{1: "search", 2: "mail"}, f.runs)
	require.ErrorIs(t, f.finish(late, 7), fence.ErrStale)
	require.NoError(t, f.finish(next, 8))
	assert.Equal(t, 1, f.done)
	assert.Equal(t, map[int]string{2: "mail"}, f.runs)
}
