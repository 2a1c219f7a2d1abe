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
	assert.Regexp(t, `(?s)anna leads.*anna resigns.*ben leads.*clara leads.*clara resigns`, out)
	assert.Regexp(t, `(?s)ben leads.*ben stops: .*lost`, out, "it may say so late, but its lease is over before clara leads")

	last := 0
	for _, term := range regexp.MustCompile(`term (\d+)`).FindAllStringSubmatch(out, -1) {
		token, err := strconv.Atoi(term[1])
		require.NoError(t, err)
		assert.Greater(t, token, last, "terms have growing numbers")
		last = token
	}
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
