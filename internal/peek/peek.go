// Package peek lets packages of this library ask a client what its users cannot. The root package sets the
// variable; nothing else may. It has no goroutines and no locks.
package peek

import (
	"context"
	"time"
)

// Look asks the nodes of a *redlock.Client what stands there for names: of locks without their permits, or of semaphores
// without the locks of the same names. It asks in batches, at the pace of a listing, and calls show with a *redlock.Status
// for each name, and with the instant of the client's clock when the nodes were asked. It returns why it ended early: ctx's
// cause or ErrClosed.
var Look func(ctx context.Context, client any, names []string, semaphores bool, show func(status any, begun time.Duration)) error
