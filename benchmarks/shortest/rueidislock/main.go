// This program is as short as one with rueidislock can be that renews the lock, ends a context on loss, releases, and
// prints errors.
package main

import (
	"context"
	"log"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

func main() {
	servers := rueidis.ClientOption{InitAddress: []string{"localhost:6379"}}
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{ClientOption: servers, KeyMajority: 1})
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
	ctx, cancel, err := locker.WithContext(context.Background(), "invoice-42")
	if err != nil {
		log.Print(err)
		return
	}
	defer cancel()
	log.Println("paying", ctx.Err())
}
