package fence

import (
	"context"
	_ "embed" // for the scripts
	"errors"
	"fmt"
	"strings"

	"github.com/gomodule/redigo/redis"
)

//go:embed set.lua
var setText string

//go:embed get.lua
var getText string

// script is a Lua script, and the SHA-1 by which servers know it. That stands here, as crypto/sha1 panics in a process
// that permits the algorithms of FIPS 140-3 alone.
type script struct{ text, hash string }

var (
	setScript = script{setText, "0618ec4da55ffbeab26c73cecccbd287303341cf"}
	getScript = script{getText, "9f2f9b59df73b90c2f68e448ca399479fa8344dd"}
)

// do runs the script, which has one key, by its hash; a server that does not know it gets the text.
func (s script) do(ctx context.Context, conn redis.Conn, args ...any) (any, error) {
	reply, err := redis.DoContext(conn, ctx, "EVALSHA", append([]any{s.hash, 1}, args...)...)
	if refusal := redis.Error(""); errors.As(err, &refusal) && strings.HasPrefix(string(refusal), "NOSCRIPT") {
		return redis.DoContext(conn, ctx, "EVAL", append([]any{s.text, 1}, args...)...)
	}
	return reply, err
}

// The fields of the hash that keep tokens, as in the scripts.
const (
	writeField = "fence" // the greatest token that wrote
	readField  = "read"  // the greatest token that read
)

// Set sets the value at a key of a Redis server, if no greater token set it before, and no
// greater or equal token has read it by Get. The comparison and the write are one script
// (set.lua): the server runs nothing in between. The key is a hash with the fields "value",
// "fence" (the greatest token that wrote) and, after a Get, "read" (the greatest token that
// read). Without readers' leases, HGET key value gets the value too. conn is a connection of
// a *redis.Pool, or any other with DoContext, as redigo's own. The token must be below 2^53,
// as those of leases are.
//
// The fence lasts as long as the key. A key that is deleted, expires or is evicted accepts
// late writes again: to empty it, set an empty value. A server that loses its last writes, in
// a crash or a failover, loses value and fence alike, and then accepts the older token that
// it would have refused.
//
// To fence something else than a single value, begin a script of your own with the
// comparison that set.lua makes.
//
// Errors: ErrStale (a *StaleError with the greatest token, which says whether a reader is the
// cause); without asking the server, ErrUnfenced for a token of 0 or less and ctx's error if
// ctx is done already; else redigo's error. If ctx has ended, the error is its cause as well: under
// a lease's context that is redlock.ErrLost if the lease is lost. Without an answer it is not known whether the
// value was set; setting it again, with the same token, does no harm.
func Set(ctx context.Context, conn redis.Conn, key string, token int64, value any) error {
	if err := requireToken(key, "write", token); err != nil {
		return err
	}
	reply, err := run(ctx, setScript, conn, key, token, value)
	if err != nil {
		return err
	}
	return readRefusal(key, token, reply)
}

// Get returns the value at a key that Set writes, if no greater token set it, and registers
// the token: from then on Set refuses this token and smaller ones. The comparison, the
// registration and the read are one script (get.lua). redigo's functions convert the value,
// as in redis.Int64(fence.Get(ctx, conn, key, lease.Token())).
//
// It is for shared leases only. The holder of an exclusive lease uses GetForUpdate: after a
// Get its own Set would be refused.
//
// A read is a fence at a key without a value too: a late Set must not create what the reader
// found missing. So Get creates the key where it is missing, with the field "read" alone. It
// remains there like any key that Set has made. Neither function sets or changes the key's
// ttl; to let the key expire, set a ttl by EXPIRE that is longer than a late write may take,
// since the fence ends with it. Get writes, so conn must lead to a master.
//
// Errors: redis.ErrNil, by errors.Is, if there is no value (the token is registered all the
// same); else as for Set. Without an answer the token may or may not be registered.
func Get(ctx context.Context, conn redis.Conn, key string, token int64) ([]byte, error) {
	return get(ctx, conn, key, token, readField)
}

// GetForUpdate is Get for the holder of an exclusive lease, who may set the value later. It
// registers the token as one that wrote, and is refused where Set would be: so it keeps late
// writes of earlier leases from changing the value between this read and the holder's Set. A
// missing key gets the field "fence" alone. Errors: those of Get.
func GetForUpdate(ctx context.Context, conn redis.Conn, key string, token int64) ([]byte, error) {
	return get(ctx, conn, key, token, writeField)
}

// get reads the value, and registers the token in the field.
func get(ctx context.Context, conn redis.Conn, key string, token int64, field string) ([]byte, error) {
	if err := requireToken(key, "read", token); err != nil {
		return nil, err
	}
	reply, err := run(ctx, getScript, conn, key, token, field)
	if err != nil {
		return nil, err
	}
	if _, refused := reply.([]any); refused {
		return nil, readRefusal(key, token, reply)
	}
	value, err := redis.Bytes(reply, nil)
	if err != nil {
		return nil, fmt.Errorf("fence: %q: %w", key, err)
	}
	return value, nil
}

// run runs a script over the key, with the token and one argument more.
func run(ctx context.Context, s script, conn redis.Conn, key string, token int64, arg any) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, failed(ctx, key, err)
	}
	reply, err := s.do(ctx, conn, key, token, arg)
	if err != nil {
		return nil, failed(ctx, key, err)
	}
	return reply, nil
}

// readRefusal returns the error in a script's reply: the token that refuses, 0 if none does,
// and 1 if it is a reader's.
func readRefusal(key string, token int64, reply any) error {
	numbers, err := redis.Int64s(reply, nil)
	switch {
	case err != nil:
		return fmt.Errorf("fence: %q: %w", key, err)
	case numbers[0] != 0:
		return &StaleError{Resource: key, Token: token, Highest: numbers[0], Read: numbers[1] == 1}
	}
	return nil
}
