// Package notify delivers log lines and the calls of hooks from a goroutine of its own,
// in the order in which they were sent. A logger or a hook may be slow; the senders,
// which renew leases and read connections, never wait for it. A full Queue drops further
// events, and logs how many it dropped. A panic of a logger or a hook is counted and logged.
//
// The owner of a Queue starts its one goroutine, Queue.Run, which ends with its context.
// There are no locks.
package notify
