// Cron runs a job once, though several machines have the same schedule.
//
//	go run ./examples/cron
//
// Every machine wakes at every scheduled time and asks for a lock whose name holds
// that time. The example shows three plans:
//
//   - The lock alone keeps two machines from running the job *at once*. A machine whose
//     clock is late asks when the lock is free again, and runs the job a second time.
//   - WithMinHold keeps the lock taken for longer than the clocks differ. If the holder dies
//     in the job, nobody runs it.
//   - A job that must not be missed is recorded: the holder first checks whether the job of
//     this time is done. That check is reliable only under the lock.
//
// The job and the record must be one transaction, for example of one database. If the record
// came first, a machine that dies in between would leave the job undone but recorded; if it
// came second, the job would be done twice.
package main

import (
	"context"
	"fmt"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/examples/internal/demo"
)

func main() { demo.Main(run) }

func run(ctx context.Context, d *demo.Demo) error {
	f := &fleet{demo: d}
	for i := range 4 {
		name := fmt.Sprint("machine-", i+1)
		client, err := d.Open(ctx, name, redlock.WithTTL(ttl))
		if err != nil {
			return err
		}
		defer client.Close()
		f.machines = append(f.machines, &machine{name: name, client: client, fleet: f})
	}
	f.machines[3].late = lateness // the last one's clock is behind

	d.Say("Four machines have the same schedule. The clock of %s is %v late.", f.machines[3].name, lateness)
	if err := f.at(ctx, "12:00", "the lock alone, released when the job is done", lockAlone); err != nil {
		return err
	}
	if err := f.at(ctx, "12:01", "a lock that rests for longer than the clocks differ", lockThatRests); err != nil {
		return err
	}
	if err := f.at(ctx, "12:02", "the lock, and a check whether the job is done", lockAndLedger); err != nil {
		return err
	}
	return f.at(ctx, "12:03", "the same, and the first to get it loses power in the middle", lockAndLedgerWithACrash)
}
