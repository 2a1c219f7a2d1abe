package main

import "strconv"

const (
	floorTTL    = "10000"                              // milliseconds, the library's default
	floorOwner  = "0123456789abcdef0123456789@floor:1" // about as long as the library's owners
	floorRecord = "floor:record"                       // a hash of counters of its own
)

// appendCommand encodes a command as clients send it.
func appendCommand(to []byte, words ...string) []byte {
	to = append(to, '*')
	to = strconv.AppendInt(to, int64(len(words)), 10)
	to = append(to, '\r', '\n')
	for _, word := range words {
		to = append(to, '$')
		to = strconv.AppendInt(to, int64(len(word)), 10)
		to = append(to, '\r', '\n')
		to = append(to, word...)
		to = append(to, '\r', '\n')
	}
	return to
}
