package main

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redlock-go/redlock/examples/internal/demo"
)

func TestMain(m *testing.M) { demo.TestMain(m, main) }

func TestStagesHandTheLockOn(t *testing.T) {
	out := demo.Run(t, run)
	for _, stage := range stages {
		assert.Contains(t, out, stage+" works in a process of its own, under the lock.\n")
	}
	assert.Contains(t, out, "The rival waited behind all of them")
	assert.NotContains(t, out, "redlock-lease", "the text is not shown")
}
