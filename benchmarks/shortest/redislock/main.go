//go:build redislock

// This program is as short as one with redislock can be that renews the lock, ends a context on loss, releases, and prints
// errors.
package main

import (
	"context"
	"log"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

const ttl = 10 * time.Second

func main() {
	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer client.Close()
	began := time.Now()
	lock, err := redislock.New(client).Obtain(context.Background(), "invoice-42", ttl, nil)
	if err != nil {
		log.Print(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	lost := time.AfterFunc(time.Until(began.Add(ttl)), cancel)
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(ttl / 3):
			}
			began := time.Now()
			if err := lock.Refresh(ctx, ttl, nil); err != nil {
				log.Print(err) // the next try comes before the validity ends
			} else {
				lost.Reset(time.Until(began.Add(ttl)))
			}
		}
	}()
	log.Println("paying", ctx.Err())
	cancel()
	<-renewed // Refresh and Release must not meet
	if err := lock.Release(context.Background()); err != nil {
		log.Print(err)
	}
}
