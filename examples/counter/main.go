// Counter shows mutual exclusion: several processes add to one number in one plain file. Each
// reads the number, pauses, and writes back one more; only the lock keeps them from
// overwriting each other's work.
//
//	counter                              # embedded nodes, nothing to install
//	counter -urls redis://10.0.0.1:6379,redis://10.0.0.2:6379,redis://10.0.0.3:6379
//	counter -workers 8 -rounds 100       # 8 processes, 100 times each
//
// It prints the final number and fails unless that is workers × rounds.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// settings are the command line's flags. The parent passes them on to its workers.
type settings struct {
	workers int
	rounds  int
	urls    []string // empty: embedded nodes
	file    string   // empty: a temporary one
	ttl     time.Duration
	trust   bool // the nodes never lose their memory: they vote at once
	worker  int  // its number, from 1, in a worker process; 0 in the parent
}

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "counter:", err)
		os.Exit(1)
	}
}

// run is the whole program except its exit code: parent or worker. The parent lets all its
// workers write to out and log.
func run(ctx context.Context, args []string, out, log io.Writer) error {
	s, err := parse(args, log)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	case s.worker > 0:
		if err := work(ctx, s, os.Stdin, out); err != nil {
			return fmt.Errorf("worker %d: %w", s.worker, err)
		}
		return nil
	default:
		return supervise(ctx, s, out, log)
	}
}

// parse reads the flags. It writes errors to log too.
func parse(args []string, log io.Writer) (settings, error) {
	var s settings
	var urls string
	flags := flag.NewFlagSet("counter", flag.ContinueOnError)
	flags.SetOutput(log)
	flags.IntVar(&s.workers, "workers", 4, "`number` of worker processes")
	flags.IntVar(&s.rounds, "rounds", 50, "how many `times` each worker adds one")
	flags.StringVar(&urls, "urls", "", "the Redis servers, `separated by commas`; none: embedded nodes")
	flags.StringVar(&s.file, "file", "", "`path` of the number's file, started at 0; none: a temporary one")
	flags.DurationVar(&s.ttl, "ttl", 5*time.Second, "how long the lock outlives a worker that died")
	flags.BoolVar(&s.trust, "trust", false, "trust that no server ever loses its memory: new ones vote at once, as embedded nodes do")
	flags.IntVar(&s.worker, "worker", 0, "for the program's own use: be the worker with this `number`")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if urls != "" {
		s.urls = strings.Split(urls, ",")
	}
	switch {
	case flags.NArg() > 0:
		return s, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case s.ttl <= 0:
		return s, fmt.Errorf("-ttl %v: it must be above 0", s.ttl)
	case s.workers < 1 || s.rounds < 1:
		return s, errors.New("-workers and -rounds must be at least 1")
	}
	return s, nil
}

// arguments are those of a worker.
func (s settings) arguments(worker int) []string {
	return []string{
		"-worker", fmt.Sprint(worker),
		"-rounds", fmt.Sprint(s.rounds),
		"-urls", strings.Join(s.urls, ","),
		"-file", s.file,
		"-ttl", s.ttl.String(),
		fmt.Sprintf("-trust=%v", s.trust),
	}
}
