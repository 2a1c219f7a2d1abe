// Package peek lets packages of this library ask a client what its users cannot. The root package calls Set; nothing else
// may. It has no goroutines and no locks.
//
// The root imports this package, so its types are parameters here: C is redlock.Client, and S redlock.Status.
package peek

import (
	"context"
	"time"
)

// Look asks the nodes of a client what stands there for names: of locks without their permits, or of semaphores without
// the locks of the same names. It asks in batches, at the pace of a listing, and calls show for each name, with the
// instant of the client's clock when the nodes were asked. It returns why it ended early: ctx's cause or ErrClosed.
type Look[C, S any] func(ctx context.Context, client *C, names []string, semaphores bool, show func(status *S, begun time.Duration)) error

// look is the root package's Look.
var look interface{ isLook() }

func (Look[C, S]) isLook() {}

// Set sets the Look that Of returns.
func Set[C, S any](l Look[C, S]) { look = l }

// Of returns the Look that was set, whose types these must be.
func Of[C, S any]() Look[C, S] { return look.(Look[C, S]) }

// group is what Group calls.
var group func(client any) any

// SetGroup sets what Group calls.
func SetGroup(of func(client any) any) { group = of }

// Group returns the *admission.Group of a *redlock.Client.
func Group(client any) any { return group(client) }

// readsOnly is what ReadsOnly returns.
var readsOnly any

// SetReadsOnly sets the redlock.ClientOption that ReadsOnly returns.
func SetReadsOnly(option any) { readsOnly = option }

// ReadsOnly returns a redlock.ClientOption for a client that only reads: nodes that lost their memory
// do not wait for the ttl that it would have.
func ReadsOnly() any { return readsOnly }
