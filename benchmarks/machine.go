package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// factsOf says where and when a run was made: the lines before its raw data.
func factsOf(b *bench) ([]fact, error) {
	redis, err := b.servers.version()
	if err != nil {
		return nil, err
	}
	facts := []fact{
		{"goos", runtime.GOOS},
		{"goarch", runtime.GOARCH},
		{"pkg", "github.com/redlock-go/redlock/benchmarks"},
		{"cpu", firstOf("/proc/cpuinfo", "model name")},
		{"processors", fmt.Sprint(runtime.GOMAXPROCS(0))},
		{"memory", firstOf("/proc/meminfo", "MemTotal")},
		{"kernel", kernel()},
		{"go", runtime.Version()},
		{"servers", fmt.Sprintf("redis-server %s, local processes without persistence", redis)},
		{"date", time.Now().UTC().Format(time.DateOnly)},
		{"load", load1()},
		{"run", b.size.String()},
		{"commit", commit()},
	}
	for _, c := range b.peers {
		facts = append(facts, fact{peerFact + c.name, c.about})
	}
	return facts, nil
}

// peerFact begins the facts that say what a peer is.
const peerFact = "peer-"

// firstOf is the value of the first line of that name; "unknown" where the system
// has no such file.
func firstOf(file, name string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

func kernel() string {
	text, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(text))
}

// load1 is how busy the machine was with other things when the run began.
func load1() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	average, _, _ := strings.Cut(string(text), " ")
	return average + " processes ran on average in the minute before"
}

// commit names the version of this library.
func commit() string {
	text, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(text))
}
