// Package loginreply keeps passwords out of errors. A server can repeat a command that it does not know with its
// arguments, and a proxy can repeat anything; so the text of a refused login is not shown, and no later
// text either in which the password is found. What remains is the code of the reply, and texts
// that all servers of a kind have in common.
//
// A value of Secrets is not changed after New. The package has no goroutines and no locks.
package loginreply
