package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEachItemIsDoneOnce(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out))
	assert.Contains(t, out.String(), "Each of 24 items was done once.")
}

func TestAnItemThatIsDoneTwiceIsAnError(t *testing.T) {
	l := &list{done: []int{1, 2}}
	assert.EqualError(t, l.verdict(&bytes.Buffer{}), "item 1 was done 2 times")
}
