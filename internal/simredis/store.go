package simredis

import (
	"maps"
	"slices"
	"time"
)

// store is a server's memory.
type store map[string]*entry

// entry is one key's value; what kind it is shows in which field is set.
type entry struct {
	text    []byte            // a string, if neither of these is set
	hash    map[string]string //
	members []string          // a sorted set whose scores are all 0: in the order of their bytes
	expires int64             // in milliseconds of the server's clock; 0: never
}

// copy is a snapshot.
func (s store) copy() store {
	all := make(store, len(s))
	for key, e := range s {
		all[key] = &entry{text: e.text, hash: maps.Clone(e.hash), members: slices.Clone(e.members), expires: e.expires}
	}
	return all
}

// get finds a key that has not expired at the instant now, in milliseconds. A
// key ends with the first instant that is its time, which is up to a millisecond
// earlier than Redis has it: the drift allowance must cover that.
func (s store) get(key string, now int64) *entry {
	e := s[key]
	if e != nil && e.expires != 0 && now >= e.expires {
		delete(s, key)
		return nil
	}
	return e
}

// obtain finds a key, or makes it.
func (s store) obtain(key string, now int64) *entry {
	e := s.get(key, now)
	if e == nil {
		e = &entry{}
		s[key] = e
	}
	return e
}

// pttl is a key's remaining time, as PTTL answers it.
func (s store) pttl(key string, now int64) int64 {
	e := s.get(key, now)
	switch {
	case e == nil:
		return -2
	case e.expires == 0:
		return -1
	}
	return e.expires - now
}

// expire sets a key's end.
func (s store) expire(key string, now, ms int64) int64 {
	e := s.get(key, now)
	if e == nil {
		return 0
	}
	e.expires = now + ms
	return 1
}

// add puts a member into a sorted set; 1 if it is new.
func (e *entry) add(member string) int64 {
	i, found := slices.BinarySearch(e.members, member)
	if found {
		return 0
	}
	e.members = slices.Insert(e.members, i, member)
	return 1
}

// remove takes a member out; 1 if it was there.
func (e *entry) remove(member string) int64 {
	i, found := slices.BinarySearch(e.members, member)
	if !found {
		return 0
	}
	e.members = slices.Delete(e.members, i, i+1)
	return 1
}

// span are the members from one rank to another, as ZRANGE counts them.
func (e *entry) span(from, to int) []string {
	n := len(e.members)
	if from < 0 {
		from = max(from+n, 0)
	}
	if to < 0 {
		to += n
	}
	to = min(to, n-1)
	if from > to {
		return nil
	}
	return e.members[from : to+1]
}

// Key is one key, for those who check what is left at a server.
type Key struct {
	Name string
	Text string        // "" for what is not a string
	Left time.Duration // -1: it never expires
}

// keys lists what has not expired, in the order of the names.
func (s store) keys(now int64) []Key {
	var all []Key
	for _, name := range slices.Sorted(maps.Keys(s)) {
		if e := s.get(name, now); e != nil {
			left := time.Duration(s.pttl(name, now)) * time.Millisecond
			if e.expires == 0 {
				left = -1
			}
			all = append(all, Key{Name: name, Text: string(e.text), Left: left})
		}
	}
	return all
}
