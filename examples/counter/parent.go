package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/redlock-go/redlock/redlocktest"
)

// grace is how long a worker may take to release its lock when it is stopped.
const grace = 5 * time.Second

// supervise is the parent process: it runs the workers and checks their sum.
func supervise(ctx context.Context, s settings, out, log io.Writer) error {
	if len(s.urls) == 0 {
		nodes, err := redlocktest.New(5)
		if err != nil {
			return err
		}
		defer nodes.Close()
		s.urls, s.trust = nodes.URLs(), true
		fmt.Fprintln(out, "No -urls given: using five nodes embedded in this process. They are not Redis.")
	}
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

	fmt.Fprintf(out, "%d worker processes add one to %s, %d times each, under a lock on %d nodes.\n",
		s.workers, s.file, s.rounds, len(s.urls))
	start := time.Now()
	if err := runWorkers(ctx, s, out, log); err != nil {
		return err
	}
	return verdict(s, time.Since(start), out)
}

// verdict reads the final number, and returns an error if an update was lost.
func verdict(s settings, took time.Duration, out io.Writer) error {
	number, err := readNumber(s.file)
	if err != nil {
		return err
	}
	want := s.workers * s.rounds
	if number != want {
		return fmt.Errorf("the final number is %d, not %d × %d = %d", number, s.workers, s.rounds, want)
	}
	fmt.Fprintf(out, "The final number is %d = %d × %d: nothing was lost. It took %v.\n",
		number, s.workers, s.rounds, took.Round(time.Millisecond))
	return nil
}

// runWorkers runs all workers to their end. The first that fails stops the
// others, as does the end of ctx.
func runWorkers(ctx context.Context, s settings, out, log io.Writer) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var over sync.WaitGroup
	for i := range s.workers {
		over.Go(func() {
			cmd := exec.CommandContext(running, program, s.arguments(i+1)...)
			cmd.Stdout, cmd.Stderr = out, log
			if err := runOnLifeline(cmd); err != nil {
				stop(fmt.Errorf("worker %d failed: %w", i+1, err))
			}
		})
	}
	over.Wait()
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	return context.Cause(running)
}

// runOnLifeline runs a worker, which stops at the end of its standard input: that works on
// every system, and also when the parent is killed.
func runOnLifeline(cmd *exec.Cmd) error {
	lifeline, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	cmd.Cancel = lifeline.Close
	cmd.WaitDelay = grace
	return cmd.Run()
}
