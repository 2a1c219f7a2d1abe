package main

import "time"

// waitFor reports whether the file's number gets to at least n.
func waitFor(file string, n int) bool {
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		// While a worker writes, the file may be empty; then look again.
		if number, err := readNumber(file); err == nil && number >= n {
			return true
		}
		time.Sleep(time.Millisecond)
	}
	return false
}
