package testnet

import (
	"strings"
	"sync"
)

// Journal is a log that may be read while it is written.
type Journal struct {
	Mu   sync.Mutex // protects text
	text strings.Builder
}

func (j *Journal) Write(p []byte) (int, error) {
	j.Mu.Lock()
	defer j.Mu.Unlock()
	return j.text.Write(p)
}

func (j *Journal) String() string {
	j.Mu.Lock()
	defer j.Mu.Unlock()
	return j.text.String()
}
