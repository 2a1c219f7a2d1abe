package redlockgocron_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync/atomic"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/jonboulle/clockwork"
	"github.com/robfig/cron/v3"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/adapters/redlockgocron"
	"github.com/redlock-go/redlock/redlocktest"
)

// openExample opens the clients of two machines over three nodes, which are embedded in this process and are not Redis.
// closeAll closes them.
func openExample() (first, second *redlock.Client, closeAll func()) {
	nodes, err := redlocktest.New(3)
	if err != nil {
		log.Fatal(err)
	}
	var clients []*redlock.Client
	for _, machine := range []string{"first", "second"} {
		client, err := redlock.Open(nodes.URLs(), redlock.WithOwnerLabel(machine), redlock.WithRestartGuard(0), redlock.WithLogger(nil),
			redlock.WithNodeTimeout(2*time.Second)) // machines that run examples are busy
		if err != nil {
			log.Fatal(err)
		}
		clients = append(clients, client)
	}
	return clients[0], clients[1], func() {
		_ = clients[0].Close()
		_ = clients[1].Close()
		nodes.Close()
	}
}

// runOnce makes a scheduler whose job is due at once, and returns when the job ran, or was refused.
func runOnce(locker gocron.Locker, job func()) {
	asked := make(chan struct{})
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(lockerFunc(func(ctx context.Context, name string) (gocron.Lock, error) {
		defer close(asked)
		return locker.Lock(ctx, name)
	})))
	if err != nil {
		log.Fatal(err)
	}
	_, err = scheduler.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()), gocron.NewTask(job), gocron.WithName("report"))
	if err != nil {
		log.Fatal(err)
	}
	scheduler.Start()
	<-asked
	_ = scheduler.Shutdown() // it waits for the job
}

type lockerFunc func(context.Context, string) (gocron.Lock, error)

func (f lockerFunc) Lock(ctx context.Context, name string) (gocron.Lock, error) { return f(ctx, name) }

// Two machines have the same job. It takes no time, and is over when the second machine asks; yet it runs once.
func ExampleLocker() {
	first, second, closeAll := openExample()
	defer closeAll()
	var runs atomic.Int32
	for _, client := range []*redlock.Client{first, second} {
		locker, err := redlockgocron.NewLocker(client, redlockgocron.DefaultMinHold)
		if err != nil {
			log.Fatal(err)
		}
		runOnce(locker, func() { runs.Add(1) }) // a program calls gocron.WithDistributedLocker(locker)
	}
	fmt.Println("runs:", runs.Load())

	_, err := redlockgocron.NewLocker(first, time.Minute)
	fmt.Println("longer than the ttl:", errors.Is(err, redlock.ErrConfig))
	// Output:
	// runs: 1
	// longer than the ttl: true
}

// The error of Lock names the machine that runs the job. gocron hands it to AfterLockError, from v2.6 on.
func ExampleLocker_Lock() {
	first, second, closeAll := openExample()
	defer closeAll()
	one, err := redlockgocron.NewLocker(first, redlockgocron.DefaultMinHold)
	if err != nil {
		log.Fatal(err)
	}
	two, err := redlockgocron.NewLocker(second, redlockgocron.DefaultMinHold)
	if err != nil {
		log.Fatal(err)
	}
	lock, err := one.Lock(context.Background(), "report")
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Unlock(context.Background())

	_, err = two.Lock(context.Background(), "report")
	var held *redlock.HeldError
	if errors.As(err, &held) {
		fmt.Println("it runs at:", held.Label)
	}
	// Output:
	// it runs at: first
}

// A machine that was suspended asks for a lock that is free again, long after the scheduled time. OnTime refuses it.
func ExampleLocker_OnTime() {
	client, _, closeAll := openExample()
	defer closeAll()
	locker, err := redlockgocron.NewLocker(client, redlockgocron.DefaultMinHold)
	if err != nil {
		log.Fatal(err)
	}
	inHalfAnHour := time.Now().Add(30 * time.Minute).Minute()
	spec := fmt.Sprintf("%d * * * *", inHalfAnHour) // the job's own: gocron.CronJob(spec, false)
	var schedule redlockgocron.Schedule
	if schedule, err = cron.ParseStandard(spec); err != nil {
		log.Fatal(err)
	}
	_, err = locker.OnTime(schedule).Lock(context.Background(), "report")
	fmt.Println("not due:", errors.Is(err, redlockgocron.ErrNotDue))
	// Output:
	// not due: true
}

// One of two machines leads; the other one knows which.
func ExampleElector() {
	first, second, closeAll := openExample()
	defer closeAll()
	elector, err := redlockgocron.NewElector(first, "jobs", 100*time.Millisecond)
	if err != nil {
		log.Fatal(err)
	}
	defer elector.Close()
	for elector.IsLeader(context.Background()) != nil { // gocron asks when a job is due
		time.Sleep(time.Millisecond)
	}
	fmt.Println("the first machine leads")

	other, err := redlockgocron.NewElector(second, "jobs", 100*time.Millisecond)
	if err != nil {
		log.Fatal(err)
	}
	defer other.Close()
	var held *redlock.HeldError
	for !errors.As(other.IsLeader(context.Background()), &held) {
		time.Sleep(time.Millisecond)
	}
	fmt.Println("the second machine says that the leader is:", held.Label)
	// A program calls gocron.NewScheduler(gocron.WithDistributedElector(elector)).

	// Output:
	// the first machine leads
	// the second machine says that the leader is: first
}

// The job is due when the scheduler starts. Without Wait no machine would lead yet, and none would run it, ever.
func ExampleElector_Wait() {
	client, _, closeAll := openExample()
	defer closeAll()
	ctx := context.Background()
	elector, err := redlockgocron.NewElector(client, "jobs", 100*time.Millisecond)
	if err != nil {
		log.Fatal(err)
	}
	defer elector.Close()
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
	if err != nil {
		log.Fatal(err)
	}
	ran := make(chan struct{})
	_, err = scheduler.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()), gocron.NewTask(func() { close(ran) }))
	if err != nil {
		log.Fatal(err)
	}
	if err := elector.Wait(ctx); err != nil { // a machine that does not lead starts its scheduler when it does
		log.Fatal(err)
	}
	scheduler.Start()
	<-ran
	fmt.Println("it ran")
	_ = scheduler.Shutdown()
	// Output:
	// it ran
}

// The job ran just now, so its lock still rests. gocron's own RunNow would return nil.
func ExampleLocker_RunNow() {
	client, _, closeAll := openExample()
	defer closeAll()
	ctx := context.Background()
	locker, err := redlockgocron.NewLocker(client, redlockgocron.DefaultMinHold)
	if err != nil {
		log.Fatal(err)
	}
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	if err != nil {
		log.Fatal(err)
	}
	job, err := scheduler.NewJob(gocron.CronJob("0 3 * * *", false), gocron.NewTask(func() {}), gocron.WithName("report"))
	if err != nil {
		log.Fatal(err)
	}
	scheduler.Start()
	fmt.Println("first:", locker.RunNow(ctx, job))
	fmt.Println("again:", errors.Is(locker.RunNow(ctx, job), redlock.ErrHeld))
	_ = scheduler.Shutdown()
	// Output:
	// first: <nil>
	// again: true
}

// A test has the scheduler and OnTime go by one fake clock.
func ExampleWithClock() {
	client, _, closeAll := openExample()
	defer closeAll()
	locker, err := redlockgocron.NewLocker(client, redlockgocron.DefaultMinHold)
	if err != nil {
		log.Fatal(err)
	}
	clock := clockwork.NewFakeClockAt(time.Date(2026, time.March, 1, 12, 0, 0, 0, time.Local)) // gocron.WithClock(clock)
	hourly, err := cron.ParseStandard("@hourly")
	if err != nil {
		log.Fatal(err)
	}
	lock, err := locker.OnTime(hourly, redlockgocron.WithClock(clock)).Lock(context.Background(), "report")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("due at twelve:", lock.Unlock(context.Background()) == nil)
	// Output:
	// due at twelve: true
}

// A job is told by its context when its lock is lost. gocron itself would let it go on.
func ExampleTask() {
	client, operator, closeAll := openExample()
	defer closeAll()
	begun := make(chan struct{})
	task := redlockgocron.Task(client.Mutex("ledger"), func(ctx context.Context, lease *redlock.Lease) error {
		close(begun)
		<-ctx.Done() // in place of work that takes long
		fmt.Println("the job stops:", errors.Is(context.Cause(ctx), redlock.ErrLost))
		return context.Cause(ctx)
	})
	scheduler, err := gocron.NewScheduler()
	if err != nil {
		log.Fatal(err)
	}
	_, err = scheduler.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()), gocron.NewTask(task, context.Background()))
	if err != nil {
		log.Fatal(err)
	}
	scheduler.Start()
	<-begun
	if _, err := operator.ForceUnlock(context.Background(), "ledger"); err != nil {
		log.Fatal(err)
	}
	_ = scheduler.Shutdown()
	// Output:
	// the job stops: true
}
