package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/redlock-go/redlock/examples/internal/demo"
)

// grace is how long a worker may take to release its lock when it is stopped.
const grace = 5 * time.Second

// supervise is the parent process: it runs the workers and checks their sum.
func supervise(ctx context.Context, d *demo.Demo, s settings) error {
	if s.file == "" {
		dir, err := os.MkdirTemp("", "redlock-counter-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		s.file = filepath.Join(dir, "number")
	}
	if err := startAtZero(s.file); err != nil {
		return err
	}

	d.Say("%d worker processes add one to %s, %d times each, under a lock.", s.workers, s.file, s.rounds)
	start := time.Now()
	all, ctx := demo.NewGroup(ctx) // the first worker that fails stops the others
	for i := range s.workers {
		all.Go(func() error { return runWorker(ctx, d, s, i+1) })
	}
	if err := all.Wait(); err != nil {
		return err
	}
	if err := verdict(s); err != nil {
		return err
	}
	d.Say("The final number is %d = %d × %d: nothing was lost. It took %v.",
		s.workers*s.rounds, s.workers, s.rounds, time.Since(start).Round(time.Millisecond))
	return nil
}

// verdict returns an error if an update was lost.
func verdict(s settings) error {
	number, err := readNumber(s.file)
	if want := s.workers * s.rounds; err == nil && number != want {
		return fmt.Errorf("the final number is %d, not %d × %d = %d", number, s.workers, s.rounds, want)
	}
	return err
}

// runWorker runs a worker, which stops at the end of its standard input: that works on
// every system, and also when the parent is killed.
func runWorker(ctx context.Context, d *demo.Demo, s settings, number int) error {
	// Of a flag that stands there twice, the last one counts.
	cmd, err := d.Command(ctx, slices.Concat(d.Args, []string{"-file", s.file, "-worker", fmt.Sprint(number)})...)
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = d.Out, d.Log
	lifeline, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	cmd.Cancel = lifeline.Close
	cmd.WaitDelay = grace
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("worker %d failed: %w", number, err)
	}
	return nil
}
