// Package pipe lets many goroutines share one connection to a Redis server. It knows
// nothing of locks.
//
// Calls are queued in order; a call is one command or a Series of them. A caller that finds no other goroutine
// writing becomes the writer, and writes for all callers, in few flushes. One goroutine reads the replies and
// gives each to its call.
//
// # Life
//
// New takes over a connection and makes a Pipe. Calls go through Queue and Flush, and each
// command of a queued call gets one Receive. The pipe breaks when the connection does, or by
// Kill. Then all unanswered calls receive an error, which says whether they were sent. The
// last goroutine that uses the connection closes it, and closes Done.
//
// # Goroutines
//
// New starts the reader, which ends when the pipe breaks. Flush starts another goroutine
// for writes that could block its caller, or keep it for too long. That goroutine writes
// until the queue is empty, too much is unanswered, or the pipe breaks; when answers have
// made room, the reader writes on. Calls receive their outcomes from the reader, or from
// the goroutine that broke the pipe; so Receive must not block. Once the first answer to a series has come, the
// reader alone delivers the others, and an error in the place of those that do not come.
//
// # Locks
//
// Pipe.mu is innermost: nothing is locked under it. The pipe reads and writes the
// connection without it, and calls Receive without it.
package pipe
