// Package testhook lets this library's own tests do what its users cannot: set a client's clocks
// and randomness, and look into it. The root package sets the variables; nothing else may.
package testhook

import (
	"github.com/redlock-go/redlock/internal/lease"
	"github.com/redlock-go/redlock/internal/lock"
	"github.com/redlock-go/redlock/internal/system"
)

var (
	// WithClock returns a redlock.Option that replaces a client's clock.
	WithClock func(system.Clock) any

	// WithWall returns a redlock.Option that replaces a client's wall clock.
	WithWall func(system.Wall) any

	// WithRandom returns a redlock.Option that replaces the randomness of a client or Mutex.
	WithRandom func(system.Random) any

	// Engine returns the engine of a *redlock.Client.
	Engine func(client any) *lock.Engine

	// Lock returns the lock of a *redlock.Mutex, or a request for one permit of a *redlock.Semaphore.
	Lock func(mutex any) *lock.Lock

	// Exclusive returns the lock of a *redlock.Mutex that is not a reader's.
	Exclusive func(mutex any) *lock.Exclusive

	// Lease returns the state of a *redlock.Lease.
	Lease func(lease any) *lease.Lease

	// Handle returns the part of a *redlock.Lease that is its alone.
	Handle func(lease any) *lease.Handle
)
