package fence_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/fence"
)

// The tokens of these examples are written out. A program takes them from its
// lease: lease.Token().

func ExampleGuard() {
	var guard fence.Guard
	report := "empty"

	write := func(token int64, text string) error {
		return guard.Do("report", token, func() error {
			report = text
			return nil
		})
	}
	fmt.Println(write(34, "by the second holder"))
	fmt.Println(write(33, "by the first, who was paused"))
	fmt.Println(report)
	// Output:
	// <nil>
	// fence: "report": token 33 is stale: 34 was seen before
	// by the second holder
}

func ExampleExec() {
	db, _ := openBooks() // any *sql.DB, *sql.Tx or *sql.Conn
	defer db.Close()

	write := func(token, balance int64) error {
		return fence.Exec(context.Background(), db, "account 7", token,
			`UPDATE accounts SET balance = $1, fence = $2 WHERE id = $3 AND fence <= $2`,
			balance, token, 7)
	}
	fmt.Println(write(34, 70))
	err := write(33, 150)
	fmt.Println(err)
	fmt.Println("too late:", errors.Is(err, fence.ErrStale))
	// Output:
	// <nil>
	// fence: "account 7": token 33 is stale, or there is no such row
	// too late: true
}

func ExampleSet() {
	server, err := miniredis.Run() // stands for a Redis server
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	pool := &redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial("tcp", server.Addr()) }}
	defer pool.Close()
	conn := pool.Get()
	defer conn.Close()

	ctx := context.Background()
	fmt.Println(fence.Set(ctx, conn, "leader", 34, "bob"))
	fmt.Println(fence.Set(ctx, conn, "leader", 33, "alice"))
	fmt.Println(redis.String(conn.Do("HGET", "leader", "value")))
	// Output:
	// <nil>
	// fence: "leader": token 33 is stale: 34 was seen before
	// bob <nil>
}
