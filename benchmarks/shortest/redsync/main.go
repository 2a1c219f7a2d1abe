// This program is as short as one with redsync can be that renews the lock, ends a context on loss, releases, and prints
// errors.
package main

import (
	"context"
	"log"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

func main() {
	a := goredis.NewPool(redis.NewClient(&redis.Options{Addr: "localhost:6379"}))
	b := goredis.NewPool(redis.NewClient(&redis.Options{Addr: "localhost:6380"}))
	c := goredis.NewPool(redis.NewClient(&redis.Options{Addr: "localhost:6381"}))
	mutex := redsync.New(a, b, c).NewMutex("invoice-42")
	if err := mutex.Lock(); err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	lost := time.AfterFunc(time.Until(mutex.Until()), cancel)
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(2 * time.Second):
			}
			if ok, err := mutex.ExtendContext(ctx); err != nil || !ok {
				log.Print("not renewed: ", err) // the next try comes before the validity ends
			} else {
				lost.Reset(time.Until(mutex.Until()))
			}
		}
	}()
	log.Println("paying", ctx.Err())
	cancel()
	<-renewed // Extend and Unlock must not meet
	if ok, err := mutex.Unlock(); err != nil || !ok {
		log.Print("not released: ", err)
	}
}
