package main

import (
	"bytes"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOneLeadsAtATimeAndTheNextTakesOver(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out))
	assert.Regexp(t, `(?s)anna leads.*anna resigns.*ben leads.*ben stops: .*lost.*clara leads.*clara resigns`, out.String())

	last := 0
	for _, term := range regexp.MustCompile(`term (\d+)`).FindAllStringSubmatch(out.String(), -1) {
		token, err := strconv.Atoi(term[1])
		require.NoError(t, err)
		assert.Greater(t, token, last, "terms have growing numbers")
		last = token
	}
}

func TestTwoLeadersAtOnceAreAnError(t *testing.T) {
	o := &office{out: &bytes.Buffer{}}
	require.NoError(t, o.enter("anna", 1))
	require.ErrorContains(t, o.enter("ben", 2), "ben leads beside anna")
	o.leave("anna")
	require.NoError(t, o.enter("ben", 3))
}
