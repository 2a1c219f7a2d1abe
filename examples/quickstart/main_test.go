package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/examples/internal/demo"
)

func TestQuickstartTellsItsStory(t *testing.T) {
	out := demo.Run(t, run)

	chapters := strings.Split(out, "\n\n")
	require.Len(t, chapters, 5)

	assert.Contains(t, chapters[1], `1. Alice locks "orders"`)
	assert.Equal(t, 5, strings.Count(chapters[1], "  granted\n"))

	assert.Contains(t, chapters[2], "2. Bob tries")
	assert.Regexp(t, regexp.MustCompile(`it is held by\n   "\w+@alice" for another (10|9\.\d+)s\.`), chapters[2])

	assert.Contains(t, chapters[3], "3. Alice unlocks")
	assert.Equal(t, 5, strings.Count(chapters[3], "  empty"))

	assert.Contains(t, chapters[4], "4. Two nodes fail")
	assert.Equal(t, 3, strings.Count(chapters[4], "  granted\n"))
	assert.Equal(t, 2, strings.Count(chapters[4], "  no answer\n"))
	assert.Contains(t, chapters[4], "the lock is his")
}
