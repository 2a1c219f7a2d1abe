package main

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/examples/internal/demo"
)

func TestTheLateWriteIsTakenWithoutAFenceAndRefusedWithOne(t *testing.T) {
	out := demo.Run(t, run)
	t.Log("\n" + out)

	without, with, found := strings.Cut(out, "\nWith a fence\n")
	require.True(t, found)
	assert.Contains(t, without, "\n    "+plainUpdate+"\n")
	assert.Regexp(t, `(?s)Alice  is stopped.*Bob    writes 100 - 30 = 70.*Alice  wakes after her check, and writes 100 \+ 50 = 150`, without)
	assert.Contains(t, without, "The balance is 150, which is WRONG")

	assert.True(t, strings.HasPrefix(with, "    "+fencedUpdate+"\n"))
	assert.Regexp(t, `(?s)Alice  is stopped.*Bob    writes 100 - 30 = 70.*Alice  wakes after her check, writes 100 \+ 50 = 150, and is refused:\n +fence: "account-7": token \d+ is stale`, with)
	assert.Contains(t, with, "Alice  writes 70 + 50 = 120")
	assert.Contains(t, with, "The balance is 120, which is right")
}

func TestEveryLeaseOfTheStoryHasAGreaterToken(t *testing.T) {
	out := demo.Run(t, run)

	tokens := regexp.MustCompile(`with the token (\d+)`).FindAllStringSubmatch(out, -1)
	require.Len(t, tokens, 5)
	last := int64(0)
	for _, match := range tokens {
		token, err := strconv.ParseInt(match[1], 10, 64)
		require.NoError(t, err)
		require.Greater(t, token, last)
		last = token
	}
}
