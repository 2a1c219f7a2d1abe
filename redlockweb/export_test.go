package redlockweb

import "github.com/redlock-go/redlock/internal/system"

// WithClock sets the model's clock, for tests in virtual time.
func WithClock(clock system.Clock) Option { return func(o *options) { o.model.Clock = clock } }
