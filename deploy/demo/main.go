// Demo locks, waits, holds and loses now and then, over every kind of lock, and serves its metrics to Prometheus. It is
// the load of deploy/compose.yaml.
//
//	REDLOCK_NODES=redis://10.0.0.1:6379,redis://10.0.0.2:6379,redis://10.0.0.3:6379 go run ./demo
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/redlock-go/redlock/deploy/internal/load"
)

// variable is the environment variable that names the masters, as for the tool.
const variable = "REDLOCK_NODES"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Getenv(variable), os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends. It writes where it serves to log.
func run(ctx context.Context, args []string, masters string, log io.Writer) error {
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(log)
	address := flags.String("listen", ":9464", "serve /metrics at this `address`")
	ttl := flags.Duration("ttl", 10*time.Second, "ttl of the locks")
	nodeTimeout := flags.Duration("node-timeout", 500*time.Millisecond, "how long to wait for a master")
	loseEvery := flags.Duration("lose-every", 2*time.Minute, "lose a lease so often, on average; 0: never")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if masters == "" {
		return fmt.Errorf("%s is not set: it names the masters, such as redis://10.0.0.1:6379, separated by commas", variable)
	}
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		return err
	}
	fmt.Fprintf(log, "demo: metrics at http://%s/metrics\n", listener.Addr())
	return load.Serve(ctx, listener, load.Config{
		Masters: strings.Split(masters, ","), TTL: *ttl, NodeTimeout: *nodeTimeout, LoseEvery: *loseEvery,
	})
}
