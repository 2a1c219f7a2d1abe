// Counter shows mutual exclusion: several processes add to one number in one plain file. Each
// reads the number, pauses, and writes back one more; only the lock keeps them from
// overwriting each other's work.
//
//	counter                              # embedded nodes, nothing to install
//	counter -workers 8 -rounds 100       # 8 processes, 100 times each
//	REDLOCK_NODES=redis://10.0.0.1:6379,redis://10.0.0.2:6379,redis://10.0.0.3:6379 counter
//
// It prints the final number and fails unless that is workers × rounds.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/redlock-go/redlock/examples/internal/demo"
)

// settings are the command line's flags. The parent passes them on to its workers.
type settings struct {
	workers int
	rounds  int
	file    string // empty: a temporary one
	ttl     time.Duration
	worker  int // its number, from 1, in a worker process; 0 in the parent
}

func main() { demo.Main(run) }

// run is a worker, or the parent.
func run(ctx context.Context, d *demo.Demo) error {
	s, err := parse(d)
	switch {
	case err != nil:
		return err
	case s.worker > 0:
		return work(ctx, d, s)
	default:
		return supervise(ctx, d, s)
	}
}

func parse(d *demo.Demo) (s settings, err error) {
	err = d.Parse(func(flags *flag.FlagSet) {
		flags.IntVar(&s.workers, "workers", 4, "`number` of worker processes")
		flags.IntVar(&s.rounds, "rounds", 50, "how many `times` each worker adds one")
		flags.StringVar(&s.file, "file", "", "`path` of the number's file, started at 0; none: a temporary one")
		flags.DurationVar(&s.ttl, "ttl", 5*time.Second, "how long the lock outlives a worker that died")
		flags.IntVar(&s.worker, "worker", 0, "for the program's own use: be the worker with this `number`")
	})
	switch {
	case err != nil:
		return s, err
	case s.ttl <= 0:
		return s, fmt.Errorf("-ttl %v: it must be above 0", s.ttl)
	case s.workers < 1 || s.rounds < 1:
		return s, errors.New("-workers and -rounds must be at least 1")
	}
	return s, nil
}
