// Package sim simulates whole clusters: clients of the library, Redis servers (package
// simredis) and the network between them, in virtual time, from a seed that gives the same
// history each time. Its checks find two holders of one lock, tokens that do not grow, keys
// that nobody releases, waiters that nobody serves. bugs/ has planted bugs, as patches, that
// the simulation must find; docs/testing.md describes all of it.
//
// The package consists of tests only. Nothing imports it.
package sim
