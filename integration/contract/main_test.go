// Package contract has the tests that every server program and every kind of client must pass: a
// short set that covers each primitive and each kind of fault once.
//
// TestContract runs them on a cluster of each program that REDLOCK_TEST_SERVERS names (default:
// the servers on which the integration tests run) and, where there are several, on one mixed
// cluster of all; and through each kind of client in clients_test.go.
//
// The tests run beside each other, each on servers of its own, and wait for most of their time. None
// compares a measured time with a limit below some seconds.
package contract

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/redlock-go/redlock/integration/cluster"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := cluster.SetParallel(8); err != nil { // they sleep for most of their time
		fmt.Fprintln(os.Stderr, "contract:", err)
		os.Exit(1)
	}
	os.Exit(cluster.Main(m))
}
