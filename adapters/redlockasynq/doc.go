// Package redlockasynq enqueues the periodic tasks of asynq from one process of many, by a lock of
// package redlock. It takes the place of asynq's Scheduler and PeriodicTaskManager, which enqueue
// each task once per process.
//
// A tick is one scheduled time of one entry. Two things make each tick's task exist once:
//
//   - The task's ID is made of the entry and the tick, so asynq's Redis refuses a second one.
//   - The leader records at asynq's Redis up to which time the ticks are enqueued. The next leader
//     goes on from there.
//
// The lock makes one process do the work. While a process leads, one goroutine calls the provider,
// and several enqueue the tasks of one instant. They end before Run returns, or leads again.
package redlockasynq
