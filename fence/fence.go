// Package fence refuses accesses that come too late: it is for the resource that a lock
// protects.
//
// No lock can keep its holder from being paused at the wrong moment: after it asked whether
// its lease is valid, before it writes. When it wakes, another client may hold the lock, and
// may have written. So every exclusive lease has a token that is greater than those of all
// leases of the lock before it. Send it along with every write, and let the resource refuse a
// token that is smaller than one that it has seen. Equal tokens of two writes are one
// holder's, and are accepted.
//
// The resource must compare the token in one step with the write. There is a function for
// each kind of resource:
//
//   - Exec, for a row of an SQL database that keeps the token in a column;
//   - Set, for a value in Redis that is kept together with its token;
//   - Guard, for anything in the memory of one process, or that only one process can
//     access.
//
// Tokens of different locks cannot be compared: one resource, one lock name. A resource that
// loses its token, because its row or key is deleted, expires or is restored from a backup,
// accepts late writes again.
//
// # Readers and writers
//
// A lock for readers and writers gives shared leases to readers (their method Shared returns
// true) and exclusive leases to writers. A writer's token is greater than that of every lease
// before it, readers' too. A reader's token is not smaller than that of any writer before it:
// mostly it equals that of the last writer, and readers that hold the lock together mostly
// have the same. So the resource keeps two numbers, the greatest token that wrote and the
// greatest token that read:
//
//	         is accepted if                       and then
//	a read   token >= write                       read = max(read, token)
//	a write  token >= write and token > read      write = token
//
// The resource registers a read before it returns anything, in one step with the comparison:
//
//   - Guard.Read, beside Guard.Write;
//   - Get, beside Set;
//   - an UPDATE of a second column in the transaction that reads: see Exec.
//
// These are for shared leases only. The holder of an exclusive lease reads as a writer, by
// Guard.Write, GetForUpdate, or an UPDATE of the column fence: if its read were registered as
// a reader's, its own write would be refused, since a write needs a token greater than all
// that have read. A lease that was exclusive and is shared now, after its Downgrade, reads as
// a reader from then on, and writes no more; await its writes before the Downgrade.
//
// One number does not protect readers. Say a writer with token 33 is paused, and its lease
// ends. A reader gets a lease, with token 33 too, and reads. Then the writer wakes and writes:
// no token above 33 was seen, so the write is accepted, and what the reader holds the lock for
// changes while it works. The same goes for two numbers if a read is not registered: the
// resource protects only reads that it knows of.
package fence

import (
	"context"
	"errors"
	"fmt"
)

// The errors of this package match these by errors.Is.
var (
	// ErrStale occurs when the lease of this write or read has ended: a greater token has
	// written, or, if this is a write, the same or a greater token has read. Nothing was
	// written, or read. The error is a *StaleError.
	ErrStale = errors.New("the token is stale")

	// ErrUnfenced occurs when a write or a read has no token: the token is 0 or negative, as
	// with redlock.WithoutFencing(), or the SQL statement does not use it. Nothing was
	// written, or read.
	ErrUnfenced = errors.New("not fenced")

	// ErrFull occurs when a Guard would have to keep the tokens of more resources than its
	// Limit. Nothing was written, or read.
	ErrFull = errors.New("the guard is full")
)

// StaleError is a refused write or read, and why it was refused. errors.Is finds
// ErrStale in it.
type StaleError struct {
	Resource string // that was to be written or read
	Token    int64  // the token that came with the write or read
	Highest  int64  // the greatest token that refuses it; 0: not known

	// Read reports whether a reader came with Highest. Then a write was refused, and Token may
	// equal Highest. If both are the token of one exclusive lease, its holder has read as a
	// reader, and must read as a writer: see Guard.Write.
	Read bool
}

// Error names the resource and the tokens, and the reader if there was one.
func (e *StaleError) Error() string {
	switch {
	case e.Highest == 0:
		return fmt.Sprintf("fence: %q: token %d is stale, or there is no such row", e.Resource, e.Token)
	case e.Read:
		return fmt.Sprintf("fence: %q: token %d is stale for a write: a reader came with %d, and a writer's token must be greater",
			e.Resource, e.Token, e.Highest)
	}
	return fmt.Sprintf("fence: %q: token %d is stale: %d was seen before", e.Resource, e.Token, e.Highest)
}

// Is reports whether target is ErrStale.
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// failed returns the error of a write or read that failed with err. If ctx has ended, it is also ctx's cause, which
// says more than that ctx has ended.
func failed(ctx context.Context, resource string, err error) error {
	cause := context.Cause(ctx)
	if cause == nil || errors.Is(err, cause) {
		return fmt.Errorf("fence: %q: %w", resource, err)
	}
	return fmt.Errorf("fence: %q: %w (%w)", resource, cause, err)
}

// requireToken returns an error if the token is not positive. If 0 counted as the oldest
// token, a lock without fencing would seem to have it. access is "read" or "write".
func requireToken(resource, access string, token int64) error {
	if token > 0 {
		return nil
	}
	return fmt.Errorf("fence: %q: the %s is %w: its token is %d, and tokens are positive (has the lock redlock.WithoutFencing?)",
		resource, access, ErrUnfenced, token)
}
