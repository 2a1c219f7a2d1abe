package redlockgoredis_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/adapters/redlockgoredis"
	"github.com/redlock-go/redlock/redlocktest"
)

func ExamplePools() {
	nodes, err := redlocktest.New(3) // or your servers
	if err != nil {
		log.Fatal(err)
	}
	defer nodes.Close()
	var clients []*redis.Client
	for _, url := range nodes.URLs() {
		o, err := redis.ParseURL(url)
		if err != nil {
			log.Fatal(err)
		}
		clients = append(clients, redis.NewClient(o)) // with TLS, credentials and a dialer, as your program has it
	}
	client, err := redlock.New(redlockgoredis.Pools(clients...), redlock.WithRestartGuard(0)) // 0 is for tests
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	err = client.Mutex("invoice-42").Do(context.Background(), func(context.Context, *redlock.Lease) error {
		fmt.Println("paid once")
		return nil
	})
	fmt.Println(err)
	// Output:
	// paid once
	// <nil>
}

func ExamplePool() {
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"10.0.0.1:6379"}})
	defer cluster.Close()
	_, err := redlockgoredis.Pool(cluster)
	fmt.Println(errors.Is(err, redlock.ErrConfig))
	// Output: true
}

func ExampleAllowFailover() {
	master := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "locks-1", SentinelAddrs: []string{"10.0.0.1:26379"}})
	defer master.Close()
	_, err := redlockgoredis.Pool(master, redlockgoredis.AllowFailover())
	fmt.Println(err)
	// Output: <nil>
}
