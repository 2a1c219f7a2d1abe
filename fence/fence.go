// Package fence refuses writes that come too late: it is for the resource that a lock
// protects.
//
// No lock can keep its holder from being paused at the wrong moment: after it asked whether
// its lease is valid, before it writes. When it wakes, another client may hold the lock, and
// may have written. So every lease has a token, greater than those of all leases of the lock
// before it. Send it along with every write, and let the resource refuse a token that is
// smaller than one that it has seen. Equal tokens are one holder's, and are accepted.
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
package fence

import (
	"errors"
	"fmt"
)

// The errors of this package match these by errors.Is.
var (
	// ErrStale occurs when a greater token was seen before: the lease of this write has
	// ended, and nothing was written. The error is a *StaleError.
	ErrStale = errors.New("the token is stale")

	// ErrUnfenced occurs when a write has no token: the token is 0 or negative, as with
	// redlock.WithFencing(false), or the SQL statement does not use it. Nothing was written.
	ErrUnfenced = errors.New("the write is not fenced")

	// ErrFull occurs when a Guard would have to keep the tokens of more resources than its
	// Limit. Nothing was written.
	ErrFull = errors.New("the guard is full")
)

// StaleError is a refused write, and why it was refused. It matches ErrStale by errors.Is;
// errors.As takes both *StaleError and StaleError.
type StaleError struct {
	Resource string // that was to be written
	Token    int64  // the token that came with the write
	Highest  int64  // the greatest token seen there; 0: not known
}

// Error names the resource and the tokens.
func (e StaleError) Error() string {
	if e.Highest == 0 {
		return fmt.Sprintf("fence: %q: token %d is stale, or there is no such row", e.Resource, e.Token)
	}
	return fmt.Sprintf("fence: %q: token %d is stale: %d was seen before", e.Resource, e.Token, e.Highest)
}

// Is reports whether target is ErrStale.
func (e StaleError) Is(target error) bool { return target == ErrStale }

// As lets errors.As fill a StaleError by value.
func (e StaleError) As(target any) bool {
	t, ok := target.(*StaleError)
	if ok {
		*t = e
	}
	return ok
}

// requireToken returns an error if the token is not positive. If 0 counted as the oldest
// token, a lock without fencing would seem to have it.
func requireToken(resource string, token int64) error {
	if token > 0 {
		return nil
	}
	return fmt.Errorf("fence: %q: %w: its token is %d, and tokens are positive (is redlock.WithFencing off?)",
		resource, ErrUnfenced, token)
}
