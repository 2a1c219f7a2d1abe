package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/examples/internal/demo"
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
// with ctx, and when its input does: then the parent is gone.
func work(ctx context.Context, d *demo.Demo, s settings) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		io.Copy(io.Discard, d.In)
		cancel()
	}()

	// The nodes may be embedded in a process that has many others beside it.
	client, err := d.Open(ctx, fmt.Sprint("worker-", s.worker), redlock.WithTTL(s.ttl),
		redlock.WithNodeTimeout(min(s.ttl/4, 2*time.Second)), redlock.WithLogger(slog.Default()))
	if err != nil {
		return err
	}
	defer client.Close()

	// All processes that work on the same file must use the same name.
	mutex := client.Mutex("counter:"+filepath.Base(s.file), redlock.WithWait(maxWait))
	lost := 0
	for round := 1; round <= s.rounds; {
		err := mutex.Do(ctx, func(ctx context.Context, lease *redlock.Lease) error { return addOne(ctx, lease, s) })
		switch {
		case err == nil:
			round++
		case ctx.Err() != nil:
			return fmt.Errorf("worker %d: stopped in round %d of %d", s.worker, round, s.rounds)
		case errors.Is(err, errNotWritten) && lost < maxLost:
			lost++ // once more
		default:
			return fmt.Errorf("worker %d: round %d of %d: %w", s.worker, round, s.rounds, err)
		}
	}
	d.Say("worker %d: %d rounds done", s.worker, s.rounds)
	return nil
}

// addOne is the work under the lock.
func addOne(ctx context.Context, lease *redlock.Lease, s settings) error {
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
