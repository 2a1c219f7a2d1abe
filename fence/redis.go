package fence

import (
	"context"
	_ "embed" // for the script
	"fmt"

	"github.com/gomodule/redigo/redis"
)

//go:embed set.lua
var setText string

var setScript = redis.NewScript(1, setText)

// Set sets the value at a key of a Redis server, if no greater token set it before. The
// comparison and the write are one script (set.lua): the server runs nothing in between. The
// key is a hash with two fields; readers get the value by HGET key value. conn is a
// connection of a *redis.Pool, or any other with DoContext, as redigo's own. The token must
// be below 2^53, as those of leases are.
//
// The fence lasts as long as the key. A key that is deleted, expires or is evicted accepts
// late writes again: to empty it, set an empty value. A server that loses its last writes, in
// a crash or a failover, loses value and fence alike, and then accepts the older token that
// it would have refused.
//
// To fence something else than a single value, begin a script of your own with the
// comparison that set.lua makes.
//
// Errors: ErrStale (a *StaleError with the greatest token); without asking the server,
// ErrUnfenced for a token of 0 or less and ctx's error if ctx is done already; else redigo's
// error. Without an answer it is not known whether the value was set; setting it again, with
// the same token, does no harm.
func Set(ctx context.Context, conn redis.Conn, key string, token int64, value any) error {
	if err := requireToken(key, token); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("fence: %q: %w", key, err)
	}
	highest, err := redis.Int64(setScript.DoContext(ctx, conn, key, token, value))
	switch {
	case err != nil:
		return fmt.Errorf("fence: %q: %w", key, err)
	case highest != 0:
		return &StaleError{Resource: key, Token: token, Highest: highest}
	}
	return nil
}
