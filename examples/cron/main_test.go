package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/examples/internal/demo"
)

func TestJobOfEachTimeIsRunOnceByALockThatRestsOrARecord(t *testing.T) {
	out := demo.Run(t, run)
	chapters := strings.Split(out, "\n\n")
	require.Len(t, chapters, 6, out)

	assert.Regexp(t, "The job of 12:00 was run [2-4]×", chapters[2], "the late machine finds the lock free again")
	assert.Contains(t, chapters[3], "The job of 12:01 was run 1×", "it finds the lock resting")
	assert.Contains(t, chapters[4], "The job of 12:02 was run 1×")
	assert.Equal(t, 3, strings.Count(chapters[4], "finds it done by"))
	assert.Contains(t, chapters[5], "machine-2 begins, and loses power")
	assert.Contains(t, chapters[5], "The job of 12:03 was run 1×")
	assert.Equal(t, 2, strings.Count(chapters[5], "finds it done by"))
}
