package main

import (
	"fmt"
	"slices"
	"sync"
)

// list is the items to be done, which all processes share.
type list struct {
	mu     sync.Mutex // protects what follows
	done   []int      // how often each item was done
	byPool []int
	locked int // how often an item was locked by somebody else
	late   int // how often it was done already when the lock was granted
}

func (l *list) isDone(item int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.done[item] > 0
}

func (l *list) finished() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !slices.Contains(l.done, 0)
}

func (l *list) finish(item, pool int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done[item]++
	l.byPool[pool]++
}

func (l *list) skip(count *int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*count++
}

// verdict returns an error unless each item was done once.
func (l *list) verdict() error {
	for item, n := range l.done {
		if n != 1 {
			return fmt.Errorf("item %d was done %d times", item, n)
		}
	}
	return nil
}
