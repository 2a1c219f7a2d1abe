// Pipeline hands a lock from one process to the next: a release is built, tested and deployed by
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
	"strings"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/examples/internal/demo"
)

const (
	name = "release"

	// ttl is how long the next process may take to start, at most.
	ttl = 20 * time.Second
)

// stages are the processes, one after the other.
var stages = []string{"build", "test", "deploy"}

func main() { demo.Main(run) }

// run is the parent, or with -stage the process of one stage.
func run(ctx context.Context, d *demo.Demo) error {
	var stage string
	err := d.Parse(func(f *flag.FlagSet) {
		f.StringVar(&stage, "stage", "", "for the program's own use: be the process of this `stage`")
	})
	switch {
	case err != nil:
		return err
	case stage != "":
		return work(ctx, d, stage)
	default:
		return release(ctx, d)
	}
}

// release runs the stages, and lets a rival wait for the lock from the first transfer on.
func release(ctx context.Context, d *demo.Demo) error {
	client, err := d.Open(ctx, "rival", redlock.WithTTL(ttl))
	if err != nil {
		return err
	}
	defer client.Close()
	all, ctx := demo.NewGroup(ctx)
	var text string
	var last, rival int64
	for i, stage := range stages {
		token, next, err := start(ctx, d, stage, text)
		if err != nil {
			return fmt.Errorf("%s: %w", stage, err)
		}
		if text, last = next, token; i == 0 {
			all.Go(func() (err error) {
				rival, err = wait(ctx, client)
				return err
			})
		}
	}
	if err := all.Wait(); err != nil {
		return err
	}
	if rival < last {
		return fmt.Errorf("the rival got the lock in between: its token is %d, and that of %s is %d", rival, stages[len(stages)-1], last)
	}
	d.Say("The rival waited behind all of them: its token is greater than theirs.")
	return nil
}

// wait is the rival: it takes the lock when its turn comes, and gives it back.
func wait(ctx context.Context, client *redlock.Client) (token int64, err error) {
	lease, err := client.Mutex(name).Lock(ctx)
	if err != nil {
		return 0, err
	}
	return lease.Token(), lease.Unlock(ctx)
}

// start runs the process of a stage, and returns its token, and the text for the next one.
func start(ctx context.Context, d *demo.Demo, stage, text string) (token int64, next string, err error) {
	cmd, err := d.Command(ctx, "-stage", stage)
	if err != nil {
		return 0, "", err
	}
	var answer bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(text), &answer, d.Out
	if err := cmd.Run(); err != nil {
		return 0, "", err
	}
	_, err = fmt.Fscan(&answer, &token)
	return token, strings.TrimSpace(answer.String()), err
}
