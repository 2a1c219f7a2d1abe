package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/redlock-go/redlock"
)

const (
	// maxWait is how long a worker waits for the lock before it gives up: with this little
	// work, a longer wait means that something is broken.
	maxWait = 30 * time.Second

	// pause is the gap between read and write in which, without the lock,
	// another worker would read the same number.
	pause = time.Millisecond

	// maxLost is how often a worker may lose the lock before it has written: on a busy
	// machine that happens now and then, and does no harm.
	maxLost = 10
)

// errNotWritten is a round in which the lock was lost before the number was written.
var errNotWritten = errors.New("the lock was lost before the number was written")

// work is a worker process: it adds one to the number, s.rounds times. It ends
// with ctx, and when lifeline reaches its end: then the parent is gone.
func work(ctx context.Context, s settings, lifeline io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		io.Copy(io.Discard, lifeline)
		cancel()
	}()

	// The nodes may be embedded in a process that has many others beside it.
	options := []redlock.ClientOption{redlock.WithTTL(s.ttl), redlock.WithNodeTimeout(min(s.ttl/4, 2*time.Second))}
	if s.trust {
		options = append(options, redlock.WithRestartGuard(0))
	}
	client, err := redlock.Open(s.urls, options...)
	if err != nil {
		return err
	}
	defer client.Close()

	// All processes that work on the same file must use the same name.
	mutex := client.Mutex("counter:"+filepath.Base(s.file), redlock.WithWait(maxWait))
	var longest time.Duration
	lost := 0
	for round := 0; round < s.rounds; round++ {
		waited, err := addOne(ctx, mutex, s)
		switch {
		case errors.Is(err, errNotWritten) && lost < maxLost && ctx.Err() == nil:
			lost, round = lost+1, round-1 // once more
		case ctx.Err() != nil:
			return fmt.Errorf("stopped in round %d of %d", round+1, s.rounds)
		case err != nil:
			return fmt.Errorf("round %d of %d: %w", round+1, s.rounds, err)
		}
		longest = max(longest, waited)
	}
	fmt.Fprintf(out, "worker %d: %d rounds done, longest wait for the lock %v\n",
		s.worker, s.rounds, longest.Round(time.Millisecond))
	return nil
}

// addOne is one round: lock, add, unlock. It returns the time it waited.
func addOne(ctx context.Context, mutex *redlock.Mutex, s settings) (time.Duration, error) {
	start := time.Now()
	lease, err := mutex.Lock(ctx)
	if err != nil {
		return 0, err
	}
	waited := time.Since(start)
	return waited, errors.Join(rewrite(ctx, lease, s), lease.Unlock(ctx))
}

// rewrite is the work under the lock.
func rewrite(ctx context.Context, lease *redlock.Lease, s settings) error {
	number, err := readNumber(s.file)
	if err != nil {
		return err
	}
	time.Sleep(pause)
	if lease.Remaining() < s.ttl/2 {
		if err := lease.Extend(ctx); err != nil {
			return fmt.Errorf("%w: %w", errNotWritten, err)
		}
	}
	// A process that is suspended between this check and the write may still write too
	// late. A lock alone cannot prevent that: the file itself would have to refuse late
	// writes.
	if !lease.Valid() {
		return fmt.Errorf("%w: %w", errNotWritten, lease.Err())
	}
	return writeNumber(s.file, number+1)
}
