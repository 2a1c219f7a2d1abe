package main

import (
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/examples/internal/demo"
)

func TestOneLeadsAtATimeAndTheNextTakesOver(t *testing.T) {
	out := demo.Run(t, run)
	assert.Regexp(t, `(?s)7:8080 leads.*7:8080 resigns.*8:8080 leads.*9:8080 leads.*9:8080 has done`, out)
	assert.Regexp(t, `(?s)7:8080 resigns.*7:8080 leads.*7:8080 has done`, out)
	assert.Regexp(t, `(?s)8:8080 leads.*8:8080 stops: .*lost.*8:8080 leads.*8:8080 has done`, out,
		"it may say so late, but its lease is over before the next one leads")

	leaders := termsIn(t, out, `(\S+) leads, term (\d+)`)
	for _, follower := range []string{"follower 1", "follower 2"} {
		seen := termsIn(t, out, follower+`: the leader is (\S+), term ([1-9]\d*)`)
		assert.NotEmpty(t, seen, follower)
		assert.Subset(t, leaders, seen, follower)
	}
}

type leader struct {
	address string
	term    int
}

// termsIn returns the leaders that lines of the output name. Their terms have growing numbers.
func termsIn(t *testing.T, out, line string) (all []leader) {
	last := 0
	for _, m := range regexp.MustCompile(line).FindAllStringSubmatch(out, -1) {
		term, err := strconv.Atoi(m[2])
		require.NoError(t, err)
		assert.Greater(t, term, last, "%s:\n%s", line, out)
		all, last = append(all, leader{m[1], term}), term
	}
	return all
}

func TestTwoLeadersAtOnceAreAnError(t *testing.T) {
	d, _ := demo.New(t)
	o := &office{demo: d, seen: make(map[string]bool)}
	valid, over := func() bool { return true }, func() bool { return false }
	require.NoError(t, o.enter("anna", 1, valid))
	require.ErrorContains(t, o.enter("ben", 2, valid), "ben leads beside anna")
	o.leave("anna")
	require.NoError(t, o.enter("ben", 3, over))
	require.NoError(t, o.enter("clara", 4, valid), "ben's lease is over")
}
