package redlockasynq_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/hibiken/asynq"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/adapters/redlockasynq"
	"github.com/redlock-go/redlock/redlocktest"
)

// openExample opens a client over three nodes, and a server for asynq. They are embedded in this
// process and are not Redis.
func openExample() (client *redlock.Client, queue asynq.RedisClientOpt, closeAll func()) {
	nodes, err := redlocktest.New(3)
	if err != nil {
		log.Fatal(err)
	}
	client, err = redlock.Open(nodes.URLs(), redlock.WithRestartGuard(0), redlock.WithLogger(nil),
		redlock.WithNodeTimeout(2*time.Second)) // machines that run examples are busy
	if err != nil {
		log.Fatal(err)
	}
	server, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	return client, asynq.RedisClientOpt{Addr: server.Addr()}, func() {
		_ = client.Close()
		server.Close()
		nodes.Close()
	}
}

// Every process of a program calls Run. One of them enqueues the tasks.
func ExampleRun() {
	client, queue, closeAll := openExample()
	defer closeAll()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	err := redlockasynq.Run(ctx, client.Mutex("periodic"), redlockasynq.DefaultWindow, asynq.PeriodicTaskManagerOpts{
		RedisConnOpt: queue,
		PeriodicTaskConfigProvider: redlockasynq.Tasks{
			{Cronspec: "@every 1s", Task: asynq.NewTask("report", nil)},
		},
		SchedulerOpts: &asynq.SchedulerOpts{
			LogLevel: asynq.WarnLevel,
			PostEnqueueFunc: func(info *asynq.TaskInfo, _ error) {
				fmt.Println("enqueued:", info.Type)
				cancel()
			},
		},
	})
	fmt.Println("it ends with ctx:", errors.Is(err, context.Canceled))
	// Output:
	// enqueued: report
	// it ends with ctx: true
}

// Programs that called asynq's Scheduler.Register put the same arguments into a list.
func ExampleTasks() {
	tasks := redlockasynq.Tasks{
		{Cronspec: "0 3 * * *", Task: asynq.NewTask("report", nil)},
		{Cronspec: "@every 30s", Task: asynq.NewTask("ping", nil), Opts: []asynq.Option{asynq.Queue("low")}},
	}
	fmt.Println(len(tasks))
	// Output:
	// 2
}

// A provider's list is fixed.
func ExampleTasks_GetConfigs() {
	configs, err := redlockasynq.Tasks{{Cronspec: "@hourly", Task: asynq.NewTask("report", nil)}}.GetConfigs()
	fmt.Println(configs[0].Cronspec, err)
	// Output:
	// @hourly <nil>
}

// A handler learns for which time its task is, however late it runs.
func ExampleTick() {
	client, queue, closeAll := openExample()
	defer closeAll()
	ctx, cancel := context.WithCancel(context.Background())
	server := asynq.NewServer(queue, asynq.Config{LogLevel: asynq.FatalLevel, TaskCheckInterval: 10 * time.Millisecond})
	err := server.Start(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		due, ok := redlockasynq.Tick(ctx)
		fmt.Println("a whole second:", ok && due.Equal(due.Truncate(time.Second)))
		cancel()
		return nil
	}))
	if err != nil {
		log.Fatal(err)
	}
	defer server.Shutdown()
	_ = redlockasynq.Run(ctx, client.Mutex("periodic"), redlockasynq.DefaultWindow, asynq.PeriodicTaskManagerOpts{
		RedisConnOpt:               queue,
		PeriodicTaskConfigProvider: redlockasynq.Tasks{{Cronspec: "@every 1s", Task: asynq.NewTask("report", nil)}},
		SchedulerOpts:              &asynq.SchedulerOpts{LogLevel: asynq.WarnLevel},
	})
	// Output:
	// a whole second: true
}
