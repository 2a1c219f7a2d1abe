// Package testclient opens the clients of tests that run in real time. A busy machine delays servers, embedded nodes
// and clients alike: a test that opens a client with the default node timeout, and asks before the nodes have answered
// once, fails there. TestClientsOfTestsAreOpenedByOneHelper (docs) fails if a test opens a client in another way.
//
// It has no goroutines and no locks. A client ends with its test.
package testclient

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
)

const (
	// NodeTimeout is longer than a busy machine keeps a node waiting. A test that waits for it sets a shorter one.
	NodeTimeout = 5 * time.Second

	// TTL leaves room for two node timeouts. A test that gives a shorter ttl gives a node timeout, too.
	TTL = 12 * time.Second

	// readyWithin bounds the start: containers beside those of other tests have taken half a minute.
	readyWithin = time.Minute
)

// Open opens a client that ends with the test. It returns when a quorum of the nodes votes. The client has no
// restart guard and no log, unless opts say otherwise.
func Open(tb testing.TB, urls []string, opts ...redlock.ClientOption) *redlock.Client {
	tb.Helper()
	return ready(tb, OpenUnready(tb, urls, opts...))
}

// New is Open over pools.
func New(tb testing.TB, pools []redlock.Pool, opts ...redlock.ClientOption) *redlock.Client {
	tb.Helper()
	return ready(tb, NewUnready(tb, pools, opts...))
}

// OpenUnready is Open for a test in which no quorum votes at the start.
func OpenUnready(tb testing.TB, urls []string, opts ...redlock.ClientOption) *redlock.Client {
	tb.Helper()
	client, err := redlock.Open(urls, settings(opts)...)
	return untilTestEnds(tb, client, err)
}

// NewUnready is New for a test in which no quorum votes at the start.
func NewUnready(tb testing.TB, pools []redlock.Pool, opts ...redlock.ClientOption) *redlock.Client {
	tb.Helper()
	client, err := redlock.New(pools, settings(opts)...)
	return untilTestEnds(tb, client, err)
}

// OpenInProcess is Open for a process that a test has started. Its caller closes the client.
func OpenInProcess(ctx context.Context, urls []string, opts ...redlock.ClientOption) (*redlock.Client, error) {
	client, err := redlock.Open(urls, settings(opts)...)
	if err != nil {
		return nil, err
	}
	if err := awaitReady(ctx, client); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return client, nil
}

func settings(opts []redlock.ClientOption) []redlock.ClientOption {
	return append([]redlock.ClientOption{redlock.WithRestartGuard(0), redlock.WithTTL(TTL),
		redlock.WithNodeTimeout(NodeTimeout), redlock.WithLogger(nil)}, opts...)
}

func untilTestEnds(tb testing.TB, client *redlock.Client, err error) *redlock.Client {
	tb.Helper()
	if err != nil {
		tb.Fatalf("testclient: %v", err)
	}
	tb.Cleanup(func() {
		if err := client.Close(); err != nil {
			tb.Errorf("testclient: %v", err)
		}
	})
	return client
}

func ready(tb testing.TB, client *redlock.Client) *redlock.Client {
	tb.Helper()
	if err := awaitReady(tb.Context(), client); err != nil {
		tb.Fatalf("testclient: %v", err)
	}
	return client
}

func awaitReady(ctx context.Context, client *redlock.Client) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	return client.WaitReady(ctx)
}
