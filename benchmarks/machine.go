package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// cpuTime returns the user and system time that this process has used. The servers are other
// processes and do not count.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// writeCalls returns how many write system calls this process has made; 0 where the system does not count them.
func writeCalls() int64 {
	calls, _ := strconv.ParseInt(firstOf("/proc/self/io", "syscw"), 10, 64)
	return calls
}

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
		{"kernel", firstWord("/proc/sys/kernel/osrelease")},
		{"go", runtime.Version()},
		{"servers", fmt.Sprintf("redis-server %s, local processes without persistence", redis)},
		{"date", time.Now().UTC().Format(time.DateOnly)},
		{"load", firstWord("/proc/loadavg") + " processes ran on average in the minute before"},
		{"run", b.size.String()},
		{"commit", commit()},
	}
	for _, c := range b.peers {
		facts = append(facts, fact{"peer-" + c.name, c.about})
	}
	return facts, nil
}

// unknownFact stands for a fact that the system does not have.
const unknownFact = "unknown"

// firstOf returns the value of the first line of that name in a file.
func firstOf(file, name string) string {
	text, _ := os.ReadFile(file)
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return unknownFact
}

func firstWord(file string) string {
	text, _ := os.ReadFile(file)
	return append(strings.Fields(string(text)), unknownFact)[0]
}

// commit names the version of this library.
func commit() string {
	text, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return unknownFact
	}
	return strings.TrimSpace(string(text))
}
