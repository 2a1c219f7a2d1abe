// Package integration tests redlock on real Redis servers: the library's guarantees when
// servers die, freeze, are behind a network partition or answer garbage.
//
// The servers are Docker containers where an engine answers, else redis-server
// processes; REDLOCK_TEST_BACKEND=docker or process forces one of them, and
// REDLOCK_TEST_IMAGE names the image. The last line of the output names them.
//
// Some representative tests run, for less than a minute. With REDLOCK_LONG=1
// all run but those that compare speeds or take minutes, whose names begin with
// TestSoak and which run with -soak. Tests that call t.Parallel run beside each
// other on servers of their own; all others run before them, alone. The chaos
// test (chaos_run_test.go) lasts as long as -chaos.duration says, and prints the
// seed with which -chaos.seed plays the same faults again.
//
// A test does not compare a measured time with a limit below some seconds: the library's own
// tests show the cost of delays in virtual time.
package integration

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/redlock-go/redlock/integration/cluster"
)

func TestMain(m *testing.M) {
	if job := os.Getenv(workerEnv); job != "" {
		os.Exit(runJob(job))
	}
	os.Exit(runTests(m))
}

// runTests is the main function of the tests' own process. What they build is removed.
func runTests(m *testing.M) int {
	var err error
	if toolDir, err = os.MkdirTemp("", "redlock-tool-"); err != nil {
		fmt.Fprintln(os.Stderr, "integration:", err)
		return 1
	}
	defer os.RemoveAll(toolDir)
	flag.Parse()
	if err := cluster.SetParallel(parallelTests); err != nil {
		fmt.Fprintln(os.Stderr, "integration:", err)
		return 1
	}
	return cluster.Main(m)
}

// parallelTests is how many tests run beside each other unless -parallel is given:
// more than there are processors, since most of them sleep for most of their time.
const parallelTests = 6
