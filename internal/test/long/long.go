// Package long says whether long tests run: those that take more than a few seconds, and the many tries of
// what depends on chance.
//
// They do not run by default, so that go test ./... answers within a minute. make verify sets REDLOCK_LONG=1. It is an
// environment variable, since each package would have to define a flag.
package long

import "os"

// Tests reports whether long tests run.
func Tests() bool { return os.Getenv("REDLOCK_LONG") != "" }
