package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// scriptCall is a command that a script calls.
var scriptCall = regexp.MustCompile(`redis\.p?call\('(\w+)'`)

// meter counts the commands that clients send to the servers. What Redis counts
// has those in it that scripts call (total_commands_processed too), so none of
// that kind is counted, nor INFO, which the meter itself sends. Clients that
// want tokens send nothing but scripts for a lock.
type meter struct {
	servers *servers
	skip    map[string]bool
}

func newMeter(s *servers) (*meter, error) {
	m := &meter{servers: s, skip: map[string]bool{"info": true}}
	files, err := filepath.Glob(filepath.Join(scriptsDir, "*.lua"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("counting commands needs the library's scripts in %s, start it in the folder benchmarks", scriptsDir)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, call := range scriptCall.FindAllStringSubmatch(string(text), -1) {
			m.skip[strings.ToLower(call[1])] = true
		}
	}
	return m, nil
}

// read is how many commands each server has been sent since it started.
func (m *meter) read() ([]int, error) {
	sent := make([]int, len(m.servers.addrs))
	for i, addr := range m.servers.addrs {
		info, err := serverInfo(addr, "commandstats")
		if err != nil {
			return nil, err
		}
		sent[i] = m.count(info)
	}
	return sent, nil
}

// count adds up lines such as cmdstat_client|id:calls=1,usec=2,….
func (m *meter) count(info string) int {
	sum := 0
	for line := range strings.SplitSeq(info, "\r\n") {
		command, stats, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !ok || m.skip[command] {
			continue
		}
		var calls int
		if _, err := fmt.Sscanf(stats, "%d,", &calls); err == nil {
			sum += calls
		}
	}
	return sum
}

// during is what the busiest server is sent while work runs.
func (m *meter) during(work func() error) (int, error) {
	before, err := m.read()
	if err != nil {
		return 0, err
	}
	if err := work(); err != nil {
		return 0, err
	}
	after, err := m.read()
	most := 0
	for i := range after {
		most = max(most, after[i]-before[i])
	}
	return most, err
}
