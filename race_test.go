//go:build race

package redlock

// raceDetector tells that the tests run with it.
const raceDetector = true
