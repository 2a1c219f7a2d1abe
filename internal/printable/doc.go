// Package printable makes text from servers and other clients safe to print. Such text can
// have escape sequences, which control a terminal, and line breaks, which forge lines.
//
// Its functions depend on their arguments alone. It has no state, no goroutines and no
// locks.
package printable
