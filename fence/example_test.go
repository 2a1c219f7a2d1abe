package fence_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/fence"
	"github.com/redlock-go/redlock/internal/test/embedded"
)

// The tokens of these examples are written out. A program takes them from its
// lease: lease.Token().

// A reader's token may equal that of the writer before it. Once it has read, the writer is too
// late.
func Example() {
	var guard fence.Guard
	report := "empty"

	// For shared leases, where lease.Shared() is true.
	read := func(token int64) error {
		return guard.Read("report", token, func() error {
			fmt.Println("read:", report)
			return nil
		})
	}
	// For exclusive leases, their reads as well.
	write := func(token int64, text string) error {
		return guard.Write("report", token, func() error {
			report = text
			return nil
		})
	}
	fmt.Println(write(33, "by the first writer"))
	fmt.Println(read(33))
	fmt.Println(write(33, "by the first writer, who was paused"))
	fmt.Println(write(34, "by the second writer"))
	fmt.Println(read(33))
	// Output:
	// <nil>
	// read: by the first writer
	// <nil>
	// fence: "report": token 33 is stale for a write: a reader came with 33, and a writer's token must be greater
	// <nil>
	// fence: "report": token 33 is stale: 34 was seen before
}

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

func ExampleGuard_Do() {
	var guard fence.Guard // of a lock without readers
	printOut := func() error { _, err := fmt.Println("printed"); return err }
	fmt.Println(guard.Do("printer", 34, printOut))
	fmt.Println(guard.Do("printer", 33, printOut))
	// Output:
	// printed
	// <nil>
	// fence: "printer": token 33 is stale: 34 was seen before
}

func ExampleGuard_Read() {
	var guard fence.Guard
	temperature := 20

	measure := func(token int64) (measured int, err error) {
		err = guard.Read("sensor", token, func() error {
			measured = temperature
			return nil
		})
		return measured, err
	}
	fmt.Println(measure(33))
	fmt.Println(guard.Write("sensor", 34, func() error { temperature = 21; return nil }))
	fmt.Println(measure(33)) // this reader's lease has ended: the writer came after it
	fmt.Println(measure(34))
	// Output:
	// 20 <nil>
	// <nil>
	// 0 fence: "sensor": token 33 is stale: 34 was seen before
	// 21 <nil>
}

// The holder of an exclusive lease calls Write, for its reads as well.
func ExampleGuard_Write() {
	var guard fence.Guard
	count := 5

	var read int
	fmt.Println(guard.Write("counter", 34, func() error { read = count; return nil }))
	fmt.Println(guard.Write("counter", 34, func() error { count = read + 1; return nil }))
	fmt.Println(count)

	// Read counts this holder as a reader, so its own write is refused.
	fmt.Println(guard.Read("counter", 35, func() error { read = count; return nil }))
	err := guard.Write("counter", 35, func() error { count = read + 1; return nil })
	fmt.Println(errors.Is(err, fence.ErrStale), count)
	// Output:
	// <nil>
	// <nil>
	// 6
	// <nil>
	// true 6
}

func ExampleGuard_Forget() {
	guard := fence.Guard{Limit: 1}
	nothing := func() error { return nil }
	fmt.Println(guard.Write("session 1", 34, nothing))
	fmt.Println(errors.Is(guard.Write("session 2", 35, nothing), fence.ErrFull))
	guard.Forget("session 1")
	fmt.Println(guard.Write("session 2", 35, nothing))
	// Output:
	// <nil>
	// true
	// <nil>
}

func ExampleStaleError() {
	var guard fence.Guard
	nothing := func() error { return nil }
	_ = guard.Read("report", 34, nothing)

	var stale *fence.StaleError
	if errors.As(guard.Write("report", 33, nothing), &stale) {
		fmt.Println(stale.Token, stale.Highest, stale.Read)
	}
	// Output: 33 34 true
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

// A reader registers its token in the transaction in which it reads, in a column of its own.
// The statement of a writer compares both columns.
func ExampleExec_readers() {
	ctx := context.Background()
	db, _ := openBooks() // any *sql.DB
	defer db.Close()

	read := func(token int64) (balance int64, err error) {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return 0, err
		}
		defer tx.Rollback()
		if err := fence.Exec(ctx, tx, "account 7", token,
			`UPDATE accounts SET read_fence = CASE WHEN read_fence < $1 THEN $1 ELSE read_fence END WHERE id = $2 AND fence <= $1`,
			token, 7); err != nil {
			return 0, err
		}
		if err := tx.QueryRowContext(ctx, `SELECT balance FROM accounts WHERE id = $1`, 7).Scan(&balance); err != nil {
			return 0, err
		}
		return balance, tx.Commit()
	}
	write := func(token, balance int64) error {
		return fence.Exec(ctx, db, "account 7", token,
			`UPDATE accounts SET balance = $1, fence = $2 WHERE id = $3 AND fence <= $2 AND read_fence < $2`,
			balance, token, 7)
	}
	fmt.Println(read(33))
	fmt.Println(write(33, 150)) // by the writer before that reader
	fmt.Println(write(34, 70))
	fmt.Println(read(33))
	// Output:
	// 100 <nil>
	// fence: "account 7": token 33 is stale, or there is no such row
	// <nil>
	// 0 fence: "account 7": token 33 is stale, or there is no such row
}

func ExampleSet() {
	conn, closeAll := dialExample() // conn is a connection of a *redis.Pool
	defer closeAll()

	ctx := context.Background()
	fmt.Println(fence.Set(ctx, conn, "leader", 34, "bob"))
	fmt.Println(fence.Set(ctx, conn, "leader", 33, "alice"))
	fmt.Println(redis.String(conn.Do("HGET", "leader", "value")))
	// Output:
	// <nil>
	// fence: "leader": token 33 is stale: 34 was seen before
	// bob <nil>
}

func ExampleGet() {
	conn, closeAll := dialExample() // conn is a connection of a *redis.Pool
	defer closeAll()

	ctx := context.Background()
	fmt.Println(fence.Set(ctx, conn, "limit", 33, 10))
	fmt.Println(redis.Int(fence.Get(ctx, conn, "limit", 33)))
	fmt.Println(fence.Set(ctx, conn, "limit", 33, 20)) // by the writer before that reader
	fmt.Println(fence.Set(ctx, conn, "limit", 34, 30))
	fmt.Println(redis.Int(fence.Get(ctx, conn, "limit", 33)))

	_, err := fence.Get(ctx, conn, "no limit", 33)
	fmt.Println("no value:", errors.Is(err, redis.ErrNil))
	// Output:
	// <nil>
	// 10 <nil>
	// fence: "limit": token 33 is stale for a write: a reader came with 33, and a writer's token must be greater
	// <nil>
	// 0 fence: "limit": token 33 is stale: 34 was seen before
	// no value: true
}

// The holder of an exclusive lease reads by GetForUpdate, since Get would refuse its Set.
func ExampleGetForUpdate() {
	conn, closeAll := dialExample() // conn is a connection of a *redis.Pool
	defer closeAll()

	ctx := context.Background()
	fmt.Println(fence.Set(ctx, conn, "count", 33, 5))
	count, err := redis.Int(fence.GetForUpdate(ctx, conn, "count", 34))
	fmt.Println(count, err)
	fmt.Println(fence.Set(ctx, conn, "count", 33, 100)) // between this holder's read and write
	fmt.Println(fence.Set(ctx, conn, "count", 34, count+1))
	fmt.Println(redis.Int(conn.Do("HGET", "count", "value")))
	// Output:
	// <nil>
	// 5 <nil>
	// fence: "count": token 33 is stale: 34 was seen before
	// <nil>
	// 6 <nil>
}

// dialExample returns a connection, and a function that closes all that it needs.
func dialExample() (conn redis.Conn, closeAll func()) {
	var server *miniredis.Miniredis // stands for a Redis server
	var err error
	embedded.Exempt(func() { server, err = miniredis.Run() })
	if err != nil {
		log.Fatal(err)
	}
	pool := &redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial("tcp", server.Addr()) }}
	conn = pool.Get()
	return conn, func() {
		conn.Close()
		pool.Close()
		server.Close()
	}
}
