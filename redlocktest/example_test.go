package redlocktest_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// charge is the program under test. It does nothing if another process charges the invoice.
func charge(ctx context.Context, client *redlock.Client, invoice string) error {
	lease, err := client.Mutex(invoice).TryLock(ctx)
	if err != nil {
		return err
	}
	return lease.Unlock(ctx)
}

// export is the program under test. It works until it is stopped.
func export(ctx context.Context, client *redlock.Client) error {
	return client.Mutex("export").Do(ctx, func(ctx context.Context, _ *redlock.Lease) error {
		<-ctx.Done()
		return context.Cause(ctx)
	})
}

// exampleTest stands for the *testing.T of a test. Its end is that of the test.
type exampleTest struct{ cleanups []func() }

func (e *exampleTest) Helper() {}

func (e *exampleTest) Cleanup(f func()) { e.cleanups = append(e.cleanups, f) }

func (e *exampleTest) Fatalf(format string, args ...any) { log.Fatalf(format, args...) }

func (e *exampleTest) end() {
	for i := range e.cleanups {
		e.cleanups[len(e.cleanups)-1-i]()
	}
}

func ExampleClient() {
	t := &exampleTest{} // in a test: its *testing.T
	defer t.end()

	client := redlocktest.Client(t, 3)
	fmt.Println(charge(context.Background(), client, "invoice-42"))
	// Output: <nil>
}

// The lock is refused, as another process holds it.
func ExampleNodes_Hold() {
	t := &exampleTest{} // in a test: its *testing.T
	defer t.end()

	nodes := redlocktest.Start(t, 3)
	nodes.Hold(t, "invoice-42", "web-2")
	err := charge(context.Background(), nodes.Client(t), "invoice-42")
	fmt.Println("refused:", errors.Is(err, redlock.ErrHeld))
	// Output: refused: true
}

// The lock is lost while the program works.
func ExampleNodes_Lose() {
	t := &exampleTest{} // in a test: its *testing.T
	defer t.end()

	nodes, failed := redlocktest.Start(t, 3), make(chan error, 1)
	client := nodes.Client(t)
	go func() { failed <- export(context.Background(), client) }()
	nodes.Lose(t, "export")
	fmt.Println("lost:", errors.Is(<-failed, redlock.ErrLost))
	// Output: lost: true
}

// There is no quorum, as two of three nodes are down.
func ExampleNodes_Client() {
	t := &exampleTest{} // in a test: its *testing.T
	defer t.end()

	nodes := redlocktest.Start(t, 3)
	client := nodes.Client(t)
	nodes.Stop(0)
	nodes.Stop(1)
	err := charge(context.Background(), client, "invoice-42")
	fmt.Println("no quorum:", errors.Is(err, redlock.ErrNoQuorum))
	// Output: no quorum: true
}
