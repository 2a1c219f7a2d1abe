package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redlock-go/redlock/redlocktest"
)

func TestTooLongNamesAreRefused(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	long := strings.Repeat("x", 5000)
	for _, args := range [][]string{
		{"run", long, "--", "true"},
		{"run", "a", long, "--", "true"},
		{"run", long, "--read", "--", "true"},
		{"run", long, "--permits", "2", "--", "true"},
		{"inspect", long},
		{"unlock", "--force", long},
	} {
		r := call(nodes, args...)
		assert.Equal(t, codeConfig, r.code, args[0])
		assert.Contains(t, r.log, "is too long: with the prefix it has 5008 bytes, and may have 4096")
		assert.Less(t, len(r.log), 2000)
	}
}
