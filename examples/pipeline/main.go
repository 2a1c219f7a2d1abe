// Transfer hands a lock from one process to the next: a release is built, tested and deployed by
// three processes, and nobody else gets the lock between them.
//
//	go run ./examples/pipeline
//
// Each process ends its lease with Lease.Transfer, and writes a text to its standard output; the next one
// reads the text from its standard input, and goes on with Client.Resume. A rival waits in the wait
// queue all the while. Fencing tokens show the order: the rival's is the greatest.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/examples/internal/servers"
)

const (
	name = "release"

	// ttl is how long the next process may take to start, at most.
	ttl = 20 * time.Second
)

// stages are the processes, one after the other.
var stages = []string{"build", "test", "deploy"}

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "transfer:", err)
		os.Exit(1)
	}
}

// run is the parent, or with -stage the process of one stage. Stages write for people to log.
func run(ctx context.Context, args []string, in io.Reader, out, log io.Writer) error {
	flags := flag.NewFlagSet("transfer", flag.ContinueOnError)
	flags.SetOutput(log)
	stage := flags.String("stage", "", "for the program's own use: be the process of this `stage`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *stage != "" {
		return work(ctx, *stage, in, out, log)
	}
	nodes, err := servers.Start(out, 5)
	if err != nil {
		return err
	}
	defer nodes.Close()
	return release(ctx, nodes, out)
}

// release runs the stages, and lets a rival wait for the lock from the first transfer on.
func release(ctx context.Context, nodes *servers.Servers, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	client, err := nodes.Client(ctx, "rival", redlock.WithTTL(ttl))
	if err != nil {
		return err
	}
	defer client.Close()
	rival := make(chan result, 1)
	var text string
	var last int64
	for i, stage := range stages {
		token, next, err := start(ctx, nodes, stage, text, out)
		if err != nil {
			return fmt.Errorf("%s: %w", stage, err)
		}
		if text, last = next, token; i == 0 {
			go func() { rival <- wait(ctx, client) }()
		}
	}
	r := <-rival
	switch {
	case r.err != nil:
		return r.err
	case r.token < last:
		return fmt.Errorf("the rival got the lock in between: its token is %d, and that of %s is %d", r.token, stages[len(stages)-1], last)
	}
	fmt.Fprintln(out, "The rival waited behind all of them: its token is greater than theirs.")
	return nil
}

// result is what the rival's Lock returned.
type result struct {
	token int64
	err   error
}

// wait is the rival: it takes the lock when its turn comes, and gives it back.
func wait(ctx context.Context, client *redlock.Client) result {
	lease, err := client.Mutex(name).Lock(ctx)
	if err != nil {
		return result{err: err}
	}
	return result{lease.Token(), lease.Unlock(ctx)}
}

// start runs the process of a stage, and returns its token, and the text for the next one.
func start(ctx context.Context, nodes *servers.Servers, stage, text string, out io.Writer) (token int64, next string, err error) {
	program, err := os.Executable()
	if err != nil {
		return 0, "", err
	}
	var answer bytes.Buffer
	cmd := exec.CommandContext(ctx, program, "-stage", stage)
	cmd.Env = append(os.Environ(), nodes.Environment()...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(text), &answer, out
	if err := cmd.Run(); err != nil {
		return 0, "", err
	}
	_, err = fmt.Fscan(&answer, &token)
	return token, strings.TrimSpace(answer.String()), err
}
