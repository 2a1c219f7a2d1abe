package main

import (
	"errors"
	"fmt"
	"sync"

	"github.com/redlock-go/redlock/fence"
)

// fleet stands for the build machines, one for each slot of the semaphore. Each machine compares the
// token of a command with the last one that it accepted: concurrent deployments have different machines,
// and the tokens of different slots have no order.
type fleet struct {
	guard fence.Guard

	mu   sync.Mutex     // protects what follows
	runs map[int]string // the service that each machine deploys
	most int            // machines that were busy at the same time
	done int            // deployments
}

func newFleet() *fleet { return &fleet{runs: make(map[int]string)} }

// begin has the lease's machines deploy a service. A machine drops what an earlier holder of its slot
// had begun: that one has lost its lease.
func (f *fleet) begin(machines []int, token int64, service string) error {
	return f.command(machines, token, func(machine int) {
		f.runs[machine] = service
		f.most = max(f.most, len(f.runs))
	})
}

// finish frees the machines, and counts the deployment.
func (f *fleet) finish(machines []int, token int64) error {
	err := f.command(machines, token, func(machine int) { delete(f.runs, machine) })
	if err == nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.done++
	}
	return err
}

// command runs something for each machine that has not seen a greater token: of a later lease of its slot.
func (f *fleet) command(machines []int, token int64, run func(machine int)) error {
	var errs []error
	for _, machine := range machines {
		errs = append(errs, f.guard.Write(fmt.Sprint("machine-", machine), token, func() error {
			f.mu.Lock()
			defer f.mu.Unlock()
			run(machine)
			return nil
		}))
	}
	return errors.Join(errs...)
}
