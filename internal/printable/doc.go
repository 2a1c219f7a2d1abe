// Package printable makes text safe to print that servers or other clients wrote. Such
// text can hold escape sequences, which command a terminal, and line breaks, which forge
// lines.
//
// Its functions depend on their arguments alone. It has no state, no goroutines and no
// locks.
package printable
