package main

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/fence"
)

func TestAllServicesAreDeployedOnThreeMachinesAtMost(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out))
	var done, by, most int
	line := out.String()[bytes.LastIndexByte(bytes.TrimSpace(out.Bytes()), '\n')+1:]
	_, err := fmt.Sscanf(line, "%d deployments by %d pipelines; %d machines", &done, &by, &most)
	require.NoError(t, err, line)
	assert.Equal(t, len(pipelines)*len(services), done)
	assert.LessOrEqual(t, most, machines)
}

func TestMachineRefusesALateHolderOfItsSlotOnly(t *testing.T) {
	f := newFleet()
	late, other := []redlock.Permit{{Slot: 1, Token: 7}}, []redlock.Permit{{Slot: 2, Token: 3}}
	require.NoError(t, f.begin(late, "shop"))
	require.NoError(t, f.begin(other, "mail"), "tokens of different slots have no order")
	assert.Equal(t, 2, f.most)

	next := []redlock.Permit{{Slot: 1, Token: 8}}
	require.NoError(t, f.begin(next, "search"), "it takes the machine over")
	assert.Equal(t, map[int]string{1: "search", 2: "mail"}, f.runs)
	require.ErrorIs(t, f.finish(late), fence.ErrStale)
	require.NoError(t, f.finish(next))
	assert.Equal(t, 1, f.done)
	assert.Equal(t, map[int]string{2: "mail"}, f.runs)
}

func TestDeploymentIsRepeatedOnlyIfThePermitsWereLost(t *testing.T) {
	for err, want := range map[error]bool{
		nil:                          false,
		errors.New("broken"):         false,
		redlock.ErrNoQuorum:          false,
		redlock.ErrLost:              true,
		&fence.StaleError{Token: 33}: true,
	} {
		assert.Equal(t, want, tooLate(err), "%v", err)
	}
}
