// Cron lets several machines have the same schedule, and the job run once.
//
//	go run ./examples/cron
//
// Every machine wakes at every scheduled time and asks for a lock whose name holds
// that time. Two things are told apart here:
//
//   - The lock alone keeps two machines from running the job *at once*. A machine
//     whose clock is late comes when the lock is free again, and would run it anew.
//     Holding the lock for longer than clocks differ helps, but ends with the
//     holder.
//   - So whoever has the lock looks first whether the job of this time is done, and
//     notes it when it is. Only under the lock is that look worth something.
//
// The note must be made together with what the job does, in one transaction of one
// database, say. Made before, a machine that dies leaves a job undone that counts as
// done; made after, one that dies between the two leaves it to be done twice.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/redlock-go/redlock/examples/internal/servers"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "cron:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	nodes, err := servers.Start(out, 3)
	if err != nil {
		return err
	}
	defer nodes.Close()
	f := &fleet{out: out}
	defer f.close()
	for i := range 4 {
		if err := f.add(ctx, nodes, fmt.Sprint("machine-", i+1)); err != nil {
			return err
		}
	}
	f.machines[3].late = lateness // the last one's clock is behind

	fmt.Fprintf(out, "Four machines have the same schedule. The clock of %s is %v late.\n", f.machines[3].name, lateness)
	if err := f.at(ctx, "12:00", "the lock alone, given back when the job is done", lockAlone); err != nil {
		return err
	}
	if err := f.at(ctx, "12:01", "the lock, and a look whether it is done", lockAndLedger); err != nil {
		return err
	}
	return f.at(ctx, "12:02", "the same, and the first to get it loses power in the middle", lockAndLedgerWithACrash)
}
