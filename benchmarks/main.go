// Command benchmarks measures what a lock over five Redis masters costs: this
// library beside its peers and beside the floor that none can go below, in one
// run on one machine.
//
// It starts its own servers. README.md tells how to read what it prints.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const nodes = 5

// errMissed makes the exit code tell, with -check, that a target was missed.
var errMissed = errors.New("a target was missed")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cfg, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		err = run(ctx, cfg, os.Stdout, os.Stderr)
	}
	if ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchmarks:", err)
		stop()
		os.Exit(1)
	}
}

// config is what the flags say.
type config struct {
	plan       plan
	leases     int
	contention bool
	check      bool
	profiling  profiling
}

func parse(args []string) (*config, error) {
	c := &config{}
	flags := flag.NewFlagSet("benchmarks", flag.ContinueOnError)
	peers := flags.String("peers", allNames(), "what to measure, parted by commas")
	goroutines := flags.String("goroutines", "1,16,128", "numbers of goroutines that lock at once")
	flags.IntVar(&c.plan.rounds, "rounds", 5, "rounds of each peer for each number of goroutines")
	flags.DurationVar(&c.plan.length, "round", 2*time.Second, "length of a round")
	flags.DurationVar(&c.plan.warmUp, "warmup", 300*time.Millisecond, "what is not counted before each round")
	flags.IntVar(&c.leases, "leases", 10_000, "leases to hold at once; 0 leaves that part out")
	flags.BoolVar(&c.contention, "contention", true, "measure also what happens where many want one lock")
	flags.BoolVar(&c.check, "check", false, "exit with 1 when a target is missed")
	flags.StringVar(&c.profiling.cpuPrefix, "cpuprofile", "", "write CPU profiles of one more round to PREFIX-PEER-GOROUTINES.prof")
	flags.StringVar(&c.profiling.mutexPrefix, "mutexprofile", "", "the same for waits on mutexes")
	flags.StringVar(&c.profiling.peer, "profile", redlockDefault.name, "the peer to profile")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	return c, c.settle(*peers, *goroutines)
}

// settle reads the lists and checks the numbers.
func (c *config) settle(peers, goroutines string) (err error) {
	if c.plan.peers, err = choose(peers); err != nil {
		return err
	}
	for _, text := range strings.Split(goroutines, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fmt.Errorf("-goroutines: %q is not a number of 1 or more", text)
		}
		c.plan.goroutines = append(c.plan.goroutines, n)
	}
	if c.plan.rounds < 1 || c.plan.length <= 0 || c.plan.warmUp < 0 || c.leases < 0 {
		return errors.New("-rounds and -round must be above 0, -warmup and -leases not below it")
	}
	if c.check && (!c.plan.comparable() || c.leases == 0 || !c.contention) {
		return fmt.Errorf("-check needs the peers %s, %s, %s and %s, 1 and %d goroutines, leases, and contention: a target that is not measured is not met",
			redlockDefault.name, redlockUnfenced.name, redsyncDefault.name, floorLoop.name, manyGoroutines)
	}
	return nil
}

// run does all that c asks for, between the start and the end of the servers.
func run(ctx context.Context, c *config, out, progress io.Writer) error {
	servers, err := startServers(nodes)
	if err != nil {
		return err
	}
	defer servers.stop()
	version, err := servers.version()
	if err != nil {
		return err
	}
	c.plan.servers = servers
	writeSetting(out, setting{redis: version, plan: &c.plan})

	speeds, err := runSpeed(ctx, c, servers.addrs, progress)
	if err != nil {
		return err
	}
	checks := append(speedChecks(speeds), failureChecks(speeds)...)
	if c.leases > 0 {
		fmt.Fprintf(progress, "holding %d leases\n", c.leases)
		cost, err := holdLeases(ctx, servers.addrs, c.leases)
		if err != nil {
			return err
		}
		checks = append(checks, leaseChecks(cost)...)
	}
	contended, err := runContention(ctx, c, progress)
	if err != nil {
		return err
	}
	if contended != nil {
		checks = append(checks, contentionChecks(contended)...)
	}
	writeChecks(out, checks)
	writeTable(out, &c.plan, speeds)
	if contended != nil {
		writeContention(out, contended)
	}
	if c.check && !allMet(checks) {
		return errMissed
	}
	return nil
}

// runSpeed measures the peers, then profiles one of them where it is wanted.
func runSpeed(ctx context.Context, c *config, addrs []string, progress io.Writer) (results, error) {
	peers, err := openAll(c.plan.peers, addrs)
	if err != nil {
		return nil, err
	}
	defer closeAll(peers)
	speeds, err := c.plan.run(ctx, peers, progress)
	if err != nil {
		return nil, err
	}
	return speeds, c.profiling.run(ctx, &c.plan, peers, progress)
}

// runContention measures what happens where many want one lock; nil where that
// is left out.
func runContention(ctx context.Context, c *config, progress io.Writer) (*contention, error) {
	if !c.contention {
		return nil, nil
	}
	return fullContention.run(ctx, c.plan.servers, progress)
}
