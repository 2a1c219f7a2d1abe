// Package system is where the library reads time and draws randomness: Clock, Wall and Random
// are the only ways to either of all that it decides and of all that it writes to the nodes. Tests and
// simulations replace them, so that the same seed gives the same run.
//
// It has no state, no goroutines and no locks.
package system
