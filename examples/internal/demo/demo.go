// Package demo is what the examples need beside locks: nodes, arguments, output, signals and
// processes. An example opens its clients by Demo.Open: redlock.Open with the demo's nodes.
//
// The nodes are those that REDLOCK_NODES names, separated by commas, else embedded ones. They
// start with the first client or process and stop when the example returns.
package demo

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

const (
	// variable names real servers, as for the redlock tool.
	variable = "REDLOCK_NODES"

	// origin says, in the environment of a process that a demo starts, where its nodes come from.
	origin   = "REDLOCK_EXAMPLE_NODES_ARE"
	embedded = "embedded"
	real     = "real"

	nodes = 3 // that are embedded

	// nodeTimeout leaves room for busy machines. The examples' ttls are short, to save time.
	nodeTimeout = 500 * time.Millisecond

	// maxWait is how long an example waits for servers that are new.
	maxWait = time.Minute
)

// Demo is one run of an example.
type Demo struct {
	Args []string
	In   io.Reader
	Out  io.Writer // for results; goroutines and processes may share it
	Log  io.Writer // for errors; likewise

	mu    sync.Mutex
	urls  []string
	trust bool               // the nodes are embedded, here or in the process that started this one
	nodes *redlocktest.Nodes // nil unless they are embedded here
}

// Main runs an example as a program. Ctrl-C and SIGTERM end its context.
func Main(run func(context.Context, *Demo) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	d := &Demo{Args: os.Args[1:], In: os.Stdin, Out: os.Stdout, Log: os.Stderr}
	err := run(ctx, d)
	d.close()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", filepath.Base(os.Args[0]), err)
		os.Exit(1)
	}
}

// Say prints a line.
func (d *Demo) Say(format string, args ...any) { fmt.Fprintf(d.Out, format+"\n", args...) }

// Parse reads the arguments by the flags that define adds.
func (d *Demo) Parse(define func(*flag.FlagSet)) error {
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	flags.SetOutput(d.Log)
	define(flags)
	if err := flags.Parse(d.Args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	return nil
}

// Open makes the client of one process, which others see under its label. It returns when a
// majority of the nodes votes: new servers wait for one guard, and the time of connecting must
// not decide which client is first.
func (d *Demo) Open(ctx context.Context, label string, opts ...redlock.ClientOption) (*redlock.Client, error) {
	if err := d.start(); err != nil {
		return nil, err
	}
	all := []redlock.ClientOption{redlock.WithOwnerLabel(label), redlock.WithNodeTimeout(nodeTimeout), redlock.WithLogger(nil)}
	if d.trust {
		// Embedded nodes are new in every run and forget nothing. They need not wait for
		// leases that they may have forgotten, as real servers must.
		all = append(all, redlock.WithRestartGuard(0))
	}
	client, err := redlock.Open(d.urls, append(all, opts...)...)
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

// Command returns this program as another process with the same nodes.
func (d *Demo) Command(ctx context.Context, args ...string) (*exec.Cmd, error) {
	if err := d.start(); err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	from := real
	if d.trust {
		from = embedded
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), variable+"="+strings.Join(d.urls, ","), origin+"="+from)
	return cmd, nil
}

// start finds the nodes, or starts them, and says which of the two it did.
func (d *Demo) start() (err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	urls, from := os.Getenv(variable), os.Getenv(origin)
	switch {
	case d.urls != nil:
	case urls != "":
		d.urls, d.trust = strings.Split(urls, ","), from == embedded
		if from == "" {
			d.Say("Using the %d servers of %s. If they are new, the first lock waits for them.\n", len(d.urls), variable)
		}
	default:
		if d.nodes, err = redlocktest.New(nodes); err != nil {
			return err
		}
		d.urls, d.trust = d.nodes.URLs(), true
		d.Say("Using %d nodes embedded in this program. They are not Redis.\n", nodes)
	}
	return nil
}

// close stops embedded nodes. Real servers are left alone.
func (d *Demo) close() {
	if d.nodes != nil {
		d.nodes.Close()
	}
}
