package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// scriptsDir is where this library keeps its scripts, seen from this module's
// root: the floors send the very same scripts as the library.
var scriptsDir = filepath.Join("..", "internal", "protocol")

const (
	floorTTL    = "10000"                              // milliseconds, the library's default
	floorOwner  = "0123456789abcdef0123456789@floor:1" // about as long as the library's owners
	floorRecord = "floor:record"                       // a hash of counters of its own
)

// floorScripts are the library's scripts as a server takes them.
type floorScripts struct {
	renew, release string // the texts
}

func readScripts() (*floorScripts, error) {
	s := &floorScripts{}
	parts := make(map[string]string)
	for _, name := range []string{"line", "shares", "readers"} {
		part, err := os.ReadFile(filepath.Join(scriptsDir, name+".lua"))
		if err != nil {
			return nil, fmt.Errorf("the floor needs the library's scripts, start it in the folder benchmarks: %w", err)
		}
		parts[name] = string(part)
	}
	for file, text := range map[string]*string{"renew.lua": &s.renew, "release.lua": &s.release} {
		raw, err := os.ReadFile(filepath.Join(scriptsDir, file))
		if err != nil {
			return nil, err
		}
		*text = string(raw)
		for name, part := range parts {
			*text = strings.Replace(*text, "--@"+name+"\n", part, 1)
		}
		*text = plain(*text)
	}
	return s, nil
}

// plain drops comments and indentation, which a server would have to keep.
func plain(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "--") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

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
