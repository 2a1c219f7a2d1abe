package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// asProgram, in the environment, makes the test binary the program itself, so that the stages are
// processes in tests too.
const asProgram = "REDLOCK_TRANSFER_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Setenv(asProgram, "1")
	os.Exit(m.Run())
}

func TestStagesHandTheLockOn(t *testing.T) {
	var out, log bytes.Buffer
	require.NoError(t, run(t.Context(), nil, strings.NewReader(""), &out, &log), out.String())
	for _, stage := range stages {
		assert.Contains(t, out.String(), stage+" works in a process of its own, under the lock.\n")
	}
	assert.Contains(t, out.String(), "The rival waited behind all of them")
	assert.NotContains(t, out.String(), "redlock-lease", "the text is not shown")
}
