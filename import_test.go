package redlock_test

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// again runs this test binary with a GODEBUG, and returns its output.
func again(t *testing.T, debug string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), os.Args[0], args...)
	command.Env = append(os.Environ(), "GODEBUG="+debug)
	out, err := command.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// A program that imports the library need not use it. The scripts alone are 1.7 MB while they are put together.
func TestImportCostsLittle(t *testing.T) {
	out := again(t, "inittrace=1", "-test.run=^$")
	all := 0
	for _, cost := range regexp.MustCompile(`(?m)^init github\.com/redlock-go/redlock(\S*) .* (\d+) bytes`).FindAllStringSubmatch(out, -1) {
		if strings.HasPrefix(cost[1], "/internal/test") || strings.HasPrefix(cost[1], "_test") {
			continue
		}
		bytes, err := strconv.Atoi(cost[2])
		require.NoError(t, err)
		all += bytes
	}
	require.NotZero(t, all, out)
	require.Less(t, all, 150_000, out)
}

// GODEBUG=fips140=only ends a process that uses another algorithm.
func TestExamplesRunUnderStrictFIPS(t *testing.T) {
	if strings.HasPrefix(runtime.Version(), "go1.25") {
		t.Skip("embedded nodes need Go 1.26 for that")
	}
	out := again(t, "fips140=only", "-test.run=^Example", "-test.v", "-test.count=1")
	require.GreaterOrEqual(t, strings.Count(out, "--- PASS: Example"), 20, fmt.Sprintf("the package's examples ran:\n%s", out))
}
