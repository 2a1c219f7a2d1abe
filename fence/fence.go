// Package fence refuses writes that come too late: it is for the side that a
// lock protects.
//
// No lock can keep its holder from being paused at the wrong moment: after it
// asked whether its lease is valid, before it writes. When it wakes, somebody
// else may hold the lock, and may have written. So every lease has a token,
// greater than those of all leases of the lock before it. Send it along with
// every write, and let what is written to refuse a token that is smaller than
// one that it has seen. Equal tokens are one holder's, and are accepted.
//
// The token must be compared where the write is done, and in one step with it.
// There is a way for each place where that may be:
//
//   - Exec, for a row of an SQL database that keeps the token in a column;
//   - Set, for a value in Redis that is kept together with its token;
//   - Guard, for anything that lives in the memory of one process, or is
//     reached through one process only.
//
// Tokens of different locks cannot be compared: one resource, one lock name. A
// resource that forgets its token, because its row or key is deleted, expires or
// is restored from a backup, accepts latecomers again.
package fence

import (
	"errors"
	"fmt"
)

// What errors.Is finds in the errors of this package.
var (
	// ErrStale occurs when a greater token was seen before: the lease that the
	// write was made under is over, and nothing was written. The error is a
	// *StaleError.
	ErrStale = errors.New("the token is stale")

	// ErrUnfenced occurs when a write comes without a token: it is 0 or negative,
	// as it is where redlock.WithFencing is off, or the SQL statement does not
	// use it. Nothing was written.
	ErrUnfenced = errors.New("the write is not fenced")

	// ErrFull occurs when a Guard would have to remember more resources than its
	// Limit. Nothing was written.
	ErrFull = errors.New("the guard is full")
)

// StaleError says which write was refused, and why. errors.Is finds ErrStale in
// it; errors.As takes both *StaleError and StaleError.
type StaleError struct {
	Resource string // what was to be written
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

// Is reports that the error is ErrStale.
func (e StaleError) Is(target error) bool { return target == ErrStale }

// As lets errors.As fill a StaleError by value.
func (e StaleError) As(target any) bool {
	t, ok := target.(*StaleError)
	if ok {
		*t = e
	}
	return ok
}

// demand refuses what is no token. Taking 0 for the oldest of tokens would turn
// a lock without fencing into one that seems to have it.
func demand(resource string, token int64) error {
	if token > 0 {
		return nil
	}
	return fmt.Errorf("fence: %q: %w: its token is %d, and tokens are positive (is redlock.WithFencing off?)",
		resource, ErrUnfenced, token)
}
