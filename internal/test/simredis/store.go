package simredis

import (
	"maps"
	"slices"
	"time"
)

// store is a server's memory.
type store map[string]*entry

// entry is one key's value; the field that is set shows its type.
type entry struct {
	text    []byte            // a string, if neither of these is set
	hash    map[string]string //
	members []member          // a sorted set, in its order
	scored  bool              // a score in it is, or was, not 0
	expires int64             // in milliseconds of the server's clock; 0: never
}

// copy returns a snapshot.
func (s store) copy() store {
	all := make(store, len(s))
	for key, e := range s {
		all[key] = &entry{text: e.text, hash: maps.Clone(e.hash), members: slices.Clone(e.members), scored: e.scored, expires: e.expires}
	}
	return all
}

// get returns a key that has not expired at the instant now, in milliseconds. A key expires
// at the first instant of the millisecond, up to a millisecond earlier than in Redis: the
// drift allowance must cover that.
func (s store) get(key string, now int64) *entry {
	e := s[key]
	if e != nil && e.expires != 0 && now >= e.expires {
		delete(s, key)
		return nil
	}
	return e
}

// obtain returns a key, which it creates if it is missing.
func (s store) obtain(key string, now int64) *entry {
	e := s.get(key, now)
	if e == nil {
		e = &entry{}
		s[key] = e
	}
	return e
}

// pttl returns a key's remaining time, as PTTL answers it.
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

// expire sets the instant at which a key expires.
func (s store) expire(key string, now, at int64) int64 {
	e := s.get(key, now)
	if e == nil {
		return 0
	}
	e.expires = at
	return 1
}

// Key is one key, for tests that check which keys a server has.
type Key struct {
	Name    string
	Text    string            // "" if it is not a string
	Left    time.Duration     // -1: it never expires
	Members []Member          // of a sorted set, in its order
	Fields  map[string]string // of a hash
}

// Member is one member of a sorted set.
type Member struct {
	Name string
	Left time.Duration // until its score, as an instant of the server's clock in milliseconds
}

// keys returns the keys that have not expired, in the order of their names.
func (s store) keys(now int64) []Key {
	var all []Key
	for _, name := range slices.Sorted(maps.Keys(s)) {
		if e := s.get(name, now); e != nil {
			left := time.Duration(s.pttl(name, now)) * time.Millisecond
			if e.expires == 0 {
				left = -1
			}
			k := Key{Name: name, Text: string(e.text), Left: left, Fields: e.hash}
			for _, m := range e.members {
				k.Members = append(k.Members, Member{m.name, time.Duration(m.score-now) * time.Millisecond})
			}
			all = append(all, k)
		}
	}
	return all
}
