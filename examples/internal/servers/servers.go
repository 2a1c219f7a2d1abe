// Package servers gives the examples their nodes: real Redis servers where
// REDLOCK_NODES names some, separated by commas, else embedded ones.
package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// Variable is the environment variable that names real servers.
const Variable = "REDLOCK_NODES"

// trust is the environment variable that tells a process that the nodes are embedded in the one that started it.
const trust = "REDLOCK_EXAMPLE_NODES_ARE_EMBEDDED"

// NodeTimeout leaves room for busy machines. The examples' ttls are short, so that the
// examples do not take long.
const NodeTimeout = 500 * time.Millisecond

// maxWait is how long an example waits for servers that are new.
const maxWait = time.Minute

// Servers are the nodes of one run of an example.
type Servers struct {
	urls     []string
	embedded *redlocktest.Nodes // nil for others
	trusted  bool               // they are embedded, here or in the process that started this one
}

// Start takes the servers that REDLOCK_NODES names, or starts n embedded nodes, and
// writes to out which of the two it did.
func Start(out io.Writer, n int) (*Servers, error) {
	if urls := os.Getenv(Variable); urls != "" {
		s := &Servers{urls: strings.Split(urls, ","), trusted: os.Getenv(trust) != ""}
		fmt.Fprintf(out, "Using the %d servers of %s. If they are new, the first lock waits for them.\n\n", len(s.urls), Variable)
		return s, nil
	}
	nodes, err := redlocktest.New(n)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(out, "Using %d nodes embedded in this program. They are not Redis.\n\n", n)
	return &Servers{urls: nodes.URLs(), embedded: nodes, trusted: true}, nil
}

// Client makes the client of one machine, which others see under its label. It returns when a
// majority of the nodes votes: new servers wait for one guard, and the time of connecting
// must not decide which client is first.
func (s *Servers) Client(ctx context.Context, label string, opts ...redlock.ClientOption) (*redlock.Client, error) {
	all := []redlock.ClientOption{redlock.WithOwnerLabel(label), redlock.WithNodeTimeout(NodeTimeout), redlock.WithLogger(nil)}
	if s.trusted {
		// Embedded nodes are new in every run and forget nothing: they need not wait
		// for leases that they may have forgotten, as real servers must.
		all = append(all, redlock.WithRestartGuard(0))
	}
	client, err := redlock.Open(s.urls, append(all, opts...)...)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	if err := client.WaitReady(ctx); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return client, nil
}

// Environment returns the variables by which a process that this one starts finds the same servers.
func (s *Servers) Environment() []string {
	all := []string{Variable + "=" + strings.Join(s.urls, ",")}
	if s.trusted {
		all = append(all, trust+"=1")
	}
	return all
}

// Close stops embedded nodes. Real servers are left alone.
func (s *Servers) Close() {
	if s.embedded != nil {
		s.embedded.Close()
	}
}
