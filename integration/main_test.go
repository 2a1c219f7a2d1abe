// Package integration tests redlock on real Redis servers: the promises of the
// library where servers die, freeze, vanish behind a partition or answer nonsense.
//
// The servers are Docker containers where an engine answers, else redis-server
// processes; REDLOCK_TEST_BACKEND=docker or process forces one of them, and
// REDLOCK_TEST_IMAGE names the image. Tests share the servers and run one after
// the other. Those that keep a load up for long are shorter with -short. The chaos
// test (chaos_run_test.go) lasts as long as -chaos.duration says, and prints the
// seed with which -chaos.seed plays the same faults again.
package integration

import (
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
	return cluster.Main(m)
}
