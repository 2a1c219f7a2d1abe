//go:build !race

package testnet

const RaceDetector = false
