// Package redlockasynq enqueues the periodic tasks of asynq from one process of many, by a lock of package redlock.
// It takes the place of asynq's Scheduler and PeriodicTaskManager, which enqueue each task once per process.
//
// A tick is one scheduled time of one entry. Two things make each tick's task exist once:
//
//   - The task's ID is made of the entry and the tick, so asynq's Redis refuses a second one.
//   - The leader writes to asynq's Redis up to which time the ticks are enqueued, so the next leader goes on from there.
//
// The lock makes one process do the work. Run's caller owns all goroutines: a term has one that calls the provider, and
// some that enqueue the tasks of one instant. They end before the term does.
package redlockasynq
