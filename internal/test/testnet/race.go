//go:build race

package testnet

// RaceDetector reports that the tests run with it.
const RaceDetector = true
