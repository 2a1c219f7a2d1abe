package main

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redlock-go/redlock/examples/internal/demo"
)

func TestEachItemIsDoneOnce(t *testing.T) {
	out := demo.Run(t, run)
	assert.Contains(t, out, "Each of 24 items was done once.")
}

func TestAnItemThatIsDoneTwiceIsAnError(t *testing.T) {
	l := &list{done: []int{1, 2}}
	assert.EqualError(t, l.verdict(), "item 1 was done 2 times")
}
