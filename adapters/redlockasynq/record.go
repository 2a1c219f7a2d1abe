package redlockasynq

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// recordPrefix and the lock's name are the key of the record at asynq's Redis.
const recordPrefix = "redlockasynq:"

// record is the instant up to which all ticks are enqueued, as the leaders of a lock write it. It
// does not expire. A leader that was suspended may write an earlier instant late: then the next
// leader tries ticks again, and asynq's Redis refuses their IDs.
type record struct {
	store redis.UniversalClient
	key   string
}

// errNoTime is a record that another program wrote.
var errNoTime = errors.New("has no time")

// load returns the recorded instant; the zero time if there is none.
func (r record) load(ctx context.Context) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	text, err := r.store.Get(ctx, r.key).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return time.Time{}, nil
	case err != nil:
		return time.Time{}, fmt.Errorf("redlockasynq: cannot read key %q at asynq's Redis: %w", r.key, err)
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("redlockasynq: key %q at asynq's Redis %w: %w; "+
			"delete it, and the ticks from then on are enqueued", r.key, errNoTime, err)
	}
	return at, nil
}

func (r record) save(ctx context.Context, at time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	if err := r.store.Set(ctx, r.key, at.UTC().Format(time.RFC3339Nano), 0).Err(); err != nil {
		return fmt.Errorf("redlockasynq: cannot write key %q at asynq's Redis: %w", r.key, err)
	}
	return nil
}
