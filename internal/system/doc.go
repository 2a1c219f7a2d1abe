// Package system is where the library reads time and draws randomness: Clock and Random
// are the only two ways to either. Tests and simulations replace both, so that the same
// seed gives the same run.
//
// It has no state, no goroutines and no locks.
package system
