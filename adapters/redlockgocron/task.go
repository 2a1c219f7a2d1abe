package redlockgocron

import (
	"context"
	"reflect"
	"runtime"

	"github.com/redlock-go/redlock"
)

// Task returns a function for gocron.NewTask that runs fn under m.Do. fn's ctx ends when the lease is lost, and when the job's
// own context ends: fn must return then. gocron itself cannot stop a job whose lock is lost. lease.Token is the fencing token for
// what fn changes.
//
// It is for jobs beneath a Locker or an Elector, which chooses the machine that runs the job. m must have a name of
// its own, not that of the Locker's lock ("gocron:" and the job's name), nor the Elector's: else each run would wait for the lock that
// its own machine holds. Do waits: a run begins when the run of a machine that lost its lock has
// ended, or is past its ttl. Without a Locker or Elector all machines would run the job, one after the other.
//
// Beneath a Locker give the job a name, with gocron.WithName: gocron would name it after Task's function, as every other Task. So
// Locker.Lock returns redlock.ErrConfig for a job that has that name, and gocron skips its runs.
//
// gocron passes a context to a function whose first parameter is one since v2.15; for earlier versions give one to NewTask:
// gocron.NewTask(redlockgocron.Task(m, fn), ctx).
//
// Errors of the function: those of Do, so of Lock and of fn, and redlock.ErrLost if the lease was lost meanwhile. gocron hands them to
// AfterJobRunsWithError.
//
//go:noinline
func Task(m *redlock.Mutex, fn func(ctx context.Context, lease *redlock.Lease) error) func(context.Context) error {
	return func(ctx context.Context) error { return m.Do(ctx, fn) }
}

// taskName is the name that gocron gives to every Task's job without a name of its own: that of the function which Task
// returns. Were Task inlined, its caller would give that function other names, which change with the compiler.
var taskName = runtime.FuncForPC(reflect.ValueOf(Task(nil, nil)).Pointer()).Name()
