package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/redis/rueidis"
)

const rueidisMeans = "rueidis, which pipelines, by an adapter of this suite " +
	"(redsync's own needs rueidiscompat, which the public module proxy does not serve)"

func rueidisPool(addr string) (redsyncredis.Pool, func() error, error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true})
	if err != nil {
		return nil, nil, err
	}
	end := func() error { client.Close(); return nil }
	return rueidisRedsync{client}, end, nil
}

// rueidisRedsync is a redsync pool over a rueidis client.
type rueidisRedsync struct {
	client rueidis.Client
}

func (p rueidisRedsync) Get(ctx context.Context) (redsyncredis.Conn, error) {
	return &rueidisConn{p.client, ctx}, nil
}

// rueidisConn is a view of the client, which shares one connection among all calls.
type rueidisConn struct {
	client rueidis.Client
	ctx    context.Context
}

func (c *rueidisConn) Get(name string) (string, error) {
	value, err := c.client.Do(c.ctx, c.client.B().Get().Key(name).Build()).ToString()
	return value, unlessNil(err)
}

func (c *rueidisConn) Set(name, value string) (bool, error) {
	return c.set(c.client.B().Set().Key(name).Value(value).Build())
}

func (c *rueidisConn) SetNX(name, value string, expiry time.Duration) (bool, error) {
	return c.set(c.client.B().Set().Key(name).Value(value).Nx().PxMilliseconds(expiry.Milliseconds()).Build())
}

// set reports whether the server has set the value: if not, its reply is nil.
func (c *rueidisConn) set(command rueidis.Completed) (bool, error) {
	err := c.client.Do(c.ctx, command).Error()
	return err == nil, unlessNil(err)
}

func (c *rueidisConn) PTTL(name string) (time.Duration, error) {
	left, err := c.client.Do(c.ctx, c.client.B().Pttl().Key(name).Build()).ToInt64()
	return time.Duration(left) * time.Millisecond, err
}

// Eval runs a script that says how many keys it has, as all of redsync's do. It
// sends the source only where the server does not have it.
func (c *rueidisConn) Eval(script *redsyncredis.Script, keysAndArgs ...any) (any, error) {
	words := make([]string, len(keysAndArgs))
	for i, v := range keysAndArgs {
		words[i] = word(v)
	}
	keys, args := words[:script.KeyCount], words[script.KeyCount:]
	count, b := int64(script.KeyCount), c.client.B()
	reply := c.client.Do(c.ctx, b.Evalsha().Sha1(script.Hash).Numkeys(count).Key(keys...).Arg(args...).Build())
	if e, ok := rueidis.IsRedisErr(reply.Error()); ok && e.IsNoScript() {
		reply = c.client.Do(c.ctx, b.Eval().Script(script.Src).Numkeys(count).Key(keys...).Arg(args...).Build())
	}
	value, err := reply.ToAny()
	return value, unlessNil(err)
}

// word is a value as the server reads it.
func word(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case int:
		return strconv.Itoa(v)
	default:
		return fmt.Sprint(v)
	}
}

func (c *rueidisConn) ScriptLoad(script *redsyncredis.Script) error {
	hash, err := c.client.Do(c.ctx, c.client.B().ScriptLoad().Script(script.Src).Build()).ToString()
	if err == nil {
		script.Hash = hash
	}
	return err
}

func (c *rueidisConn) Close() error { return nil }

// unlessNil drops the error that rueidis makes of a nil reply: redsync wants none.
func unlessNil(err error) error {
	if rueidis.IsRedisNil(err) {
		return nil
	}
	return err
}
