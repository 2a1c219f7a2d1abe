// Package loginreply keeps passwords out of errors. A server can repeat a command that it does not know with its
// arguments. So the text of a refused login is not shown. What remains is the code of the reply, and texts that
// all servers of a kind have in common.
//
// The package has no goroutines, no locks and no state.
package loginreply
